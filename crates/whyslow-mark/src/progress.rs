//! Progress points: under `whyslow causal`, its agent in the program has counters by coz's protocol. Each name of a span
//! or moment gets its own. Only recorded marks come here.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::CString;
use std::thread::LocalKey;

use super::sys::{self, Counter};

/// What a counter counts, by its number in coz's protocol.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Kind {
    Visit = 1,
    Begin = 2,
    End = 3,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Visit, Self::Begin, Self::End];
}

/// The counters of a name, if there are any.
#[derive(Default, Clone, Copy)]
struct Counters {
    visit: Option<Counter>,
    begin: Option<Counter>,
    end: Option<Counter>,
}

/// More names than the profiler has counters for: names that a program makes up as it goes are left out.
const MOST_NAMES: usize = 256;

type Known = RefCell<HashMap<Box<str>, Counters>>;

thread_local! {
    static MOMENTS: Known = RefCell::default();
    static SPANS: Known = RefCell::default();
}

/// Something happened.
pub(super) fn visit(name: &str) {
    count(&MOMENTS, name, &[Kind::Visit], |counters| [counters.visit, None]);
}

/// Something begins that [`end`] ends.
pub(super) fn begin(name: &str) {
    count(&SPANS, name, &Kind::ALL, |counters| [counters.begin, None]);
}

/// It ends, which is progress as well.
pub(super) fn end(name: &str) {
    count(&SPANS, name, &Kind::ALL, |counters| [counters.end, counters.visit]);
}

fn count(
    known: &'static LocalKey<Known>,
    name: &str,
    kinds: &[Kind],
    which: impl Fn(&Counters) -> [Option<Counter>; 2],
) {
    if !sys::has_counters() {
        return;
    }
    // A thread that is exiting no longer counts, nor does an allocator that marks what it does for this.
    let _ = known.try_with(|known| {
        let Ok(mut known) = known.try_borrow_mut() else { return };
        let counters = match known.get(name).copied() {
            Some(counters) => counters,
            None if known.len() >= MOST_NAMES => return,
            None => {
                let counters = find(name, kinds);
                known.insert(name.into(), counters);
                counters
            }
        };
        which(&counters).into_iter().flatten().for_each(Counter::add_one);
    });
}

/// The counters of these kinds.
fn find(name: &str, kinds: &[Kind]) -> Counters {
    let mut found = Counters::default();
    let text: Vec<u8> = name.bytes().filter(|byte| *byte != 0).collect();
    let Ok(text) = CString::new(text) else { return found };
    for kind in kinds {
        let counter = sys::counter(*kind as i32, &text);
        match kind {
            Kind::Visit => found.visit = counter,
            Kind::Begin => found.begin = counter,
            Kind::End => found.end = counter,
        }
    }
    found
}
