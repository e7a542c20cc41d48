//! Locks, as both file systems keep them.

use crate::common::{Answer, Failure, Heard, Raw, directory, memory, small};
use fusewire_server::dir::DirOptions;
use fusewire_server::{FileSystem, ServerHandle, ServerOptions, Usage, start};
use fusewire_wire::abi::*;
use fusewire_wire::{LkFlags, ReleaseFlags, Request};
use zerocopy::FromBytes;

const READ: u32 = 0;
const WRITE: u32 = 1;
const NONE: u32 = 2;

const EINTR: i32 = 4;
const EIO: i32 = 5;
const EAGAIN: i32 = 11;
const EINVAL: i32 = 22;
const EDEADLK: i32 = 35;

/// A file with locks.
struct Locked<'a> {
    raw: &'a Raw,
    node: u64,
    fh: u64,
    waiting: &'a dyn Fn() -> usize,
}

fn lk(owner: u64, typ: u32, start: u64, end: u64) -> LkIn {
    LkIn {
        owner,
        lk: FileLock {
            start,
            end,
            typ,
            pid: owner as u32 + 1000,
        },
        ..LkIn::default()
    }
}

impl Locked<'_> {
    fn set(&self, owner: u64, typ: u32, start: u64, end: u64) -> Answer<()> {
        let request = Request::Setlk(lk(owner, typ, start, end));
        self.raw.done(self.node, &request, &[])
    }

    fn whole(&self, owner: u64, typ: u32) -> Answer<()> {
        self.raw
            .done(self.node, &Request::Setlk(self.flock(owner, typ)), &[])
    }

    fn flock(&self, owner: u64, typ: u32) -> LkIn {
        LkIn {
            fh: self.fh,
            lk_flags: LkFlags::FLOCK.bits(),
            ..lk(owner, typ, 0, i64::MAX as u64)
        }
    }

    /// Type, range and process of the lock in the way.
    fn test(&self, owner: u64, typ: u32, start: u64, end: u64) -> (u32, u64, u64, u32) {
        let request = Request::Getlk(lk(owner, typ, start, end));
        let body = self.raw.call(self.node, &request, &[]).unwrap();
        let FileLock {
            start,
            end,
            typ,
            pid,
        } = LkOut::read_from_bytes(&body[..]).unwrap().lk;
        (typ, start, end, pid)
    }

    /// Sends a SETLKW, and returns when it waits.
    fn wait(&self, arg: LkIn) -> u32 {
        let before = (self.waiting)();
        let tag = self.raw.send(self.node, &Request::Setlkw(arg), &[]);
        self.raw.fence();
        assert_eq!((self.waiting)(), before + 1);
        tag
    }

    fn flush(&self, lock_owner: u64) {
        let arg = FlushIn {
            fh: self.fh,
            lock_owner,
            ..FlushIn::default()
        };
        self.raw.done(self.node, &Request::Flush(arg), &[]).unwrap();
    }
}

