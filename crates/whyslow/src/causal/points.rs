//! Progress points as the user names them, and the code that they mean.

use std::collections::BTreeSet;
use std::path::Path;

use whyslow_capture::{CodePoint, MOST_POINTS, Means, PointPlace, PointRole, Spot, call_names, exits, means};
use whyslow_elf::{ElfFile, FileAddress};
use whyslow_processor::Processor;
use whyslow_symbols::{
    DebugFolders, NoEntry, NoLine, Wanted, entries, functions, inlined_functions, line_places,
    separate_debug_file,
};
use whyslow_words::{nearest, number_of};

use super::modules::{Modules, is_shell};
use crate::failure::{Failure, Result};

/// A progress point that the user has named.
#[derive(Debug, Clone)]
pub(crate) struct NamedPoint {
    /// Its name in the answer.
    pub(crate) name: String,
    /// Whether it begins and ends.
    pub(crate) is_latency: bool,
    /// Its place in the source, if known.
    pub(crate) source: Option<(String, u32)>,
    /// Its code.
    pub(crate) code: Vec<CodePoint>,
    /// What one visit costs the program, if that is more than a few nanoseconds.
    pub(crate) cost_ns: u64,
}

/// The most hardware breakpoints that a CPU has.
const MOST_BREAKPOINTS: usize = 4;
/// What a visit of a hardware breakpoint costs, measured in a virtual machine: less without one.
const BREAKPOINT_NS: u64 = 20_000;
/// The most names that an error lists.
const MOST_NAMES: usize = 4;

/// What an option asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked<'a> {
    /// The entry of a function.
    Entry(&'a str),
    /// The return of a function.
    Return(&'a str),
    /// From the entry of a function to its return.
    Call(&'a str),
    /// A line of a source file.
    Line(&'a str, u32),
    /// A system call, by the function of libc for it.
    SystemCall(&'a str),
}

impl<'a> Asked<'a> {
    fn parse(text: &'a str) -> Self {
        let line = text.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?)));
        match line {
            Some((file, line)) if !file.is_empty() && !file.ends_with(':') => Self::Line(file, line),
            _ => match (text.strip_prefix("syscall:"), text.strip_suffix("@return")) {
                (Some(call), _) => Self::SystemCall(call),
                (_, Some(function)) => Self::Return(function),
                _ => Self::Entry(text),
            },
        }
    }
}

/// An option as the user has written it.
#[derive(Clone, Copy)]
struct Given<'a> {
    option: &'static str,
    text: &'a str,
    asked: Asked<'a>,
}

impl<'a> Given<'a> {
    fn progress(text: &'a str) -> Self {
        Self { option: "--progress", text, asked: Asked::parse(text) }
    }

    fn latency(text: &'a str) -> Self {
        Self { option: "--latency", text, asked: Asked::Call(text) }
    }

    /// The error that nothing is found for it.
    fn fails(&self, why: &str) -> Failure {
        Failure::new(format!("{} {}: {why}", self.option, self.text))
    }

    /// The same option with another function.
    fn with(&self, function: &str) -> String {
        let end = if matches!(self.asked, Asked::Return(_)) { "@return" } else { "" };
        format!("{} {function}{end}", self.option)
    }
}

/// Code that was found: its name, its place in the source, and its addresses with what a visit of them means.
struct Found {
    name: String,
    source: Option<(String, u32)>,
    code: Vec<(PointRole, Vec<PointPlace>)>,
}

