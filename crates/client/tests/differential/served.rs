//! A user of the client.

use crate::ops::{Op, SLOTS, User, attributes, digest, outcome, pattern};
use fusewire::{
    Access, Allocate, Capabilities, Client, File, Identity, LockKind, Metadata, OpenOptions,
    SetXattr, Time, Times,
};
use rustix::io::Errno;
use std::fs::{Permissions, TryLockError};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

pub struct Actor {
    client: Client,
    files: Vec<Option<File>>,
}

fn errno(error: &fusewire::Error) -> Errno {
    Errno::from_raw_os_error(error.errno())
}

fn of<T>(result: fusewire::Result<T>, shown: impl FnOnce(T) -> String) -> String {
    outcome(result.map_err(|error| errno(&error)), shown)
}

fn done<T>(result: fusewire::Result<T>) -> String {
    of(result, |_| "done".to_owned())
}

fn locked(result: Result<(), TryLockError>) -> String {
    match result {
        Ok(()) => "done".to_owned(),
        Err(TryLockError::WouldBlock) => "locked by others".to_owned(),
        Err(TryLockError::Error(error)) => {
            let inner = error
                .get_ref()
                .and_then(|e| e.downcast_ref::<fusewire::Error>());
            format!("errno {:?}", inner.map_or(Errno::PROTO, errno))
        }
    }
}

fn stat(m: Metadata) -> String {
    attributes(m.mode(), m.uid(), m.gid(), m.len(), m.nlink(), m.mtime())
}

fn kind(write: bool) -> LockKind {
    if write {
        LockKind::Write
    } else {
        LockKind::Read
    }
}

