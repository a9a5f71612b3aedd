//! Text for terminals. Every view is a function from an analysis to a string with ANSI styles. The caller's
//! stream removes the styles where they are not wanted.

mod answer;
mod asm;
mod bench;
mod caches;
mod callers;
mod causal;
mod cells;
mod critical;
mod diff;
mod explain;
mod functions;
mod groups;
mod heap;
pub(crate) mod layout;
mod lines;
mod locks;
pub(crate) mod memcheck;
mod memory;
mod own;
mod parallelism;
mod quality;
mod ratios;
mod remark;
mod scale;
mod size;
mod size_change;
mod spans;
mod stat;
mod suggest;
mod suite;
mod summary;
mod syscalls;
mod tasks;
mod threads;
mod tree;
mod verify;
mod waits;

pub use answer::{ROWS, answer, table};
pub use asm::{AsmView, asm};
pub use bench::{bench, gate};
pub use caches::caches;
pub use callers::callers;
pub use causal::causal;
pub use critical::critical_path;
pub use diff::{DiffFile, DiffView, diff};
pub use explain::{annotations, explain, explained_change, shape};
pub(crate) use explain::{cost_noun, gain, message};
pub use functions::functions;
pub use groups::groups;
pub(crate) use heap::access_words;
pub use heap::{HeapView, heap, heap_part, leaks_of};
pub use layout::Page;
pub use lines::lines;
pub use locks::locks;
pub use memcheck::{MemcheckPage, memcheck, memcheck_annotations, memcheck_suppressions};
pub use memory::memory;
pub use own::{hot_lines, own_functions};
pub use parallelism::parallelism;
pub use quality::{headline, quality, verdict, verdict_lines};
pub(crate) use quality::{kernel_label, sampling_label, source_label};
pub use remark::{remark_line, remark_lines, severity_style};
pub use scale::scale;
pub(crate) use scale::size_words;
#[cfg(test)]
pub(crate) use scale::tests::growth as growth_for_tests;
pub use size::{SizeTable, SizeView, size, size_rows, size_table};
pub use size_change::{SizeChangeView, size_change};
pub use spans::spans;
pub use stat::{EventGroup, StatView, events, interval_head, interval_line, stat};
pub use suggest::suggestions;
pub use suite::suite;
pub use syscalls::{costliest_syscall, syscalls};
pub use tasks::tasks;
pub use threads::{programs, threads};
pub(crate) use tree::repeat_note;
pub use tree::{TreeView, tree};
pub use verify::{VerifyView, summary as verify_summary, verify, verify_markdown};
pub use waits::waits;

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::plain;