/// Finds the points of `--progress` and `--latency` in a program.
pub(crate) fn find(modules: &Modules, progress: &[String], latency: &[String]) -> Result<Vec<NamedPoint>> {
    let mut points: Vec<NamedPoint> = Vec::new();
    let mut given_of = Vec::new();
    let latency = latency.iter().map(|text| Given::latency(text));
    let options = progress.iter().map(|text| Given::progress(text)).chain(latency);
    for given in options {
        let found = match given.asked {
            Asked::Entry(name) | Asked::Return(name) | Asked::Call(name) => function(modules, given, name)?,
            Asked::Line(file, line) => source_line(modules, given, file, line)?,
            Asked::SystemCall(call) => system_call(modules, given, call)?,
        };
        let is_latency = matches!(given.asked, Asked::Call(_));
        if points.iter().any(|point| point.name == found.name && point.is_latency == is_latency) {
            continue;
        }
        let Found { name, source, code } = found;
        let code = code.into_iter().map(|(role, places)| CodePoint { name: name.clone(), role, places });
        let code = code.collect();
        points.push(NamedPoint { name, is_latency, source, code, cost_ns: 0 });
        given_of.push(given);
    }
    check_room(&points)?;
    let mut left = MOST_BREAKPOINTS;
    for (row, breakpoints) in count_breakpoints(modules, &points)?.into_iter().enumerate() {
        let given = given_of[row];
        let Some(breakpoints) = breakpoints else {
            return Err(given
                .fails("another point is in the same instructions")
                .next("one of the two, in a run of its own"));
        };
        left = left.checked_sub(breakpoints).ok_or_else(|| too_many(given, breakpoints))?;
        points[row].cost_ns = if breakpoints > 0 { BREAKPOINT_NS } else { 0 };
    }
    Ok(points)
}

/// The error that there are more points than the agent counts.
fn check_room(points: &[NamedPoint]) -> Result<()> {
    let count: usize = points.iter().map(|point| point.code.len()).sum();
    if count <= MOST_POINTS {
        return Ok(());
    }
    let why = format!(
        "--progress and --latency ask for {count} points, and {MOST_POINTS} can be counted at a time"
    );
    Err(Failure::new(why).next("the points that matter most; a function of --latency is two points"))
}

/// How many hardware breakpoints each point needs. `None` if another point is in the way.
fn count_breakpoints(modules: &Modules, points: &[NamedPoint]) -> Result<Vec<Option<usize>>> {
    let mut counts = vec![Some(0); points.len()];
    for module in modules.all() {
        let mut places: Vec<PointPlace> = Vec::new();
        let mut rows = Vec::new();
        for (row, point) in points.iter().enumerate() {
            let here = point.code.iter().flat_map(|code| &code.places).filter(|place| place.module == module);
            places.extend(here.cloned());
            rows.resize(places.len(), row);
        }
        if places.is_empty() {
            continue;
        }
        let found = means(module, &places).map_err(|error| unreadable(module, &error))?;
        for (row, means) in rows.into_iter().zip(found) {
            counts[row] = match means {
                Means::Patch => counts[row],
                Means::Breakpoint => counts[row].map(|count| count + 1),
                Means::Nothing => None,
            };
        }
    }
    Ok(counts)
}

fn place(module: &Path, address: FileAddress, spot: Spot) -> PointPlace {
    PointPlace { module: module.to_owned(), address, spot, point: 0 }
}

/// The entry of a function of the program, its return, or both.
fn function(modules: &Modules, given: Given<'_>, wanted: &str) -> Result<Found> {
    let program = &modules.program;
    let (module, name, addresses) = match named_in_any(modules, wanted) {
        Ok(found) => found,
        Err(NoEntry::Unreadable(error)) => return Err(unreadable(program, &error)),
        Err(NoEntry::NotElf) => return Err(unreadable(program, &"it is no program but a script")),
        Err(_) if is_shell(program) => {
            let what = format!("{} has no such function", program.display());
            return Err(given.fails(&what).next("start the program without a shell around it"));
        }
        Err(NoEntry::NoSymbols) => {
            return Err(given
                .fails(&format!("{} has no function names", program.display()))
                .next("build it without stripping (Cargo: strip = false)"));
        }
        Err(NoEntry::Ambiguous(names)) => {
            let count = number_of(names.len() as u64, "function", "functions");
            return Err(given
                .fails(&format!("it is the name of {count}: {}", some_of(&names)))
                .next("more of its path, as printed here"));
        }
        Err(NoEntry::Inlined) => return Err(inlined(program, given, wanted)),
        Err(NoEntry::Absent(near)) => {
            let near: Vec<String> = near.iter().map(|name| given.with(name)).collect();
            let what =
                format!("neither {} nor a library that it loads has such a function", program.display());
            return Err(given.fails(&what).next(match near.is_empty() {
                true => "a function that is not inlined, or a line: --progress FILE:LINE".to_owned(),
                false => near.join(" or "),
            }));
        }
    };
    let entries = || addresses.iter().map(|address| place(module, *address, Spot::Entry)).collect();
    let (name, code) = match given.asked {
        Asked::Return(_) => {
            (format!("{name}@return"), vec![(PointRole::Visit, returns(module, given, &addresses)?)])
        }
        Asked::Call(_) => {
            let ends = (PointRole::End, returns(module, given, &addresses)?);
            (name, vec![(PointRole::Begin, entries()), ends])
        }
        _ => (name, vec![(PointRole::Visit, entries())]),
    };
    Ok(Found { name, source: None, code })
}

