//! Changes of a mode as chmod(1) takes them.

use std::str::FromStr;

/// A new mode, or what is to be changed of the old one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModeChange {
    /// The new mode; directories keep their set-id bits.
    Octal(u32),
    /// Changes, one after the other.
    Symbolic(Vec<Clause>),
}

/// `ugo+rwx`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// Bits of the classes that are meant, set-id and sticky bits included; `None` when none is
    /// named: all, less the umask.
    who: Option<u32>,
    operation: Operation,
    bits: Bits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Add,
    Remove,
    Set,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bits {
    Named {
        /// For all classes.
        mode: u32,
        /// X: execution for directories, and for what somebody may execute already.
        execute_if_sensible: bool,
    },
    /// Those of this class, by its place in the mode.
    Of(u32),
    /// These, whoever is meant.
    Exactly(u32),
}

/// Digits of a mode that says nothing of the set-id bits of directories.
const ORDINARY_DIGITS: usize = 4;

const USER: u32 = 0o4700;
const GROUP: u32 = 0o2070;
const OTHERS: u32 = 0o1007;

impl FromStr for ModeChange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.is_empty() && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte)) {
            let mode = octal(text).ok_or("a mode has at most the bits 7777")?;
            // Who writes all digits means all bits.
            return Ok(match text.len() > ORDINARY_DIGITS {
                true => ModeChange::Symbolic(vec![Clause::exactly(mode)]),
                false => ModeChange::Octal(mode),
            });
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            let why = "a mode is octal digits, 0 to 7, such as 644, or changes such as u+x";
            return Err(why.to_owned());
        }
        let mut clauses = Vec::new();
        for part in text.split(',') {
            clauses.append(&mut parse(part).ok_or_else(|| {
                format!("{part:?} is no change of a mode; one is such as u+x, go-w or a=rX")
            })?);
        }
        Ok(ModeChange::Symbolic(clauses))
    }
}

/// A mode in octal digits.
fn octal(text: &str) -> Option<u32> {
    if !text.bytes().all(|byte| (b'0'..=b'7').contains(&byte)) {
        return None;
    }
    let mode = u32::from_str_radix(text, 8).ok()?;
    (mode <= 0o7777).then_some(mode)
}

/// `[ugoa...][[+-=][rwxXst...|u|g|o]...]`, the last of them perhaps `[+-=]OCTAL`, for nobody in
/// particular.
fn parse(text: &str) -> Option<Vec<Clause>> {
    let start = text.find(['+', '-', '='])?;
    let (classes, mut rest) = text.split_at(start);
    let mut who = (!classes.is_empty()).then_some(0);
    for class in classes.chars() {
        *who.as_mut()? |= match class {
            'u' => USER,
            'g' => GROUP,
            'o' => OTHERS,
            'a' => USER | GROUP | OTHERS,
            _ => return None,
        };
    }
    let mut clauses = Vec::new();
    while let Some(sign) = rest.chars().next() {
        let operation = match sign {
            '+' => Operation::Add,
            '-' => Operation::Remove,
            '=' => Operation::Set,
            _ => return None,
        };
        rest = &rest[1..];
        let end = rest.find(['+', '-', '=']).unwrap_or(rest.len());
        let (letters, after) = rest.split_at(end);
        rest = after;
        if let Some(mode) = octal(letters) {
            if who.is_some() || !rest.is_empty() {
                return None;
            }
            clauses.push(Clause {
                operation,
                ..Clause::exactly(mode)
            });
            break;
        }
        clauses.push(Clause {
            who,
            operation,
            bits: bits(letters)?,
        });
    }
    Some(clauses)
}

fn bits(letters: &str) -> Option<Bits> {
    match letters {
        "u" => return Some(Bits::Of(6)),
        "g" => return Some(Bits::Of(3)),
        "o" => return Some(Bits::Of(0)),
        _ => {}
    }
    let (mut mode, mut execute_if_sensible) = (0, false);
    for letter in letters.chars() {
        match letter {
            'r' => mode |= 0o444,
            'w' => mode |= 0o222,
            'x' => mode |= 0o111,
            's' => mode |= 0o6000,
            't' => mode |= 0o1000,
            'X' => execute_if_sensible = true,
            _ => return None,
        }
    }
    Some(Bits::Named {
        mode,
        execute_if_sensible,
    })
}

