//! The part of whyslow that watches a program from the inside: its heap, and where it spends CPU time.
//!
//! ```text
//! start    finds the collector, maps the area            patch    writes the collector's bytes over code
//! hooks    malloc and the like, as the program calls     maps     mmap and the like
//! events   what happens around one call                  walk     the stack as a number, modules: what it goes through
//! state    what is known of a thread, based: without TLS  ring     records
//! sample   which allocations are kept                    unused   bytes that were never written
//! sampler  where CPU time is spent
//! exit     the last moment, signals: by a signal         exec     programs that this one executes, program: which
//! loaded   libraries that come later                     environment what those get, left_out: which are not recorded
//! confined system calls that are forbidden
//! real     the functions stood in for, symbols: finding them, arena: memory before they are known
//! link     what the loader gives, sys: system calls
//! arch     what the processor has to do with it (`x86_64/`)
//! ```
//!
//! It lives in programs that know nothing of it. So it needs no library, locks nothing that the program could wait for, allocates
//! nothing, leaves `errno` alone, and lets every call pass that it cannot record.

#![no_std]
#![cfg_attr(
    not(feature = "heap"),
    expect(dead_code, reason = "what stands in for the allocator is not asked for")
)]

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("the agent knows x86-64 Linux only");

#[cfg(target_arch = "x86_64")]
#[path = "x86_64/mod.rs"]
mod arch;
mod area;
mod arena;
mod based;
mod confined;
mod environment;
mod events;
mod exec;
mod exit;
mod hooks;
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

/// Nothing here panics; if it does, the program must not go on with half an event.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    sys::exit(134)
}
