//! Perf event attributes: which event, and which parts of a sample.

use std::fs;
use std::path::Path;

use perf_event_open_sys::bindings as sys;
use whyslow_processor::Processor;
use whyslow_unwind::AnyRegisters;

/// A way of sampling. Plans are tried from the best to the simplest until the kernel accepts one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Hardware cycles; otherwise the CPU clock.
    pub(crate) cycles: bool,
    /// How exactly the hardware should attribute the instruction (0 to 2).
    pub(crate) precise: u8,
    /// Sample kernel mode too.
    pub(crate) kernel: bool,
    /// Samples per second of CPU time.
    pub(crate) frequency_hz: u32,
    /// Bytes of stack copied with each sample.
    pub(crate) stack_bytes: u32,
    /// What the events are bound to.
    pub(crate) bound: Bound,
}

/// What an event is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// A CPU, whatever runs on it.
    Cpu,
    /// A thread and everything that it starts.
    Thread {
        /// Start when it executes a program.
        enable_on_exec: bool,
    },
}

impl Plan {
    /// The same plan without kernel mode.
    pub(crate) fn user_only(self) -> Self {
        Self { kernel: false, ..self }
    }

    /// The plans to try for one setting, best first.
    pub(crate) fn choices(self) -> Vec<Self> {
        let hardware = [2, 1, 0].map(|precise| Self { cycles: true, precise, ..self });
        let clock = Self { cycles: false, precise: 0, ..self };
        let with_kernel = hardware.into_iter().chain([clock]);
        let without = with_kernel.clone().map(Self::user_only);
        if self.kernel { with_kernel.chain(without).collect() } else { without.collect() }
    }

    /// The kernel's attributes of this plan.
    ///
    /// `core_type` is the number of the CPU's own PMU on machines with several kinds of cores.
    pub(crate) fn attr(self, core_type: Option<u32>) -> sys::perf_event_attr {
        let mut attr = sys::perf_event_attr {
            size: size_of::<sys::perf_event_attr>() as u32,
            sample_type: u64::from(
                sys::PERF_SAMPLE_IP
                    | sys::PERF_SAMPLE_TID
                    | sys::PERF_SAMPLE_TIME
                    | sys::PERF_SAMPLE_CPU
                    | sys::PERF_SAMPLE_PERIOD
                    | sys::PERF_SAMPLE_REGS_USER
                    | sys::PERF_SAMPLE_STACK_USER,
            ),
            sample_regs_user: AnyRegisters::perf_mask(Processor::HOST),
            sample_stack_user: self.stack_bytes,
            clockid: libc::CLOCK_MONOTONIC,
            ..Default::default()
        };
        if self.cycles {
            attr.type_ = sys::PERF_TYPE_HARDWARE;
            attr.config = u64::from(sys::PERF_COUNT_HW_CPU_CYCLES);
            attr.config |= u64::from(core_type.unwrap_or(0)) << 32;
            attr.set_precise_ip(u64::from(self.precise));
        } else {
            attr.type_ = sys::PERF_TYPE_SOFTWARE;
            attr.config = u64::from(sys::PERF_COUNT_SW_CPU_CLOCK);
        }
        attr.__bindgen_anon_1.sample_freq = u64::from(self.frequency_hz);
        attr.set_freq(1);
        attr.set_disabled(1);
        match self.bound {
            // Otherwise the idle loop gets a sample per period on every idle CPU.
            Bound::Cpu => attr.set_exclude_idle(1),
            Bound::Thread { enable_on_exec } => {
                attr.set_enable_on_exec(u64::from(enable_on_exec));
                attr.set_inherit(1);
            }
        }
        // Shows when each thread is on a CPU. Samples alone do not: see `accounting` and `waits` in
        // whyslow-convert.
        attr.set_context_switch(1);
        attr.set_exclude_hv(1);
        attr.set_exclude_kernel(u64::from(!self.kernel));
        if self.kernel {
            attr.sample_type |= u64::from(sys::PERF_SAMPLE_CALLCHAIN);
            // User frames are unwound from the stack bytes; the kernel's own walk would follow frame pointers.
            attr.set_exclude_callchain_user(1);
        }
        attr.set_mmap(1);
        attr.set_mmap2(1);
        // A marker file shows up as a mapping that need not be executable.
        attr.set_mmap_data(1);
        attr.set_comm(1);
        attr.set_comm_exec(1);
        attr.set_task(1);
        attr.set_sample_id_all(1);
        attr.set_use_clockid(1);
        attr.set_watermark(1);
        attr
    }
}

