//! The cases, by what they are about. Each is a function on a [`Session`] that panics when a
//! promise is broken; what has to hold at every end is checked by the session.

mod attrs;
mod cache;
mod data;
mod dirs;
mod life;
mod links;
mod model;
mod names;
mod open;
mod threads;
mod tree;

use crate::peers::Peer;
use crate::session::Session;
use fusewire_server::CacheMode;

/// A case.
pub struct Case {
    pub name: &'static str,
    pub run: fn(&Session),
    pub applies: fn(&Peer) -> Applies,
}

/// Whether a case has something to say about a peer.
pub enum Applies {
    Yes,
    /// It is about other peers.
    No,
    /// Not in this environment, and why.
    NotHere(&'static str),
}

/// Cases out of functions of the same name, and which peers they are for; all, if nothing is said.
macro_rules! cases {
    ($($run:ident $(: $applies:ident)?),* $(,)?) => {
        pub const CASES: &[crate::cases::Case] = &[$(crate::cases::Case {
            name: stringify!($run),
            run: $run,
            applies: crate::cases::applies!($($applies)?),
        }),*];
    };
}
macro_rules! applies {
    () => {
        |_| crate::cases::Applies::Yes
    };
    ($applies:ident) => {
        $applies
    };
}
use {applies, cases};

/// After the last case.
pub fn clean_up() {
    dirs::clean_up();
}

/// All cases.
pub fn all() -> impl Iterator<Item = &'static Case> {
    [
        attrs::CASES,
        cache::CASES,
        data::CASES,
        dirs::CASES,
        life::CASES,
        links::CASES,
        model::CASES,
        names::CASES,
        open::CASES,
        threads::CASES,
        tree::CASES,
    ]
    .into_iter()
    .flatten()
}

fn only_if(it_is: bool) -> Applies {
    if it_is { Applies::Yes } else { Applies::No }
}

/// Cases that change owners.
fn root(_: &Peer) -> Applies {
    match rustix::process::geteuid().is_root() {
        true => Applies::Yes,
        false => Applies::NotHere("needs root"),
    }
}

/// Cases with a directory of the host.
fn host(peer: &Peer) -> Applies {
    only_if(peer.has_host())
}

/// Cases with a server that does as it is told.
fn embedded(peer: &Peer) -> Applies {
    only_if(peer.is_embedded())
}

/// Cases with a directory whose client may keep nothing.
fn never(peer: &Peer) -> Applies {
    only_if(peer.has_host() && peer.cache == CacheMode::Never)
}

/// Cases with a directory whose client may keep what it knows for a second.
fn auto(peer: &Peer) -> Applies {
    only_if(peer.has_host() && peer.cache == CacheMode::Auto)
}

/// Cases with a client that may keep what it knows for ever.
fn always(peer: &Peer) -> Applies {
    only_if(peer.cache == CacheMode::Always)
}
