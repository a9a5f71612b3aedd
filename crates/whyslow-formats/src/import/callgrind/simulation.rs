//! What whyslow records with Valgrind: the costs of several processes in one profile, with the names that
//! whyslow gives to Valgrind's events, and the simulated caches.
//!
//! ```text
//! D1-misses     = D1mr + D1mw
//! LL-misses     = ILmr + DLmr + DLmw
//! branch-misses = Bcm + Bim
//! ```

use std::collections::BTreeMap;

use whyslow_profile::simulation::{Cache, EVENTS, INSTRUCTIONS, SUMS, Simulation};
use whyslow_profile::{Metric, MetricId, Profile, Samples, StackId, ThreadId};

use super::super::assemble::{Assembly, drop_empty_metrics};
use super::super::{Format, ImportError, Imported};
use super::named::{Modules, Named};
use super::parse::{Costs, parse};
use super::{CALLS, add_calls, metric, tree};

/// What Valgrind wrote about a process.
#[derive(Debug)]
pub struct Simulated<'a> {
    /// Its number.
    pub pid: u32,
    /// The process that started it.
    pub parent: Option<u32>,
    /// Its program and arguments.
    pub command: &'a [String],
    /// [`Format::Callgrind`], [`Format::Cachegrind`] or [`Format::Dhat`].
    pub format: Format,
    /// The file.
    pub bytes: &'a [u8],
}

/// Reads the files of a recording into one profile, and names its addresses.
pub fn simulated(
    processes: &[Simulated<'_>],
    symbols: &whyslow_symbols::Options,
) -> Result<Imported, ImportError> {
    let mut assembly = Assembly::new("valgrind");
    let mut files: Vec<Costs<'_>> = Vec::new();
    for process in processes {
        let costs = parse(process.format, process.bytes)?;
        if files.first().is_some_and(|first| first.events != costs.events) {
            let what = "its processes count different events";
            return Err(ImportError::unusable(process.format, what));
        }
        files.push(costs);
    }
    let Some(first) = files.first() else {
        return Err(ImportError::unusable(Format::Callgrind, "no file"));
    };
    let facts = facts(first);
    let metrics: Vec<MetricId> = first.events.iter().map(|event| assembly.metric(metric(event))).collect();
    let calls = assembly.metric(metric(CALLS));
    let mut modules = Modules::default();
    let mut named = Vec::new();
    for (process, costs) in processes.iter().zip(&files) {
        let thread = add_process(&mut assembly, process);
        let mut names = Named::new(&mut assembly, costs, &mut modules, true);
        tree::add_samples(&mut assembly, costs, &mut names, &metrics, thread);
        add_calls(&mut assembly, costs, &mut names, calls, thread);
        named.push(names);
    }
    whyslow_symbols::symbolize(&mut assembly.profile, symbols);
    named.iter_mut().for_each(|names| names.name_the_rest(&mut assembly));
    drop_empty_metrics(&mut assembly.profile);
    let mut imported = assembly.finish()?;
    name_metrics(&mut imported.profile);
    imported.profile.meta.imported_from = None;
    imported.profile.meta.simulation = facts;
    if symbols.keep_sources {
        whyslow_symbols::keep_sources(&mut imported.profile);
    }
    Ok(imported)
}

/// Adds a process with a thread for all of its threads.
pub(in super::super) fn add_process(assembly: &mut Assembly, of: &Simulated<'_>) -> ThreadId {
    let program = of.command.first().map_or("program", |word| word.rsplit('/').next().unwrap_or(word));
    let rows = &assembly.profile.processes;
    let parent = rows.iter().position(|row| Some(row.pid) == of.parent).map(Into::into);
    let process = assembly.process(of.pid, program);
    assembly.profile.processes[process.index()].parent = parent;
    assembly.thread(process, of.pid, "all threads")
}

/// Gives instructions and sums of misses whyslow's names, and puts them first.
fn name_metrics(profile: &mut Profile) {
    let by_name = |profile: &Profile, name: &str| profile.metric_named(name).map(MetricId::index);
    let mut ordered: Vec<(Metric<&str>, Samples)> = Vec::new();
    for (name, parts) in SUMS {
        let parts: Vec<usize> = parts.iter().filter_map(|part| by_name(profile, part)).collect();
        let Some(&first) = parts.first() else { continue };
        let samples = match &parts[..] {
            [only] => profile.samples[*only].clone(),
            several => sum(several.iter().map(|&part| &profile.samples[part])),
        };
        ordered.push((profile.metrics[first].renamed(name), samples));
    }
    let rest: Vec<usize> = (0..profile.metrics.len())
        .filter(|&row| profile.text(profile.metrics[row].name) != EVENTS[0])
        .collect();
    let mut metrics: Vec<Metric> = Vec::new();
    let mut samples: Vec<Samples> = Vec::new();
    for (metric, values) in ordered {
        let name = profile.strings.push(metric.name);
        metrics.push(metric.renamed(name));
        samples.push(values);
    }
    debug_assert_eq!(SUMS[0].0, INSTRUCTIONS);
    metrics.extend(rest.iter().map(|&row| profile.metrics[row]));
    samples.extend(rest.iter().map(|&row| std::mem::take(&mut profile.samples[row])));
    (profile.metrics, profile.samples) = (metrics, samples);
}

/// Adds up the values of equal stacks.
fn sum<'a>(parts: impl Iterator<Item = &'a Samples>) -> Samples {
    let mut values: BTreeMap<(ThreadId, StackId), u64> = BTreeMap::new();
    for part in parts {
        for row in 0..part.len() {
            let value = values.entry((part.thread[row], part.stack[row])).or_default();
            *value = value.saturating_add(part.value[row]);
        }
    }
    let mut sum = Samples::default();
    for ((thread, stack), value) in values {
        sum.push(0, thread, stack, value);
    }
    sum
}

/// The simulated caches; `None` if none were simulated.
pub(super) fn facts(costs: &Costs<'_>) -> Option<Simulation> {
    let caches: Vec<Cache> = costs.descriptions.iter().filter_map(|text| cache(text)).collect();
    (!caches.is_empty()).then(|| Simulation { caches, ..Simulation::default() })
}

/// `I1 cache: 32768 B, 64 B, 8-way associative`
fn cache(text: &str) -> Option<Cache> {
    let (name, text) = text.trim().split_once(" cache:")?;
    let mut parts = text.split(',').map(|part| match part.trim() {
        "direct-mapped" => Some(1),
        part => part.split([' ', '-']).next()?.parse::<u64>().ok(),
    });
    let (bytes, line_bytes, ways) = (parts.next()??, parts.next()??, parts.next()??);
    Some(Cache { name: name.to_owned(), bytes, line_bytes, ways })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_read_from_the_head_of_a_file() {
        let of = |text| cache(text).map(|cache| (cache.name, cache.bytes, cache.line_bytes, cache.ways));
        assert_eq!(
            of("I1 cache:         32768 B, 64 B, 8-way associative"),
            Some(("I1".to_owned(), 32768, 64, 8))
        );
        assert_eq!(of("LL cache: 4096 B, 64 B, direct-mapped"), Some(("LL".to_owned(), 4096, 64, 1)));
        assert_eq!(of("LL cache: 4096 B, 64 B"), None);
        assert_eq!(of("Timerange: Basic block 0 - 24033928"), None);
    }
}
