//! Every fixed structure of FUSE 7.45 as it travels: C layout, native byte order.
//!
//! Fields hold plain integers so that any bytes are a value; the bits are named in
//! [`crate::flags`]. Padding and spare fields are public because they travel too: send zero,
//! ignore what arrives. Sizes and offsets are checked against `<linux/fuse.h>` by
//! `tests/layout_linux.rs`.
//!
//! Left out on purpose: the ioctls of `/dev/fuse` (clone, backing files) and the io_uring
//! command area, which belong to the device and not to the messages.

/// Declares wire structures: C layout, every bit pattern valid, no implicit padding.
macro_rules! wire_structs {
    ($($(#[$meta:meta])* pub struct $name:ident { $($(#[$fmeta:meta])* pub $field:ident: $ty:ty,)* })*) => {$(
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq,
            zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout,
        )]
        #[repr(C)]
        pub struct $name { $($(#[$fmeta])* pub $field: $ty,)* }
    )*};
}

mod attr;
mod header;
mod init;
mod io;
mod lock;
mod namespace;
mod notify;

pub use attr::*;
pub use header::*;
pub use init::*;
pub use io::*;
pub use lock::*;
pub use namespace::*;
pub use notify::*;

/// Protocol major version this crate speaks.
pub const KERNEL_VERSION: u32 = 7;
/// Newest protocol minor version this crate speaks.
pub const KERNEL_MINOR_VERSION: u32 = 45;
/// Node id of the root directory.
pub const ROOT_ID: u64 = 1;
/// Size of [`InHeader`], in bytes.
pub const IN_HEADER_BYTES: u32 = 40;
/// Size of [`OutHeader`], in bytes.
pub const OUT_HEADER_BYTES: u32 = 16;
/// Smallest buffer with which a daemon may read requests from `/dev/fuse`, in bytes.
pub const MIN_READ_BUFFER_BYTES: u32 = 8192;
/// Set in [`InHeader::unique`] when a request is sent again after `NOTIFY_RESEND`.
pub const UNIQUE_RESEND: u64 = 1 << 63;
/// User or group id that maps to nobody; this crate never sends it (a daemon may take it for root).
pub const INVALID_UIDGID: u32 = u32::MAX;
/// Most security contexts one request can carry; larger extension types are other extensions.
pub const MAX_NR_SECCTX: u32 = 31;
/// Type of the supplementary-groups extension in [`ExtHeader`].
pub const EXT_GROUPS: u32 = 32;
/// Most `in` plus `out` vectors of one unrestricted ioctl.
pub const IOCTL_MAX_IOV: u32 = 256;
/// Page size by which the protocol counts `max_pages`, in bytes.
pub const PAGE_BYTES: u32 = 4096;
