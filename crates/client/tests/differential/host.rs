//! A user of the kernel: a thread with that user's ids, on a directory of the host.

use crate::ops::{Op, SLOTS, User, attributes, digest, outcome, pattern};
use nix::fcntl::FcntlArg;
use rustix::fs::{AtFlags, CWD, Gid, Mode, RenameFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

pub struct Actor {
    ops: Option<Sender<Op>>,
    outcomes: Receiver<String>,
    thread: Option<JoinHandle<()>>,
}

impl Actor {
    pub fn start(top: &Path, user: &User) -> Self {
        let (ops, received) = channel::<Op>();
        let (sent, outcomes) = channel();
        let (top, user) = (top.to_owned(), user.clone());
        let thread = thread::spawn(move || {
            become_user(&user);
            let mut worker = Worker {
                top,
                files: (0..SLOTS).map(|_| None).collect(),
            };
            for op in received {
                if sent.send(worker.act(&op)).is_err() {
                    break;
                }
            }
        });
        Actor {
            ops: Some(ops),
            outcomes,
            thread: Some(thread),
        }
    }

    pub fn act(&mut self, op: &Op) -> String {
        let ops = self.ops.as_ref().expect("it runs");
        ops.send(op.clone()).expect("it runs");
        self.outcomes.recv().expect("it answers")
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.ops = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// This thread becomes somebody else for good, and loses root's capabilities with it.
fn become_user(user: &User) {
    if !rustix::process::geteuid().is_root() || user.uid == 0 {
        return;
    }
    let groups: Vec<_> = user.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
    set_thread_groups(&groups).unwrap();
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    set_thread_res_gid(gid, gid, gid).unwrap();
    set_thread_res_uid(uid, uid, uid).unwrap();
}

struct Worker {
    top: PathBuf,
    files: Vec<Option<File>>,
}

fn system<T>(result: std::io::Result<T>) -> Result<T, Errno> {
    result.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
}

fn done<T>(result: Result<T, Errno>) -> String {
    outcome(result, |_| "done".to_owned())
}

fn stat(m: &std::fs::Metadata) -> String {
    attributes(m.mode(), m.uid(), m.gid(), m.len(), m.nlink(), m.mtime())
}

fn times(access: Timespec, modification: Timespec) -> Timestamps {
    Timestamps {
        last_access: access,
        last_modification: modification,
    }
}

/// The attributes of a file that users set, with their values.
pub fn xattrs(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut buf = vec![0; 4096];
    let len = rustix::fs::llistxattr(path, &mut buf[..]).unwrap_or(0);
    let mut found: Vec<_> = buf[..len]
        .split(|byte| *byte == 0)
        .filter(|name| name.starts_with(b"user."))
        .map(|name| {
            let name = String::from_utf8(name.to_vec()).unwrap();
            let mut value = vec![0; 4096];
            let len = rustix::fs::lgetxattr(path, &name, &mut value[..]).unwrap();
            value.truncate(len);
            (name, value)
        })
        .collect();
    found.sort();
    found
}

impl Worker {
    fn at(&self, path: &str) -> PathBuf {
        self.top.join(path)
    }

    fn act(&mut self, op: &Op) -> String {
        match op {
            Op::Mkdir(path, mode) => {
                done(rustix::fs::mkdir(self.at(path), Mode::from_raw_mode(*mode)))
            }
            Op::Mknod(path, mode) => {
                let kind = rustix::fs::FileType::from_raw_mode(*mode);
                let mode = Mode::from_raw_mode(mode & 0o7777);
                done(rustix::fs::mknodat(CWD, self.at(path), kind, mode, 0))
            }
            Op::Symlink(target, link) => done(rustix::fs::symlink(target, self.at(link))),
            Op::Link(original, link) => {
                let (original, link) = (self.at(original), self.at(link));
                done(rustix::fs::linkat(
                    CWD,
                    original,
                    CWD,
                    link,
                    AtFlags::empty(),
                ))
            }
            Op::Rename(from, to) => done(rustix::fs::rename(self.at(from), self.at(to))),
            Op::RenameNoReplace(from, to) => done(rustix::fs::renameat_with(
                CWD,
                self.at(from),
                CWD,
                self.at(to),
                RenameFlags::NOREPLACE,
            )),
            Op::Exchange(from, to) => done(rustix::fs::renameat_with(
                CWD,
                self.at(from),
                CWD,
                self.at(to),
                RenameFlags::EXCHANGE,
            )),
            Op::Unlink(path) => done(rustix::fs::unlink(self.at(path))),
            Op::Rmdir(path) => done(rustix::fs::rmdir(self.at(path))),
            Op::Stat(path) => outcome(system(std::fs::metadata(self.at(path))), |m| stat(&m)),
            Op::Lstat(path) => outcome(system(std::fs::symlink_metadata(self.at(path))), |m| {
                stat(&m)
            }),
            Op::ReadDir(path) => outcome(system(std::fs::read_dir(self.at(path))), |entries| {
                let mut names: Vec<_> = entries
                    .map(|entry| system(entry.map(|entry| entry.file_name())))
                    .collect();
                names.sort_by_key(|name| format!("{name:?}"));
                format!("{names:?}")
            }),
            Op::ReadLink(path) => outcome(system(std::fs::read_link(self.at(path))), |target| {
                format!("{target:?}")
            }),
            Op::Truncate(path, len) => done(nix_errno(nix::unistd::truncate(
                &self.at(path),
                *len as i64,
            ))),
            Op::Chmod(path, mode) => {
                let mode = Permissions::from_mode(*mode);
                done(system(std::fs::set_permissions(self.at(path), mode)))
            }
            Op::Chown(path, uid, gid, follow) => {
                let flags = if *follow {
                    AtFlags::empty()
                } else {
                    AtFlags::SYMLINK_NOFOLLOW
                };
                let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
                done(rustix::fs::chownat(CWD, self.at(path), uid, gid, flags))
            }
            Op::SetTime(path, secs) => {
                let time = Timespec {
                    tv_sec: *secs,
                    tv_nsec: 0,
                };
                self.set_times(path, &times(time, time))
            }
            Op::Touch(path) => {
                let now = Timespec {
                    tv_sec: 0,
                    tv_nsec: rustix::fs::UTIME_NOW,
                };
                self.set_times(path, &times(now, now))
            }
            Op::Access(path, bits) => {
                let access = rustix::fs::Access::from_bits_retain(*bits);
                done(rustix::fs::accessat(
                    CWD,
                    self.at(path),
                    access,
                    AtFlags::EACCESS,
                ))
            }
            Op::SetXattr(path, name, seed) => done(rustix::fs::lsetxattr(
                self.at(path),
                name,
                &pattern(*seed as usize, *seed),
                XattrFlags::empty(),
            )),
            Op::GetXattr(path, name) => {
                let mut value = vec![0; 4096];
                let len = rustix::fs::lgetxattr(self.at(path), name, &mut value[..]);
                outcome(len, |len| format!("{:?}", Some(&value[..len])))
            }
            Op::ListXattr(path) => {
                let mut buf = vec![0; 4096];
                let len = rustix::fs::llistxattr(self.at(path), &mut buf[..]);
                outcome(len, |len| {
                    let names = buf[..len].split(|byte| *byte == 0);
                    let mut names: Vec<_> = names
                        .filter(|name| name.starts_with(b"user."))
                        .map(|name| String::from_utf8(name.to_vec()).unwrap())
                        .collect();
                    names.sort();
                    format!("{names:?}")
                })
            }
            Op::RemoveXattr(path, name) => done(rustix::fs::lremovexattr(self.at(path), name)),
            Op::Open(slot, path, how, mode) => {
                self.files[*slot as usize] = None;
                let how = Op::options(*how, *mode);
                let opened = OpenOptions::new()
                    .read(how.read)
                    .write(how.write)
                    .append(how.append)
                    .create(how.create)
                    .create_new(how.create_new)
                    .truncate(how.truncate)
                    .mode(how.mode)
                    // A pipe must not wait for its other end.
                    .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
                    .open(self.at(path));
                outcome(system(opened).and_then(only_files), |file| {
                    self.files[*slot as usize] = Some(file);
                    "done".to_owned()
                })
            }
            _ => self.act_on_file(op),
        }
    }

    fn set_times(&self, path: &str, times: &Timestamps) -> String {
        done(rustix::fs::utimensat(
            CWD,
            self.at(path),
            times,
            AtFlags::empty(),
        ))
    }

    fn act_on_file(&mut self, op: &Op) -> String {
        let slot = match op {
            Op::Close(slot) => {
                return match self.files[*slot as usize].take() {
                    Some(_) => "done".to_owned(),
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
                outcome(system(file.read_at(&mut buf, *offset)), |n| {
                    digest(&buf[..n])
                })
            }
            Op::Write(_, offset, len, seed) => {
                outcome(system(file.write_at(&pattern(*len, *seed), *offset)), |n| {
                    n.to_string()
                })
            }
            Op::SetLen(_, len) => done(system(file.set_len(*len))),
            Op::Allocate(_, offset, len) => {
                let flags = rustix::fs::FallocateFlags::empty();
                done(rustix::fs::fallocate(file, flags, *offset, *len))
            }
            Op::Fstat(_) => outcome(system(file.metadata()), |m| stat(&m)),
            Op::Sync(_) => done(system(file.sync_all())),
            Op::Lock(_, shared) => match if *shared {
                file.try_lock_shared()
            } else {
                file.try_lock()
            } {
                Ok(()) => "done".to_owned(),
                Err(TryLockError::WouldBlock) => "locked by others".to_owned(),
                Err(TryLockError::Error(error)) => done::<()>(system(Err(error))),
            },
            Op::Unlock(_) => done(system(file.unlock())),
            Op::LockRange(_, start, end, write) => {
                let lock = range_lock(*start, *end, kind(*write));
                locked(nix::fcntl::fcntl(file, FcntlArg::F_OFD_SETLK(&lock)))
            }
            Op::UnlockRange(_, start, end) => {
                let lock = range_lock(*start, *end, libc::F_UNLCK);
                locked(nix::fcntl::fcntl(file, FcntlArg::F_OFD_SETLK(&lock)))
            }
            Op::TestRange(_, start, end, write) => {
                let mut lock = range_lock(*start, *end, kind(*write));
                let tested = nix::fcntl::fcntl(file, FcntlArg::F_OFD_GETLK(&mut lock));
                outcome(nix_errno(tested), |_| found(&lock))
            }
            _ => unreachable!("done above"),
        }
    }
}

/// As the client, which opens regular files only.
fn only_files(file: File) -> Result<File, Errno> {
    let kind = system(file.metadata())?.file_type();
    match () {
        () if kind.is_file() => Ok(file),
        () if kind.is_dir() => Err(Errno::ISDIR),
        () => Err(Errno::NXIO),
    }
}

fn kind(write: bool) -> i32 {
    if write { libc::F_WRLCK } else { libc::F_RDLCK }
}

fn range_lock(start: u64, end: u64, kind: i32) -> libc::flock {
    libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: start as i64,
        l_len: (end - start) as i64,
        l_pid: 0,
    }
}

fn nix_errno<T>(result: nix::Result<T>) -> Result<T, Errno> {
    result.map_err(|errno| Errno::from_raw_os_error(errno as i32))
}

fn locked(result: nix::Result<i32>) -> String {
    match nix_errno(result) {
        Err(Errno::AGAIN | Errno::ACCESS) => "locked by others".to_owned(),
        result => done(result),
    }
}

fn found(lock: &libc::flock) -> String {
    if i32::from(lock.l_type) == libc::F_UNLCK {
        return "None".to_owned();
    }
    let write = i32::from(lock.l_type) == libc::F_WRLCK;
    let kind = if write { "Write" } else { "Read" };
    let end = lock.l_start + lock.l_len;
    format!("Some(({}..{end}, {kind}))", lock.l_start)
}
