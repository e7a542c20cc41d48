//! Who may do what: the discretionary access checks of Linux, on the client's side.
//!
//! A daemon such as virtiofsd carries out most requests as itself, whoever asks; on a mount the
//! kernel checks before it sends anything (`default_permissions`), and so does the client. The
//! rules are those of path_resolution(7), chmod(2), chown(2), utimensat(2), rename(2) and xattr(7).
//! Everything here is pure: attributes and an identity in, an errno out.

use fusewire_wire::SetattrValid;
use fusewire_wire::abi::{Attr, FileKind, SetattrIn};
use rustix::fs::OFlags;
use rustix::io::Errno;

/// Who checks permissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checks {
    /// The client, by the rules of Linux, before it sends anything; as a mount with
    /// `default_permissions`. A daemon may deny more.
    #[default]
    Client,
    /// The daemon alone, as on a mount without that option: for daemons with rules of their own
    /// that carry requests out in the name of the caller they are told. One that does not check
    /// lets everybody do everything.
    Daemon,
}

/// Kinds of access to a file, as for access(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(u32);

impl Access {
    /// None in particular: that it is there.
    pub const EXISTS: Access = Access(0);
    /// To read it, or list it.
    pub const READ: Access = Access(4);
    /// To write it, or change names in it.
    pub const WRITE: Access = Access(2);
    /// To execute it.
    pub const EXECUTE: Access = Access(1);
    /// For a directory: to look names up in it.
    pub const SEARCH: Access = Access::EXECUTE;

    /// The bits of access(2): 4 to read, 2 to write, 1 to execute or search.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Both this and the other.
    #[must_use]
    pub const fn and(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }
}

const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;
const STICKY: u32 = 0o1000;
const GROUP_EXEC: u32 = 0o010;
const ANY_EXEC: u32 = 0o111;

/// On whose behalf a client acts.
///
/// Permissions are checked against it before anything is sent, and new files are made in its name
/// where the daemon lets that be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// User id, not 2³² − 1.
    pub uid: u32,
    /// Group id, not 2³² − 1.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// What it may do beyond its ids.
    pub capabilities: Capabilities,
}

/// Rights beyond those of the ids; each as in capabilities(7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// CAP_CHOWN: set any owner and group.
    pub chown: bool,
    /// CAP_DAC_OVERRIDE: read, write and search everything.
    pub dac_override: bool,
    /// CAP_DAC_READ_SEARCH: read everything, search every directory.
    pub dac_read_search: bool,
    /// CAP_FOWNER: act as the owner of every file.
    pub fowner: bool,
    /// CAP_FSETID: keep set-id bits.
    pub fsetid: bool,
    /// CAP_LINUX_IMMUTABLE: make files immutable or append-only.
    pub linux_immutable: bool,
    /// CAP_SYS_ADMIN: use `trusted.` attributes, change `security.` ones.
    pub sys_admin: bool,
    /// CAP_SETFCAP: change `security.capability`.
    pub setfcap: bool,
}

impl Capabilities {
    /// All of them.
    #[must_use]
    pub fn all() -> Self {
        Capabilities::from_bits(u64::MAX)
    }

    /// From a set as in `/proc/PID/status`.
    fn from_bits(bits: u64) -> Self {
        let has = |number: u32| bits & (1 << number) != 0;
        Capabilities {
            chown: has(0),
            dac_override: has(1),
            dac_read_search: has(2),
            fowner: has(3),
            fsetid: has(4),
            linux_immutable: has(9),
            sys_admin: has(21),
            setfcap: has(31),
        }
    }
}

impl Identity {
    /// A user without any right beyond its ids.
    #[must_use]
    pub fn user(uid: u32, gid: u32) -> Self {
        Identity {
            uid,
            gid,
            groups: Vec::new(),
            capabilities: Capabilities::default(),
        }
    }

