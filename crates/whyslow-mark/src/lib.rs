//! Marks for the profiler whyslow: spans, moments and counters that
//! appear next to the samples and can filter them.
//!
//! ```
//! fn load(path: &str) {
//!     let _span = whyslow_mark::span_with("load", || path.to_owned());
//!     for part in ["header", "body"] {
//!         let _span = whyslow_mark::span(part);
//!         // ... work: samples in here are inside `load` and inside `header` or `body`
//!     }
//!     whyslow_mark::moment("loaded");
//!     whyslow_mark::counter("queue", 3);
//! }
//! load("orders.csv");
//! ```
//!
//! No setup is needed. `whyslow ./app` (or `whyslow record -p PID`) creates a named pipe
//! `$XDG_RUNTIME_DIR/whyslow/PID` (without that variable, `/tmp/whyslow-UID/PID`). This crate looks for the
//! pipe at the first mark, and then at most once a second. It leaves arguments, environment and descriptors
//! alone. Afterwards, `whyslow report app.whyslow spans` lists the spans, and `--span load` limits every view
//! to the samples inside.
//!
//! Under `whyslow causal`, each moment and each span is a progress point: how much more often it would come, and how
//! much shorter the span would be, if some line of the program were faster.
//!
//! # Cost
//!
//! Nanoseconds per mark, measured on a virtual machine with two CPUs (AMD EPYC, Linux 6.18, with other work
//! running) by the example `mark_cost`: `cargo build --release -p whyslow-mark --example mark_cost`, then
//! `target/release/examples/mark_cost` alone and under `whyslow record -o cost.whyslow --`:
//!
//! | | span | span with a detail | moment | counter |
//! |---|---|---|---|---|
//! | not recorded | 0.5 | 1.5 | 0.6 | 0.5 |
//! | recorded | 750 | 850 | 740 | 730 |
//!
//! Without a recorder, a mark is one relaxed load and the decrement of a thread-local number; only where
//! marks are rare does each of them read the clock. With a recorder, a mark reads the clock twice and writes
//! once to a pipe. Under `whyslow causal`, a moment takes 30 ns more, a span up to 90 ns.
//!
//! # Limits
//!
//! - A span is recorded when it ends. A span that is still open when the program is killed or the recording ends is not recorded.
//! - A span ends on the thread that started it; the guard cannot be sent to another. Nesting is by time.
//! - Names and details may hold anything; a name is cut after 1,000 bytes and a detail after about 3,000.
//! - Marks never block. If they arrive faster than the recorder reads (it has room for a megabyte), some are dropped, and
//!   the profile says how many.
//! - The recorder must run as the same user as the program, with the same `XDG_RUNTIME_DIR`, outside containers.
//!
//! # With `tracing`
//!
//! With the feature `tracing`, every entered span of `tracing` is a span in the profile:
//!
//! ```
//! # #[cfg(feature = "tracing")] {
//! use tracing_subscriber::prelude::*;
//!
//! tracing_subscriber::registry().with(whyslow_mark::TracingLayer::new()).init();
//! let span = tracing::info_span!("load", path = "orders.csv");
//! span.in_scope(|| { /* work */ });
//! # }
//! ```

#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod place;
#[doc(hidden)]
pub mod wire;

#[cfg(target_os = "linux")]
mod progress;
#[cfg_attr(not(target_os = "linux"), path = "unsupported.rs")]
mod recorder;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(feature = "tracing")]
mod tracing_layer;

#[cfg(feature = "tracing")]
pub use tracing_layer::TracingLayer;

use std::marker::PhantomData;

#[cfg(not(target_os = "linux"))]
use recorder::progress;
use wire::Kind;

/// Whether the program is being recorded right now.
#[inline]
pub fn is_recorded() -> bool {
    recorder::is_recorded()
}

/// Starts a span that ends when the guard is dropped.
///
/// ```
/// let _span = whyslow_mark::span("parse");
/// ```
#[inline]
#[must_use = "the span ends when the guard is dropped; give it a name such as `_span`"]
pub fn span(name: &str) -> Span<'_> {
    let start_ns = if is_recorded() { begin(name) } else { 0 };
    Span { name, detail: String::new(), start_ns, here: PhantomData }
}

/// When a recorded span begins.
#[cold]
fn begin(name: &str) -> u64 {
    progress::begin(name);
    recorder::now_ns()
}

/// Starts a span with a detail. The closure runs only if the program is recorded.
///
/// ```
/// # let path = "a";
/// let _span = whyslow_mark::span_with("load", || format!("path={path}"));
/// ```
#[inline]
#[must_use = "the span ends when the guard is dropped; give it a name such as `_span`"]
pub fn span_with(name: &str, detail: impl FnOnce() -> String) -> Span<'_> {
    let mut span = span(name);
    if span.start_ns != 0 {
        span.detail = detail();
        // Building the detail is not part of the span.
        span.start_ns = recorder::now_ns();
    }
    span
}

/// Marks a point in time.
#[inline]
pub fn moment(name: &str) {
    if is_recorded() {
        let now = recorder::now_ns();
        progress::visit(name);
        recorder::send(Kind::Moment, name, "", now, now, now);
    }
}

/// Sets a counter of this process to a new value.
#[inline]
pub fn counter(name: &str, value: i64) {
    if is_recorded() {
        let now = recorder::now_ns();
        recorder::send(Kind::Counter, name, "", now, value.cast_unsigned(), now);
    }
}

/// The guard of a span: the span ends when it is dropped.
#[derive(Debug)]
pub struct Span<'name> {
    name: &'name str,
    detail: String,
    /// 0 if not recorded.
    start_ns: u64,
    /// A span belongs to the thread that started it, so the guard is not `Send`.
    here: PhantomData<*const ()>,
}

impl Span<'_> {
    /// Sets the detail of a running span. The closure runs only if the program is recorded.
    pub fn set_detail(&mut self, detail: impl FnOnce() -> String) {
        if self.start_ns != 0 {
            self.detail = detail();
        }
    }
}

impl Drop for Span<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.start_ns != 0 {
            let now = recorder::now_ns();
            progress::end(self.name);
            recorder::send(Kind::Span, self.name, &self.detail, self.start_ns, now, now);
        }
    }
}
