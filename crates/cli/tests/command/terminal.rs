//! What is different on a terminal. `script` gives the command one.

use crate::places::{Place, write};
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

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

/// A shell on a terminal: its keys and what it shows.
struct Session {
    child: Child,
    keys: ChildStdin,
    screen: ChildStdout,
    shown: Vec<u8>,
    /// How much of it was waited for.
    seen: usize,
}

impl Session {
    fn start(mut shell: Command) -> Self {
        let mut child = shell
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script");
        Session {
            keys: child.stdin.take().unwrap(),
            screen: child.stdout.take().unwrap(),
            child,
            shown: Vec::new(),
            seen: 0,
        }
    }

    /// Waits for what is shown after all that was waited for before.
    #[track_caller]
    fn wait(&mut self, text: &[u8]) -> &mut Self {
        let mut chunk = [0; 4096];
        loop {
            let new = &self.shown[self.seen..];
            if let Some(at) = new.windows(text.len()).position(|w| w == text) {
                self.seen += at + text.len();
                return self;
            }
            // It may have come in part.
            let last = (self.shown.len() + 1).saturating_sub(text.len());
            self.seen = self.seen.max(last);
            let got = self.screen.read(&mut chunk).unwrap();
            assert_ne!(got, 0, "no {text:?}: {}", self.shown());
            self.shown.extend_from_slice(&chunk[..got]);
        }
    }

    fn press(&mut self, keys: &[u8]) -> &mut Self {
        self.keys.write_all(keys).unwrap();
        self
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown).into_owned()
    }

    /// Waits for the end; returns the exit status and all that was shown.
    fn end(mut self) -> (Option<i32>, String) {
        self.screen.read_to_end(&mut self.shown).unwrap();
        drop(self.keys);
        let status = self.child.wait().unwrap();
        (
            status.code(),
            String::from_utf8_lossy(&self.shown).into_owned(),
        )
    }
}

/// Types each line when there is a prompt; returns what is shown.
fn type_into_shell(shell: Command, lines: &[&str]) -> String {
    let mut session = Session::start(shell);
    for line in lines {
        session.wait(PROMPT).press(line.as_bytes());
    }
    let (code, shown) = session.end();
    assert_eq!(code, Some(0), "{shown:?}");
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

#[test]
fn in_a_shell_ctrl_c_ends_the_command_and_nothing_else() {
    let place = Place::dir();
    let shell = || terminal(&place, 80, "-s synthetic:endless shell --no-history");
    let mut session = Session::start(shell());
    for _ in 0..3 {
        // The terminal is as the command finds it when something is shown.
        session.wait(PROMPT).press(b"find /\r").wait(b"\r\n/");
        session.press(b"\x03").wait(b"find: interrupted");
    }
    // At the prompt it drops the line; a late one is for nobody.
    session.wait(PROMPT).press(b"ls gone\x03");
    session.wait(PROMPT).press(b"pwd\r").wait(b"\r\n/\r\n");
    session.wait(PROMPT).press(b"exit\r");
    let (code, shown) = session.end();
    assert_eq!(code, Some(0), "{shown:?}");
    assert!(!shown.contains("cannot stat"), "{shown:?}");
}

#[test]
fn what_is_typed_while_a_command_runs_and_what_is_pasted_is_not_lost() {
    let place = Place::dir();
    let args = "-s 'synthetic:wide?dirs=300&files=300' shell --no-history";
    let mut session = Session::start(terminal(&place, 80, args));
    session.wait(PROMPT).press(b"find /\r").wait(b"\r\n/");
    // It waits for its output to be read.
    session.press(b"cd d7\rpwd\rhel");
    session.wait(b"\nfusewire:/> cd d7\r\nfusewire:/d7> pwd\r\n/d7\r\n");
    session.wait(b"fusewire:/d7> ").wait(b"hel").press(b"p\r");
    session.wait(b"\nxattr ").wait(b"fusewire:/d7> ");
    session.press(b"\x1b[200~cd\rcd d8\r\npwd\x1b[201~\r");
    session.wait(b"\nfusewire:/> cd d8\r\nfusewire:/d8> pwd\r\n/d8\r\n");
    // What follows an interrupted command is dropped, and what was pasted with it.
    session.wait(b"fusewire:/d8> ");
    session.press(b"\x1b[200~cd\rfind /\rexit 3\x1b[201~\r");
    session.wait(b"fusewire:/> find /\r\n/").press(b"\x03");
    session.wait(b"find: interrupted").wait(PROMPT);
    session.press(b"exit\r");
    let (code, shown) = session.end();
    let end: String = shown.chars().rev().take(500).collect();
    assert_eq!(code, Some(0), "{}", end.chars().rev().collect::<String>());
}

#[test]
fn a_termination_ends_a_shell_at_its_prompt_and_in_a_command() {
    let place = Place::dir();
    let shell = || terminal(&place, 80, "-s synthetic:endless shell --no-history");
    for (line, sign) in [("", PROMPT), ("find /\r", b"\r\n/")] {
        let mut session = Session::start(shell());
        session.wait(PROMPT).press(line.as_bytes());
        if !line.is_empty() {
            session.wait(sign);
        }
        let script = session.child.id();
        let children = format!("/proc/{script}/task/{script}/children");
        let pid = fs::read_to_string(children).unwrap();
        let kill = Command::new("kill")
            .args(["-s", "TERM", pid.trim()])
            .status();
        assert!(kill.unwrap().success());
        let (code, shown) = session.end();
        assert_eq!(code, Some(143), "{shown:?}");
    }
}

#[test]
fn a_byte_that_is_no_text_drops_a_line_and_not_the_shell() {
    let place = Place::dir();
    place.write("precious", "");
    let mut session = Session::start(terminal(&place, 80, "shell --no-history"));
    session.wait(PROMPT).press(b"ls \xff").wait(b"press Enter");
    // What comes behind it is no command.
    session.press(b"rm precious\xfe").wait(b"press Enter");
    session.press(b"rm precious\r");
    session.wait(PROMPT).press(b"rm \xff").wait(b"press Enter");
    session
        .press(b"\x03")
        .wait(PROMPT)
        .press(b"ls\r")
        .wait(b"\nprecious");
    session.wait(PROMPT).press("touch f\u{fc}r\r".as_bytes());
    session.wait(PROMPT).press(b"exit\r");
    let (code, shown) = session.end();
    assert_eq!(code, Some(0), "{shown:?}");
    let said = "fusewire: shell: that was no UTF-8";
    assert_eq!(shown.matches(said).count(), 2, "{shown:?}");
    assert_eq!(
        crate::places::names(place.served.path()),
        ["f\u{fc}r", "precious"]
    );
}
