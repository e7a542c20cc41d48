//! File locks and INTERRUPT.

wire_structs! {
    /// A lock (`fuse_file_lock`).
    pub struct FileLock {
        /// First byte.
        pub start: u64,
        /// Last byte, inclusive; 2^63-1 means to the end of the file.
        pub end: u64,
        /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
        pub typ: u32,
        /// Process that holds it (thread group id).
        pub pid: u32,
    }

    /// GETLK, SETLK and SETLKW arguments (`fuse_lk_in`).
    pub struct LkIn {
        /// File handle.
        pub fh: u64,
        /// Lock owner.
        pub owner: u64,
        /// The lock.
        pub lk: FileLock,
        /// [`crate::LkFlags`].
        pub lk_flags: u32,
        /// Zero.
        pub padding: u32,
    }

    /// Reply of GETLK (`fuse_lk_out`).
    pub struct LkOut {
        /// The lock in the way, or type `F_UNLCK`.
        pub lk: FileLock,
    }

    /// INTERRUPT arguments (`fuse_interrupt_in`).
    pub struct InterruptIn {
        /// The request to interrupt.
        pub unique: u64,
    }
}