    /// That of this process: effective ids, supplementary groups and effective capabilities.
    #[must_use]
    pub fn of_process() -> Self {
        let groups = rustix::process::getgroups().unwrap_or_default();
        let bits = std::fs::read_to_string("/proc/self/status")
            .ok()
            .and_then(|status| {
                let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
                u64::from_str_radix(line.trim(), 16).ok()
            });
        Identity {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            groups: groups.into_iter().map(|group| group.as_raw()).collect(),
            // Without /proc: root has them all, as is usual.
            capabilities: bits.map_or_else(
                || match rustix::process::geteuid().is_root() {
                    true => Capabilities::all(),
                    false => Capabilities::default(),
                },
                Capabilities::from_bits,
            ),
        }
    }

    /// Whether the access is allowed whatever the attributes say. (Files are never executed here,
    /// the one thing that attributes can deny to root.)
    pub(crate) fn needs_no_attr(&self, access: Access) -> bool {
        let harmless = Access::READ.and(Access::SEARCH);
        self.capabilities.dac_override
            || self.capabilities.dac_read_search && access.0 & !harmless.0 == 0
    }

    /// Whether any change of attributes is allowed whatever they are.
    pub(crate) fn changes_everything(&self) -> bool {
        let c = &self.capabilities;
        c.fowner && c.chown && c.fsetid && c.dac_override
    }

    /// The group of a directory in which something is made, if it is one of the supplementary
    /// groups: a daemon that takes on our ids needs it, too.
    pub(crate) fn supplementary(&self, gid: u32) -> Option<u32> {
        (gid != self.gid && self.groups.contains(&gid)).then_some(gid)
    }

    fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    fn owns(&self, attr: &Attr) -> bool {
        self.uid == attr.uid || self.capabilities.fowner
    }

    /// # Errors
    /// EACCES.
    pub(crate) fn may(&self, attr: &Attr, access: Access) -> Result<(), Errno> {
        let directory = FileKind::from_mode(attr.mode) == Some(FileKind::Directory);
        if self.capabilities.dac_override {
            // Even root executes only what somebody may execute.
            let exec = access.0 & Access::SEARCH.0 != 0;
            if directory || !exec || attr.mode & ANY_EXEC != 0 {
                return Ok(());
            }
        }
        if self.capabilities.dac_read_search {
            let harmless = match directory {
                true => Access::READ.and(Access::SEARCH),
                false => Access::READ,
            };
            if access.0 & !harmless.0 == 0 {
                return Ok(());
            }
        }
        let bits = if self.uid == attr.uid {
            attr.mode >> 6
        } else if self.in_group(attr.gid) {
            attr.mode >> 3
        } else {
            attr.mode
        };
        if access.0 & !bits == 0 {
            Ok(())
        } else {
            Err(Errno::ACCESS)
        }
    }

    /// Whether a file may be given another name: as Linux does with `fs.protected_hardlinks`, which
    /// is what distributions set.
    ///
    /// # Errors
    /// EPERM for a file of somebody else's that is special, has set-id bits, or that the identity
    /// could not write.
    pub(crate) fn may_link(&self, attr: &Attr) -> Result<(), Errno> {
        let harmless = FileKind::from_mode(attr.mode) == Some(FileKind::Regular)
            && attr.mode & SET_UID == 0
            && attr.mode & (SET_GID | GROUP_EXEC) != SET_GID | GROUP_EXEC
            && self.may(attr, Access::READ.and(Access::WRITE)).is_ok();
        if harmless || self.owns(attr) {
            return Ok(());
        }
        Err(Errno::PERM)
    }

    /// Whether a name of `victim` may be taken out of `dir`, beyond being allowed to write there.
    ///
    /// # Errors
    /// EPERM in a sticky directory of somebody else's.
    pub(crate) fn may_remove(&self, dir: &Attr, victim: &Attr) -> Result<(), Errno> {
        if dir.mode & STICKY == 0 || self.uid == dir.uid || self.owns(victim) {
            return Ok(());
        }
        Err(Errno::PERM)
    }

