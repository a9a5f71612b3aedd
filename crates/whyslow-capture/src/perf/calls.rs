//! The events of system calls: every beginning and every end, and stacks of beginnings as far as that costs little.

use perf_event_open_sys::bindings as sys;
use whyslow_convert::perf::CallEvent;

use super::attr::{Bound, Plan};

/// Bytes of stack that are copied with a call. What is missing can be read while the thread is in it.
const STACK_BYTES: u32 = 8 << 10;

/// The events, in the order in which they are opened. The last one comes first where a call begins, so that the copying of a stack is over when
/// the beginning is told.
pub(crate) const CALL_EVENTS: [CallEvent; 3] =
    [CallEvent::Enter, CallEvent::Return, CallEvent::EnterWithStack];

/// The kernel's numbers of the two tracepoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallPoints {
    pub(crate) enter: u64,
    pub(crate) exit: u64,
}

/// What is asked of the kernel for one of them.
pub(crate) fn call_attr(points: CallPoints, bound: Bound, event: CallEvent) -> sys::perf_event_attr {
    let plan =
        Plan { cycles: false, precise: 0, kernel: true, frequency_hz: 0, stack_bytes: STACK_BYTES, bound };
    let mut attr = super::attr::beside(plan);
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
