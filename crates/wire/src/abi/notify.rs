//! Notifications: what a daemon sends unasked.

wire_structs! {
    /// `NOTIFY_POLL` (`fuse_notify_poll_wakeup_out`).
    pub struct NotifyPollWakeupOut {
        /// The client's handle from [`super::PollIn::kh`].
        pub kh: u64,
    }

    /// `NOTIFY_INVAL_INODE` (`fuse_notify_inval_inode_out`).
    pub struct NotifyInvalInodeOut {
        /// Node whose attributes are stale.
        pub ino: u64,
        /// First stale byte; negative leaves the data alone.
        pub off: i64,
        /// Stale bytes; 0 or less means to the end.
        pub len: i64,
    }

    /// `NOTIFY_INVAL_ENTRY` (`fuse_notify_inval_entry_out`); name and NUL follow.
    pub struct NotifyInvalEntryOut {
        /// Directory.
        pub parent: u64,
        /// Bytes of the name, without NUL.
        pub namelen: u32,
        /// [`crate::InvalEntryFlags`] (7.38).
        pub flags: u32,
    }

    /// `NOTIFY_DELETE` (`fuse_notify_delete_out`); name and NUL follow.
    pub struct NotifyDeleteOut {
        /// Directory.
        pub parent: u64,
        /// Node that was under the name.
        pub child: u64,
        /// Bytes of the name, without NUL.
        pub namelen: u32,
        /// Zero.
        pub padding: u32,
    }

    /// `NOTIFY_STORE` (`fuse_notify_store_out`); `size` bytes of data follow.
    pub struct NotifyStoreOut {
        /// Node whose cache is filled.
        pub nodeid: u64,
        /// Byte offset.
        pub offset: u64,
        /// Bytes of data.
        pub size: u32,
        /// Zero.
        pub padding: u32,
    }

    /// `NOTIFY_RETRIEVE` (`fuse_notify_retrieve_out`), answered by NOTIFY_REPLY.
    pub struct NotifyRetrieveOut {
        /// `unique` of the NOTIFY_REPLY to send.
        pub notify_unique: u64,
        /// Node whose cache is read.
        pub nodeid: u64,
        /// Byte offset.
        pub offset: u64,
        /// Most bytes wanted.
        pub size: u32,
        /// Zero.
        pub padding: u32,
    }

    /// NOTIFY_REPLY arguments (`fuse_notify_retrieve_in`, laid out like [`super::WriteIn`]);
    /// `size` bytes of data follow.
    pub struct NotifyRetrieveIn {
        /// Zero.
        pub dummy1: u64,
        /// Byte offset.
        pub offset: u64,
        /// Bytes of data.
        pub size: u32,
        /// Zero.
        pub dummy2: u32,
        /// Zero.
        pub dummy3: u64,
        /// Zero.
        pub dummy4: u64,
    }

    /// `NOTIFY_PRUNE` (`fuse_notify_prune_out`, 7.45); `count` node ids of 8 bytes follow.
    pub struct NotifyPruneOut {
        /// Number of nodes.
        pub count: u32,
        /// Zero.
        pub padding: u32,
        /// Zero.
        pub spare: u64,
    }
}