    /// Whether `change` may be made, and the change with what the rules add to it: set-id bits
    /// that go.
    ///
    /// # Errors
    /// EPERM; EACCES for setting times to now without the right to write.
    pub(crate) fn may_change(&self, attr: &Attr, change: SetattrIn) -> Result<SetattrIn, Errno> {
        let mut change = change;
        let valid = SetattrValid::from_bits_retain(change.valid);
        if valid.contains(SetattrValid::MODE) {
            if !self.owns(attr) {
                return Err(Errno::PERM);
            }
            let gid = match valid.contains(SetattrValid::GID) {
                true => change.gid,
                false => attr.gid,
            };
            if !self.keeps_set_gid(gid) {
                change.mode &= !SET_GID;
            }
        }
        if !self.capabilities.chown {
            if valid.contains(SetattrValid::UID) && (self.uid != attr.uid || change.uid != attr.uid)
            {
                return Err(Errno::PERM);
            }
            if valid.contains(SetattrValid::GID)
                && (self.uid != attr.uid || !(self.in_group(change.gid) || change.gid == attr.gid))
            {
                return Err(Errno::PERM);
            }
        }
        let times = SetattrValid::ATIME | SetattrValid::MTIME;
        if valid.intersects(times) && !self.owns(attr) {
            let now = SetattrValid::ATIME_NOW | SetattrValid::MTIME_NOW;
            let both_now = valid.contains(times) && valid.contains(now);
            if !both_now {
                return Err(Errno::PERM);
            }
            self.may(attr, Access::WRITE)?;
        }
        Ok(change)
    }

    /// Whether the set-group-id bit may be for this group.
    fn keeps_set_gid(&self, gid: u32) -> bool {
        self.in_group(gid) || self.capabilities.fsetid
    }

    /// The mode without set-id bits. `None`: it has none that must go.
    fn without_set_id(&self, attr: &Attr) -> Option<u32> {
        let mut mode = attr.mode & !SET_UID;
        // Without group execution, the bit once meant mandatory locking; it stays for the group.
        if mode & GROUP_EXEC != 0 || !self.keeps_set_gid(attr.gid) {
            mode &= !SET_GID;
        }
        (mode != attr.mode).then_some(mode)
    }

    /// The mode a file must have before its data changes: without set-id bits, unless the identity
    /// may keep them. `None`: it may stay as it is.
    pub(crate) fn mode_before_write(&self, attr: &Attr) -> Option<u32> {
        if self.capabilities.fsetid || FileKind::from_mode(attr.mode) != Some(FileKind::Regular) {
            return None;
        }
        self.without_set_id(attr)
    }

    /// The mode that chown(2) leaves, whoever calls it and even if neither id changes. `None`: it
    /// stays as it is.
    pub(crate) fn mode_after_chown(&self, attr: &Attr) -> Option<u32> {
        match FileKind::from_mode(attr.mode) {
            Some(FileKind::Directory | FileKind::Symlink) => None,
            _ => self.without_set_id(attr),
        }
    }

    /// The mode that setting an access ACL leaves. `None`: it stays as it is.
    pub(crate) fn mode_after_acl(&self, attr: &Attr) -> Option<u32> {
        let loses = attr.mode & SET_GID != 0 && !self.keeps_set_gid(attr.gid);
        loses.then_some(attr.mode & !SET_GID)
    }

    /// Whether a file may be opened with such flags, beyond its rights.
    ///
    /// # Errors
    /// EPERM for `O_NOATIME` on a file of somebody else's.
    pub(crate) fn may_open_with(&self, attr: &Attr, flags: OFlags) -> Result<(), Errno> {
        if flags.contains(OFlags::NOATIME) && !self.owns(attr) {
            return Err(Errno::PERM);
        }
        Ok(())
    }

    /// Whether the flags of an inode may be set.
    ///
    /// # Errors
    /// EPERM on a file of somebody else's.
    pub(crate) fn may_set_inode_flags(&self, attr: &Attr) -> Result<(), Errno> {
        match self.owns(attr) {
            true => Ok(()),
            false => Err(Errno::PERM),
        }
    }

    /// Whether what is of this kind may have such an attribute, and the identity know of it; to be
    /// asked whoever checks permissions. False for reading what is not to be seen.
    ///
    /// # Errors
    /// EPERM for writing.
    pub(crate) fn may_xattr_at_all(
        &self,
        kind: FileKind,
        name: &[u8],
        access: Access,
    ) -> Result<bool, Errno> {
        let writes = access == Access::WRITE;
        let allowed = if name.starts_with(b"trusted.") {
            self.capabilities.sys_admin
        } else if name.starts_with(b"user.") {
            matches!(kind, FileKind::Regular | FileKind::Directory)
        } else if name.starts_with(b"security.") && writes {
            // A daemon that is root would make an owner's program one with capabilities.
            match name {
                b"security.capability" => self.capabilities.setfcap,
                _ => self.capabilities.sys_admin,
            }
        } else {
            true
        };
        match allowed {
            false if writes => Err(Errno::PERM),
            allowed => Ok(allowed),
        }
    }

