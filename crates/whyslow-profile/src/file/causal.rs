//! Writes and reads the tables of causal profiling as columns. Shares are stored as the bits of a number.

use super::column::{ColumnReader, ColumnWriter, Malformed};
use super::tables::{line, optional, optional_row, row, upsert};
use crate::Profile;
use crate::causal::{CausalPoint, CausalTarget, Experiment, PointKind, TargetKind, Visits};
use crate::ids::{ExperimentId, PointId, StringId, TargetId};

pub(super) fn write_points(rows: &[CausalPoint]) -> Vec<u8> {
    let mut columns = ColumnWriter::default();
    columns
        .numbers("kind", rows.iter().map(|row| u64::from(row.kind.code())))
        .numbers("name", rows.iter().map(|row| u64::from(row.name.0)))
        .numbers("file", rows.iter().map(|row| optional(row.file.map(|id| id.0))))
        .numbers("line", rows.iter().map(|row| u64::from(row.line)));
    columns.into_bytes()
}

pub(super) fn read_points(columns: &ColumnReader<'_>, profile: &mut Profile) -> Result<(), Malformed> {
    let (kind, name) = (columns.numbers("kind")?, columns.numbers("name")?);
    let (file, lines) = (columns.numbers("file")?, columns.numbers("line")?);
    let texts = profile.strings.len();
    for at in 0..columns.rows() {
        profile.causal.points.push(CausalPoint {
            kind: PointKind::from_code(kind[at]),
            name: StringId(row(name[at], texts)?),
            file: optional_row(file[at], texts)?.map(StringId),
            line: line(lines[at]),
        });
    }
    Ok(())
}

pub(super) fn write_targets(rows: &[(u32, &CausalTarget)]) -> Vec<u8> {
    let mut columns = ColumnWriter::default();
    columns
        .numbers("row", rows.iter().map(|(id, _)| u64::from(*id)))
        .numbers("kind", rows.iter().map(|(_, row)| u64::from(row.kind.code())))
        .numbers("function", rows.iter().map(|(_, row)| u64::from(row.function.0)))
        .numbers("file", rows.iter().map(|(_, row)| optional(row.file.map(|id| id.0))))
        .numbers("line", rows.iter().map(|(_, row)| u64::from(row.line)))
        .numbers("share", rows.iter().map(|(_, row)| row.share.to_bits()))
        .numbers("samples", rows.iter().map(|(_, row)| row.samples));
    columns.into_bytes()
}

pub(super) fn read_targets(columns: &ColumnReader<'_>, profile: &mut Profile) -> Result<(), Malformed> {
    let (ids, kind, function) =
        (columns.numbers("row")?, columns.numbers("kind")?, columns.numbers("function")?);
    let (file, lines) = (columns.numbers("file")?, columns.numbers("line")?);
    let (share, samples) = (columns.numbers("share")?, columns.numbers("samples")?);
    let texts = profile.strings.len();
    for at in 0..columns.rows() {
        let target = CausalTarget {
            kind: TargetKind::from_code(kind[at]),
            function: StringId(row(function[at], texts)?),
            file: optional_row(file[at], texts)?.map(StringId),
            line: line(lines[at]),
            share: at_most_one(share[at])?,
            samples: samples[at],
        };
        upsert(&mut profile.causal.targets, ids[at], target)?;
    }
    Ok(())
}

pub(super) fn write_experiments(rows: &[Experiment]) -> Vec<u8> {
    let mut columns = ColumnWriter::default();
    columns
        .numbers("start", rows.iter().map(|row| row.start_ns))
        .numbers("length", rows.iter().map(|row| row.length_ns))
        .numbers("target", rows.iter().map(|row| optional(row.target.map(|id| id.0))))
        .numbers("speedup", rows.iter().map(|row| row.speedup.to_bits()))
        .numbers("delay", rows.iter().map(|row| row.delay_ns))
        .numbers("hits", rows.iter().map(|row| row.hits))
        .numbers("samples", rows.iter().map(|row| row.samples))
        .numbers("queued", rows.iter().map(|row| row.queued.to_bits()))
        .numbers("busy_threads", rows.iter().map(|row| u64::from(row.busy_threads)))
        .numbers("waits", rows.iter().map(|row| row.waits))
        .numbers("run", rows.iter().map(|row| u64::from(row.run)));
    columns.into_bytes()
}

pub(super) fn read_experiments(columns: &ColumnReader<'_>, profile: &mut Profile) -> Result<(), Malformed> {
    let (start, length, delay) =
        (columns.numbers("start")?, columns.numbers("length")?, columns.numbers("delay")?);
    let (target, speedup) = (columns.numbers("target")?, columns.numbers("speedup")?);
    let (hits, samples) = (columns.numbers("hits")?, columns.numbers("samples")?);
    let (queued, busy, run) =
        (columns.numbers("queued")?, columns.numbers("busy_threads")?, columns.numbers("run")?);
    let waits = columns.numbers_or_zeros("waits")?;
    let small = |value| u32::try_from(value).map_err(|_| "the number of a run or of threads is too large");
    for at in 0..columns.rows() {
        profile.causal.experiments.push(Experiment {
            start_ns: start[at],
            length_ns: length[at],
            target: optional_row(target[at], profile.causal.targets.len())?.map(TargetId),
            speedup: at_most_one(speedup[at])?,
            delay_ns: delay[at],
            hits: hits[at],
            samples: samples[at],
            queued: share(queued[at])?,
            busy_threads: small(busy[at])?,
            waits: waits[at],
            run: small(run[at])?,
        });
    }
    Ok(())
}

pub(super) fn write_visits(rows: &[Visits]) -> Vec<u8> {
    let mut columns = ColumnWriter::default();
    columns
        .numbers("experiment", rows.iter().map(|row| u64::from(row.experiment.0)))
        .numbers("point", rows.iter().map(|row| u64::from(row.point.0)))
        .numbers("count", rows.iter().map(|row| row.count))
        .numbers("first", rows.iter().map(|row| row.first_ns))
        .numbers("last", rows.iter().map(|row| row.last_ns))
        .numbers("arrivals", rows.iter().map(|row| row.arrivals))
        .numbers("in_flight", rows.iter().map(|row| row.in_flight_ns));
    columns.into_bytes()
}

pub(super) fn read_visits(columns: &ColumnReader<'_>, profile: &mut Profile) -> Result<(), Malformed> {
    let (experiment, point) = (columns.numbers("experiment")?, columns.numbers("point")?);
    let (count, first, last) =
        (columns.numbers("count")?, columns.numbers("first")?, columns.numbers("last")?);
    let (arrivals, in_flight) = (columns.numbers("arrivals")?, columns.numbers("in_flight")?);
    let causal = &mut profile.causal;
    for at in 0..columns.rows() {
        causal.visits.push(Visits {
            experiment: ExperimentId(row(experiment[at], causal.experiments.len())?),
            point: PointId(row(point[at], causal.points.len())?),
            count: count[at],
            first_ns: first[at],
            last_ns: last[at],
            arrivals: arrivals[at],
            in_flight_ns: in_flight[at],
        });
    }
    Ok(())
}

/// A number from its bits: finite and not negative.
fn share(bits: u64) -> Result<f64, Malformed> {
    let value = f64::from_bits(bits);
    if value.is_finite() && value.is_sign_positive() { Ok(value) } else { Err("a share is not a number") }
}

fn at_most_one(bits: u64) -> Result<f64, Malformed> {
    share(bits).and_then(|value| if value <= 1.0 { Ok(value) } else { Err("a share exceeds 1") })
}
