//! Linux errno values this crate names, positive (`<asm-generic/errno.h>`).

/// No such file or directory.
pub const ENOENT: i32 = 2;
/// Input/output error.
pub const EIO: i32 = 5;
/// Argument list too long.
pub const E2BIG: i32 = 7;
/// Invalid argument.
pub const EINVAL: i32 = 22;
/// Numerical result out of range.
pub const ERANGE: i32 = 34;
/// File name too long.
pub const ENAMETOOLONG: i32 = 36;
/// Function not implemented.
pub const ENOSYS: i32 = 38;
/// Value too large.
pub const EOVERFLOW: i32 = 75;
/// Message too long.
pub const EMSGSIZE: i32 = 90;
/// Protocol error.
pub const EPROTO: i32 = 71;
