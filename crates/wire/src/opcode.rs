//! Operation numbers.

/// Whether the daemon answers an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replies {
    /// Exactly one reply.
    Always,
    /// No reply, ever: FORGET, BATCH_FORGET, NOTIFY_REPLY.
    Never,
    /// INTERRUPT: a reply only to say EAGAIN (send it again) or ENOSYS (stop sending it).
    OnlyOnError,
}

macro_rules! opcodes {
    ($($(#[$meta:meta])* $variant:ident = $value:literal, $name:literal, $since:literal;)*) => {
        /// An operation of FUSE 7.45. Numbers 7 and 19 were never used.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum Opcode { $($(#[$meta])* $variant = $value,)* }

        impl Opcode {
            /// Every operation, by number.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Name as in `<linux/fuse.h>` without the prefix, such as `"LOOKUP"`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// First protocol minor version that has the operation (changelog of `<linux/fuse.h>`).
            pub const fn since_minor(self) -> u32 {
                match self { $(Self::$variant => $since,)* }
            }
        }

        impl TryFrom<u32> for Opcode {
            type Error = UnknownOpcode;
            fn try_from(value: u32) -> Result<Self, UnknownOpcode> {
                match value {
                    $($value => Ok(Self::$variant),)*
                    _ => Err(UnknownOpcode(value)),
                }
            }
        }
    };
}

opcodes! {
    /// Find a name in a directory.
    Lookup = 1, "LOOKUP", 1;
    /// Give lookups of one node back.
    Forget = 2, "FORGET", 1;
    /// Read attributes.
    Getattr = 3, "GETATTR", 1;
    /// Change attributes.
    Setattr = 4, "SETATTR", 1;
    /// Read a symbolic link.
    Readlink = 5, "READLINK", 1;
    /// Make a symbolic link.
    Symlink = 6, "SYMLINK", 1;
    /// Make a file, device, pipe or socket.
    Mknod = 8, "MKNOD", 1;
    /// Make a directory.
    Mkdir = 9, "MKDIR", 1;
    /// Remove a name of a file.
    Unlink = 10, "UNLINK", 1;
    /// Remove a directory.
    Rmdir = 11, "RMDIR", 1;
    /// Rename.
    Rename = 12, "RENAME", 1;
    /// Make a hard link.
    Link = 13, "LINK", 1;
    /// Open a file.
    Open = 14, "OPEN", 1;
    /// Read data.
    Read = 15, "READ", 1;
    /// Write data.
    Write = 16, "WRITE", 1;
    /// Numbers of the file system.
    Statfs = 17, "STATFS", 1;
    /// Last close of a file.
    Release = 18, "RELEASE", 1;
    /// Make a file durable.
    Fsync = 20, "FSYNC", 1;
    /// Set an extended attribute.
    Setxattr = 21, "SETXATTR", 1;
    /// Read an extended attribute.
    Getxattr = 22, "GETXATTR", 1;
    /// List extended attributes.
    Listxattr = 23, "LISTXATTR", 1;
    /// Remove an extended attribute.
    Removexattr = 24, "REMOVEXATTR", 1;
    /// One close(2) of a file.
    Flush = 25, "FLUSH", 1;
    /// Agree on the protocol.
    Init = 26, "INIT", 1;
    /// Open a directory.
    Opendir = 27, "OPENDIR", 1;
    /// Read a directory.
    Readdir = 28, "READDIR", 1;
    /// Last close of a directory.
    Releasedir = 29, "RELEASEDIR", 1;
    /// Make a directory durable.
    Fsyncdir = 30, "FSYNCDIR", 2;
    /// Test a lock.
    Getlk = 31, "GETLK", 7;
    /// Take or drop a lock, do not wait.
    Setlk = 32, "SETLK", 7;
    /// Take a lock, wait for it.
    Setlkw = 33, "SETLKW", 7;
    /// Check permission.
    Access = 34, "ACCESS", 3;
    /// Make and open a file.
    Create = 35, "CREATE", 3;
    /// Interrupt a request.
    Interrupt = 36, "INTERRUPT", 7;
    /// Map a block of a file to one of the device.
    Bmap = 37, "BMAP", 8;
    /// End of the connection.
    Destroy = 38, "DESTROY", 8;
    /// ioctl(2).
    Ioctl = 39, "IOCTL", 11;
    /// poll(2).
    Poll = 40, "POLL", 11;
    /// Cached data the daemon asked for.
    NotifyReply = 41, "NOTIFY_REPLY", 15;
    /// Give lookups of many nodes back.
    BatchForget = 42, "BATCH_FORGET", 16;
    /// fallocate(2).
    Fallocate = 43, "FALLOCATE", 19;
    /// Read a directory and look its entries up.
    Readdirplus = 44, "READDIRPLUS", 21;
    /// Rename with flags.
    Rename2 = 45, "RENAME2", 23;
    /// Find data or a hole.
    Lseek = 46, "LSEEK", 24;
    /// Copy within the file system, at most 4 GiB.
    CopyFileRange = 47, "COPY_FILE_RANGE", 28;
    /// Map a part of a file into the DAX window.
    Setupmapping = 48, "SETUPMAPPING", 31;
    /// Remove mappings from the DAX window.
    Removemapping = 49, "REMOVEMAPPING", 31;
    /// Make the file system durable.
    Syncfs = 50, "SYNCFS", 34;
    /// Make and open a file without a name.
    Tmpfile = 51, "TMPFILE", 37;
    /// Attributes in the shape of statx(2).
    Statx = 52, "STATX", 39;
    /// Copy within the file system, 64-bit result.
    CopyFileRange64 = 53, "COPY_FILE_RANGE_64", 45;
    /// Agree on the protocol of a character device.
    CuseInit = 4096, "CUSE_INIT", 12;
}

/// A number that is no operation of FUSE 7.45.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("opcode {0} is not part of FUSE 7.45; answer it with ENOSYS")]
pub struct UnknownOpcode(pub u32);

impl Opcode {
    /// Whether the daemon answers the operation.
    pub const fn replies(self) -> Replies {
        match self {
            Self::Forget | Self::BatchForget | Self::NotifyReply => Replies::Never,
            Self::Interrupt => Replies::OnlyOnError,
            _ => Replies::Always,
        }
    }
}

impl core::fmt::Display for Opcode {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self.name())
    }
}