/// Where functions return.
fn returns(module: &Path, given: Given<'_>, functions: &[FileAddress]) -> Result<Vec<PointPlace>> {
    let mut places = Vec::new();
    for function in functions {
        let Some(exits) = exits(module, *function).map_err(|error| unreadable(module, &error))? else {
            return Err(given
                .fails("where it returns cannot be told from its code")
                .next("a function that it calls last, or a line: --progress FILE:LINE"));
        };
        places.extend(exits.into_iter().map(|address| place(module, address, Spot::Return)));
    }
    if places.is_empty() {
        return Err(given.fails("it never returns").next("a function that it calls again and again"));
    }
    Ok(places)
}

/// A function of the program, or else of the first library that has it.
fn named_in_any<'m>(
    modules: &'m Modules,
    wanted: &str,
) -> std::result::Result<(&'m Path, String, Vec<FileAddress>), NoEntry> {
    let mut first = None;
    for module in modules.all() {
        match named(module, wanted) {
            Ok((name, addresses)) => return Ok((module, name, addresses)),
            Err(NoEntry::Ambiguous(names)) => return Err(NoEntry::Ambiguous(names)),
            Err(error) => {
                // The program's own error says most, unless only a library has a similar name.
                let is_better = match (&first, &error) {
                    (None, _) => true,
                    (Some(NoEntry::Absent(none)), NoEntry::Absent(near)) => {
                        none.is_empty() && !near.is_empty()
                    }
                    _ => false,
                };
                if is_better {
                    first = Some(error);
                }
            }
        }
    }
    Err(first.unwrap_or(NoEntry::NotElf))
}

/// The function of libc that makes a system call.
fn system_call(modules: &Modules, given: Given<'_>, call: &str) -> Result<Found> {
    let names = || call_names(Processor::HOST);
    if !names().any(|name| name == call) {
        let near = nearest(call, names().map(str::to_owned));
        let near: Vec<String> = near.iter().map(|name| format!("--progress syscall:{name}")).collect();
        let failure = given.fails("there is no such system call");
        return Err(if near.is_empty() { failure } else { failure.next(near.join(" or ")) });
    }
    let libc = modules.libc();
    let mut places = Vec::new();
    let other = ALSO.iter().filter(|(name, _)| *name == call).map(|(_, function)| *function);
    for function in std::iter::once(call).chain(other) {
        if let Ok((_, addresses)) = named(libc, function) {
            places.extend(addresses.into_iter().map(|address| place(libc, address, Spot::Entry)));
        }
    }
    places.sort_unstable_by_key(|place| place.address);
    places.dedup();
    if places.is_empty() {
        let what =
            format!("{} has no function of that name, which its calls could be counted by", libc.display());
        return Err(given.fails(&what).next("a function of the program that makes it: --progress FUNCTION"));
    }
    let code = vec![(PointRole::Visit, places)];
    Ok(Found { name: format!("syscall:{call}"), source: None, code })
}

/// Other functions of libc that make a system call by themselves.
const ALSO: &[(&str, &str)] = &[("openat", "open"), ("sendto", "send"), ("recvfrom", "recv")];

