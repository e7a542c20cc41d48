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
            &["--no-history"],
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
    // What is for outside of it, and for all of it.
    for (wrong, what) in [
        ("shell", "this is one"),
        ("bench core", "outside"),
        ("doctor", "outside"),
        ("ls -s mem:", "--source is for all of a shell"),
        ("ln -s --source mem: a b", "--source is for all of a shell"),
        ("ls --stats", "--stats is for all of a shell"),
        ("ls 'a", "a quote is not closed"),
        ("cd a b", "one operand"),
        ("exit nine", "no status"),
        ("exit 256", "no status"),
        ("ls ; pwd", "mean nothing here"),
        ("ls > out", "mean nothing here"),
    ] {
        let done = shell(&place, &[], wrong);
        assert!(done.one_line(2).contains(what), "{wrong}: {}", done.err);
    }
}

#[test]
fn names_of_any_bytes_can_be_said_as_they_are_shown() {
    let place = Place::dir();
    let script =
        b"touch $'\\377' $'a\\nb' 'it'\\''s' \xfe *\nfind --name '*[!s]' --json\nfind $'/a\\nb'\n";
    let mut command = place.command(["shell"]);
    let input = place.here.path().join("script");
    std::fs::write(&input, script).unwrap();
    command.stdin(std::fs::File::open(&input).unwrap());
    let text = Done::of(command.output().unwrap()).ok();
    assert!(text.contains("\"path_hex\":\"2fff\""), "{text}");
    assert!(text.contains("\"path_hex\":\"2ffe\""), "{text}");
    assert!(text.contains("\"path\":\"/*\""), "{text}");
    assert!(text.ends_with("/a\nb\n"), "{text}");
    assert!(place.at("it's").exists());
}

#[test]
fn a_shell_exits_with_the_status_that_is_asked_for() {
    let place = Place::dir();
    let done = shell(&place, &[], "exit 3\npwd\n");
    assert_eq!((done.code, done.out.len()), (Some(3), 0), "{}", done.err);
    let done = shell(&place, &[], "rm gone\nexit 0\n");
    assert_eq!(done.code, Some(0), "{}", done.err);
    let done = shell(&place, &[], "rm gone\nexit\n");
    assert_eq!(done.code, Some(1), "{}", done.err);
}

#[test]
fn completions_that_nobody_reads_end_quietly() {
    let mut child = fusewire()
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let done = Done::of(child.wait_with_output().unwrap());
    assert_eq!((done.code, done.err.as_str()), (Some(141), ""));
}

#[test]
fn a_command_in_a_shell_may_be_on_behalf_of_another() {
    let place = Place::dir();
    place.write("secret", "text");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(place.at("secret"), mode).unwrap();
    let done = shell(&place, &[], "cat --as 4000 secret\ncat secret\n");
    assert!(
        done.one_line(1).contains("Permission denied"),
        "{}",
        done.err
    );
    assert_eq!(done.out, b"text");
}

#[test]
fn new_files_get_what_the_umask_leaves_them_and_copies_what_they_had() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    everywhere(|place| {
        let here = place.here.path().join("tree");
        crate::places::write(&here.join("file"), "text");
        for (path, mode) in [(here.join("file"), 0o666), (here.clone(), 0o777)] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        }
        let mode = |path: &str| std::fs::metadata(place.at(path)).unwrap().mode() & 0o777;
        let script = format!("mkdir dir\ntouch file\nput -r '{}' copy\n", here.display());
        let mut command = place.command(["--umask", "027", "shell"]);
        command.env_remove("XDG_STATE_HOME");
        feed(command, &script).ok();
        let modes = ["dir", "file", "copy", "copy/file"].map(mode);
        assert_eq!(modes, [0o750, 0o640, 0o777, 0o666], "{place}");
    });
    let wrong = Place::dir().run(["--umask", "8", "ls"]);
    assert!(wrong.one_line(2).contains("octal digits"), "{}", wrong.err);
}

#[test]
fn help_names_every_command_of_a_shell() {
    let place = Place::dir();
    let text = shell(&place, &[], "help\n").ok();
    for word in ["cd", "pwd", "lcd", "lpwd", "help", "exit", "ls", "xattr"] {
        assert!(
            text.lines()
                .any(|line| line.starts_with(&format!("{word} ")))
        );
    }
    assert!(!text.contains("\nbench") && !text.contains("\nshell"));
    let text = shell(&place, &[], "help mv\n").ok();
    assert!(text.contains("--no-clobber"), "{text}");
    // What is for all of a shell is not for its lines.
    for line in ["help mv\n", "help ln\n", "du --help\n"] {
        let text = shell(&place, &[], line).ok();
        assert!(
            text.contains("--as") && !text.contains("--source"),
            "{text}"
        );
        assert!(!text.contains("--stats"), "{text}");
    }
    let done = shell(&place, &[], "lst\n");
    assert!(done.one_line(2).ends_with("; see help"), "{}", done.err);
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
fn help_says_more_of_a_command_than_the_list_of_commands() {
    let help = |args: &[&str]| Done::of(fusewire().args(args).output().unwrap()).ok();
    let list = help(&["--help"]);
    for (command, text) in [
        ("get", "A file appears under its name"),
        ("mv", "What has a name already is replaced"),
        ("shell", "Words are quoted as in a shell"),
    ] {
        assert!(help(&[command, "--help"]).contains(text), "{command}");
        assert!(!list.contains(text), "{command}");
    }
}

#[test]
fn completions_know_a_command_behind_options_with_values() {
    let script = Done::of(fusewire().args(["completions", "bash"]).output().unwrap()).ok();
    let complete = |words: &str| {
        let ask = "COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
                   _fusewire fusewire \"${@: -1}\" \"${@: -2:1}\"; echo \"${COMPREPLY[*]}\"";
        let mut bash = Command::new("bash");
        bash.args(["-c", &format!("{script}\n{ask}"), "bash"]);
        bash.args(words.split(' '));
        Done::of(bash.output().unwrap()).ok()
    };
    for (words, found) in [
        ("fusewire readl", "readlink\n"),
        ("fusewire --as root readl", "readlink\n"),
        // It is a user and a command.
        ("fusewire --as man readl", "readlink\n"),
        ("fusewire -s mem --umask 022 --stats readl", "readlink\n"),
        ("fusewire --as man ls --rec", "--recursive\n"),
        ("fusewire du -s ls --app", "--apparent-size\n"),
    ] {
        assert_eq!(complete(words), found, "{words}");
    }
    let script = Done::of(fusewire().args(["completions", "fish"]).output().unwrap()).ok();
    assert!(script.contains(" s/source= trace=? as= umask= stats=? "));
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
    for heading in [
        "SOURCES",
        "\"THE SHELL\"",
        "ENVIRONMENT",
        "\"EXIT STATUS\"",
        "EXAMPLES",
    ] {
        assert!(page.contains(&format!(".SH {heading}\n")), "{heading}");
    }
    assert!(page.contains("Words are quoted as in a shell"));
    let dir = tempfile::tempdir().unwrap();
    let mut command = fusewire();
    command.arg("man").arg("--dir").arg(dir.path());
    Done::of(command.output().unwrap()).ok();
    for command in commands {
        let page = dir.path().join(format!("fusewire-{command}.1"));
        assert!(page.is_file() || command == "help", "{command}");
    }
}
