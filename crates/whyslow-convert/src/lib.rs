//! Converts samples, mappings, forks and exits to the tables of a profile.
//!
//! ```text
//! sources   live perf records │ perf.data │ heap batches │ timer and ptrace samples      each knows only its own format
//!               ▼ input: typed samples and task events
//! converter     processes, threads and mappings over time; stacks; time without samples
//!   walk        one stack, from registers and stack bytes outwards
//!   completion  outer frames beyond the copied bytes, if the sample proves them
//!   modules     the code that was mapped, and where each process has it
//!               ▲ world: files, memory, running processes, the kernel
//! ```
//!
//! Nothing here queries the system. All outside knowledge comes through [`World`]: the recorder's world is
//! the live system, that of a recorded file knows the file and the disk, and that of the tests is synthetic.
//! `perf` turns the kernel's records into inputs, for every source that has such records.

#[cfg(target_arch = "x86_64")]
#[path = "x86_64/mod.rs"]
mod arch;
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

pub use arch::context_registers;
pub use converter::{Converter, Limits, WaitStacks};
pub use input::{Dump, Enters, Input, Mapped, Returns, Sample, Task, UserStack, Wakes};
pub use modules::{KERNEL, VDSO};
pub use world::{FileKey, FileMapping, Opened, ReadError, Running, RunningMapping, TaskRows, World};
