//! System call events: every entry and every exit, and stacks of entries as far as they are cheap.

use perf_event_open_sys::bindings as sys;
use whyslow_convert::perf::CallEvent;

use super::attr::{Bound, Plan};

/// Bytes of stack copied with a call. The rest can be read while the thread is in it.
const STACK_BYTES: u32 = 8 << 10;

/// The events, in the order in which they are opened. At a call's entry, the last one fires first, so that
/// the stack is copied before the entry is recorded.
pub(crate) const CALL_EVENTS: [CallEvent; 3] =
    [CallEvent::Enter, CallEvent::Return, CallEvent::EnterWithStack];

/// The kernel's numbers of the two tracepoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallPoints {
    pub(crate) enter: u64,
    pub(crate) exit: u64,
}

/// The kernel's attributes of one of them.
pub(crate) fn call_attr(points: CallPoints, bound: Bound, event: CallEvent) -> sys::perf_event_attr {
    let plan =
        Plan { cycles: false, precise: 0, kernel: true, frequency_hz: 0, stack_bytes: STACK_BYTES, bound };
    let mut attr = super::attr::extra_event_attr(plan);
    attr.type_ = sys::PERF_TYPE_TRACEPOINT;
    attr.config = if event == CallEvent::Return { points.exit } else { points.enter };
    attr.__bindgen_anon_1.sample_period = 1;
    attr.set_freq(0);
    attr.set_exclude_callchain_user(0);
    let parts = sys::PERF_SAMPLE_IP | sys::PERF_SAMPLE_TID | sys::PERF_SAMPLE_TIME | sys::PERF_SAMPLE_RAW;
    let stack = sys::PERF_SAMPLE_REGS_USER | sys::PERF_SAMPLE_STACK_USER;
    if event == CallEvent::EnterWithStack {
        attr.sample_type = u64::from(parts | stack);
    } else {
        attr.sample_type = u64::from(parts);
        attr.sample_regs_user = 0;
        attr.sample_stack_user = 0;
    }
    attr
}
