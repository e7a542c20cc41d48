//! Calls of the client, one for each operation that it can ask for.

use crate::harness::settled;
use fusewire::{
    Access, Allocate, Client, Events, LockKind, OpenOptions, Result, SetXattr, Time, Times,
};
use std::fs::{Permissions, TryLockError};
use std::io::Error as IoError;
use std::os::unix::fs::PermissionsExt;

pub struct Call {
    pub name: &'static str,
    pub run: fn(&Client) -> Result<()>,
}

/// What every call may rely on.
pub fn prepare(client: &Client) {
    client.create_dir("/dir").unwrap();
    client.write("/dir/file", vec![7; 10_000]).unwrap();
    client.write("/dir/other", b"other").unwrap();
    client.symlink("file", "/dir/link").unwrap();
    client.create_dir("/dir/below").unwrap();
    client
        .set_xattr("/dir/file", "user.a", b"value", SetXattr::Any)
        .unwrap();
    client.drop_caches();
    // The last RELEASE is no request of what comes now.
    settled(client);
}

/// The client's error in one of std's.
fn inner(error: IoError) -> fusewire::Error {
    let text = format!("{error}");
    let inner = error.into_inner().unwrap_or_else(|| panic!("{text}"));
    *inner.downcast().unwrap_or_else(|_| panic!("{text}"))
}

fn locked(result: std::result::Result<(), TryLockError>) -> Result<()> {
    match result {
        Ok(()) | Err(TryLockError::WouldBlock) => Ok(()),
        Err(TryLockError::Error(error)) => Err(inner(error)),
    }
}

fn all<T>(items: impl IntoIterator<Item = Result<T>>) -> Result<()> {
    items.into_iter().try_for_each(|item| item.map(drop))
}

const NOW: Times = Times {
    accessed: Some(Time::Now),
    modified: Some(Time::Now),
};

pub static CALLS: &[Call] = &[
    Call {
        name: "metadata",
        run: |c| c.metadata("/dir/file").map(drop),
    },
    Call {
        name: "follow a link",
        run: |c| c.metadata("/dir/link").map(drop),
    },
    Call {
        name: "read_link",
        run: |c| c.read_link("/dir/link").map(drop),
    },
    Call {
        name: "read",
        run: |c| c.read("/dir/file").map(drop),
    },
    Call {
        name: "write",
        run: |c| c.write("/dir/new", vec![1; 10_000]),
    },
    Call {
        name: "overwrite",
        run: |c| c.write("/dir/file", b"short"),
    },
    Call {
        name: "read_dir",
        run: |c| all(c.read_dir("/dir")?),
    },
    Call {
        name: "walk",
        run: |c| all(c.walk("/")),
    },
    Call {
        name: "create_dir",
        run: |c| c.create_dir("/dir/new"),
    },
    Call {
        name: "mknod",
        run: |c| c.mknod("/dir/new", 0o010_644, 0),
    },
    Call {
        name: "symlink",
        run: |c| c.symlink("target", "/dir/new"),
    },
    Call {
        name: "hard_link",
        run: |c| c.hard_link("/dir/file", "/dir/new"),
    },
    Call {
        name: "rename",
        run: |c| c.rename("/dir/file", "/dir/other"),
    },
    Call {
        name: "exchange",
        run: |c| c.exchange("/dir/file", "/dir/other"),
    },
    Call {
        name: "remove_file",
        run: |c| c.remove_file("/dir/file"),
    },
    Call {
        name: "remove_dir",
        run: |c| c.remove_dir("/dir/below"),
    },
    Call {
        name: "set_permissions",
        run: |c| c.set_permissions("/dir/file", Permissions::from_mode(0o600)),
    },
    Call {
        name: "set_times",
        run: |c| c.set_times("/dir/file", NOW),
    },
    Call {
        name: "truncate",
        run: |c| c.truncate("/dir/file", 5),
    },
    Call {
        name: "statfs",
        run: |c| c.statfs("/").map(drop),
    },
    Call {
        name: "sync_dir",
        run: |c| c.sync_dir("/dir"),
    },
    Call {
        name: "sync_fs",
        run: Client::sync_fs,
    },
    Call {
        name: "created",
        run: |c| c.created("/dir/file").map(drop),
    },
    Call {
        name: "access",
        run: |c| c.access("/dir/file", Access::READ),
    },
    Call {
        name: "get_xattr",
        run: |c| c.get_xattr("/dir/file", "user.a").map(drop),
    },
    Call {
        name: "list_xattr",
        run: |c| c.list_xattr("/dir/file").map(drop),
    },
    Call {
        name: "set_xattr",
        run: |c| c.set_xattr("/dir/file", "user.b", b"value", SetXattr::Any),
    },
    Call {
        name: "remove_xattr",
        run: |c| c.remove_xattr("/dir/file", "user.a"),
    },
    Call {
        name: "copy",
        run: |c| c.copy("/dir/file", "/dir/new").map(drop),
    },
    Call {
        name: "exists",
        run: |c| c.exists("/dir/file").map(drop),
    },
    Call {
        name: "create_dir_all",
        run: |c| c.create_dir_all("/dir/new/newer"),
    },
    Call {
        name: "remove_dir_all",
        run: |c| c.remove_dir_all("/dir"),
    },
    Call {
        name: "rename_no_replace",
        run: |c| c.rename_no_replace("/dir/file", "/dir/new"),
    },
    Call {
        name: "lchown",
        run: |c| c.lchown("/dir/link", Some(5), Some(6)),
    },
    Call {
        name: "an open file",
        run: open_file,
    },
    Call {
        name: "an unnamed file",
        run: unnamed,
    },
];

/// Everything that is done with an open file.
fn open_file(client: &Client) -> Result<()> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).open(client, "/dir/file")?;
    file.metadata()?;
    file.write_at(b"data", 3)?;
    file.read_at(&mut [0; 100], 0)?;
    file.set_len(20_000)?;
    file.allocate(0, 4096, Allocate::KeepSize)?;
    file.seek_data(0)?;
    file.seek_hole(0)?;
    locked(file.try_lock())?;
    file.unlock()?;
    file.lock_range(0..5, LockKind::Read)?;
    file.test_lock_range(.., LockKind::Write)?;
    file.unlock_range(..)?;
    file.poll(Events::READ)?;
    file.bmap(0, 512)?;
    file.created()?;
    file.sync_all()?;
    file.close()
}

fn unnamed(client: &Client) -> Result<()> {
    let mut options = OpenOptions::new();
    let file = options.write(true).open_unnamed(client, "/dir")?;
    client.link_file(&file, "/dir/new")?;
    file.close()
}
