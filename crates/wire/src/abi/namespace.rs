//! Names: creating, renaming, linking, forgetting; access and extended attributes.

wire_structs! {
    /// FORGET arguments (`fuse_forget_in`).
    pub struct ForgetIn {
        /// Lookups to give back.
        pub nlookup: u64,
    }

    /// One node of a BATCH_FORGET (`fuse_forget_one`).
    pub struct ForgetOne {
        /// The node.
        pub nodeid: u64,
        /// Lookups to give back.
        pub nlookup: u64,
    }

    /// BATCH_FORGET arguments (`fuse_batch_forget_in`, 7.16); `count` [`ForgetOne`] follow.
    pub struct BatchForgetIn {
        /// Number of nodes.
        pub count: u32,
        /// Zero.
        pub dummy: u32,
    }

    /// MKNOD arguments (`fuse_mknod_in`); the name follows.
    pub struct MknodIn {
        /// File type and permission bits.
        pub mode: u32,
        /// Device number, 32-bit encoding of Linux (`new_encode_dev`).
        pub rdev: u32,
        /// Caller's umask.
        pub umask: u32,
        /// Zero.
        pub padding: u32,
    }

    /// MKDIR arguments (`fuse_mkdir_in`); the name follows.
    pub struct MkdirIn {
        /// Permission bits.
        pub mode: u32,
        /// Caller's umask.
        pub umask: u32,
    }

    /// RENAME arguments (`fuse_rename_in`); old and new name follow.
    pub struct RenameIn {
        /// Directory of the new name.
        pub newdir: u64,
    }

    /// RENAME2 arguments (`fuse_rename2_in`, 7.23); old and new name follow.
    pub struct Rename2In {
        /// Directory of the new name.
        pub newdir: u64,
        /// `RENAME_*` flags of renameat2(2).
        pub flags: u32,
        /// Zero.
        pub padding: u32,
    }

    /// LINK arguments (`fuse_link_in`); the new name follows.
    pub struct LinkIn {
        /// Node to link.
        pub oldnodeid: u64,
    }

    /// ACCESS arguments (`fuse_access_in`).
    pub struct AccessIn {
        /// `R_OK`, `W_OK`, `X_OK`, or 0 for `F_OK`.
        pub mask: u32,
        /// Zero.
        pub padding: u32,
    }

    /// SETXATTR arguments with `SETXATTR_EXT` (`fuse_setxattr_in`); name and value follow.
    pub struct SetxattrIn {
        /// Bytes of the value.
        pub size: u32,
        /// `XATTR_CREATE` or `XATTR_REPLACE` of setxattr(2), or 0.
        pub flags: u32,
        /// [`crate::SetxattrFlags`].
        pub setxattr_flags: u32,
        /// Zero.
        pub padding: u32,
    }

    /// SETXATTR arguments without `SETXATTR_EXT`: the first 8 bytes of [`SetxattrIn`].
    pub struct SetxattrInCompat {
        /// Bytes of the value.
        pub size: u32,
        /// `XATTR_CREATE` or `XATTR_REPLACE` of setxattr(2), or 0.
        pub flags: u32,
    }

    /// GETXATTR and LISTXATTR arguments (`fuse_getxattr_in`).
    pub struct GetxattrIn {
        /// Most bytes wanted; 0 asks for the size.
        pub size: u32,
        /// Zero.
        pub padding: u32,
    }

    /// Reply of GETXATTR and LISTXATTR with size 0 (`fuse_getxattr_out`).
    pub struct GetxattrOut {
        /// Bytes of the value or list.
        pub size: u32,
        /// Zero.
        pub padding: u32,
    }
}
