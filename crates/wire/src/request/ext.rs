//! Extensions at the end of a creating request: security context, then supplementary group.
//!
//! Each is padded to 8 bytes; the message before them is not, so they may start unaligned.

use zerocopy::{FromBytes, IntoBytes};

use super::encode::{EncodeError, Output};
use super::parse::ParseError;
use crate::abi::{
    EXT_GROUPS, ExtHeader, INVALID_UIDGID, MAX_NR_SECCTX, Secctx, SecctxHeader, SuppGroups,
};
use crate::name::{XATTR_NAME_MAX_BYTES, XattrName};
use crate::opcode::Opcode;

/// Longest label of a security context that is sent, in bytes.
pub const LABEL_MAX_BYTES: usize = 1024;

const GROUPS_BYTES: usize = 16;

/// Most bytes of extensions.
pub(super) const MAX_BYTES: usize = size_of::<SecctxHeader>()
    + (size_of::<Secctx>() + XATTR_NAME_MAX_BYTES + 1 + LABEL_MAX_BYTES).next_multiple_of(8)
    + GROUPS_BYTES;

/// What MKNOD, MKDIR, SYMLINK, CREATE and TMPFILE carry beyond their arguments (7.36, 7.38).
///
/// A daemon may end when an extension comes that was not negotiated, or a negotiated security
/// context does not: [`crate::init::Negotiated::extensions`] makes the right value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extensions<'a> {
    /// `SECURITY_CTX`.
    pub secctx: SecurityContext<'a>,
    /// `CREATE_SUPP_GROUP`: the parent directory's group, if the caller is in it by a
    /// supplementary group.
    pub supp_groups: Option<u32>,
}

/// Security label of the object to create.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecurityContext<'a> {
    /// `SECURITY_CTX` is not negotiated: nothing is sent.
    #[default]
    NotNegotiated,
    /// There is no label; says so.
    Unlabelled,
    /// The extended attribute to set.
    Label {
        /// Attribute name, such as `security.selinux`.
        name: XattrName<'a>,
        /// Its value: 1 to [`LABEL_MAX_BYTES`] bytes.
        value: &'a [u8],
    },
}

/// Whether the operation can carry extensions.
const fn allowed(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::Mknod | Opcode::Mkdir | Opcode::Symlink | Opcode::Create | Opcode::Tmpfile
    )
}

impl<'a> Extensions<'a> {
    /// Appends the extensions and returns their bytes, a multiple of 8.
    pub(super) fn encode(
        &self,
        opcode: Opcode,
        out: &mut Output<'_>,
    ) -> Result<usize, EncodeError> {
        if *self == Self::default() {
            return Ok(0);
        }
        if !allowed(opcode) {
            return Err(EncodeError::UnexpectedExtension(opcode));
        }
        let start = out.len();
        match self.secctx {
            SecurityContext::NotNegotiated => {}
            SecurityContext::Unlabelled => {
                out.put(
                    SecctxHeader {
                        size: size_of::<SecctxHeader>() as u32,
                        nr_secctx: 0,
                    }
                    .as_bytes(),
                );
            }
            SecurityContext::Label { name, value } => {
                if value.is_empty() || value.len() > LABEL_MAX_BYTES {
                    return Err(EncodeError::LabelLength(value.len()));
                }
                let name = name.as_bytes();
                let body = (size_of::<Secctx>() + name.len() + 1 + value.len()).next_multiple_of(8);
                out.put(
                    SecctxHeader {
                        size: (size_of::<SecctxHeader>() + body) as u32,
                        nr_secctx: 1,
                    }
                    .as_bytes(),
                );
                out.put(
                    Secctx {
                        size: value.len() as u32,
                        padding: 0,
                    }
                    .as_bytes(),
                );
                out.put_cstr(name);
                out.put(value);
                out.pad_to_8_from(start);
            }
        }
        if let Some(gid) = self.supp_groups {
            if gid == INVALID_UIDGID {
                return Err(EncodeError::InvalidId);
            }
            out.put(
                ExtHeader {
                    size: GROUPS_BYTES as u32,
                    typ: EXT_GROUPS,
                }
                .as_bytes(),
            );
            out.put(SuppGroups { nr_groups: 1 }.as_bytes());
            out.put(gid.as_bytes());
        }
        Ok(out.len() - start)
    }

    /// Parses exactly the extensions' bytes.
    pub(super) fn parse(opcode: Opcode, mut bytes: &'a [u8]) -> Result<Self, ParseError> {
        let mut found = Self::default();
        if bytes.is_empty() {
            return Ok(found);
        }
        if !allowed(opcode) {
            return Err(ParseError::Extension("the operation has none"));
        }
        while !bytes.is_empty() {
            let (header, _) = ExtHeader::read_from_prefix(bytes)
                .map_err(|_| ParseError::Extension("it is cut short"))?;
            let size = header.size as usize;
            if size < size_of::<ExtHeader>() || !size.is_multiple_of(8) || size > bytes.len() {
                return Err(ParseError::Extension("its size is wrong"));
            }
            let body = &bytes[size_of::<ExtHeader>()..size];
            bytes = &bytes[size..];
            match header.typ {
                nr_secctx @ 0..=MAX_NR_SECCTX => {
                    if found.secctx != SecurityContext::NotNegotiated {
                        return Err(ParseError::Extension("the security context comes twice"));
                    }
                    found.secctx = parse_secctx(nr_secctx, body)?;
                }
                EXT_GROUPS => {
                    let gid = parse_groups(body)?;
                    if found.supp_groups.replace(gid).is_some() {
                        return Err(ParseError::Extension("the supplementary group comes twice"));
                    }
                }
                _ => return Err(ParseError::Extension("its type is unknown")),
            }
        }
        Ok(found)
    }
}

fn parse_secctx(nr_secctx: u32, body: &[u8]) -> Result<SecurityContext<'_>, ParseError> {
    match nr_secctx {
        0 if body.is_empty() => return Ok(SecurityContext::Unlabelled),
        1 => {}
        _ => {
            return Err(ParseError::Extension(
                "only one security context is supported",
            ));
        }
    }
    let short = ParseError::Extension("the security context is cut short");
    let (context, rest) = Secctx::read_from_prefix(body).map_err(|_| short)?;
    let nul = rest.iter().position(|&b| b == 0).ok_or(short)?;
    let name = XattrName::new(&rest[..nul]).map_err(ParseError::Name)?;
    let value = rest
        .get(nul + 1..)
        .and_then(|rest| rest.get(..context.size as usize))
        .ok_or(short)?;
    if value.is_empty() || value.len() > LABEL_MAX_BYTES {
        return Err(ParseError::Extension("the label's length is wrong"));
    }
    Ok(SecurityContext::Label { name, value })
}

fn parse_groups(body: &[u8]) -> Result<u32, ParseError> {
    let wrong = ParseError::Extension("exactly one supplementary group is supported");
    let (groups, rest) = SuppGroups::read_from_prefix(body).map_err(|_| wrong)?;
    match u32::read_from_bytes(rest) {
        Ok(gid) if groups.nr_groups == 1 => Ok(gid),
        _ => Err(wrong),
    }
}
