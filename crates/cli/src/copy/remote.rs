//! Writing to the source.

use super::Copying;
use super::attributes::Attributes;
use crate::report::Problem;
use fusewire::{Client, File, OpenOptions};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rights that the owner of a directory needs to fill it.
const FILL: u32 = 0o700;

/// Set-user-id and set-group-id.
const SET_ID: u32 = 0o6000;

/// A directory that is written to.
pub struct RemoteDir<'a> {
    path: PathBuf,
    /// What it gets when everything below is done, if it was made here.
    finish: Option<Attributes>,
    copying: &'a Copying<'a>,
    /// Lives longer, because what happens here changes its times.
    _above: Option<Arc<RemoteDir<'a>>>,
}

impl<'a> RemoteDir<'a> {
    /// The directory that the user has named.
    pub fn open(path: &Path, copying: &'a Copying<'a>) -> Arc<Self> {
        let path = if path.as_os_str().is_empty() {
            Path::new("/")
        } else {
            path
        };
        Arc::new(RemoteDir {
            path: path.to_owned(),
            finish: None,
            copying,
            _above: None,
        })
    }

    /// The directory `name` below: the one that is there, or a new one that gets `attributes` in
    /// the end.
    pub fn directory(
        self: &Arc<Self>,
        name: &OsStr,
        attributes: Attributes,
    ) -> Result<Arc<Self>, Problem> {
        let path = self.path.join(name);
        let client = self.copying.client;
        let finish = match client.create_dir_with_mode(&path, attributes.mode & !SET_ID | FILL) {
            Ok(()) => Some(attributes),
            Err(error) if error.errno() == Errno::EXIST.raw_os_error() => {
                if !client.symlink_metadata(&path)?.is_dir() {
                    return Err(error.into());
                }
                None
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Arc::new(RemoteDir {
            path,
            finish,
            copying: self.copying,
            _above: Some(Arc::clone(self)),
        }))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether `name` is there and leads to a device node, pipe or socket.
    pub fn has_special(&self, name: &OsStr) -> bool {
        // A directory made here holds nothing but copies; the daemon is not asked for each.
        self.finish.is_none()
            && self
                .copying
                .client
                .metadata(self.path.join(name))
                .is_ok_and(|meta| !meta.is_file() && !meta.is_dir())
    }

    /// A new file under a temporary name, with these rights less set-id bits: those come when it
    /// is complete.
    pub fn temporary(&self, mode: u32) -> fusewire::Result<Temporary<'a>> {
        let mode = mode & !SET_ID;
        let path = self.path.join(self.copying.names.next());
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(mode);
        let file = options.open(self.copying.client, &path)?;
        let temporary = Temporary {
            copying: self.copying,
            path,
            file: Some(file),
            complete: false,
        };
        // Some daemons have a mind of their own about rights.
        let file = temporary.file();
        if file.metadata()?.mode() & 0o7777 != mode {
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        Ok(temporary)
    }

    /// Makes a symbolic link, in the place of what is there.
    pub fn symlink(
        &self,
        target: &Path,
        name: &OsStr,
        attributes: Attributes,
    ) -> fusewire::Result<()> {
        self.replace(name, |client, at| {
            client.symlink(target, at)?;
            client.set_symlink_times(at, attributes.times())
        })
    }

    /// Makes a device node, pipe or socket, in the place of what is there.
    pub fn node(
        &self,
        (kind, device): (u32, u32),
        name: &OsStr,
        attributes: Attributes,
    ) -> fusewire::Result<()> {
        self.replace(name, |client, at| {
            let mode = attributes.mode & !SET_ID;
            client.mknod(at, kind | mode, device)?;
            if attributes.mode & (client.umask() | SET_ID) != 0 {
                client.set_permissions(at, Permissions::from_mode(attributes.mode))?;
            }
            client.set_symlink_times(at, attributes.times())
        })
    }

    /// Has something made under a temporary name and renames it.
    fn replace(
        &self,
        name: &OsStr,
        make: impl FnOnce(&Client, &Path) -> fusewire::Result<()>,
    ) -> fusewire::Result<()> {
        let client = self.copying.client;
        let temporary = self.path.join(self.copying.names.next());
        let made =
            make(client, &temporary).and_then(|()| client.rename(&temporary, self.path.join(name)));
        if made.is_err() {
            self.copying.remove(&temporary);
        }
        made
    }
}

impl Copying<'_> {
    /// Removes what is not complete, also for a command that was cancelled.
    fn remove(&self, temporary: &Path) {
        match self.client.separate().remove_file(temporary) {
            Err(error) if error.errno() != Errno::NOENT.raw_os_error() => {
                self.report.left_behind(&self.names.pattern());
            }
            _ => {}
        }
    }
}

impl Drop for RemoteDir<'_> {
    fn drop(&mut self) {
        let Some(attributes) = self.finish else {
            return;
        };
        let client = self.copying.client;
        let taken = client.umask() | SET_ID;
        let rights = if attributes.mode & FILL == FILL && attributes.mode & taken == 0 {
            Ok(())
        } else {
            client.set_permissions(&self.path, Permissions::from_mode(attributes.mode))
        };
        if let Err(error) = rights.and_then(|()| client.set_times(&self.path, attributes.times())) {
            self.copying.report.problem(error.into());
        }
    }
}

/// A file that is not complete. Dropping it removes it.
pub struct Temporary<'a> {
    copying: &'a Copying<'a>,
    path: PathBuf,
    /// Until it is closed.
    file: Option<File>,
    complete: bool,
}

impl Temporary<'_> {
    pub fn file(&self) -> &File {
        self.file.as_ref().expect("it is open until it is complete")
    }

    /// Gives the file its set-id bits, its times and the name `to`, in the place of what is there.
    pub fn complete(mut self, to: &Path, attributes: Attributes) -> fusewire::Result<()> {
        if attributes.mode & SET_ID != 0 {
            self.file()
                .set_permissions(Permissions::from_mode(attributes.mode))?;
        }
        self.file().set_times(attributes.times())?;
        if let Some(file) = self.file.take() {
            file.close()?;
        }
        self.copying.client.rename(&self.path, to)?;
        self.complete = true;
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.complete {
            self.file = None;
            self.copying.remove(&self.path);
        }
    }
}
