//! The parts of a toolchain that a minimal installation lacks.

use std::path::Path;
use std::process::Command;

use crate::apt::Apt;
use crate::process::{Result, capture, run};
use crate::workspace::cargo;

/// Makes sure that `cargo SUBCOMMAND` works, adding the rustup component if it does not.
pub(crate) fn cargo_component(subcommand: &str, component: &str) -> Result {
    let works = || capture(cargo(subcommand).arg("--version")).is_ok();
    if works() {
        return Ok(());
    }
    let added = run(Command::new("rustup").args(["component", "add", component]));
    if added.is_ok() && works() {
        return Ok(());
    }
    Err(format!(
        "`cargo {subcommand}` is missing and could not be installed: \
         run `rustup component add {component}` or install {component} with your distribution"
    ))
}

/// Makes sure of a C compiler, a C++ compiler and the kernel's headers: the layout tests compile a
/// probe against `<linux/fuse.h>`, and libFuzzer is built from C++.
pub(crate) fn c_compilers(apt: &mut Apt) -> Result {
    let ready = || {
        let works = |compiler| capture(Command::new(compiler).arg("--version")).is_ok();
        works("cc") && works("c++") && Path::new("/usr/include/linux/fuse.h").exists()
    };
    if ready() {
        return Ok(());
    }
    apt.install(&["build-essential", "linux-libc-dev"])?;
    match ready() {
        true => Ok(()),
        false => Err("`cc`, `c++` and <linux/fuse.h> are needed and were not found".to_owned()),
    }
}
