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
mod parse;
mod tree;

use whyslow_profile::{
    ImportNote, Metric, MetricId, ModuleId, ModuleKind, Origin, StringId, Subject, SymbolState, ThreadId,
    Unit,
};

use super::assemble::{Assembly, FunctionText, drop_empty_metrics};
use super::{Format, ImportError, ImportOptions, Imported, lines};
use parse::Costs;
pub(super) use parse::parse;

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
fn simulated(name: &str) -> Metric<&str> {
    Metric { of: Subject::Event, origin: Origin::Simulated, ..Metric::unknown(name, Unit::Count) }
}

/// Builds a profile of costs, for cachegrind too.
pub(super) fn assemble(mut assembly: Assembly, costs: Costs<'_>) -> Result<Imported, ImportError> {
    if !costs.command.is_empty() {
        assembly.profile.meta.command = costs.command.split_whitespace().map(str::to_owned).collect();
    }
    let program = costs.command.split_whitespace().next().unwrap_or("");
    let program = program.rsplit('/').next().unwrap_or(program).to_owned();
    let process = assembly.process(costs.pid, if program.is_empty() { "program" } else { &program });
    let thread = assembly.thread(process, costs.thread.unwrap_or(costs.pid), "all threads");
    let metrics: Vec<MetricId> = costs.events.iter().map(|event| assembly.metric(simulated(event))).collect();
    let modules: Vec<Option<ModuleId>> =
        costs.objects.names().map(|path| module(&mut assembly, path, &program)).collect();
    let files: Vec<Option<StringId>> =
        costs.files.names().map(|file| is_known(file).then(|| assembly.text(file))).collect();
    let functions: Vec<tree::Code> = costs
        .functions
        .iter()
        .map(|function| {
            let file = costs.files.name(function.file);
            let module = modules.get(function.object).copied().flatten();
            let address = function.name.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
            if let (Some(module), Some(address)) = (module, address) {
                return tree::Code::Unnamed(module, address);
            }
            let file = is_known(file).then_some(file);
            tree::Code::Function(assembly.function(&FunctionText {
                name: function.name,
                file,
                line: 0,
                module,
            }))
        })
        .collect();
    let named = tree::Named { functions: &functions, files: &files };
    tree::add_samples(&mut assembly, &costs, &named, &metrics, thread);
    add_calls(&mut assembly, &costs, &named, thread);
    drop_empty_metrics(&mut assembly.profile);
    let mut imported = assembly.finish()?;
    whyslow_symbols::keep_sources(&mut imported.profile);
    Ok(imported)
}

/// Adds the number of calls of each function as a metric. A function's own value is the number of its calls,
/// beneath its callers.
fn add_calls(assembly: &mut Assembly, costs: &Costs<'_>, named: &tree::Named<'_>, thread: ThreadId) {
    let metric = assembly.metric(simulated(CALLS));
    for (caller, function) in costs.functions.iter().enumerate() {
        let mut calls: Vec<_> = function.calls.iter().collect();
        calls.sort_by_key(|(place, _)| **place);
        for (&(callee, file, line), call) in calls {
            let location = named.location(assembly, caller, file, line);
            let from = assembly.stack(None, location);
            let location = named.location(assembly, callee, costs.functions[callee].file, 0);
            let stack = assembly.stack(Some(from), location);
            if call.count > 0 {
                assembly.sample(metric, 0, thread, stack, call.count);
            }
        }
    }
}

fn is_known(name: &str) -> bool {
    !name.is_empty() && name != "???"
}

fn module(assembly: &mut Assembly, path: &str, program: &str) -> Option<ModuleId> {
    if !is_known(path) {
        return None;
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    let kind = if name == program { ModuleKind::Program } else { ModuleKind::Library };
    let module = assembly.module(path, None, kind);
    assembly.profile.modules[module.index()].symbols = SymbolState::Lines;
    Some(module)
}

#[cfg(test)]
mod tests;
