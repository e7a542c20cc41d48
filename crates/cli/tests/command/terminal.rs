//! What is different on a terminal. `script` gives the command one.

use crate::places::{Place, write};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

/// What the command writes to a terminal that is so wide.
fn on_terminal(place: &Place, columns: u32, args: &str) -> String {
    let template = place.command::<&str>([]);
    let program = env!("CARGO_BIN_EXE_fusewire");
    let mut command = Command::new("script");
    for (key, value) in template.get_envs() {
        if let Some(value) = value {
            command.env(key, value);
        }
    }
    let output = command
        .env("TERM", "xterm")
        .args(["-q", "-e", "-c"])
        .arg(format!(
            "stty cols {columns} rows 24; exec '{program}' {args}"
        ))
        .arg("/dev/null")
        .stdin(Stdio::null())
        .output()
        .expect("script");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout)
        .unwrap()
        .replace("\r\n", "\n")
}

#[test]
fn names_are_quoted_and_in_columns() {
    let place = Place::dir();
    for name in [&b"a\x1b[31m"[..], b"b c", b"plain", b"\xff"] {
        write(&place.at(OsStr::from_bytes(name)), "");
    }
    assert_eq!(
        on_terminal(&place, 40, "ls"),
        "'a'$'\\033''[31m'  'b c'  plain  $'\\377'\n"
    );
    let long = on_terminal(&place, 40, "ls -l");
    assert!(long.contains("'a'$'\\033''[31m'\n"), "{long}");
    assert!(!long.contains('\x1b'), "{long}");
}

#[test]
fn names_in_trees_are_quoted() {
    let place = Place::dir();
    write(&place.at(OsStr::from_bytes(b"d\x1b[2J/a b")), "");
    let directory = r"'d'$'\033''[2J'";
    assert_eq!(
        on_terminal(&place, 80, "tree /"),
        format!("/\n└── {directory}\n    └── 'a b'\n\n1 directory, 1 file\n")
    );
    let path = r"'/d'$'\033''[2J";
    assert_eq!(
        on_terminal(&place, 80, "find"),
        format!("/\n{path}'\n{path}/a b'\n")
    );
    let sizes = on_terminal(&place, 80, "du --apparent-size");
    assert_eq!(sizes, format!("0\t{path}'\n0\t/\n"));
}

#[test]
fn a_copy_shows_a_bar_on_a_terminal_only() {
    let place = Place::dir();
    for n in 0..50 {
        place.write(&format!("t/{n}"), vec![1; 100_000]);
    }
    let target = place.here.path().join("one");
    let shown = on_terminal(&place, 100, &format!("get -r /t {}", target.display()));
    // How often it is drawn depends on the time; that it is drawn and taken off again does not.
    assert!(shown.contains("/97.66 KiB"), "{shown:?}");
    assert!(shown.ends_with("\x1b[2K"), "{shown:?}");
    let target = place.here.path().join("two");
    place
        .run([
            OsStr::new("get"),
            "-r".as_ref(),
            "/t".as_ref(),
            target.as_ref(),
        ])
        .ok();
}