impl Actor {
    pub fn new(client: &Client, user: &User) -> Self {
        let mut identity = Identity::user(user.uid, user.gid);
        identity.groups.clone_from(&user.groups);
        if user.uid == 0 {
            identity.capabilities = Capabilities::all();
        }
        Actor {
            client: client.with_identity(identity).unwrap(),
            files: (0..SLOTS).map(|_| None).collect(),
        }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn act(&mut self, op: &Op) -> String {
        let c = &self.client;
        match op {
            Op::Mkdir(path, mode) => done(c.create_dir_with_mode(path, *mode)),
            Op::Mknod(path, mode) => done(c.mknod(path, *mode, 0)),
            Op::Symlink(target, link) => done(c.symlink(target, link)),
            Op::Link(original, link) => done(c.hard_link(original, link)),
            Op::Rename(from, to) => done(c.rename(from, to)),
            Op::RenameNoReplace(from, to) => done(c.rename_no_replace(from, to)),
            Op::Exchange(from, to) => done(c.exchange(from, to)),
            Op::Unlink(path) => done(c.remove_file(path)),
            Op::Rmdir(path) => done(c.remove_dir(path)),
            Op::Stat(path) => of(c.metadata(path), stat),
            Op::Lstat(path) => of(c.symlink_metadata(path), stat),
            Op::ReadDir(path) => of(c.read_dir(path), |entries| {
                let mut names: Vec<_> = entries
                    .map(|entry| entry.map(|entry| entry.file_name()).map_err(|e| errno(&e)))
                    .collect();
                names.sort_by_key(|name| format!("{name:?}"));
                format!("{names:?}")
            }),
            Op::ReadLink(path) => of(c.read_link(path), |target| format!("{target:?}")),
            Op::Truncate(path, len) => done(c.truncate(path, *len)),
            Op::Chmod(path, mode) => done(c.set_permissions(path, Permissions::from_mode(*mode))),
            Op::Chown(path, uid, gid, true) => done(c.chown(path, *uid, *gid)),
            Op::Chown(path, uid, gid, false) => done(c.lchown(path, *uid, *gid)),
            Op::SetTime(path, secs) => done(c.set_times(path, both(Time::At(*secs, 0)))),
            Op::Touch(path) => done(c.set_times(path, both(Time::Now))),
            Op::Access(path, bits) => {
                let mut access = Access::EXISTS;
                for one in [Access::READ, Access::WRITE, Access::EXECUTE] {
                    if bits & one.bits() != 0 {
                        access = access.and(one);
                    }
                }
                done(c.access(path, access))
            }
            Op::SetXattr(path, name, seed) => {
                done(c.set_xattr(path, name, &pattern(*seed as usize, *seed), SetXattr::Any))
            }
            Op::GetXattr(path, name) => match c.get_xattr(path, name) {
                Ok(None) => outcome(Err::<(), _>(Errno::NODATA), |()| String::new()),
                result => of(result, |value| format!("{value:?}")),
            },
            Op::ListXattr(path) => of(c.list_xattr(path), |names| {
                let mut names: Vec<_> = names
                    .into_iter()
                    // What the host's own policies add.
                    .filter(|name| name.as_bytes().starts_with(b"user."))
                    .collect();
                names.sort();
                format!("{names:?}")
            }),
            Op::RemoveXattr(path, name) => done(c.remove_xattr(path, name)),
            Op::Open(slot, path, how, mode) => {
                self.files[*slot as usize] = None;
                let how = Op::options(*how, *mode);
                let mut options = OpenOptions::new();
                options
                    .read(how.read)
                    .write(how.write)
                    .append(how.append)
                    .create(how.create)
                    .create_new(how.create_new)
                    .truncate(how.truncate)
                    .mode(how.mode);
                // Locks of ranges are then those of the open file, as F_OFD_SETLK has them.
                match options.open(&c.separate(), path) {
                    Ok(file) => {
                        self.files[*slot as usize] = Some(file);
                        "done".to_owned()
                    }
                    Err(error) => outcome(Err::<(), _>(errno(&error)), |()| String::new()),
                }
            }
            _ => self.act_on_file(op),
        }
    }

    fn act_on_file(&mut self, op: &Op) -> String {
        let slot = match op {
            Op::Close(slot) => {
                return match self.files[*slot as usize].take() {
                    Some(file) => done(file.close()),
                    None => "not open".to_owned(),
                };
            }
            Op::Read(slot, ..)
            | Op::Write(slot, ..)
            | Op::SetLen(slot, _)
            | Op::Allocate(slot, ..)
            | Op::Fstat(slot)
            | Op::Sync(slot)
            | Op::Lock(slot, _)
            | Op::Unlock(slot)
            | Op::LockRange(slot, ..)
            | Op::UnlockRange(slot, ..)
            | Op::TestRange(slot, ..) => *slot,
            _ => unreachable!("{op:?} is about a path"),
        };
        let Some(file) = &self.files[slot as usize] else {
            return "not open".to_owned();
        };
        match op {
            Op::Read(_, offset, len) => {
                let mut buf = vec![0; *len];
                of(file.read_at(&mut buf, *offset), |n| digest(&buf[..n]))
            }
            Op::Write(_, offset, len, seed) => {
                of(file.write_at(&pattern(*len, *seed), *offset), |n| {
                    n.to_string()
                })
            }
            Op::SetLen(_, len) => done(file.set_len(*len)),
            Op::Allocate(_, offset, len) => done(file.allocate(*offset, *len, Allocate::Extend)),
            Op::Fstat(_) => of(file.metadata(), stat),
            Op::Sync(_) => done(file.sync_all()),
            Op::Lock(_, true) => locked(file.try_lock_shared()),
            Op::Lock(_, false) => locked(file.try_lock()),
            Op::Unlock(_) => done(file.unlock()),
            Op::LockRange(_, start, end, write) => {
                locked(file.try_lock_range(*start..*end, kind(*write)))
            }
            Op::UnlockRange(_, start, end) => done(file.unlock_range(*start..*end)),
            Op::TestRange(_, start, end, write) => {
                of(file.test_lock_range(*start..*end, kind(*write)), |found| {
                    format!("{:?}", found.map(|lock| (lock.range, lock.kind)))
                })
            }
            _ => unreachable!("done above"),
        }
    }
}

fn both(time: Time) -> Times {
    Times {
        accessed: Some(time),
        modified: Some(time),
    }
}
