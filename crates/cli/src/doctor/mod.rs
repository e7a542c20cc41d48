//! `fusewire doctor`

mod daemons;
mod kernel;
mod limits;
mod process;

use crate::args::Common;
use crate::report;
use crate::session::Connect;
use crate::show::json::Object;
use crate::show::output::Output;
use clap::Args;
use std::io::{self, Write};

/// Say what this machine allows, and what to do about the rest
///
/// Says what this machine and container allow, what follows from what they do not, and what can be
/// done about it. With a source, connects to it, too.
#[derive(Args, Debug)]
pub struct Doctor {
    /// Write one JSON object a line: check, state (ok, limited, no or unknown), finding, and where
    /// something is missing, consequence and remedy
    #[arg(long)]
    pub json: bool,
    /// Try one thing that changes the process which does it
    #[arg(long, hide = true)]
    pub probe: Option<process::Probe>,
}

/// How it is with something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Ok,
    /// It is there, but not as much as could be used.
    Limited,
    No,
    /// It could not be found out.
    Unknown,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Limited => "limited",
            State::No => "no",
            State::Unknown => "unknown",
        }
    }
}

/// What was found.
#[derive(Debug)]
pub struct Finding {
    pub check: &'static str,
    pub state: State,
    pub found: String,
    /// What does not work, and what helps. Not looked at when all is well.
    pub consequence: &'static str,
    pub remedy: &'static str,
    /// Whether nothing works without.
    pub vital: bool,
}

impl Finding {
    fn new(check: &'static str, state: State, found: impl Into<String>) -> Self {
        Finding {
            check,
            state,
            found: found.into(),
            consequence: "",
            remedy: "",
            vital: false,
        }
    }

    /// What follows if it is not well, and what helps.
    fn or(mut self, consequence: &'static str, remedy: &'static str) -> Self {
        self.consequence = consequence;
        self.remedy = remedy;
        self
    }

    fn vital(mut self) -> Self {
        self.vital = true;
        self
    }
}

/// Runs all checks; returns the exit status: 0 unless nothing can work here.
pub fn run(args: &Doctor, common: &Common) -> i32 {
    if let Some(probe) = args.probe {
        return process::attempt(probe);
    }
    let mut findings = vec![
        process::embedded_server(),
        process::sealed_memory(),
        process::process_descriptors(),
        process::proc_mounted(),
        limits::descriptors(),
        limits::cpus(),
        limits::cpu_quota(),
        limits::messages(),
        kernel::huge_pages(),
        kernel::seccomp_notification(),
        kernel::ptrace(),
        process::user_namespaces(),
        kernel::fuse_device(),
        daemons::fusermount(),
        daemons::virtiofsd(),
        daemons::id_mapping(),
    ];
    if let Some(source) = &common.source {
        findings.push(match Connect::new(common, common.umask).open(source) {
            Ok(session) => {
                let agreed = session.client.negotiated();
                let found = format!(
                    "connected, FUSE 7.{}, writes of up to {} bytes",
                    agreed.minor, agreed.max_write_bytes
                );
                session.close();
                Finding::new("source", State::Ok, found)
            }
            Err(why) => Finding::new("source", State::No, why)
                .or(
                    "no command works on this source",
                    "see what the daemon itself says, or try -s dir:PATH, which needs none",
                )
                .vital(),
        });
    }
    match print(args, &findings) {
        Ok(()) => {
            let broken = |finding: &Finding| finding.vital && finding.state == State::No;
            i32::from(findings.iter().any(broken))
        }
        Err(error) => {
            report::line(Some("doctor"), &format!("cannot write the output: {error}"));
            1
        }
    }
}

fn print(args: &Doctor, findings: &[Finding]) -> io::Result<()> {
    let mut out = Output::new();
    let width = findings.iter().map(|f| f.check.len()).max().unwrap_or(0);
    for finding in findings {
        let well = finding.state == State::Ok;
        if args.json {
            let mut object = Object::default()
                .put("check", finding.check)
                .put("state", finding.state.name())
                .put("finding", finding.found.as_str());
            if !well {
                object = object
                    .put("consequence", finding.consequence)
                    .put("remedy", finding.remedy);
            }
            object.write(&mut out)?;
            continue;
        }
        write!(
            out,
            "{:<7}  {:width$}  ",
            finding.state.name(),
            finding.check
        )?;
        out.name(finding.found.as_bytes())?;
        writeln!(out)?;
        if !well {
            for (what, text) in [("so", finding.consequence), ("try", finding.remedy)] {
                writeln!(out, "{:<7}  {:width$}  {what}: {text}", "", "")?;
            }
        }
    }
    out.flush()
}

/// A file of the kernel's, without the newline at its end.
fn read(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}
