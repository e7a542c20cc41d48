//! The rules.

use super::{Child, Facts, fixed};
use fusewire_wire::abi::{FileKind, ROOT_ID};
use std::fmt;
use std::str::FromStr;

/// What a tree looks like. Files hold 10 bytes where nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shape {
    /// Directories `d0`, `d1`, …, each with files `f0`, `f1`, ….
    Wide {
        /// How many directories.
        dirs: u32,
        /// How many files each.
        files: u32,
    },
    /// A directory whose files `f0`, `f1`, … have no end.
    EndlessWidth,
    /// A directory `d` and a file `f` in every directory.
    EndlessDepth,
    /// Directories `d0`, `d2`, … and files `f1`, `f3`, … without end in every directory.
    Endless,
    /// Directories that are inside themselves: `/a/b/a` is `/a`, and `/self/self` is `/self`.
    Cycle,
    /// Names that are none or steer terminals, sizes of 2⁶³ − 1, holes everywhere, the root below
    /// itself, and types that differ between the directory and the file, or from one answer to
    /// the next.
    Crooked,
    /// A directory `d`; what is removed in it is still there.
    Undead,
}

/// The low bit says what a node of [`Shape::Endless`] is.
const FILE_BIT: u64 = 1;

/// What is at a place of [`Shape::Endless`].
fn mixed(dir: u64, position: u64) -> u64 {
    let mut z = dir.rotate_left(17) ^ position.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    // Neither 0 nor the root.
    (z | 4) & !FILE_BIT | (position & FILE_BIT)
}

fn numbered(letter: &str, number: u64, node: u64, listed: FileKind) -> Child {
    Child {
        name: format!("{letter}{number}").into_bytes(),
        node,
        listed,
    }
}

impl Shape {
    /// What is at a position of a directory.
    pub(super) fn child(&self, dir: u64, position: u64) -> Option<Child> {
        use FileKind::{Directory, Regular};
        match self {
            Shape::Wide { dirs, files } => {
                let (dirs, files) = (u64::from(*dirs), u64::from(*files));
                if dir == ROOT_ID {
                    return (position < dirs)
                        .then(|| numbered("d", position, 2 + position, Directory));
                }
                let nth = dir.checked_sub(2).filter(|nth| *nth < dirs)?;
                (position < files).then(|| {
                    let node = 2 + dirs + nth * files + position;
                    numbered("f", position, node, Regular)
                })
            }
            Shape::EndlessWidth => {
                let node = position.checked_add(2)?;
                (dir == ROOT_ID).then(|| numbered("f", position, node, Regular))
            }
            // Directories have odd nodes, each 2 more than the one above.
            Shape::EndlessDepth => {
                let (name, above, listed) = match position {
                    0 => (&b"d"[..], 2, Directory),
                    1 => (&b"f"[..], 3, Regular),
                    _ => return None,
                };
                let node = dir.checked_add(above)?;
                Some(Child {
                    name: name.to_vec(),
                    node,
                    listed,
                })
            }
            Shape::Endless => Some(match position & FILE_BIT {
                0 => numbered("d", position, mixed(dir, position), Directory),
                _ => numbered("f", position, mixed(dir, position), Regular),
            }),
            Shape::Cycle => fixed::child(fixed::CYCLE, dir, position),
            Shape::Crooked => fixed::child(fixed::CROOKED, dir, position),
            Shape::Undead => fixed::child(fixed::UNDEAD, dir, position),
        }
    }

    /// What is called `name` in a directory, and where it is there.
    pub(super) fn position(&self, dir: u64, name: &[u8]) -> Option<(u64, Child)> {
        let at = |position| {
            let child = self.child(dir, position)?;
            (child.name == name).then_some((position, child))
        };
        match self {
            Shape::Wide { .. } | Shape::EndlessWidth | Shape::Endless => {
                let digits = std::str::from_utf8(name.get(1..)?).ok()?;
                at(digits.parse().ok()?)
            }
            Shape::EndlessDepth | Shape::Cycle | Shape::Crooked | Shape::Undead => {
                (0..32).find_map(at)
            }
        }
    }

    pub(super) fn facts(&self, node: u64) -> Facts {
        let is_dir = match self {
            Shape::Wide { dirs, .. } => node < 2 + u64::from(*dirs),
            Shape::EndlessWidth => node == ROOT_ID,
            Shape::EndlessDepth => node % 2 == 1,
            Shape::Endless => node == ROOT_ID || node & FILE_BIT == 0,
            Shape::Cycle => return fixed::facts(fixed::CYCLE, node),
            Shape::Crooked => return fixed::facts(fixed::CROOKED, node),
            Shape::Undead => return fixed::facts(fixed::UNDEAD, node),
        };
        Facts::of(if is_dir {
            FileKind::Directory
        } else {
            FileKind::Regular
        })
    }

    /// Whether a node is something else each time.
    pub(super) fn changes(&self, node: u64) -> bool {
        *self == Shape::Crooked && node == fixed::CHANGING
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Shape::Wide { dirs, files } => {
                return write!(f, "wide?dirs={dirs}&files={files}");
            }
            Shape::EndlessWidth => "endless-width",
            Shape::EndlessDepth => "endless-depth",
            Shape::Endless => "endless",
            Shape::Cycle => "cycle",
            Shape::Crooked => "crooked",
            Shape::Undead => "undead",
        })
    }
}

impl FromStr for Shape {
    type Err = &'static str;

    /// Reads what [`Shape`] is displayed as.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wide = || {
            let (dirs, files) = text.strip_prefix("wide?dirs=")?.split_once("&files=")?;
            Some(Shape::Wide {
                dirs: dirs.parse().ok()?,
                files: files.parse().ok()?,
            })
        };
        Ok(match text {
            "endless-width" => Shape::EndlessWidth,
            "endless-depth" => Shape::EndlessDepth,
            "endless" => Shape::Endless,
            "cycle" => Shape::Cycle,
            "crooked" => Shape::Crooked,
            "undead" => Shape::Undead,
            _ => wide().ok_or(
                "the shape is wide?dirs=N&files=N, endless-width, endless-depth, endless, cycle, \
                 crooked or undead",
            )?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPES: [Shape; 7] = [
        Shape::Wide { dirs: 3, files: 4 },
        Shape::EndlessWidth,
        Shape::EndlessDepth,
        Shape::Endless,
        Shape::Cycle,
        Shape::Crooked,
        Shape::Undead,
    ];

    #[test]
    fn shapes_are_read_as_they_are_shown() {
        for shape in SHAPES {
            assert_eq!(shape.to_string().parse(), Ok(shape));
        }
        for text in ["", "wide", "wide?dirs=1", "wide?dirs=-1&files=1", "Cycle"] {
            assert!(text.parse::<Shape>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_listed_is_found_by_its_name() {
        for shape in SHAPES {
            let mut dirs = vec![ROOT_ID];
            for _ in 0..20 {
                let Some(dir) = dirs.pop() else { break };
                for position in 0..10 {
                    let Some(child) = shape.child(dir, position) else {
                        continue;
                    };
                    let found = shape.position(dir, &child.name).unwrap();
                    assert_eq!((found.0, found.1.node), (position, child.node), "{shape}");
                    let kind = shape.facts(child.node).kind;
                    assert!(kind == child.listed || shape == Shape::Crooked, "{shape}");
                    if kind == FileKind::Directory {
                        dirs.push(child.node);
                    }
                }
            }
        }
    }
}