impl ModeChange {
    /// The new mode of what has `mode`.
    pub fn apply(&self, mode: u32, is_dir: bool, umask: u32) -> u32 {
        match self {
            // Set-id bits of directories stay unless they are named.
            ModeChange::Octal(new) if is_dir => new | mode & 0o6000,
            ModeChange::Octal(new) => *new,
            ModeChange::Symbolic(clauses) => clauses
                .iter()
                .fold(mode, |mode, clause| clause.apply(mode, is_dir, umask)),
        }
    }
}

impl Clause {
    /// All bits are these, those of directories included.
    fn exactly(mode: u32) -> Self {
        Clause {
            who: None,
            operation: Operation::Set,
            bits: Bits::Exactly(mode),
        }
    }

    fn apply(&self, mode: u32, is_dir: bool, umask: u32) -> u32 {
        let named = match self.bits {
            Bits::Exactly(bits) => {
                return match self.operation {
                    Operation::Add => mode | bits,
                    Operation::Remove => mode & !bits,
                    Operation::Set => bits,
                };
            }
            Bits::Of(shift) => {
                let class = mode >> shift & 7;
                class << 6 | class << 3 | class
            }
            Bits::Named {
                mode: named,
                execute_if_sensible,
            } => {
                let sensible = is_dir || mode & 0o111 != 0;
                let execute = if execute_if_sensible && sensible {
                    0o111
                } else {
                    0
                };
                named | execute
            }
        };
        let who = self.who.unwrap_or(0o7777);
        let masked = if self.who.is_none() { !umask } else { !0 };
        let bits = named & who & masked;
        match self.operation {
            Operation::Add => mode | bits,
            Operation::Remove => mode & !bits,
            Operation::Set => {
                let kept = if is_dir { 0o6000 & !named } else { 0 };
                mode & !(who & !kept) | bits
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    fn change(text: &str) -> ModeChange {
        text.parse().unwrap()
    }

    #[test]
    fn wrong_changes_are_refused() {
        for wrong in [
            "",
            "8",
            "u",
            "z+x",
            "u+q",
            "u+x,",
            "77777",
            "+ux",
            "u~x",
            "u=755",
            "=78",
            "=10000",
            "=755+x",
            "000010000",
            "+7u",
            "755,u+x",
        ] {
            assert!(wrong.parse::<ModeChange>().is_err(), "{wrong}");
        }
    }

    /// chmod(1) of this host is asked the same.
    #[test]
    fn changes_are_those_of_chmod() {
        let dir = tempfile::tempdir().unwrap();
        let (file, below) = (dir.path().join("file"), dir.path().join("dir"));
        fs::write(&file, "").unwrap();
        fs::create_dir(&below).unwrap();
        let umask = 0o027;
        for text in [
            "644",
            "0",
            "7777",
            "u+x",
            "go-w",
            "a=rX",
            "+x",
            "-w",
            "=r",
            "u=rwx,g=u,o=g",
            "o=u",
            "u+s",
            "g+s",
            "+t",
            "a-x+X",
            "ug=,o=r",
            "g-s",
            "u=",
            "a+rwxst",
            "u=g-w",
            "00755",
            "0755",
            "000",
            "07000",
            "0000002750",
            "=755",
            "=2755",
            "=0",
            "+6000",
            "-6022",
            "+x=644",
            "u+x,=750,g+s",
            "g+s,-2000",
            "=,+070",
        ] {
            for mode in [0, 0o600, 0o644, 0o755, 0o4711, 0o2775, 0o1777, 0o7777] {
                for path in [&file, &below] {
                    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
                    let before = fs::metadata(path).unwrap();
                    let expected = change(text).apply(
                        before.permissions().mode() & 0o7777,
                        before.is_dir(),
                        umask,
                    );
                    // It complains when the umask has taken something of what was asked for.
                    let status = Command::new("sh")
                        .args([
                            "-c",
                            "umask 027; chmod -- \"$1\" \"$2\" 2>/dev/null",
                            "sh",
                            text,
                        ])
                        .arg(path)
                        .status();
                    let _ = status.unwrap();
                    let got = fs::metadata(path).unwrap().permissions().mode() & 0o7777;
                    assert_eq!(got, expected, "{text} of {mode:o} for {}", path.display());
                }
            }
        }
    }
}
