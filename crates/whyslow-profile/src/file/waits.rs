//! Writes and reads the details of waits, and the variables that threads waited on, as columns.

use std::ops::Range;

use super::column::{ColumnReader, ColumnWriter, Malformed};
use super::tables::{optional, optional_row, row};
use crate::Profile;
use crate::ids::{ModuleId, RelativeAddress, StackId, StringId, ThreadId};
use crate::tables::{Static, WaitDetail, WaitDetails, WokenBy};

pub(super) fn write_details(details: &WaitDetails, rows: Range<usize>) -> Vec<u8> {
    let rows = || rows.clone().map(|at| details.row(at));
    let mut columns = ColumnWriter::default();
    columns
        .numbers("thread", rows().map(|row| u64::from(row.thread.0)))
        .numbers("end", rows().map(|row| row.end_ns))
        .numbers("cpu", rows().map(|row| optional(row.cpu)))
        .numbers("argument", rows().map(|row| row.argument))
        .numbers("parked_on", rows().map(|row| row.parked_on))
        .numbers("data_module", rows().map(|row| optional(row.data.map(|(module, _)| module.0))))
        .numbers("data_address", rows().map(|row| row.data.map_or(0, |(_, address)| address.0)))
        .numbers("woken_by", rows().map(|row| u64::from(row.woken_by.code())))
        .numbers("waker", rows().map(|row| optional(row.waker.map(|id| id.0))))
        .numbers("waker_stack", rows().map(|row| optional(row.waker_stack.map(|id| id.0))));
    columns.into_bytes()
}

pub(super) fn read_details(columns: &ColumnReader<'_>, profile: &mut Profile) -> Result<(), Malformed> {
    let (thread, end, cpu) = (columns.numbers("thread")?, columns.numbers("end")?, columns.numbers("cpu")?);
    let (argument, woken_by) = (columns.numbers("argument")?, columns.numbers("woken_by")?);
    let parked_on = columns.numbers_or_zeros("parked_on")?;
    let data_module = columns.numbers_or_zeros("data_module")?;
    let data_address = columns.numbers_or_zeros("data_address")?;
    let (waker, waker_stack) = (columns.numbers("waker")?, columns.numbers("waker_stack")?);
    let (threads, modules) = (profile.threads.len(), profile.modules.len());
    for at in 0..columns.rows() {
        profile.wait_details.push(WaitDetail {
            thread: ThreadId(row(thread[at], threads)?),
            end_ns: end[at],
            cpu: optional_row(cpu[at], u32::MAX as usize)?,
            argument: argument[at],
            parked_on: parked_on[at],
            data: optional_row(data_module[at], modules)?
                .map(|module| (ModuleId(module), RelativeAddress(data_address[at]))),
            woken_by: WokenBy::from_code(woken_by[at]),
            waker: optional_row(waker[at], threads)?.map(ThreadId),
            waker_stack: optional_row(waker_stack[at], profile.stacks.len())?.map(StackId),
        });
    }
    Ok(())
}

pub(super) fn write_statics(rows: &[Static]) -> Vec<u8> {
    let mut columns = ColumnWriter::default();
    columns
        .numbers("module", rows.iter().map(|row| u64::from(row.module.0)))
        .numbers("start", rows.iter().map(|row| row.start.0))
        .numbers("len", rows.iter().map(|row| row.len))
        .numbers("name", rows.iter().map(|row| u64::from(row.name.0)));
    columns.into_bytes()
}

pub(super) fn read_statics(columns: &ColumnReader<'_>, profile: &mut Profile) -> Result<(), Malformed> {
    let (module, start) = (columns.numbers("module")?, columns.numbers("start")?);
    let (len, name) = (columns.numbers("len")?, columns.numbers("name")?);
    for at in 0..columns.rows() {
        profile.statics.push(Static {
            module: ModuleId(row(module[at], profile.modules.len())?),
            start: RelativeAddress(start[at]),
            len: len[at],
            name: StringId(row(name[at], profile.strings.len())?),
        });
    }
    Ok(())
}
