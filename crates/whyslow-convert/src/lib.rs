//! Converts samples, mappings, forks and exits to the tables of a profile.
//!
//! ```text
//! sources   live perf records │ perf.data │ heap batches │ timer and ptrace samples      each knows only its own format
//!               ▼ input: typed samples and task events
//! converter     hands each input to the parts that it is about: tasks, mappings, stacks, accounts, waits, calls, heap
//!   walk        one stack, from registers and stack bytes outwards
//!   completion  outer frames beyond the copied bytes, if the sample proves them
//!   modules     the code that was mapped, and where each process has it
//!               ▲ world: files, memory, running processes, the kernel
//! ```
//!
//! A recording is of one processor, which need not be the one of this machine. `x86_64` and `aarch64` have what differs;
//! a stack is walked by code that is compiled for its processor.
//!
//! Nothing here queries the system. All outside knowledge comes through [`World`]: the recorder's world is
//! the live system, that of a recorded file knows the file and the disk, and that of the tests is synthetic.
//! `perf` turns the kernel's records into inputs, for every source that has such records.

mod aarch64;
mod arch;
mod call_names;
mod completion;
mod converter;
mod input;
mod mapped_as;
mod modules;
pub mod perf;
mod space;
#[cfg(test)]
mod testing;
mod trail;
mod walk;
mod world;
mod x86_64;

pub use call_names::call_names;
pub use converter::{
    AccountSetup, Converted, Converter, HeapMetrics, Limits, Setup, WaitSetup, WaitStackSource, WaitStacks,
};
pub use input::{Dump, Enters, Input, Mapped, Returns, Sample, Task, UserStack, WaitSnapshot, Wakes};
pub use modules::{KERNEL, VDSO};
pub use world::{FileKey, FileMapping, Opened, ReadError, Running, RunningMapping, TaskRows, World};
