//! `fusewire info`

use crate::args::Info;
use crate::context::Context;
use crate::session::Session;
use fusewire::{Negotiated, Statfs};
use serde_json::{Value, json};
use std::io::{self, Write};

/// Shows what was agreed on.
///
/// # Errors
/// When the output cannot be written.
pub fn run(args: &Info, session: &Session, context: &Context<'_>) -> io::Result<()> {
    let statfs = match context.client.statfs("/") {
        Ok(statfs) => Some(statfs),
        Err(error) => {
            context.report.problem(error.into());
            None
        }
    };
    let facts = facts(session, &session.client.negotiated(), statfs.as_ref());
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{facts}")?;
    } else {
        write!(out, "{}", text(&facts))?;
    }
    out.flush()
}

fn facts(session: &Session, agreed: &Negotiated, statfs: Option<&Statfs>) -> Value {
    let flags: Vec<&str> = agreed.flags.iter_names().map(|(name, _)| name).collect();
    let mut facts = json!({
        "source": session.source.to_string(),
        "daemon": match &session.daemon {
            Some(daemon) => json!({
                "peer": daemon.peer,
                "pid": daemon.pid,
                "virtio_features": daemon.features,
                "queue_size": daemon.queue_size,
                "max_mem_slots": daemon.max_mem_slots,
            }),
            None => json!({ "peer": "embedded server" }),
        },
        "protocol": {
            "version": format!("7.{}", agreed.minor),
            "flags": flags,
            "max_write_bytes": agreed.max_write_bytes,
            "max_readahead_bytes": agreed.max_readahead_bytes,
            "max_pages": agreed.max_pages,
            "max_background": agreed.max_background,
            "congestion_threshold": agreed.congestion_threshold,
            "time_gran_ns": agreed.time_gran_ns,
            "request_timeout_secs": agreed.request_timeout_secs,
        },
        "transport": {
            "max_in_flight": session.limits.max_in_flight,
            "max_segments": session.limits.max_segments,
            "max_payload_bytes": session.limits.max_payload_bytes,
            "interrupts": session.limits.interrupts,
            "sync_release": session.limits.sync_release,
        },
    });
    if let Some(statfs) = statfs {
        facts["file_system"] = json!({
            "fragment_bytes": statfs.fragment_bytes,
            "block_bytes": statfs.block_bytes,
            "blocks": statfs.blocks,
            "blocks_free": statfs.blocks_free,
            "blocks_available": statfs.blocks_available,
            "files": statfs.files,
            "files_free": statfs.files_free,
            "name_max_bytes": statfs.name_max_bytes,
        });
    }
    facts
}

/// In the order in which people read them.
const GROUPS: [&str; 5] = ["source", "daemon", "protocol", "transport", "file_system"];

/// The same for people: a heading for each group, a line for each fact.
fn text(facts: &Value) -> String {
    let mut text = String::new();
    for (key, value) in GROUPS.iter().filter_map(|key| Some((key, facts.get(key)?))) {
        match value {
            Value::Object(group) => {
                text.push_str(&format!("{}\n", words(key)));
                for (key, value) in group.iter().filter(|(_, value)| !value.is_null()) {
                    text.push_str(&format!("  {:<22} {}\n", words(key), plain(value)));
                }
            }
            value => text.push_str(&format!("{:<24} {}\n", words(key), plain(value))),
        }
    }
    text
}

fn words(key: &str) -> String {
    key.replace('_', " ")
}

fn plain(value: &Value) -> String {
    let raw = match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(" "),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        other => other.to_string(),
    };
    raw.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_shown_in_groups_without_what_is_unknown() {
        let facts = json!({
            "source": "mem:\u{1b}",
            "protocol": { "max_write_bytes": 4096, "flags": ["A", "B"], "gone": null, "yes": true },
        });
        assert_eq!(
            text(&facts),
            "source                   mem: \n\
             protocol\n  \
               flags                  A B\n  \
               max write bytes        4096\n  \
               yes                    yes\n"
        );
    }
}
