//! Message headers and the extensions that may follow a request.

wire_structs! {
    /// Starts every request (`fuse_in_header`, 40 bytes).
    pub struct InHeader {
        /// Bytes of the whole message: this header, arguments, names, extensions and payload.
        pub len: u32,
        /// Operation, see [`crate::Opcode`].
        pub opcode: u32,
        /// Matches the reply to its request; 0 is kept for notifications.
        pub unique: u64,
        /// Node the operation is on; 0 for operations on the connection.
        pub nodeid: u64,
        /// Caller's file-system user id.
        pub uid: u32,
        /// Caller's file-system group id.
        pub gid: u32,
        /// Caller's process id; 0 when it has none the daemon could see.
        pub pid: u32,
        /// Extensions at the end of the message, in units of 8 bytes (7.38).
        pub total_extlen: u16,
        /// Zero.
        pub padding: u16,
    }

    /// Starts every reply and notification (`fuse_out_header`, 16 bytes).
    pub struct OutHeader {
        /// Bytes of the whole message with this header.
        pub len: u32,
        /// 0, or the negated errno (-511..=-1); in a notification its code (> 0).
        pub error: i32,
        /// The request's `unique`; 0 in a notification.
        pub unique: u64,
    }

    /// Starts one extension of a request (`fuse_ext_header`).
    pub struct ExtHeader {
        /// Bytes of the extension with this header, a multiple of 8.
        pub size: u32,
        /// [`EXT_GROUPS`](super::EXT_GROUPS); a value up to
        /// [`MAX_NR_SECCTX`](super::MAX_NR_SECCTX) makes it a [`SecctxHeader`].
        pub typ: u32,
    }

    /// Body of the groups extension (`fuse_supp_groups`); that many `u32` group ids follow.
    pub struct SuppGroups {
        /// Number of group ids that follow.
        pub nr_groups: u32,
    }

    /// Starts the security contexts of a creating request (`fuse_secctx_header`).
    pub struct SecctxHeader {
        /// Bytes of all contexts with this header, a multiple of 8.
        pub size: u32,
        /// Number of [`Secctx`] that follow, 0 when there is no label.
        pub nr_secctx: u32,
    }

    /// One security context (`fuse_secctx`): attribute name with NUL, then the label.
    pub struct Secctx {
        /// Bytes of the label, without the name.
        pub size: u32,
        /// Zero.
        pub padding: u32,
    }
}
