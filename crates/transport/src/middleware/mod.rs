//! Transports around a transport: each is itself a [`Transport`], so they stack.
//!
//! They see heads (private copies) and lengths, never shared payload.
//!
//! - [`Traced`]: a line for each message;
//! - [`Delayed`]: replies arrive later than they came;
//! - [`Faulty`]: some requests go wrong, repeatably.

mod delayed;
mod faulty;
mod record;
#[cfg(test)]
mod testing;
mod traced;

pub use delayed::Delayed;
pub use faulty::{Fault, Faulty, Rule};
pub use traced::{TraceFormat, Traced};

use crate::{Completion, Death, Inbox, Limits, PeerFault, Submission, SubmitError, Transport};
use fusewire_mem::Arena;
use fusewire_sync::{Arc, Weak};

/// Methods of [`Transport`] that go straight to `self.inner`.
macro_rules! forward {
    ($($method:ident)*) => { $(forward!(@ $method);)* };
    (@ limits) => {
        fn limits(&self) -> $crate::Limits { self.inner.limits() }
    };
    (@ arena) => {
        fn arena(&self) -> &fusewire_sync::Arc<fusewire_mem::Arena> { self.inner.arena() }
    };
    (@ submit_oneway) => {
        fn submit_oneway(&self, head: &[u8]) -> Result<(), $crate::SubmitError> {
            self.inner.submit_oneway(head)
        }
    };
    (@ submit) => {
        fn submit(&self, request: &$crate::Submission<'_>) -> Result<(), $crate::SubmitError> {
            self.inner.submit(request)
        }
    };
    (@ kick) => { fn kick(&self) { self.inner.kick(); } };
    (@ listen) => {
        fn listen(&self, inbox: fusewire_sync::Weak<dyn $crate::Inbox>) {
            self.inner.listen(inbox);
        }
    };
    (@ wait) => { fn wait(&self) { self.inner.wait(); } };
    (@ wake) => { fn wake(&self) { self.inner.wake(); } };
    (@ watch) => { fn watch(&self) -> $crate::Death { self.inner.watch() } };
    (@ close) => { fn close(&self) { self.inner.close(); } };
}
use forward;

macro_rules! pointer {
    ($($pointer:ident)*) => {$(
        impl<T: Transport + ?Sized> Transport for $pointer<T> {
            fn limits(&self) -> Limits {
                (**self).limits()
            }
            fn arena(&self) -> &Arc<Arena> {
                (**self).arena()
            }
            fn submit(&self, request: &Submission<'_>) -> Result<(), SubmitError> {
                (**self).submit(request)
            }
            fn submit_oneway(&self, head: &[u8]) -> Result<(), SubmitError> {
                (**self).submit_oneway(head)
            }
            fn kick(&self) {
                (**self).kick();
            }
            fn reap(&self, sink: &mut dyn FnMut(Completion<'_>)) -> Result<usize, PeerFault> {
                (**self).reap(sink)
            }
            fn wait(&self) {
                (**self).wait();
            }
            fn wake(&self) {
                (**self).wake();
            }
            fn listen(&self, inbox: Weak<dyn Inbox>) {
                (**self).listen(inbox);
            }
            fn watch(&self) -> Death {
                (**self).watch()
            }
            fn close(&self) {
                (**self).close();
            }
        }
    )*};
}
pointer! { Box Arc }
