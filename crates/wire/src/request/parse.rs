//! The parser of requests, for embedded servers.

use zerocopy::FromBytes;

use super::{Extensions, Request};
use crate::abi::*;
use crate::errno;
use crate::flags::GetattrFlags;
use crate::name::{Name, NameError, Target, XattrName};
use crate::opcode::{Opcode, UnknownOpcode};

/// Why bytes are no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The bytes end inside the head.
    #[error(
        "the request ends after {have_bytes} bytes, {need_bytes} are needed; pass the whole head"
    )]
    Short {
        /// Bytes that would have been read.
        need_bytes: usize,
        /// Bytes given.
        have_bytes: usize,
    },
    /// A string without NUL.
    #[error("a string in the request has no NUL; the sender must end it")]
    MissingNul,
    /// Unknown operation.
    #[error(transparent)]
    Opcode(#[from] UnknownOpcode),
    /// `header.len` is not what head and payload need, or less than the bytes given.
    #[error(
        "the header claims {claimed_bytes} bytes, the request has {actual_bytes}; the sender must count right"
    )]
    Length {
        /// `header.len`.
        claimed_bytes: u32,
        /// Head and payload, or the bytes given.
        actual_bytes: u64,
    },
    /// A name that is none.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A list that is empty or does not fit.
    #[error(
        "a list of {0} entries in the request; the sender must send at least one and all of them"
    )]
    ListLength(u32),
    /// A list in the bytes is not aligned.
    #[error("the request is not aligned to 8 bytes; put it into an aligned buffer")]
    Misaligned,
    /// Extensions that are wrong.
    #[error("wrong extension in the request: {0}; the sender must drop it")]
    Extension(&'static str),
}

impl ParseError {
    /// The errno to answer with: ENOSYS for an unknown operation, the name's own, else EINVAL.
    pub const fn errno(self) -> i32 {
        match self {
            Self::Opcode(_) => errno::ENOSYS,
            Self::Name(error) => error.errno(),
            _ => errno::EINVAL,
        }
    }
}

/// Copies the header out of a message's first bytes, to answer even what does not parse.
///
/// # Errors
/// [`ParseError::Short`] under 40 bytes.
pub fn parse_header(message: &[u8]) -> Result<InHeader, ParseError> {
    match InHeader::read_from_prefix(message) {
        Ok((header, _)) => Ok(header),
        Err(_) => Err(ParseError::Short {
            need_bytes: size_of::<InHeader>(),
            have_bytes: message.len(),
        }),
    }
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    fn take<T: FromBytes>(&mut self) -> Result<T, ParseError> {
        let (value, _) = T::read_from_prefix(self.rest()).map_err(|_| ParseError::Short {
            need_bytes: self.at + size_of::<T>(),
            have_bytes: self.bytes.len(),
        })?;
        self.at += size_of::<T>();
        Ok(value)
    }

    fn cstr(&mut self) -> Result<&'a [u8], ParseError> {
        let rest = self.rest();
        let len = rest
            .iter()
            .position(|&b| b == 0)
            .ok_or(ParseError::MissingNul)?;
        self.at += len + 1;
        Ok(&rest[..len])
    }

    fn name(&mut self) -> Result<Name<'a>, ParseError> {
        Ok(Name::new(self.cstr()?)?)
    }

    fn xattr_name(&mut self) -> Result<XattrName<'a>, ParseError> {
        Ok(XattrName::new(self.cstr()?)?)
    }

    fn list<T: FromBytes + zerocopy::Immutable + zerocopy::KnownLayout>(
        &mut self,
        count: u32,
    ) -> Result<&'a [T], ParseError> {
        let bytes = (count as usize)
            .checked_mul(size_of::<T>())
            .filter(|&len| len > 0)
            .and_then(|len| self.rest().get(..len))
            .ok_or(ParseError::ListLength(count))?;
        // The length is right by construction, so only the alignment can be wrong.
        let list = <[T]>::ref_from_bytes(bytes).map_err(|_| ParseError::Misaligned)?;
        self.at += bytes.len();
        Ok(list)
    }
}