    /// Whether an extended attribute may be read or written, as far as the rights to the file go.
    ///
    /// # Errors
    /// EPERM, EACCES.
    pub(crate) fn may_xattr(&self, attr: &Attr, name: &[u8], access: Access) -> Result<(), Errno> {
        let writes = access == Access::WRITE;
        if name.starts_with(b"trusted.") || name.starts_with(b"security.") {
            return Ok(());
        }
        if name.starts_with(b"user.") {
            let directory = FileKind::from_mode(attr.mode) == Some(FileKind::Directory);
            if directory && writes && attr.mode & STICKY != 0 && !self.owns(attr) {
                return Err(Errno::PERM);
            }
            return self.may(attr, access);
        }
        if name.starts_with(b"system.") {
            return match writes && !self.owns(attr) {
                true => Err(Errno::PERM),
                false => Ok(()),
            };
        }
        self.may(attr, access)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(mode: u32, uid: u32, gid: u32) -> Attr {
        Attr {
            mode: FileKind::Regular.mode_bits() | mode,
            uid,
            gid,
            ..Attr::default()
        }
    }

    fn dir(mode: u32, uid: u32) -> Attr {
        Attr {
            mode: FileKind::Directory.mode_bits() | mode,
            uid,
            gid: 0,
            ..Attr::default()
        }
    }

    fn change(valid: SetattrValid) -> SetattrIn {
        SetattrIn {
            valid: valid.bits(),
            ..SetattrIn::default()
        }
    }

    /// All modes, all accesses, all three classes: the first class that fits decides alone.
    #[test]
    fn the_first_class_that_fits_decides() {
        for mode in 0..0o1000 {
            for bits in 0..8 {
                let access = Access(bits);
                for (uid, groups, shift) in [(5, vec![], 6), (6, vec![70], 3), (6, vec![], 0)] {
                    let who = Identity {
                        groups,
                        ..Identity::user(uid, 6)
                    };
                    let allowed = bits & !(mode >> shift) & 7 == 0;
                    assert_eq!(who.may(&file(mode, 5, 70), access).is_ok(), allowed);
                }
            }
        }
    }

    #[test]
    fn root_reads_all_but_executes_only_what_is_executable() {
        let root = Identity {
            capabilities: Capabilities::all(),
            ..Identity::user(0, 0)
        };
        assert!(
            root.may(&file(0, 5, 5), Access::READ.and(Access::WRITE))
                .is_ok()
        );
        assert!(root.may(&dir(0, 5), Access::SEARCH).is_ok());
        let reader = Identity {
            capabilities: Capabilities {
                dac_read_search: true,
                ..Capabilities::default()
            },
            ..Identity::user(7, 7)
        };
        assert!(reader.may(&file(0, 5, 5), Access::READ).is_ok());
        assert_eq!(
            reader.may(&file(0, 5, 5), Access::WRITE),
            Err(Errno::ACCESS)
        );
        assert!(
            reader
                .may(&dir(0, 5), Access::READ.and(Access::SEARCH))
                .is_ok()
        );
    }

    #[test]
    fn sticky_directories_keep_what_belongs_to_others() {
        let who = Identity::user(5, 5);
        assert!(who.may_remove(&dir(0o777, 0), &file(0, 9, 9)).is_ok());
        assert_eq!(
            who.may_remove(&dir(0o1777, 0), &file(0, 9, 9)),
            Err(Errno::PERM)
        );
        assert!(who.may_remove(&dir(0o1777, 0), &file(0, 5, 9)).is_ok());
        assert!(who.may_remove(&dir(0o1777, 5), &file(0, 9, 9)).is_ok());
    }

    #[test]
    fn only_owners_change_modes_and_lose_the_group_bit_of_others_groups() {
        let who = Identity::user(5, 5);
        let mode = SetattrIn {
            mode: 0o2755,
            ..change(SetattrValid::MODE)
        };
        assert_eq!(who.may_change(&file(0o644, 6, 5), mode), Err(Errno::PERM));
        assert_eq!(
            who.may_change(&file(0o644, 5, 5), mode).unwrap().mode,
            0o2755
        );
        assert_eq!(
            who.may_change(&file(0o644, 5, 9), mode).unwrap().mode,
            0o755
        );
    }

    #[test]
    fn owners_give_files_to_their_groups_only() {
        let who = Identity {
            groups: vec![8],
            ..Identity::user(5, 5)
        };
        let own = file(0o644, 5, 5);
        let to_group = |gid| SetattrIn {
            gid,
            ..change(SetattrValid::GID)
        };
        assert!(who.may_change(&own, to_group(8)).is_ok());
        assert_eq!(who.may_change(&own, to_group(9)), Err(Errno::PERM));
        assert_eq!(
            who.may_change(&file(0o644, 6, 5), to_group(8)),
            Err(Errno::PERM)
        );
        let to_user = SetattrIn {
            uid: 6,
            ..change(SetattrValid::UID)
        };
        assert_eq!(who.may_change(&own, to_user), Err(Errno::PERM));
    }

    #[test]
    fn writers_may_touch_and_owners_set_times() {
        let who = Identity::user(5, 5);
        let both = SetattrValid::ATIME | SetattrValid::MTIME;
        let now = both | SetattrValid::ATIME_NOW | SetattrValid::MTIME_NOW;
        assert!(who.may_change(&file(0o666, 6, 6), change(now)).is_ok());
        assert_eq!(
            who.may_change(&file(0o644, 6, 6), change(now)),
            Err(Errno::ACCESS)
        );
        assert_eq!(
            who.may_change(&file(0o666, 6, 6), change(both)),
            Err(Errno::PERM)
        );
        assert!(who.may_change(&file(0o444, 5, 5), change(both)).is_ok());
    }

    #[test]
    fn set_id_bits_go_before_data_changes() {
        let who = Identity::user(5, 5);
        let regular = FileKind::Regular.mode_bits();
        assert_eq!(
            who.mode_before_write(&file(0o4755, 5, 5)),
            Some(regular | 0o755)
        );
        assert_eq!(
            who.mode_before_write(&file(0o6755, 5, 5)),
            Some(regular | 0o755)
        );
        assert_eq!(who.mode_before_write(&file(0o2644, 5, 5)), None);
        assert_eq!(who.mode_before_write(&file(0o755, 5, 5)), None);
        let root = Identity {
            capabilities: Capabilities::all(),
            ..Identity::user(0, 0)
        };
        assert_eq!(root.mode_before_write(&file(0o4755, 5, 5)), None);
        // Even without group execution, when the group is not the writer's.
        let other = Identity::user(5, 5);
        let foreign = file(0o2744, 5, 9);
        assert_eq!(
            other.mode_before_write(&foreign),
            Some(foreign.mode & !SET_GID)
        );
        assert_eq!(other.mode_before_write(&file(0o2744, 5, 5)), None);
    }

    /// As seen of chown(2) on a local file system.
    #[test]
    fn set_id_bits_go_when_the_owner_is_set() {
        let owner = Identity::user(5, 5);
        let root = Identity {
            capabilities: Capabilities::all(),
            ..Identity::user(0, 0)
        };
        let stranger = Identity::user(6, 6);
        for (mode, who, left) in [
            (0o6755, &owner, 0o755),
            (0o6755, &root, 0o755),
            (0o4644, &root, 0o644),
            (0o2644, &owner, 0o2644),
            (0o2644, &root, 0o2644),
            (0o2644, &stranger, 0o644),
            (0o755, &stranger, 0o755),
        ] {
            let attr = file(mode, 5, 5);
            let mode = who.mode_after_chown(&attr).unwrap_or(attr.mode);
            assert_eq!(mode & 0o7777, left, "{attr:?} by {who:?}");
        }
        assert_eq!(root.mode_after_chown(&dir(0o6755, 5)), None);
        // The group that counts for chmod is the one that the file gets.
        let both = SetattrIn {
            mode: 0o2644,
            gid: 7,
            ..change(SetattrValid::MODE | SetattrValid::GID)
        };
        let who = Identity {
            groups: vec![7],
            ..Identity::user(5, 5)
        };
        let changed = who.may_change(&file(0o2644, 5, 9), both).unwrap();
        assert_eq!(changed.mode, 0o2644);
    }

    #[test]
    fn an_acl_takes_the_group_bit_of_others_groups() {
        let who = Identity::user(5, 5);
        let foreign = file(0o2755, 5, 9);
        assert_eq!(who.mode_after_acl(&foreign), Some(foreign.mode & !SET_GID));
        assert_eq!(who.mode_after_acl(&file(0o2755, 5, 5)), None);
        assert_eq!(who.mode_after_acl(&file(0o755, 5, 9)), None);
    }

    #[test]
    fn only_owners_hide_that_they_read() {
        let who = Identity::user(5, 5);
        let (own, theirs) = (file(0o644, 5, 5), file(0o644, 6, 5));
        assert!(who.may_open_with(&own, OFlags::NOATIME).is_ok());
        assert!(who.may_open_with(&theirs, OFlags::NOFOLLOW).is_ok());
        let denied = who.may_open_with(&theirs, OFlags::NOATIME);
        assert_eq!(denied, Err(Errno::PERM));
    }

    #[test]
    fn attributes_follow_their_namespace() {
        let both = |who: &Identity, attr: &Attr, name: &[u8], access| {
            let kind = FileKind::from_mode(attr.mode).unwrap();
            match who.may_xattr_at_all(kind, name, access)? {
                true => who.may_xattr(attr, name, access),
                false => Err(Errno::NODATA),
            }
        };
        let who = Identity::user(5, 5);
        let readable = file(0o644, 6, 6);
        assert!(both(&who, &readable, b"user.a", Access::READ).is_ok());
        assert_eq!(
            both(&who, &readable, b"user.a", Access::WRITE),
            Err(Errno::ACCESS)
        );
        assert_eq!(
            both(&who, &readable, b"trusted.a", Access::READ),
            Err(Errno::NODATA)
        );
        // What no kernel knows is as open as the file; system. is the owner's to change.
        let secret = file(0o700, 6, 6);
        for (name, denied) in [
            (&b"ceph.a"[..], Err(Errno::ACCESS)),
            (b"user", Err(Errno::ACCESS)),
            (b"system.a", Ok(())),
        ] {
            assert!(both(&who, &readable, name, Access::READ).is_ok());
            assert_eq!(both(&who, &secret, name, Access::READ), denied);
        }
        assert_eq!(
            both(&who, &readable, b"ceph.a", Access::WRITE),
            Err(Errno::ACCESS)
        );
        assert_eq!(
            both(&who, &readable, b"system.a", Access::WRITE),
            Err(Errno::PERM)
        );
        assert_eq!(
            both(&who, &readable, b"trusted.a", Access::WRITE),
            Err(Errno::PERM)
        );
        assert_eq!(
            both(&who, &readable, b"security.a", Access::WRITE),
            Err(Errno::PERM)
        );
        // Not even the owner's: such a program could do what its owner may not.
        let own = file(0o755, 5, 5);
        for name in [&b"security.capability"[..], b"security.a"] {
            assert_eq!(both(&who, &own, name, Access::WRITE), Err(Errno::PERM));
            assert!(both(&who, &own, name, Access::READ).is_ok());
        }
        let mut trusted = who.clone();
        trusted.capabilities.setfcap = true;
        let capability = b"security.capability";
        assert!(both(&trusted, &own, capability, Access::WRITE).is_ok());
        assert_eq!(
            both(&who, &dir(0o1777, 0), b"user.a", Access::WRITE),
            Err(Errno::PERM)
        );
        let link = Attr {
            mode: FileKind::Symlink.mode_bits() | 0o777,
            ..file(0, 5, 5)
        };
        let (read, write) = (Access::READ, Access::WRITE);
        assert_eq!(both(&who, &link, b"user.a", read), Err(Errno::NODATA));
        assert_eq!(both(&who, &link, b"user.a", write), Err(Errno::PERM));
    }
}