/// The name and the addresses of a function. Instances of one generic function are one.
fn named(module: &Path, wanted: &str) -> std::result::Result<(String, Vec<FileAddress>), NoEntry> {
    let file = ElfFile::open(module).map_err(|error| NoEntry::Unreadable(error.to_string()))?;
    let elf = file.parse().map_err(|_| NoEntry::NotElf)?;
    let of = |name: &str| {
        let found = entries(module, name)?;
        let addresses = found.offsets.iter().filter_map(|offset| {
            let holds = |start: u64, len: u64| offset.checked_sub(start).is_some_and(|into| into < len);
            let segment = elf.segments().find(|segment| holds(segment.file_offset, segment.file_len))?;
            Some(FileAddress(segment.address.0 + (offset - segment.file_offset)))
        });
        Ok((found.name, addresses.collect::<Vec<_>>()))
    };
    let names = match of(wanted) {
        Err(NoEntry::Absent(near)) => {
            // A name as whyslow prints it, such as `Reader::read` for a trait's method.
            let wanted = Wanted::new(wanted);
            let found = functions(&elf, None, &wanted);
            let fit = |name: &str| wanted.fit(name).filter(|fit| fit.is_name());
            let best = found.iter().filter_map(|function| fit(&function.name)).min();
            let names: BTreeSet<String> = found
                .into_iter()
                .filter(|function| best.is_some() && fit(&function.name) == best)
                .map(|function| function.name)
                .collect();
            if names.is_empty() {
                return Err(NoEntry::Absent(near));
            }
            names.into_iter().collect()
        }
        Err(NoEntry::Ambiguous(names)) => names,
        found => return found,
    };
    let generic: BTreeSet<String> = names.iter().map(|name| without_arguments(name)).collect();
    if generic.len() > 1 {
        return Err(NoEntry::Ambiguous(names));
    }
    let mut addresses = Vec::new();
    for name in &names {
        addresses.extend(of(name)?.1);
    }
    addresses.sort_unstable();
    addresses.dedup();
    Ok((generic.into_iter().next().unwrap_or_default(), addresses))
}

/// `app::parse::<u32>` → `app::parse`
fn without_arguments(name: &str) -> String {
    let Some(start) = name.strip_suffix('>').and_then(|_| name.find("::<")) else { return name.to_owned() };
    let mut depth = 0_i32;
    for (at, letter) in name[start + 2..].char_indices() {
        match letter {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            // Only arguments at the end are left out.
            return if start + 2 + at + 1 == name.len() { name[..start].to_owned() } else { name.to_owned() };
        }
    }
    name.to_owned()
}

/// The error for a function without code of its own.
fn inlined(program: &Path, given: Given<'_>, wanted: &str) -> Failure {
    let mut hosts: Vec<String> = Vec::new();
    let mut place = None;
    if let Ok(file) = ElfFile::open(program) {
        let debug =
            file.parse().ok().and_then(|elf| separate_debug_file(program, &elf, &DebugFolders::usual()));
        let asked = Wanted::new(wanted);
        let found = inlined_functions(&file, debug.as_ref(), &asked);
        // The standard library has functions of many names.
        let rank = |name: &str| asked.fit(name).map(|fit| (is_of_std(name), fit));
        let best = found.iter().filter_map(|function| rank(&function.name)).min();
        for found in found.into_iter().filter(|function| rank(&function.name) == best) {
            for (host, call) in found.hosts {
                hosts.push(host);
                place = place.or(call);
            }
        }
    }
    hosts.sort();
    hosts.dedup();
    let into = if hosts.is_empty() { String::new() } else { format!(", into {}", some_of(&hosts)) };
    let line = place.map_or("FILE:LINE".to_owned(), |(file, line)| format!("{}:{line}", last_part(&file)));
    let host = hosts.first().map(|host| format!("{}, or ", given.with(host))).unwrap_or_default();
    given
        .fails(&format!("it has no code of its own, because it is inlined at every call{into}"))
        .next(format!("{host}a line: --progress {line}, or #[inline(never)] for the function"))
}

fn is_of_std(name: &str) -> bool {
    let path = name.trim_start_matches('<');
    ["std::", "core::", "alloc::"].iter().any(|start| path.starts_with(start))
}

