//! Writes and reads the heap tables as columns.

use super::column::{ColumnReader, ColumnWriter, Malformed};
use super::tables::{BAD_REFERENCE, row, upsert};
use crate::Profile;
use crate::heap::{
    AccessRun, Growth, GrowthBar, HeapCounts, HeapSite, HeapTransfer, HistogramBar, HistogramOf,
};
use crate::ids::{StackId, ThreadId};

type Applied = Result<(), Malformed>;

pub(super) fn write_sites(rows: &[(u32, &HeapSite)]) -> Vec<u8> {
    let mut columns = ColumnWriter::default();
    columns
        .numbers("row", rows.iter().map(|(at, _)| u64::from(*at)))
        .numbers("stack", rows.iter().map(|(_, row)| u64::from(row.stack.0)))
        .numbers("growth", rows.iter().map(|(_, row)| u64::from(row.growth.code())));
    for (at, name) in HeapCounts::COLUMNS.iter().enumerate() {
        columns.numbers(name, rows.iter().map(|(_, row)| row.counts.numbers()[at]));
    }
    columns.into_bytes()
}

pub(super) fn read_sites(columns: &ColumnReader<'_>, profile: &mut Profile) -> Applied {
    let (number, stack) = (columns.numbers("row")?, columns.numbers("stack")?);
    let growth = columns.numbers("growth")?;
    // A column that an older version did not write reads as zeros.
    let counts = HeapCounts::COLUMNS.iter().map(|name| columns.numbers(name)).collect::<Vec<_>>();
    for at in 0..columns.rows() {
        let mut numbers = [0; HeapCounts::COLUMNS.len()];
        for (number, column) in numbers.iter_mut().zip(&counts) {
            *number = column.as_ref().map_or(0, |column| column[at]);
        }
        let site = HeapSite {
            stack: StackId(row(stack[at], profile.stacks.len())?),
            counts: HeapCounts::from_numbers(numbers),
            growth: Growth::from_code(growth[at]),
        };
        upsert(&mut profile.heap.sites, number[at], site)?;
    }
    Ok(())
}

pub(super) fn write_histograms(rows: &[HistogramBar]) -> Vec<u8> {
    let mut columns = ColumnWriter::default();
    columns
        .numbers("site", rows.iter().map(|row| u64::from(row.site)))
        .numbers("of", rows.iter().map(|row| u64::from(row.of.code())))
        .numbers("bar", rows.iter().map(|row| u64::from(row.bar)))
        .numbers("blocks", rows.iter().map(|row| row.blocks));
    columns.into_bytes()
}

pub(super) fn read_histograms(columns: &ColumnReader<'_>, profile: &mut Profile) -> Applied {
    let (site, of) = (columns.numbers("site")?, columns.numbers("of")?);
    let (bar, blocks) = (columns.numbers("bar")?, columns.numbers("blocks")?);
    for at in 0..columns.rows() {
        profile.heap.histograms.push(HistogramBar {
            site: row(site[at], profile.heap.sites.len())?,
            of: HistogramOf::from_code(of[at]),
            bar: u8::try_from(bar[at]).ok().filter(|bar| *bar <= 64).ok_or(BAD_REFERENCE)?,
            blocks: blocks[at],
        });
    }
    Ok(())
}

pub(super) fn write_growth(rows: &[GrowthBar]) -> Vec<u8> {
    let mut columns = ColumnWriter::default();
    for (at, name) in GrowthBar::COLUMNS.iter().enumerate() {
        columns.numbers(name, rows.iter().map(|row| row.numbers()[at]));
    }
    columns.into_bytes()
}

pub(super) fn read_growth(columns: &ColumnReader<'_>, profile: &mut Profile) -> Applied {
    let numbers =
        GrowthBar::COLUMNS.iter().map(|name| columns.numbers(name)).collect::<Result<Vec<_>, _>>()?;
    for at in 0..columns.rows() {
        let mut bar = [0; GrowthBar::COLUMNS.len()];
        for (number, column) in bar.iter_mut().zip(&numbers) {
            *number = column[at];
        }
        let bar = GrowthBar::from_numbers(bar);
        row(bar.site, profile.heap.sites.len())?;
        profile.heap.growth.push(bar);
    }
    Ok(())
}

pub(super) fn write_accesses(rows: &[AccessRun]) -> Vec<u8> {
    let mut columns = ColumnWriter::default();
    for (at, name) in AccessRun::COLUMNS.iter().enumerate() {
        columns.numbers(name, rows.iter().map(|row| row.numbers()[at]));
    }
    columns.into_bytes()
}

pub(super) fn read_accesses(columns: &ColumnReader<'_>, profile: &mut Profile) -> Applied {
    let numbers =
        AccessRun::COLUMNS.iter().map(|name| columns.numbers(name)).collect::<Result<Vec<_>, _>>()?;
    for at in 0..columns.rows() {
        let mut run = [0; AccessRun::COLUMNS.len()];
        for (number, column) in run.iter_mut().zip(&numbers) {
            *number = column[at];
        }
        let run = AccessRun::from_numbers(run);
        row(run.site, profile.heap.sites.len())?;
        run.start.checked_add(run.length).ok_or(BAD_REFERENCE)?;
        profile.heap.accesses.push(run);
    }
    Ok(())
}

pub(super) fn write_transfers(rows: &[HeapTransfer]) -> Vec<u8> {
    let mut columns = ColumnWriter::default();
    columns
        .numbers("from", rows.iter().map(|row| u64::from(row.from.0)))
        .numbers("to", rows.iter().map(|row| u64::from(row.to.0)))
        .numbers("blocks", rows.iter().map(|row| row.blocks))
        .numbers("bytes", rows.iter().map(|row| row.bytes));
    columns.into_bytes()
}

pub(super) fn read_transfers(columns: &ColumnReader<'_>, profile: &mut Profile) -> Applied {
    let (from, to) = (columns.numbers("from")?, columns.numbers("to")?);
    let (blocks, bytes) = (columns.numbers("blocks")?, columns.numbers("bytes")?);
    for at in 0..columns.rows() {
        profile.heap.transfers.push(HeapTransfer {
            from: ThreadId(row(from[at], profile.threads.len())?),
            to: ThreadId(row(to[at], profile.threads.len())?),
            blocks: blocks[at],
            bytes: bytes[at],
        });
    }
    Ok(())
}
