//! `fusewire xattr`

use crate::context::Context;
use crate::paths;
use crate::report::{Problem, shown};
use crate::show::json::{self, Object};
use crate::show::output::Output;
use clap::{Args, Subcommand};
use fusewire::SetXattr;
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Work with extended attributes
///
/// Works with extended attributes. Symbolic links are not followed.
#[derive(Args, Debug)]
#[command(arg_required_else_help = false)]
pub struct Xattr {
    #[command(subcommand)]
    pub action: Action,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Show the names of the attributes, or the values, too, quoted where they do not print
    List {
        /// Show the values, too
        #[arg(short, long)]
        values: bool,
        #[arg(long, help = json::help("path, name, and with -v value"))]
        json: bool,
        /// Paths in the source
        #[arg(required = true, value_parser = crate::args::path())]
        paths: Vec<PathBuf>,
    },
    /// Write the value of an attribute to standard output: quoted on a terminal, else as it is
    Get {
        #[arg(long, help = json::help("path, name, value"))]
        json: bool,
        /// Name, such as user.comment
        name: OsString,
        /// Path in the source
        #[arg(value_parser = crate::args::path())]
        path: PathBuf,
    },
    /// Set an attribute
    Set {
        /// Only if it is not there
        #[arg(long, conflicts_with = "replace")]
        create: bool,
        /// Only if it is there
        #[arg(long)]
        replace: bool,
        /// Name, such as user.comment
        name: OsString,
        /// Value
        value: OsString,
        /// Paths in the source
        #[arg(required = true, value_parser = crate::args::path())]
        paths: Vec<PathBuf>,
    },
    /// Remove an attribute
    Remove {
        /// Name, such as user.comment
        name: OsString,
        /// Paths in the source
        #[arg(required = true, value_parser = crate::args::path())]
        paths: Vec<PathBuf>,
    },
}

/// Runs what was asked for.
///
/// # Errors
/// When the output cannot be written.
pub fn run(args: &Xattr, context: &Context<'_>) -> io::Result<()> {
    let client = context.client;
    match &args.action {
        Action::List {
            values,
            json,
            paths,
        } => {
            let mut out = Output::new();
            for path in paths {
                if context.report.stopped() {
                    break;
                }
                let show = Show {
                    heading: paths.len() > 1 && !json,
                    values: *values,
                    json: *json,
                };
                if let Err(problem) = list(context, path, &show, &mut out)? {
                    // What was listed so far stands in front of it.
                    out.flush()?;
                    context.report.problem(problem);
                }
            }
            out.flush()
        }
        Action::Get { json, name, path } => {
            let value =
                paths::check(path).and_then(|path| client.get_xattr(path, name).map_err(problem));
            match value {
                Err(problem) => context.report.problem(problem),
                Ok(None) => {
                    let reason = format!("has no attribute {}", shown(Path::new(name)));
                    context.report.problem(Problem::about(path, reason));
                }
                Ok(Some(value)) => {
                    let mut out = Output::new();
                    if *json {
                        object(path, name).name("value", &value).write(&mut out)?;
                    } else {
                        out.name(&value)?;
                        // What is a value elsewhere is a line there.
                        if out.is_terminal() {
                            out.end_line()?;
                        }
                    }
                    out.flush()?;
                }
            }
            Ok(())
        }
        Action::Set {
            create,
            replace,
            name,
            value,
            paths,
        } => {
            let how = match (create, replace) {
                (true, _) => SetXattr::Create,
                (_, true) => SetXattr::Replace,
                _ => SetXattr::Any,
            };
            crate::operands::each(paths, context, |path| {
                client
                    .set_xattr(path, name, value.as_bytes(), how)
                    .map_err(problem)
            });
            Ok(())
        }
        Action::Remove { name, paths } => {
            crate::operands::each(paths, context, |path| {
                client.remove_xattr(path, name).map_err(problem)
            });
            Ok(())
        }
    }
}

fn object(path: &Path, name: &OsStr) -> Object {
    Object::default()
        .name("path", path.as_os_str().as_bytes())
        .name("name", name.as_bytes())
}

/// What the client says; and what to do where there are no attributes at all.
fn problem(error: fusewire::Error) -> Problem {
    if error.errno() != Errno::OPNOTSUPP.raw_os_error() {
        return error.into();
    }
    Problem::Line(format!(
        "cannot {} {}: {}; a virtiofsd has them when it is started with --xattr (the one in C with \
         -o xattr), if its file system does",
        error.operation(),
        shown(error.path()),
        crate::report::reason(error.errno())
    ))
}

/// How attributes are listed.
struct Show {
    /// The path in front of them.
    heading: bool,
    values: bool,
    json: bool,
}

/// The outer error is the output's, the inner one the file's.
fn list(
    context: &Context<'_>,
    path: &Path,
    show: &Show,
    out: &mut Output,
) -> io::Result<Result<(), Problem>> {
    let client = context.client;
    let names = paths::check(path).and_then(|path| client.list_xattr(path).map_err(problem));
    let names = match names {
        Ok(names) => names,
        Err(problem) => return Ok(Err(problem)),
    };
    if show.heading {
        out.name(path.as_os_str().as_bytes())?;
        out.write_all(b":")?;
        out.end_line()?;
    }
    for name in names {
        let value = match show
            .values
            .then(|| client.get_xattr(path, &name))
            .transpose()
        {
            Ok(value) => value,
            Err(error) => return Ok(Err(problem(error))),
        };
        // One that has gone since the names were listed has no value.
        let value = value.flatten();
        if show.json {
            let object = object(path, &name);
            let object = match &value {
                Some(value) => object.name("value", value),
                None => object,
            };
            object.write(out)?;
            continue;
        }
        out.name(name.as_bytes())?;
        if let Some(value) = value {
            out.write_all(b"=")?;
            let shown = crate::show::quote::for_terminal(&value);
            out.write_all(shown.as_bytes())?;
        }
        out.end_line()?;
    }
    Ok(Ok(()))
}
