//! The viewer's payload for system calls: the recorded rows, and the distribution of their times.

use whyslow_analyze::only_waits;
use whyslow_profile::{Profile, Syscalls};

use super::container::Columns;
use super::payload::collect;
use super::texts::Texts;

/// Adds the system calls in order of time; nothing if none were recorded.
pub(super) fn push_syscalls<'p>(profile: &'p Profile, columns: &mut Columns<'p>, texts: &mut Texts<'_>) {
    if profile.syscalls.is_empty() {
        return;
    }
    let mut rows: Vec<&Syscalls> = profile.syscalls.iter().collect();
    rows.sort_by_key(|row| row.time_ns);
    let number = |of: fn(&Syscalls) -> u64| collect(&rows, |row| of(row) as f64);
    columns.f64("syscalls.time", number(|row| row.time_ns));
    columns.u32("syscalls.thread", collect(&rows, |row| row.thread.0));
    columns.u32("syscalls.stack", collect(&rows, |row| row.stack.0));
    columns.u32("syscalls.call", collect(&rows, |row| texts.of(row.call)));
    columns.u8("syscalls.only_waits", collect(&rows, |row| u8::from(only_waits(profile.text(row.call)))));
    columns.u32("syscalls.file", collect(&rows, |row| texts.maybe(row.file)));
    columns.u32("syscalls.error", collect(&rows, |row| texts.maybe(row.error)));
    columns.f64("syscalls.count", number(|row| row.count));
    columns.f64("syscalls.total", number(|row| row.total_ns));
    columns.f64("syscalls.max", number(|row| row.max_ns));
    columns.f64("syscalls.bytes", number(|row| row.bytes));

    let bars = rows.iter().enumerate().flat_map(|(at, row)| {
        row.lengths.bars().iter().map(move |&(bar, calls)| (at as u32, u32::from(bar), calls as f64))
    });
    let bars: Vec<(u32, u32, f64)> = bars.collect();
    columns.u32("syscall_bars.syscalls", collect(&bars, |bar| bar.0));
    columns.u32("syscall_bars.bar", collect(&bars, |bar| bar.1));
    columns.f64("syscall_bars.calls", collect(&bars, |bar| bar.2));
}