/// The code of a line of the program, or else of the first library that has it.
fn source_line(modules: &Modules, given: Given<'_>, file: &str, line: u32) -> Result<Found> {
    let mut worst = NoLine::NoLines;
    for module in modules.all() {
        match line_places(module, file, line) {
            Ok(found) => {
                let at = |address: &FileAddress| place(module, *address, Spot::Instruction);
                let code = vec![(PointRole::Visit, found.addresses.iter().map(at).collect())];
                let name = format!("{}:{line}", last_part(&found.file));
                return Ok(Found { name, source: Some((found.file, line)), code });
            }
            Err(error @ (NoLine::Ambiguous(_) | NoLine::NoCode(..))) => {
                return Err(no_line(modules, given, &error));
            }
            Err(NoLine::NoFile) => worst = NoLine::NoFile,
            Err(NoLine::NoLines | NoLine::Unreadable(_)) => {}
        }
    }
    Err(no_line(modules, given, &worst))
}

fn no_line(modules: &Modules, given: Given<'_>, error: &NoLine) -> Failure {
    let program = modules.program.display();
    match error {
        NoLine::NoLines | NoLine::Unreadable(_) => given
            .fails(&format!("{program} has no line tables"))
            .next("build with them (Cargo: debug = \"line-tables-only\")"),
        NoLine::NoFile => given
            .fails(&format!("neither {program} nor a library that it loads has code of such a file"))
            .next("the end of the file's path, as in `whyslow report FILE lines`"),
        NoLine::Ambiguous(files) => given
            .fails(&format!("several files have this line: {}", some_of(files)))
            .next("more of the file's path"),
        NoLine::NoCode(file, near) => {
            let file = last_part(file);
            let near: Vec<String> = near.iter().map(|near| format!("--progress {file}:{near}")).collect();
            given
                .fails(&format!("no code of {file} belongs to this line"))
                .next(format!("the nearest lines that have some: {}", near.join(", ")))
        }
    }
}

fn too_many(given: Given<'_>, places: usize) -> Failure {
    let places = number_of(places as u64, "place that needs", "places that need");
    given
        .fails(&format!(
            "its code is in {places} a hardware breakpoint, and a CPU has {MOST_BREAKPOINTS} for all points"
        ))
        .next("a function that is not inlined and runs as often: --progress FUNCTION")
}

fn unreadable(program: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("{}: no code for --progress: {error}", program.display()))
}

fn some_of(names: &[String]) -> String {
    let mut text = names.iter().take(MOST_NAMES).cloned().collect::<Vec<_>>().join(", ");
    if let Some(more) = names.len().checked_sub(MOST_NAMES).filter(|more| *more > 0) {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_a_line_if_it_ends_in_a_number() {
        assert_eq!(Asked::parse("src/main.rs:12"), Asked::Line("src/main.rs", 12));
        assert_eq!(Asked::parse("app::step"), Asked::Entry("app::step"));
        assert_eq!(Asked::parse("main.rs:x"), Asked::Entry("main.rs:x"));
        assert_eq!(Asked::parse("syscall:write"), Asked::SystemCall("write"));
        assert_eq!(Asked::parse("app::step@return"), Asked::Return("app::step"));
    }

    #[test]
    fn more_points_than_can_be_counted_are_an_error() {
        let code = CodePoint { name: "step".to_owned(), role: PointRole::Visit, places: Vec::new() };
        let point = |parts: usize| NamedPoint {
            name: "step".to_owned(),
            is_latency: parts == 2,
            source: None,
            code: vec![code.clone(); parts],
            cost_ns: 0,
        };
        let mut points = vec![point(1); 62];
        points.push(point(2));
        assert!(check_room(&points).is_ok());
        points.push(point(1));
        assert!(check_room(&points).unwrap_err().to_string().contains("ask for 65 points"));
    }

    #[test]
    fn instances_of_a_generic_function_have_one_name() {
        assert_eq!(without_arguments("app::parse::<u32>"), "app::parse");
        assert_eq!(without_arguments("app::parse::<Vec<u8>>"), "app::parse");
        assert_eq!(without_arguments("<app::A as app::T<u8>>::run"), "<app::A as app::T<u8>>::run");
        assert_eq!(without_arguments("app::Map::<u8>::get"), "app::Map::<u8>::get");
    }
}