impl<'a> Request<'a> {
    /// Parses a request from a prefix of its message that holds at least the whole head.
    ///
    /// `head` starts at the header and ends anywhere from the end of the head to the end of the
    /// payload: both the head alone and the complete message are right. The payload is the last
    /// [`payload_out_bytes`](Request::payload_out_bytes) bytes of the `header.len` bytes.
    /// Extensions are found by `total_extlen`. Lists need `head` to be aligned to 8 bytes.
    ///
    /// # Errors
    /// [`ParseError`]; [`parse_header`] still gives the `unique` to answer.
    pub fn parse(head: &'a [u8]) -> Result<(InHeader, Self, Extensions<'a>), ParseError> {
        let header = parse_header(head)?;
        let opcode = Opcode::try_from(header.opcode)?;
        let length = |actual_bytes: u64| ParseError::Length {
            claimed_bytes: header.len,
            actual_bytes,
        };
        if head.len() as u64 > u64::from(header.len) {
            return Err(length(head.len() as u64));
        }
        let ext_bytes = usize::from(header.total_extlen) * 8;
        let (arguments, extensions) = if ext_bytes == 0 {
            (head, &[][..])
        } else {
            // Only operations without payload carry extensions, so they end the head.
            if head.len() as u64 != u64::from(header.len) {
                return Err(length(head.len() as u64));
            }
            let at = head
                .len()
                .checked_sub(ext_bytes)
                .ok_or(ParseError::Extension("it is cut short"))?;
            head.split_at(at)
        };
        if arguments.len() < size_of::<InHeader>() {
            return Err(ParseError::Extension("it overlaps the header"));
        }
        let ext = Extensions::parse(opcode, extensions)?;
        let mut input = Input {
            bytes: arguments,
            at: size_of::<InHeader>(),
        };
        let request = Self::parse_arguments(opcode, &header, &mut input)?;
        let actual_bytes =
            input.at as u64 + u64::from(request.payload_out_bytes()) + ext_bytes as u64;
        if actual_bytes != u64::from(header.len) {
            return Err(length(actual_bytes));
        }
        Ok((header, request, ext))
    }

