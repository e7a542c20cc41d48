//! The client as an actor.

use crate::check::{errno_of, pattern};
use crate::ops::{Actor, How, Op, Outcome, SLOTS, Stat};
use fusewire::{Client, File, Metadata, OpenOptions, Time, Times};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::Permissions;
use std::io::{Read, Seek, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A client and the files it has open.
pub struct Subject<'c> {
    client: &'c Client,
    files: [Option<File>; SLOTS],
}

fn failed(error: &fusewire::Error) -> Outcome {
    Outcome::Failed(Errno::from_raw_os_error(error.errno()))
}

fn of<T>(result: fusewire::Result<T>, value: impl FnOnce(T) -> Outcome) -> Outcome {
    match result {
        Ok(ok) => value(ok),
        Err(error) => failed(&error),
    }
}

fn of_io<T>(result: std::io::Result<T>, value: impl FnOnce(T) -> Outcome) -> Outcome {
    Outcome::of(
        result.map_err(|error| errno_of(&error).unwrap_or(Errno::PROTO)),
        value,
    )
}

fn done<T>(result: fusewire::Result<T>) -> Outcome {
    of(result, |_| Outcome::Done)
}

pub fn stat(metadata: &Metadata) -> Stat {
    Stat::new(
        metadata.mode(),
        metadata.len(),
        metadata.nlink(),
        (metadata.uid(), metadata.gid()),
        (metadata.mtime(), metadata.mtime_nsec()),
    )
}

/// The options in the client's own words.
pub fn options(how: &How) -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .read(how.read)
        .write(how.write)
        .append(how.append)
        .truncate(how.truncate)
        .create(how.create)
        .create_new(how.create_new)
        .mode(how.mode);
    if how.nofollow {
        options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    }
    options
}

impl<'c> Subject<'c> {
    pub fn new(client: &'c Client) -> Self {
        Subject {
            client,
            files: Default::default(),
        }
    }

    fn names(&self, path: &Path) -> fusewire::Result<Outcome> {
        let mut names = Vec::new();
        for entry in self.client.read_dir(path)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let bits = match () {
                () if kind.is_dir() => 0o040_000,
                () if kind.is_symlink() => 0o120_000,
                () if kind.is_fifo() => 0o010_000,
                () if kind.is_socket() => 0o140_000,
                () if kind.is_char_device() => 0o020_000,
                () if kind.is_block_device() => 0o060_000,
                () => 0o100_000,
            };
            names.push((entry.file_name().into_vec(), bits));
        }
        names.sort();
        Ok(Outcome::Names(names))
    }

    fn act_on_path(&mut self, op: &Op) -> Outcome {
        let client = self.client;
        match op {
            Op::Mkdir(path, mode) => done(client.create_dir_with_mode(path, *mode)),
            Op::MkdirAll(path) => done(client.create_dir_all(path)),
            Op::Mknod(path, mode) => done(client.mknod(path, *mode, 0)),
            Op::Symlink(target, link) => done(client.symlink(target, link)),
            Op::Link(original, link) => done(client.hard_link(original, link)),
            Op::Rename(from, to) => done(client.rename(from, to)),
            Op::Unlink(path) => done(client.remove_file(path)),
            Op::Rmdir(path) => done(client.remove_dir(path)),
            Op::RemoveAll(path) => done(client.remove_dir_all(path)),
            Op::Stat(path) => of(client.metadata(path), |m| Outcome::Stat(stat(&m))),
            Op::Lstat(path) => of(client.symlink_metadata(path), |m| Outcome::Stat(stat(&m))),
            Op::Exists(path) => of(client.exists(path), Outcome::Answer),
            Op::ReadDir(path) => of(self.names(path), |names| names),
            Op::ReadLink(path) => of(client.read_link(path), |target| {
                Outcome::Path(target.as_os_str().as_bytes().to_vec())
            }),
            Op::ReadFile(path) => of(client.read(path), Outcome::Bytes),
            Op::WriteFile(path, len, seed) => done(client.write(path, pattern(*seed, *len))),
            Op::Truncate(path, len) => done(client.truncate(path, *len)),
            Op::Chmod(path, mode) => {
                done(client.set_permissions(path, Permissions::from_mode(*mode)))
            }
            Op::SetTime(path, follow, secs, nanos) => {
                let times = Times {
                    modified: Some(Time::At(*secs, *nanos)),
                    ..Times::default()
                };
                done(match follow {
                    true => client.set_times(path, times),
                    false => client.set_symlink_times(path, times),
                })
            }
            Op::Chown(path, follow, uid, gid) => done(match follow {
                true => client.chown(path, Some(*uid), Some(*gid)),
                false => client.lchown(path, Some(*uid), Some(*gid)),
            }),
            Op::Open(slot, path, how) => {
                self.files[*slot] = None;
                of(options(how).open(client, path), |file| {
                    self.files[*slot] = Some(file);
                    Outcome::Done
                })
            }
            _ => self.act_on_file(op),
        }
    }

    fn act_on_file(&mut self, op: &Op) -> Outcome {
        let (Op::Close(slot)
        | Op::Read(slot, _)
        | Op::Write(slot, ..)
        | Op::ReadAt(slot, ..)
        | Op::WriteAt(slot, ..)
        | Op::Seek(slot, _)
        | Op::SetLen(slot, _)
        | Op::Fstat(slot)
        | Op::Fchmod(slot, _)
        | Op::Sync(slot)) = op
        else {
            unreachable!("{op:?} is about a path");
        };
        let Some(file) = &mut self.files[*slot] else {
            return Outcome::NotOpen;
        };
        match op {
            Op::Close(slot) => match self.files[*slot].take() {
                Some(file) => done(file.close()),
                None => Outcome::NotOpen,
            },
            Op::Read(_, len) => {
                let mut buf = vec![0; *len];
                of_io(file.read(&mut buf), |n| Outcome::Bytes(buf[..n].to_vec()))
            }
            Op::Write(_, len, seed) => of_io(file.write(&pattern(*seed, *len)), |n| {
                Outcome::Number(n as u64)
            }),
            Op::ReadAt(_, offset, len) => {
                let mut buf = vec![0; *len];
                of(file.read_at(&mut buf, *offset), |n| {
                    Outcome::Bytes(buf[..n].to_vec())
                })
            }
            Op::WriteAt(_, offset, len, seed) => {
                of(file.write_at(&pattern(*seed, *len), *offset), |n| {
                    Outcome::Number(n as u64)
                })
            }
            Op::Seek(_, to) => of_io(file.seek(*to), Outcome::Number),
            Op::SetLen(_, len) => done(file.set_len(*len)),
            Op::Fstat(_) => of(file.metadata(), |m| Outcome::Stat(stat(&m))),
            Op::Fchmod(_, mode) => done(file.set_permissions(Permissions::from_mode(*mode))),
            _ => done(file.sync_all()),
        }
    }
}

impl Actor for Subject<'_> {
    fn act(&mut self, op: &Op) -> Outcome {
        self.act_on_path(op)
    }
}
