//! INIT and CUSE_INIT.

wire_structs! {
    /// INIT arguments (`fuse_init_in`); before 7.36 only the first 16 bytes exist.
    pub struct InitIn {
        /// Client's protocol major version.
        pub major: u32,
        /// Client's protocol minor version.
        pub minor: u32,
        /// Largest readahead the client wants, in bytes.
        pub max_readahead: u32,
        /// Offered capabilities, low half of [`crate::InitFlags`].
        pub flags: u32,
        /// High half, valid with `INIT_EXT`.
        pub flags2: u32,
        /// Zero.
        pub unused: [u32; 11],
    }

    /// INIT reply (`fuse_init_out`, 64 bytes); old daemons send its first 8 or 24 bytes.
    pub struct InitOut {
        /// Daemon's protocol major version.
        pub major: u32,
        /// Daemon's protocol minor version.
        pub minor: u32,
        /// Largest readahead the daemon allows, in bytes.
        pub max_readahead: u32,
        /// Accepted capabilities, low half of [`crate::InitFlags`].
        pub flags: u32,
        /// Most background requests in flight (7.13); 0 leaves the default.
        pub max_background: u16,
        /// Background requests at which the client counts as congested (7.13); 0 leaves the default.
        pub congestion_threshold: u16,
        /// Largest WRITE payload, in bytes.
        pub max_write: u32,
        /// Granularity of timestamps, in nanoseconds (7.23).
        pub time_gran: u32,
        /// Most pages of one request's payload, valid with `MAX_PAGES` (7.28).
        pub max_pages: u16,
        /// log2 of the DAX mapping alignment in bytes, valid with `MAP_ALIGNMENT` (7.31).
        pub map_alignment: u16,
        /// High half of the flags, valid with `INIT_EXT` (7.36).
        pub flags2: u32,
        /// Most file systems stacked below, for `PASSTHROUGH` (7.40).
        pub max_stack_depth: u32,
        /// Daemon's request timeout in seconds, valid with `REQUEST_TIMEOUT` (7.43).
        pub request_timeout: u16,
        /// Zero.
        pub unused: [u16; 11],
    }

    /// CUSE_INIT arguments (`cuse_init_in`).
    pub struct CuseInitIn {
        /// Client's protocol major version.
        pub major: u32,
        /// Client's protocol minor version.
        pub minor: u32,
        /// Zero.
        pub unused: u32,
        /// Bit 0: ioctls are not restricted.
        pub flags: u32,
    }

    /// CUSE_INIT reply (`cuse_init_out`); strings with the device's properties follow.
    pub struct CuseInitOut {
        /// Daemon's protocol major version.
        pub major: u32,
        /// Daemon's protocol minor version.
        pub minor: u32,
        /// Zero.
        pub unused: u32,
        /// Bit 0: ioctls are not restricted.
        pub flags: u32,
        /// Largest READ, in bytes.
        pub max_read: u32,
        /// Largest WRITE, in bytes.
        pub max_write: u32,
        /// Device major number.
        pub dev_major: u32,
        /// Device minor number.
        pub dev_minor: u32,
        /// Zero.
        pub spare: [u32; 10],
    }
}
