//! Writes and reads the table of system calls as columns.

use super::column::{ColumnReader, ColumnWriter, Malformed, get_varint, put_varint};
use super::tables::{optional, optional_row, row};
use crate::Profile;
use crate::ids::{StackId, StringId, ThreadId};
use crate::syscalls::{Lengths, Syscalls};

pub(super) fn write(rows: &[Syscalls]) -> Vec<u8> {
    let mut columns = ColumnWriter::default();
    let lengths: Vec<Vec<u8>> = rows.iter().map(|row| pack(&row.lengths)).collect();
    columns
        .numbers("time", rows.iter().map(|row| row.time_ns))
        .numbers("thread", rows.iter().map(|row| u64::from(row.thread.0)))
        .numbers("stack", rows.iter().map(|row| u64::from(row.stack.0)))
        .numbers("call", rows.iter().map(|row| u64::from(row.call.0)))
        .numbers("file", rows.iter().map(|row| optional(row.file.map(|id| id.0))))
        .numbers("error", rows.iter().map(|row| optional(row.error.map(|id| id.0))))
        .numbers("count", rows.iter().map(|row| row.count))
        .numbers("spread", rows.iter().map(|row| row.spread))
        .numbers("total", rows.iter().map(|row| row.total_ns))
        .numbers("max", rows.iter().map(|row| row.max_ns))
        .numbers("bytes", rows.iter().map(|row| row.bytes))
        .blobs("lengths", lengths.iter().map(Vec::as_slice));
    columns.into_bytes()
}

pub(super) fn read(columns: &ColumnReader<'_>, profile: &mut Profile) -> Result<(), Malformed> {
    let number = |name| columns.numbers(name);
    let (time, thread, stack) = (number("time")?, number("thread")?, number("stack")?);
    let (call, file, error) = (number("call")?, number("file")?, number("error")?);
    let (count, spread, bytes) = (number("count")?, number("spread")?, number("bytes")?);
    let (total, max, lengths) = (number("total")?, number("max")?, columns.blobs("lengths")?);
    let texts = profile.strings.len();
    for at in 0..columns.rows() {
        profile.syscalls.push(Syscalls {
            time_ns: time[at],
            thread: ThreadId(row(thread[at], profile.threads.len())?),
            stack: StackId(row(stack[at], profile.stacks.len())?),
            call: StringId(row(call[at], texts)?),
            file: optional_row(file[at], texts)?.map(StringId),
            error: optional_row(error[at], texts)?.map(StringId),
            count: count[at],
            spread: spread[at],
            total_ns: total[at],
            max_ns: max[at],
            bytes: bytes[at],
            lengths: unpack(lengths[at])?,
        });
    }
    Ok(())
}

/// The number and the count of each bar.
fn pack(lengths: &Lengths) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &(bar, count) in lengths.bars() {
        put_varint(&mut bytes, u64::from(bar));
        put_varint(&mut bytes, count);
    }
    bytes
}

fn unpack(mut bytes: &[u8]) -> Result<Lengths, Malformed> {
    let mut bars = Vec::new();
    while !bytes.is_empty() {
        let bar = u16::try_from(get_varint(&mut bytes)?).ok().filter(|bar| *bar <= Lengths::LAST_BAR);
        bars.push((bar.ok_or("a length is in no bar")?, get_varint(&mut bytes)?));
    }
    Ok(Lengths::from_bars(bars))
}
