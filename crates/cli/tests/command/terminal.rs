//! What is different on a terminal. `script` gives the command one.

use crate::places::{Place, write};
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

/// The command on a terminal that is so wide.
fn terminal(place: &Place, columns: u32, args: &str) -> Command {
    let template = place.command::<&str>([]);
    let program = env!("CARGO_BIN_EXE_fusewire");
    let mut command = Command::new("script");
    for (key, value) in template.get_envs() {
        if let Some(value) = value {
            command.env(key, value);
        }
    }
    command
        .env("TERM", "xterm")
        .args(["-q", "-e", "-c"])
        .arg(format!(
            "stty cols {columns} rows 24; exec '{program}' {args}"
        ))
        .arg("/dev/null");
    command
}

/// What the command writes to a terminal that is so wide.
fn on_terminal(place: &Place, columns: u32, args: &str) -> String {
    let mut command = terminal(place, columns, args);
    let output = command.stdin(Stdio::null()).output().expect("script");
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

/// Types each line when there is a prompt; returns what is shown.
fn type_into_shell(mut shell: Command, lines: &[&str]) -> String {
    let mut child = shell
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script");
    let mut keys = child.stdin.take().unwrap();
    let mut screen = child.stdout.take().unwrap();
    let (mut shown, mut chunk) = (Vec::new(), [0; 4096]);
    for line in lines {
        let before = shown.len();
        while !shown[before..].windows(PROMPT.len()).any(|w| w == PROMPT) {
            let got = screen.read(&mut chunk).unwrap();
            assert_ne!(got, 0, "no prompt: {}", String::from_utf8_lossy(&shown));
            shown.extend_from_slice(&chunk[..got]);
        }
        keys.write_all(line.as_bytes()).unwrap();
    }
    screen.read_to_end(&mut shown).unwrap();
    drop(keys);
    let status = child.wait().unwrap();
    let shown = String::from_utf8_lossy(&shown).into_owned();
    assert!(status.success(), "{shown:?}");
    shown
}

/// The prompt in the root, and where the cursor goes then.
const PROMPT: &[u8] = b"fusewire:/> \r\x1b[12C";

#[test]
fn a_shell_on_a_terminal_has_a_prompt_and_a_history() {
    let place = Place::dir();
    place.write("a long name", "");
    let state = place.here.path().join("state");
    let shell = |args: &str, lines: &[&str]| {
        let mut command = terminal(&place, 80, &format!("shell {args}"));
        command.env("XDG_STATE_HOME", &state);
        type_into_shell(command, lines)
    };
    let shown = shell("--no-history", &["ls\r", "rm gone\r", "exit\r"]);
    assert!(shown.contains("\n'a long name'\r\n"), "{shown:?}");
    // What failed was said; the shell itself did not fail.
    assert!(shown.contains("cannot stat /gone"), "{shown:?}");
    assert!(!state.exists());
    // Tab completes, Ctrl-C drops a line, Ctrl-D ends it all.
    let shown = shell("", &["readl\tq\u{3}", "stat a\t\r", " ls\r", "\u{4}"]);
    assert!(shown.contains("File: '/a long name'"), "{shown:?}");
    let history = fs::read_to_string(state.join("fusewire/history")).unwrap();
    let kept: Vec<&str> = history.lines().skip(1).map(str::trim_end).collect();
    assert_eq!(kept, ["stat 'a long name'"]);
}