    fn parse_arguments(
        opcode: Opcode,
        header: &InHeader,
        input: &mut Input<'a>,
    ) -> Result<Self, ParseError> {
        Ok(match opcode {
            Opcode::Lookup => Self::Lookup {
                name: input.name()?,
            },
            Opcode::Forget => Self::Forget {
                nlookup: input.take::<ForgetIn>()?.nlookup,
            },
            Opcode::BatchForget => {
                let count = input.take::<BatchForgetIn>()?.count;
                Self::BatchForget(input.list(count)?)
            }
            Opcode::Getattr => {
                let arg = input.take::<GetattrIn>()?;
                let has_fh =
                    GetattrFlags::from_bits_retain(arg.getattr_flags).contains(GetattrFlags::FH);
                Self::Getattr {
                    fh: has_fh.then_some(arg.fh),
                }
            }
            Opcode::Setattr => Self::Setattr(input.take()?),
            Opcode::Readlink => Self::Readlink,
            Opcode::Symlink => Self::Symlink {
                name: input.name()?,
                target: Target::new(input.cstr()?)?,
            },
            Opcode::Mknod => {
                let MknodIn {
                    mode, rdev, umask, ..
                } = input.take()?;
                Self::Mknod {
                    name: input.name()?,
                    mode,
                    rdev,
                    umask,
                }
            }
            Opcode::Mkdir => {
                let MkdirIn { mode, umask } = input.take()?;
                Self::Mkdir {
                    name: input.name()?,
                    mode,
                    umask,
                }
            }
            Opcode::Unlink => Self::Unlink {
                name: input.name()?,
            },
            Opcode::Rmdir => Self::Rmdir {
                name: input.name()?,
            },
            Opcode::Rename => {
                let RenameIn { newdir } = input.take()?;
                Self::Rename {
                    new_dir: newdir,
                    name: input.name()?,
                    new_name: input.name()?,
                }
            }
            Opcode::Rename2 => {
                let Rename2In { newdir, flags, .. } = input.take()?;
                Self::Rename2 {
                    new_dir: newdir,
                    flags,
                    name: input.name()?,
                    new_name: input.name()?,
                }
            }
            Opcode::Link => {
                let LinkIn { oldnodeid } = input.take()?;
                Self::Link {
                    old_node: oldnodeid,
                    new_name: input.name()?,
                }
            }
            Opcode::Open => {
                let OpenIn { flags, open_flags } = input.take()?;
                Self::Open { flags, open_flags }
            }
            Opcode::Opendir => {
                let OpenIn { flags, open_flags } = input.take()?;
                Self::Opendir { flags, open_flags }
            }
            Opcode::Create => {
                let CreateIn {
                    flags,
                    mode,
                    umask,
                    open_flags,
                } = input.take()?;
                Self::Create {
                    name: input.name()?,
                    flags,
                    mode,
                    umask,
                    open_flags,
                }
            }
            Opcode::Tmpfile => {
                let CreateIn {
                    flags,
                    mode,
                    umask,
                    open_flags,
                } = input.take()?;
                input.cstr()?;
                Self::Tmpfile {
                    flags,
                    mode,
                    umask,
                    open_flags,
                }
            }
            Opcode::Read => Self::Read(input.take()?),
            Opcode::Write => Self::Write(input.take()?),
            Opcode::Statfs => Self::Statfs,
            Opcode::Release => Self::Release(input.take()?),
            Opcode::Releasedir => Self::Releasedir(input.take()?),
            Opcode::Fsync => Self::Fsync(input.take()?),
            Opcode::Fsyncdir => Self::Fsyncdir(input.take()?),
            Opcode::Flush => Self::Flush(input.take()?),
            Opcode::Init => Self::Init(parse_init(header, input)?),
            Opcode::Readdir => Self::Readdir(input.take()?),
            Opcode::Readdirplus => Self::Readdirplus(input.take()?),
            Opcode::Getxattr => {
                let GetxattrIn { size, .. } = input.take()?;
                Self::Getxattr {
                    name: input.xattr_name()?,
                    size,
                }
            }
            Opcode::Listxattr => Self::Listxattr {
                size: input.take::<GetxattrIn>()?.size,
            },
            Opcode::Setxattr => parse_setxattr(header, input)?,
            Opcode::Removexattr => Self::Removexattr {
                name: input.xattr_name()?,
            },
            Opcode::Getlk => Self::Getlk(input.take()?),
            Opcode::Setlk => Self::Setlk(input.take()?),
            Opcode::Setlkw => Self::Setlkw(input.take()?),
            Opcode::Access => Self::Access {
                mask: input.take::<AccessIn>()?.mask,
            },
            Opcode::Interrupt => Self::Interrupt {
                unique: input.take::<InterruptIn>()?.unique,
            },
            Opcode::Bmap => Self::Bmap(input.take()?),
            Opcode::Destroy => Self::Destroy,
            Opcode::Ioctl => Self::Ioctl(input.take()?),
            Opcode::Poll => Self::Poll(input.take()?),
            Opcode::NotifyReply => Self::NotifyReply(input.take()?),
            Opcode::Fallocate => Self::Fallocate(input.take()?),
            Opcode::Lseek => Self::Lseek(input.take()?),
            Opcode::CopyFileRange => Self::CopyFileRange(input.take()?),
            Opcode::CopyFileRange64 => Self::CopyFileRange64(input.take()?),
            Opcode::Syncfs => {
                input.take::<SyncfsIn>()?;
                Self::Syncfs
            }
            Opcode::Statx => Self::Statx(input.take()?),
            Opcode::Setupmapping => Self::Setupmapping(input.take()?),
            Opcode::Removemapping => {
                let count = input.take::<RemovemappingIn>()?.count;
                Self::Removemapping(input.list(count)?)
            }
            Opcode::CuseInit => Self::CuseInit(input.take()?),
        })
    }
}

/// Clients before 7.36 send the first four fields only.
fn parse_init(header: &InHeader, input: &mut Input<'_>) -> Result<InitIn, ParseError> {
    if header.len as usize - size_of::<InHeader>() != 16 {
        return input.take();
    }
    let [major, minor, max_readahead, flags] = input.take::<[u32; 4]>()?;
    Ok(InitIn {
        major,
        minor,
        max_readahead,
        flags,
        ..InitIn::default()
    })
}

/// The message does not say which of the two structures it has; its length does.
///
/// Read as the short one, a long one shows a name of at most 7 bytes (its padding is zero) where
/// the length asks for 9 or more, so the two cannot be mistaken for each other.
fn parse_setxattr<'a>(header: &InHeader, input: &mut Input<'a>) -> Result<Request<'a>, ParseError> {
    let SetxattrInCompat { size, flags } = input.take()?;
    let short_name_bytes = u64::from(header.len).checked_sub(input.at as u64 + 1 + u64::from(size));
    let is_short = match input.rest().iter().position(|&b| b == 0) {
        Some(len) => short_name_bytes == Some(len as u64),
        None => return Err(ParseError::MissingNul),
    };
    let setxattr_flags = if is_short {
        0
    } else {
        input.take::<[u32; 2]>()?[0]
    };
    let name = input.xattr_name()?;
    Ok(Request::Setxattr {
        name,
        size,
        flags,
        setxattr_flags,
        ext: !is_short,
    })
}
