//! shell, doctor, completions, man

use crate::places::{Done, Place, everywhere, fusewire, names};
use std::io::Write;
use std::process::{Command, Stdio};

/// Runs a command with `script` for its standard input.
pub fn feed(mut command: Command, script: &str) -> Done {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut input = child.stdin.take().expect("it has one");
    // It may end before it has read all of it.
    let _ = input.write_all(script.as_bytes());
    drop(input);
    Done::of(child.wait_with_output().expect("it ends"))
}

fn shell(place: &Place, args: &[&str], script: &str) -> Done {
    let mut all = vec!["shell"];
    all.extend(args);
    feed(place.command(all), script)
}

#[test]
fn many_commands_run_over_one_connection() {
    everywhere(|place| {
        place.write("local.txt", "text");
        let done = shell(
            place,
            &[],
            "# a remark\n\
             mkdir -p a/b 'with space'\n\
             cd a\n\
             pwd\n\
             mv ../local.txt b\n\
             ls b\n\
             cat b/local.txt\n\
             cd b/..\n\
             pwd\n\
             cd\n\
             ls\n\
             exit\n\
             rm -r a\n",
        );
        assert_eq!(
            done.ok(),
            "/a\nlocal.txt\ntext/a\na\nwith space\n",
            "{place}"
        );
        assert_eq!(names(place.served.path()), ["a", "with space"]);
    });
}

#[test]
fn commands_without_a_path_are_about_the_current_directory_each_time() {
    let place = Place::dir();
    let script = "mkdir -p a/b c/d\nls\ncd a\nls\ncd ../c\nls\nfind\ntree\ndu --summarize\ndf\n";
    let text = shell(&place, &[], script).ok();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..6], ["a", "c", "b", "d", "/c", "/c/d"], "{text}");
    assert_eq!(lines[6..8], ["/c", "└── d"], "{text}");
    assert!(lines.iter().filter(|line| line.ends_with("/c")).count() >= 3);
}

#[test]
fn an_error_ends_a_shell_only_when_told() {
    let place = Place::dir();
    let script = "rm gone\nmkdir a\nnonsense\n'\ncd nowhere\ncd a\npwd\n";
    let done = shell(&place, &[], script);
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert_eq!(String::from_utf8_lossy(&done.out), "/a\n");
    assert_eq!(done.err.lines().count(), 4, "{}", done.err);
    assert!(done.err.lines().all(|line| line.starts_with("fusewire: ")));
    let done = shell(&place, &["-e"], "rm gone\nmkdir b\n");
    assert!(done.one_line(1).contains("gone"));
    assert_eq!(names(place.served.path()), ["a"]);
    // What is for outside of it.
    for wrong in ["shell", "bench core", "doctor"] {
        assert_eq!(shell(&place, &[], wrong).one_line(2).lines().count(), 1);
    }
}

#[test]
fn a_shell_copies_between_here_and_there() {
    let place = Place::dir();
    let here = place.here.path();
    std::fs::write(here.join("file"), "text").unwrap();
    let script = format!(
        "lcd {0}\nlpwd\nmkdir d\ncd d\nput file .\nget file back\n",
        here.display()
    );
    let done = shell(&place, &[], &script);
    assert_eq!(done.ok(), format!("{}\n", here.display()));
    assert_eq!(std::fs::read(place.at("d/file")).unwrap(), b"text");
    assert_eq!(names(here), ["back", "file"]);
}

#[test]
fn doctor_says_what_there_is_and_what_helps() {
    let mut command = fusewire();
    let done = Done::of(command.args(["doctor", "--json"]).output().unwrap());
    let mut checks = Vec::new();
    for line in done.ok().lines() {
        let finding: serde_json::Value = serde_json::from_str(line).unwrap();
        let state = finding["state"].as_str().unwrap();
        assert!(
            ["ok", "limited", "no", "unknown"].contains(&state),
            "{line}"
        );
        if state != "ok" {
            for text in ["consequence", "remedy"] {
                assert!(!finding[text].as_str().unwrap().is_empty(), "{line}");
            }
        }
        checks.push(finding["check"].as_str().unwrap().to_owned());
    }
    for check in [
        "embedded server",
        "user namespaces",
        "virtiofsd",
        "/dev/fuse",
        "open files",
    ] {
        assert!(
            checks.iter().any(|other| other == check),
            "{check} of {checks:?}"
        );
    }
    let text = Done::of(fusewire().arg("doctor").output().unwrap()).ok();
    assert!(text.contains("embedded server"));
    // A source that cannot be reached is the one thing that is asked for.
    let done = Done::of(
        fusewire()
            .args(["doctor", "--json", "-s", "dir:/no/such/place"])
            .output()
            .unwrap(),
    );
    assert_eq!(done.code, Some(1), "{}", done.err);
    let out = String::from_utf8(done.out).unwrap();
    assert!(out.lines().last().unwrap().contains("\"check\":\"source\""));
    everywhere(|place| {
        let out = place.run(["doctor", "--json"]).ok();
        assert!(
            out.lines().last().unwrap().contains("connected, FUSE 7."),
            "{place}"
        );
    });
}

#[test]
fn a_virtiofsd_that_is_none_is_told_from_one() {
    let done = fusewire()
        .env("FUSEWIRE_VIRTIOFSD", "/bin/false")
        .args(["doctor", "--json"])
        .output();
    let out = Done::of(done.unwrap()).ok();
    let line = out
        .lines()
        .find(|line| line.contains("\"virtiofsd\""))
        .unwrap();
    assert!(
        line.contains("\"no\"") && line.contains("/bin/false"),
        "{line}"
    );
}

#[test]
fn shells_and_readers_of_manuals_know_every_command() {
    let help = Done::of(fusewire().arg("--help").output().unwrap()).ok();
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.len() > 20, "{commands:?}");
    for shell in ["bash", "zsh", "fish"] {
        let script = Done::of(fusewire().args(["completions", shell]).output().unwrap()).ok();
        for command in &commands {
            assert!(script.contains(command), "{command} for {shell}");
        }
    }
    let page = Done::of(fusewire().arg("man").output().unwrap()).ok();
    assert!(page.contains(".TH"));
    let dir = tempfile::tempdir().unwrap();
    let mut command = fusewire();
    command.arg("man").arg("--dir").arg(dir.path());
    Done::of(command.output().unwrap()).ok();
    for command in commands {
        let page = dir.path().join(format!("fusewire-{command}.1"));
        assert!(page.is_file() || command == "help", "{command}");
    }
}
