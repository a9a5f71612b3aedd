//! Imports callgrind.out: the costs that Valgrind's callgrind counts, per function, line and call.
//!
//! ```text
//! events: Ir Dr                  what each cost column counts
//! positions: instr line          the columns before the costs; usually `line` alone
//! ob=(1) /usr/bin/app            object, file and function of the lines that follow; a number has its name
//! fl=(1) main.c                  only once, afterwards it stands alone
//! fn=(1) main
//! 16 400 7                       own cost at line 16; +N, -N and * are relative to the line before
//! cfn=(2) work                   a call: callee (with cob= and cfi= if they differ), count,
//! calls=1 50                     and on the next line its call site and inclusive cost
//! 16 1200 9
//! ```
//! The format has no stacks, only calls. [`tree`] reconstructs stacks from them.

mod flow;
mod named;
mod parse;
mod simulation;
mod tree;

use whyslow_profile::{ImportNote, Metric, MetricId, Origin, Subject, ThreadId, Unit};

use super::assemble::{Assembly, drop_empty_metrics};
use super::{Format, ImportError, ImportOptions, Imported, lines};
use named::{Modules, Named};
pub(super) use parse::parse;
use parse::{Costs, Place};
pub(super) use simulation::add_process;
use simulation::facts;
pub use simulation::{Simulated, simulated};

/// The metric for the number of calls.
const CALLS: &str = "calls";

pub(super) fn looks_like(start: &[u8]) -> bool {
    let start = lines::whole(start);
    if !lines::is_text(start) {
        return false;
    }
    let mut events = false;
    let mut own = false;
    for (number, line) in lines::numbered(start).take(200) {
        own |= number == 1 && line.starts_with("# callgrind format");
        own |= line.starts_with("creator: callgrind") || line.starts_with("positions:");
        own |= line.starts_with("calls=") || line.starts_with("version:");
        events |= line.starts_with("events:");
    }
    own && events
}

pub(super) fn read(bytes: &[u8], _options: &ImportOptions) -> Result<Imported, ImportError> {
    let costs = parse::parse(Format::Callgrind, bytes)?;
    let mut assembly = Assembly::new("callgrind");
    assembly.note(ImportNote::CallgrindCounts);
    if costs.functions.iter().any(|function| !function.calls.is_empty()) {
        assembly.note(ImportNote::CallgrindCalls);
    }
    assemble(assembly, costs)
}

/// A metric of Valgrind's simulated machine.
fn metric(name: &str) -> Metric<&str> {
    Metric { of: Subject::Event, origin: Origin::Simulated, ..Metric::unknown(name, Unit::Count) }
}

/// Builds a profile of costs, for cachegrind too.
pub(super) fn assemble(mut assembly: Assembly, costs: Costs<'_>) -> Result<Imported, ImportError> {
    if !costs.command.is_empty() {
        assembly.profile.meta.command = costs.command.split_whitespace().map(str::to_owned).collect();
    }
    let program = named::program(&costs);
    let process = assembly.process(costs.pid, if program.is_empty() { "program" } else { &program });
    let thread = assembly.thread(process, costs.thread.unwrap_or(costs.pid), "all threads");
    let metrics: Vec<MetricId> = costs.events.iter().map(|event| assembly.metric(metric(event))).collect();
    let mut named = Named::new(&mut assembly, &costs, &mut Modules::default(), false);
    tree::add_samples(&mut assembly, &costs, &mut named, &metrics, thread);
    let calls = assembly.metric(metric(CALLS));
    add_calls(&mut assembly, &costs, &mut named, calls, thread);
    assembly.profile.meta.simulation = facts(&costs);
    drop_empty_metrics(&mut assembly.profile);
    let mut imported = assembly.finish()?;
    whyslow_symbols::keep_sources(&mut imported.profile);
    Ok(imported)
}

/// Adds the number of calls of each function as a metric. A function's own value is the number of its calls,
/// beneath its callers.
fn add_calls(
    assembly: &mut Assembly,
    costs: &Costs<'_>,
    named: &mut Named<'_>,
    metric: MetricId,
    thread: ThreadId,
) {
    for (caller, function) in costs.functions.iter().enumerate() {
        let mut calls: Vec<_> = function.calls.iter().collect();
        calls.sort_by_key(|(place, _)| **place);
        for (&(callee, place), call) in calls {
            let location = named.location(assembly, caller, place);
            let from = assembly.stack(None, location);
            let start = Place { file: costs.functions[callee].file, line: 0, address: call.entry };
            let location = named.location(assembly, callee, start);
            let stack = assembly.stack(Some(from), location);
            if call.count > 0 {
                assembly.sample(metric, 0, thread, stack, call.count);
            }
        }
    }
}

#[cfg(test)]
mod tests;
