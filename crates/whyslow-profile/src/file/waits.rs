//! What is known of single waits, as columns and back.

use std::ops::Range;

use super::column::{ColumnReader, ColumnWriter, Malformed};
use super::tables::{optional, optional_row, row};
use crate::Profile;
use crate::ids::{StackId, ThreadId};
use crate::tables::{WaitDetail, WaitDetails, WokenBy};

pub(super) fn write_details(details: &WaitDetails, rows: Range<usize>) -> Vec<u8> {
    let rows = || rows.clone().map(|at| details.row(at));
    let mut columns = ColumnWriter::default();
    columns
        .numbers("thread", rows().map(|row| u64::from(row.thread.0)))
        .numbers("end", rows().map(|row| row.end_ns))
        .numbers("cpu", rows().map(|row| optional(row.cpu)))
        .numbers("argument", rows().map(|row| row.argument))
        .numbers("woken_by", rows().map(|row| u64::from(row.woken_by.code())))
        .numbers("waker", rows().map(|row| optional(row.waker.map(|id| id.0))))
        .numbers("waker_stack", rows().map(|row| optional(row.waker_stack.map(|id| id.0))));
    columns.into_bytes()
}

pub(super) fn read_details(columns: &ColumnReader<'_>, profile: &mut Profile) -> Result<(), Malformed> {
    let (thread, end, cpu) = (columns.numbers("thread")?, columns.numbers("end")?, columns.numbers("cpu")?);
    let (argument, woken_by) = (columns.numbers("argument")?, columns.numbers("woken_by")?);
    let (waker, waker_stack) = (columns.numbers("waker")?, columns.numbers("waker_stack")?);
    let threads = profile.threads.len();
    for at in 0..columns.rows() {
        profile.wait_details.push(WaitDetail {
            thread: ThreadId(row(thread[at], threads)?),
            end_ns: end[at],
            cpu: optional_row(cpu[at], u32::MAX as usize)?,
            argument: argument[at],
            woken_by: WokenBy::from_code(woken_by[at]),
            waker: optional_row(waker[at], threads)?.map(ThreadId),
            waker_stack: optional_row(waker_stack[at], profile.stacks.len())?.map(StackId),
        });
    }
    Ok(())
}
