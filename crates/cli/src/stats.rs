//! `--stats`

use crate::args::Format;
use fusewire::Stats;
use serde_json::json;
use std::fmt::Write as _;
use std::io::{self, Write as _};

/// Writes the counters to standard error.
pub fn print(stats: &Stats, format: Format) {
    let text = match format {
        Format::Text => text(stats),
        Format::Json => format!("{}\n", facts(stats)),
    };
    // There is nobody to tell that nobody can be told.
    let _ = io::stderr().write_all(text.as_bytes());
}

fn text(stats: &Stats) -> String {
    let engine = &stats.engine;
    let mut text = String::new();
    let mut add = |name: &str, value: String| {
        writeln!(text, "{name:<18} {value}").expect("a String takes everything");
    };
    for opcode in &engine.by_opcode {
        let failed = match opcode.errors {
            0 => String::new(),
            errors => format!(" ({errors} failed)"),
        };
        add(opcode.opcode, format!("{}{failed}", opcode.requests));
    }
    add("FORGET", engine.forgets.to_string());
    add("payload out", format!("{} bytes", engine.bytes_out));
    add("payload in", format!("{} bytes", engine.bytes_in));
    add(
        "waits",
        format!(
            "{} spun, {} of them with success; slept {} times",
            engine.spins, engine.spin_hits, engine.sleeps
        ),
    );
    add(
        "trouble",
        format!(
            "{} timeouts, {} late replies, ring full {} times",
            engine.timeouts, engine.late_replies, engine.ring_full
        ),
    );
    add(
        "held now",
        format!(
            "{} nodes, {} names, {} handles, {} slots, {} frames",
            stats.live_nodes,
            stats.cached_names,
            stats.open_handles,
            engine.slots_busy,
            stats.frames_used
        ),
    );
    text
}

fn facts(stats: &Stats) -> serde_json::Value {
    let engine = &stats.engine;
    let opcodes: serde_json::Map<_, _> = engine
        .by_opcode
        .iter()
        .map(|opcode| {
            let counts = json!({ "requests": opcode.requests, "errors": opcode.errors });
            (opcode.opcode.to_owned(), counts)
        })
        .collect();
    json!({
        "by_opcode": opcodes,
        "forgets": engine.forgets,
        "bytes_out": engine.bytes_out,
        "bytes_in": engine.bytes_in,
        "spins": engine.spins,
        "spin_hits": engine.spin_hits,
        "sleeps": engine.sleeps,
        "timeouts": engine.timeouts,
        "late_replies": engine.late_replies,
        "ring_full": engine.ring_full,
        "orphans": engine.orphans,
        "slots_busy": engine.slots_busy,
        "live_nodes": stats.live_nodes,
        "cached_names": stats.cached_names,
        "open_handles": stats.open_handles,
        "frames_used": stats.frames_used,
    })
}
