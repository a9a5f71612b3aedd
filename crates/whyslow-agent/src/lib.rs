//! The part of whyslow that runs inside the profiled program. It records the heap, samples CPU time, and delays
//! threads for causal profiling.
//!
//! ```text
//! start    finds the collector, maps the area            patch    writes the collector's bytes over code
//! hooks    malloc and related functions                  maps     mmap and related functions
//! events   what happens around one allocator call        walk     the stack as a number, modules: those it goes through
//! state    per-thread state, based: without TLS          ring     records
//! heap     the purpose that records allocations          sampler  the purpose that samples CPU time
//! causal   the purpose that delays threads               interrupt  the signal for samples
//! sample   which allocations are kept                    unused   bytes that were never written
//! exit     holds the exit, signals: exit by a signal     exec     programs that this one executes, program: which file runs
//! freeres  what libraries keep until the end
//! loaded   libraries loaded later                        environment of executed programs, left_out: those not recorded
//! confined forbidden system calls
//! real     the hooked functions, symbols: finding them, arena: memory before they are known
//! link     what the loader provides, sys: system calls
//! arch     code for the processor (`x86_64/`)
//! ```
//!
//! The agent runs in programs that do not know about it. So it uses no library, takes no lock that the
//! program could wait for, does not allocate, leaves `errno` alone, and lets every call through that it
//! cannot record.

#![no_std]
#![cfg_attr(not(feature = "heap"), expect(dead_code, reason = "the allocator hooks are not built in"))]

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("the agent supports only x86-64 Linux");

#[cfg(target_arch = "x86_64")]
#[path = "x86_64/mod.rs"]
mod arch;
mod area;
mod arena;
mod based;
mod causal;
mod confined;
mod environment;
mod events;
mod exec;
mod exit;
mod freeres;
mod heap;
mod hooks;
mod interrupt;
mod left_out;
mod link;
mod loaded;
mod maps;
mod modules;
mod patch;
mod program;
mod real;
mod ring;
mod sample;
mod sampler;
mod signals;
mod start;
mod state;
mod symbols;
mod sys;
mod unload;
mod unused;
mod walk;

/// Nothing here panics. If it ever does, the program must not continue with half an event.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    sys::exit(134)
}