/// Bytes of stack copied when a thread leaves its CPU. The rest can be read while it waits.
const LEAVING_STACK_BYTES: u32 = 8 << 10;

/// A sample whenever a thread leaves its CPU.
pub(crate) fn leaving(bound: Bound) -> sys::perf_event_attr {
    let mut attr = every_time(bound);
    attr.type_ = sys::PERF_TYPE_SOFTWARE;
    attr.config = u64::from(sys::PERF_COUNT_SW_CONTEXT_SWITCHES);
    attr
}

/// A sample whenever a thread wakes another: with the data of the tracepoint of this number, and with a stack
/// if requested.
pub(crate) fn waking(bound: Bound, tracepoint: u64, with_stack: bool) -> sys::perf_event_attr {
    let mut attr = every_time(bound);
    attr.type_ = sys::PERF_TYPE_TRACEPOINT;
    attr.config = tracepoint;
    attr.sample_type |= u64::from(sys::PERF_SAMPLE_RAW);
    if !with_stack {
        let stack = sys::PERF_SAMPLE_REGS_USER | sys::PERF_SAMPLE_STACK_USER | sys::PERF_SAMPLE_CALLCHAIN;
        attr.sample_type &= !u64::from(stack);
        attr.sample_regs_user = 0;
        attr.sample_stack_user = 0;
    }
    attr
}

/// A sample with a stack at every occurrence. The main event records everything else.
fn every_time(bound: Bound) -> sys::perf_event_attr {
    let plan = Plan {
        cycles: false,
        precise: 0,
        kernel: true,
        frequency_hz: 0,
        stack_bytes: LEAVING_STACK_BYTES,
        bound,
    };
    let mut attr = extra_event_attr(plan);
    attr.__bindgen_anon_1.sample_period = 1;
    attr.set_freq(0);
    attr
}

/// The attributes of an extra event for threads that already have a main event, which records everything
/// except samples.
pub(crate) fn extra_event_attr(plan: Plan) -> sys::perf_event_attr {
    let mut attr = plan.attr(None);
    attr.set_exclude_idle(0);
    attr.set_context_switch(0);
    attr.set_mmap(0);
    attr.set_mmap2(0);
    attr.set_mmap_data(0);
    attr.set_comm(0);
    attr.set_comm_exec(0);
    attr.set_task(0);
    attr
}

/// The number of the PMU that counts cycles on this CPU, if the machine has several kinds of cores. `sys` is
/// the folder `/sys`.
pub(super) fn core_type(sys: &Path, cpu: u32) -> Option<u32> {
    ["cpu_core", "cpu_atom", "cpu_lowpower"].into_iter().find_map(|unit| {
        let folder = sys.join("bus/event_source/devices").join(unit);
        let cpus = fs::read_to_string(folder.join("cpus")).ok()?;
        whyslow_words::cpu_list(&cpus).contains(&cpu).then_some(())?;
        fs::read_to_string(folder.join("type")).ok()?.trim().parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_go_from_hardware_with_kernel_to_clock_without() {
        let plan = Plan {
            cycles: true,
            precise: 0,
            kernel: true,
            frequency_hz: 997,
            stack_bytes: 4096,
            bound: Bound::Thread { enable_on_exec: true },
        };
        let choices = plan.choices();
        assert_eq!(choices.len(), 8);
        assert!(choices[0].cycles && choices[0].kernel && choices[0].precise == 2);
        assert!(!choices[3].cycles && choices[3].kernel);
        assert!(choices[4].cycles && !choices[4].kernel);
        assert!(!choices[7].cycles && !choices[7].kernel);
    }

    #[test]
    fn on_hybrid_machines_each_cpu_gets_its_own_unit() {
        let root = tempfile::tempdir().unwrap();
        for (unit, cpus, number) in [("cpu_core", "0-7\n", "4\n"), ("cpu_atom", "8-15\n", "10\n")] {
            let folder = root.path().join("bus/event_source/devices").join(unit);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("cpus"), cpus).unwrap();
            fs::write(folder.join("type"), number).unwrap();
        }
        assert_eq!(core_type(root.path(), 3), Some(4));
        assert_eq!(core_type(root.path(), 12), Some(10));
        assert_eq!(core_type(root.path(), 16), None);
        let plan = Plan {
            cycles: true,
            precise: 0,
            kernel: false,
            frequency_hz: 1,
            stack_bytes: 8,
            bound: Bound::Thread { enable_on_exec: false },
        };
        assert_eq!(plan.attr(Some(10)).config >> 32, 10);
    }
}
