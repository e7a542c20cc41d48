//! A progress bar, on a terminal only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes and files so far, of those found so far.
pub struct Progress {
    bar: Option<ProgressBar>,
    files: AtomicU64,
}

impl Progress {
    /// A bar on standard error, if that is a terminal and nothing else writes to it.
    pub fn new(alone: bool) -> Self {
        let bar = (alone && io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
            bar.set_style(style());
            bar
        });
        Progress {
            bar,
            files: AtomicU64::new(0),
        }
    }

    pub fn bar(&self) -> Option<ProgressBar> {
        self.bar.clone()
    }

    /// A file of that size will be copied.
    pub fn found(&self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.inc_length(bytes);
        }
    }

    /// So many bytes of a file have been copied.
    pub fn copied(&self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(bytes);
        }
    }

    /// A file is complete.
    pub fn complete(&self) {
        if let Some(bar) = &self.bar {
            let files = self.files.fetch_add(1, Ordering::Relaxed) + 1;
            bar.set_message(format!("{files} files"));
        }
    }

    /// Takes the bar off the terminal.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template(
        "{wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta} {msg}",
    )
    .unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_right() {
        // A wrong one would silently be replaced.
        let bar = ProgressBar::with_draw_target(Some(2), ProgressDrawTarget::hidden());
        bar.set_style(style());
        let progress = Progress {
            bar: Some(bar.clone()),
            files: AtomicU64::new(0),
        };
        progress.found(10);
        progress.copied(5);
        progress.complete();
        assert_eq!((bar.length(), bar.position()), (Some(12), 5));
        assert_eq!(bar.message(), "1 files");
        progress.finish();
        assert!(bar.is_finished());
    }
}