fn over_one<F: FileSystem>(fs: F, test: &impl Fn(&Locked<'_>)) {
    let (client, server): (_, ServerHandle<F>) = start(fs, &small()).unwrap();
    let raw = Raw::connected(client);
    let (entry, open) = raw.create(ROOT_ID, b"f", 2, 0o644).unwrap();
    let waiting = || server.waiting_for_locks();
    let locked = Locked {
        raw: &raw,
        node: entry.nodeid,
        fh: open.fh,
        waiting: &waiting,
    };
    test(&locked);
    raw.release(open.fh).unwrap();
    raw.leave();
    assert_eq!(server.join(), Usage::default());
}

fn over_each(test: impl Fn(&Locked<'_>)) {
    over_one(memory(), &test);
    let (_temp, served) = directory(DirOptions::default());
    over_one(served, &test);
}

#[test]
fn ranges_are_split_joined_and_reported() {
    over_each(|file| {
        file.set(1, WRITE, 0, 99).unwrap();
        file.set(1, NONE, 40, 59).unwrap();
        assert_eq!(file.test(2, READ, 0, 99), (WRITE, 0, 39, 1001));
        assert_eq!(file.test(2, READ, 40, 200), (WRITE, 60, 99, 1001));
        assert_eq!(file.test(2, WRITE, 40, 59), (NONE, 40, 59, 1002));
        // Its own are in nobody's way.
        assert_eq!(file.test(1, WRITE, 0, 99).0, NONE);
        file.set(1, READ, 20, 79).unwrap();
        assert_eq!(file.test(2, WRITE, 20, 79), (READ, 20, 79, 1001));
        file.set(2, READ, 30, 70).unwrap();
        assert_eq!(file.set(2, WRITE, 30, 70), Err(Failure::Errno(EAGAIN)));
        assert_eq!(file.set(2, READ, 10, 30), Err(Failure::Errno(EAGAIN)));
        file.flush(1);
        file.set(2, WRITE, 0, i64::MAX as u64).unwrap();
        file.flush(2);
        assert_eq!(file.test(1, WRITE, 0, 5).0, NONE);
    });
}

#[test]
fn locks_that_are_none_are_refused() {
    over_each(|file| {
        let errno = |result: Answer<()>| result.unwrap_err().errno();
        assert_eq!(errno(file.set(1, 3, 0, 0)), EINVAL);
        assert_eq!(errno(file.set(1, READ, 2, 1)), EINVAL);
        assert_eq!(errno(file.set(1, READ, 0, u64::MAX)), EINVAL);
        let none = Request::Getlk(lk(1, NONE, 0, 0));
        assert_eq!(file.raw.call(1, &none, &[]).unwrap_err().errno(), EINVAL);
    });
}

#[test]
fn whole_files_and_ranges_do_not_meet() {
    over_each(|file| {
        file.whole(1, WRITE).unwrap();
        file.set(2, WRITE, 0, 99).unwrap();
        assert_eq!(file.whole(2, READ), Err(Failure::Errno(EAGAIN)));
        file.whole(1, READ).unwrap();
        file.whole(2, READ).unwrap();
        // Nobody may write while somebody else reads.
        assert_eq!(file.whole(1, WRITE), Err(Failure::Errno(EAGAIN)));
        file.whole(2, NONE).unwrap();
        file.whole(1, WRITE).unwrap();
        file.flush(1);
        assert_eq!(file.whole(2, READ), Err(Failure::Errno(EAGAIN)));
    });
}

#[test]
fn a_release_ends_what_its_handle_locked() {
    over_each(|file| {
        let raw = file.raw;
        for flags in [ReleaseFlags::FLOCK_UNLOCK, ReleaseFlags::empty()] {
            let fh = raw.open(file.node, 2).unwrap().fh;
            let arg = LkIn {
                fh,
                ..file.flock(7, WRITE)
            };
            raw.done(file.node, &Request::Setlk(arg), &[]).unwrap();
            let waits = file.wait(file.flock(8, READ));
            let arg = ReleaseIn {
                fh,
                release_flags: flags.bits(),
                lock_owner: if flags.is_empty() { 0 } else { 7 },
                ..ReleaseIn::default()
            };
            raw.done(file.node, &Request::Release(arg), &[]).unwrap();
            assert_eq!(raw.finish(waits), Ok(Vec::new()));
            file.whole(8, NONE).unwrap();
        }
    });
}

#[test]
fn who_waits_gets_the_lock_when_it_is_free() {
    over_each(|file| {
        file.set(1, WRITE, 0, 99).unwrap();
        let first = file.wait(lk(2, READ, 0, 9));
        let second = file.wait(lk(3, READ, 5, 20));
        let third = file.wait(lk(4, WRITE, 0, 20));
        // Nobody is kept from other work, and what is free is free.
        file.set(5, WRITE, 100, 199).unwrap();
        file.set(1, NONE, 0, 9).unwrap();
        assert_eq!(file.raw.finish(first), Ok(Vec::new()));
        assert_eq!((file.waiting)(), 2);
        file.set(1, READ, 10, 99).unwrap();
        assert_eq!(file.raw.finish(second), Ok(Vec::new()));
        file.flush(2);
        file.flush(3);
        assert_eq!((file.waiting)(), 1);
        file.flush(1);
        assert_eq!(file.raw.finish(third), Ok(Vec::new()));
        assert_eq!(file.test(9, READ, 0, 0), (WRITE, 0, 20, 1004));
    });
}

#[test]
fn a_lock_that_is_had_may_let_others_have_theirs() {
    over_each(|file| {
        file.set(1, WRITE, 0, 9).unwrap();
        file.set(2, WRITE, 10, 19).unwrap();
        // Waits for the first, who becomes a reader when the second is gone.
        let reads = file.wait(lk(3, READ, 0, 9));
        let turns = file.wait(lk(1, READ, 0, 19));
        file.flush(2);
        assert_eq!(file.raw.finish(turns), Ok(Vec::new()));
        assert_eq!(file.raw.finish(reads), Ok(Vec::new()));
    });
}

#[test]
fn an_interrupt_ends_a_wait() {
    over_each(|file| {
        let raw = file.raw;
        let heard = Heard::by(raw);
        file.set(1, WRITE, 0, 99).unwrap();
        let stays = file.wait(lk(2, WRITE, 0, 9));
        let ends = file.wait(lk(3, WRITE, 0, 9));
        raw.interrupt(raw.unique_of(ends));
        assert_eq!(raw.finish(ends), Err(Failure::Errno(EINTR)));
        // One that overtakes its request, and one for what is done.
        raw.interrupt(raw.next_unique());
        raw.interrupt(2);
        let overtaken = raw.send(file.node, &Request::Setlkw(lk(4, READ, 5, 6)), &[]);
        assert_eq!(raw.finish(overtaken), Err(Failure::Errno(EINTR)));
        file.flush(1);
        assert_eq!(raw.finish(stays), Ok(Vec::new()));
        // Who was interrupted has nothing.
        assert_eq!(file.test(9, READ, 0, 99), (WRITE, 0, 9, 1002));
        assert_eq!(heard.take(), Vec::<Vec<u8>>::new());
    });
}

#[test]
fn who_would_wait_for_ever_is_told() {
    over_each(|file| {
        file.set(1, WRITE, 0, 0).unwrap();
        file.set(2, WRITE, 1, 1).unwrap();
        let waits = file.wait(lk(1, WRITE, 1, 1));
        let request = Request::Setlkw(lk(2, READ, 0, 0));
        let failure = file.raw.call(file.node, &request, &[]).unwrap_err();
        assert_eq!(failure.errno(), EDEADLK);
        file.flush(2);
        assert_eq!(file.raw.finish(waits), Ok(Vec::new()));
    });
}

#[test]
fn a_circle_that_closes_while_others_wait_is_found() {
    over_each(|file| {
        file.set(1, WRITE, 0, 0).unwrap();
        file.set(2, WRITE, 1, 1).unwrap();
        // Two and three both want the first byte; the third wants the second one, too.
        let third_wants_second = file.wait(lk(3, WRITE, 1, 1));
        let third = file.wait(lk(3, WRITE, 0, 0));
        let second = file.wait(lk(2, WRITE, 0, 0));
        // The third has it now, and waits for the second, who waits for the third.
        file.flush(1);
        assert_eq!(file.raw.finish(third), Ok(Vec::new()));
        let failure = file.raw.finish(second).unwrap_err();
        assert_eq!(failure.errno(), EDEADLK);
        file.flush(2);
        assert_eq!(file.raw.finish(third_wants_second), Ok(Vec::new()));
    });
}

#[test]
fn an_end_leaves_no_wait_behind() {
    let (client, server) = start(memory(), &small()).unwrap();
    let raw = Raw::connected(client);
    let node = raw.create(ROOT_ID, b"f", 2, 0o644).unwrap().0.nodeid;
    let request = Request::Setlk(lk(1, WRITE, 0, 9));
    raw.done(node, &request, &[]).unwrap();
    let waits = raw.send(node, &Request::Setlkw(lk(2, WRITE, 0, 9)), &[]);
    raw.fence();
    assert_eq!(server.waiting_for_locks(), 1);
    // Neither a new beginning...
    raw.init(fusewire_wire::InitFlags::all()).unwrap();
    assert_eq!(raw.finish(waits), Err(Failure::Errno(EIO)));
    let node = raw.lookup(ROOT_ID, b"f").unwrap().nodeid;
    raw.done(node, &request, &[]).unwrap();
    let waits = raw.send(node, &Request::Setlkw(lk(2, WRITE, 0, 9)), &[]);
    raw.fence();
    assert_eq!(server.waiting_for_locks(), 1);
    // ... nor death.
    drop(server);
    assert_eq!(raw.finish(waits), Err(Failure::Dead));
}

#[test]
fn a_server_may_leave_locks_to_its_client() {
    let options = ServerOptions {
        locks: false,
        ..small()
    };
    let (client, server) = start(memory(), &options).unwrap();
    let raw = Raw::new(client);
    let out = raw.init(fusewire_wire::InitFlags::all()).unwrap();
    let locks = fusewire_wire::InitFlags::POSIX_LOCKS | fusewire_wire::InitFlags::FLOCK_LOCKS;
    assert!(!fusewire_wire::InitFlags::from_halves(out.flags, out.flags2).intersects(locks));
    let arg = lk(1, WRITE, 0, 9);
    for request in [
        Request::Getlk(arg),
        Request::Setlk(arg),
        Request::Setlkw(arg),
    ] {
        let failure = raw.call(ROOT_ID, &request, &[]).unwrap_err();
        assert_eq!(failure.errno(), 38);
    }
    raw.leave();
    assert_eq!(server.join(), Usage::default());
}

#[test]
fn waits_end_once_whatever_ends_them() {
    const OWNERS: u64 = 12;
    let options = ServerOptions {
        threads: 4,
        ..small()
    };
    let (client, server) = start(memory(), &options).unwrap();
    let raw = Raw::connected(client);
    let node = raw.mknod(ROOT_ID, b"f", 0o100_644, 0).unwrap().nodeid;
    let set = |owner, typ| raw.done(node, &Request::Setlk(lk(owner, typ, 0, 9)), &[]);
    let (mut had, mut interrupted) = (0, 0);
    while had < 100 || interrupted < 100 {
        set(0, WRITE).unwrap();
        let waits: Vec<u32> = (1..=OWNERS)
            .map(|owner| raw.send(node, &Request::Setlkw(lk(owner, WRITE, 0, 9)), &[]))
            .collect();
        // Every other one is interrupted, while the lock goes round.
        let release = raw.send(node, &Request::Setlk(lk(0, NONE, 0, 9)), &[]);
        for tag in waits.iter().step_by(2) {
            raw.interrupt(raw.unique_of(*tag));
        }
        raw.finish(release).unwrap();
        let mut left: Vec<(u64, u32)> = (1..=OWNERS).zip(waits).collect();
        while !left.is_empty() {
            left.retain(|(owner, tag)| match raw.try_finish(*tag) {
                None => true,
                Some(Ok(_)) => {
                    // Nobody else has it.
                    assert_eq!(set(owner + 100, READ), Err(Failure::Errno(EAGAIN)));
                    set(*owner, NONE).unwrap();
                    had += 1;
                    false
                }
                Some(Err(failure)) => {
                    assert_eq!(failure.errno(), EINTR);
                    assert_eq!(owner % 2, 1);
                    interrupted += 1;
                    false
                }
            });
        }
        assert_eq!(server.waiting_for_locks(), 0);
    }
    set(1, WRITE).unwrap();
    raw.leave();
    assert_eq!(server.join(), Usage::default());
}
