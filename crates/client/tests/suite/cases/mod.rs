//! The cases, by what they are about. Each is a function on a [`Session`] that panics when a
//! promise is broken; what has to hold at every end is checked by the session.

mod open;

use crate::peers::Peer;
use crate::session::Session;

/// A case.
pub struct Case {
    pub name: &'static str,
    pub run: fn(&Session),
    /// Whether it makes sense with that peer here, or why not.
    pub applies: fn(&Peer) -> Result<(), &'static str>,
}

/// Cases out of functions of the same name.
macro_rules! cases {
    ($($run:ident $(: $applies:expr)?),* $(,)?) => {
        pub const CASES: &[crate::cases::Case] = &[$(crate::cases::Case {
            name: stringify!($run),
            run: $run,
            applies: crate::cases::applies!($($applies)?),
        }),*];
    };
}
macro_rules! applies {
    () => {
        |_| Ok(())
    };
    ($applies:expr) => {
        $applies
    };
}
use {applies, cases};

/// All cases.
pub fn all() -> impl Iterator<Item = &'static Case> {
    [open::CASES].into_iter().flatten()
}
