//! The API documentation, with every warning an error.

use crate::process::{Result, run};
use crate::workspace::cargo;

pub(crate) fn build() -> Result {
    run(cargo("doc")
        .args(["--no-deps", "--workspace"])
        .env("RUSTDOCFLAGS", "-D warnings"))
}
