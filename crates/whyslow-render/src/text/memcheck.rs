//! Memory errors as text: for a terminal, as annotations on a pull request, and as a file of suppressions.

use std::collections::BTreeMap;

use whyslow_memcheck::{Answer, Completeness, Finding, Kind, Place, Severity, Site};
use whyslow_profile::CodeKind;
use whyslow_words::{command_line, number_of};

use super::layout::{
    BOLD, DIM, PLAIN, columns, cut, kind_style, push_line, push_titled, push_wrapped, styled, wrap,
};
use crate::names;
use crate::sanitize::{clean, clean_source};

const INDENT: &str = "   ";
/// The maximum width of a place.
const PLACE: usize = 60;
/// Frames of a stack that are shown, unless all are wanted.
const FRAMES: usize = 6;
/// Callers that are shown of an allocation and the like.
const CALLERS: usize = 2;

/// How to show memory errors.
pub struct MemcheckPage<'a> {
    /// Columns of the terminal.
    pub width: usize,
    /// At most this many findings.
    pub limit: usize,
    /// Also those that are no errors, such as memory that is still in use at exit.
    pub all: bool,
    /// Whole stacks.
    pub full_stacks: bool,
    /// Whether it is already known where uninitialised values are from.
    pub thorough: bool,
    /// A line of a source file.
    pub source: &'a dyn Fn(&str, u32) -> Option<String>,
}

/// The findings, the leaks in sums, what is suppressed and what was not checked.
pub fn memcheck(answer: &Answer, page: &MemcheckPage<'_>) -> String {
    let mut out = String::new();
    push_wrapped(&mut out, BOLD, &verdict(answer), page.width);
    out.push('\n');
    let shown: Vec<&Finding> = shown(answer, page.all).collect();
    for (number, finding) in shown.iter().take(page.limit).enumerate() {
        push_finding(&mut out, &format!("{}. ", number + 1), finding, answer, page);
        out.push('\n');
    }
    let more = shown.len().saturating_sub(page.limit);
    if more > 0 {
        push_line(&mut out, &styled(DIM, format!("+{more} more: -n 0 shows all")));
    }
    push_rest(&mut out, answer, page);
    out
}

/// What is shown without asking for more: everything but notes.
fn shown(answer: &Answer, all: bool) -> impl Iterator<Item = &Finding> {
    answer.findings.iter().filter(move |finding| all || finding.kind.severity() != Severity::Note)
}

/// `2 errors in ./app`, or that there are none.
fn verdict(answer: &Answer) -> String {
    let of = |severity| {
        answer.findings.iter().filter(|finding| finding.kind.severity() == severity).count() as u64
    };
    let (errors, warnings) = (of(Severity::Error), of(Severity::Warning));
    let program = answer.processes.first().map(name).unwrap_or_default();
    let program = if program.is_empty() { String::new() } else { format!("{program}: ") };
    let processes = match answer.processes.len() {
        0 | 1 => String::new(),
        many => format!(" in {many} processes"),
    };
    let found = match (errors, warnings) {
        (0, 0) if answer.processes.is_empty() => "nothing was checked".to_owned(),
        (0, 0) => "no memory errors".to_owned(),
        (errors, 0) => number_of(errors, "memory error", "memory errors"),
        (0, warnings) => format!("no memory errors, {}", number_of(warnings, "warning", "warnings")),
        (errors, warnings) => format!(
            "{}, {}",
            number_of(errors, "memory error", "memory errors"),
            number_of(warnings, "warning", "warnings")
        ),
    };
    let until = if answer.cut().next().is_some() { ", as far as it was checked" } else { "" };
    format!("{program}{found}{processes}{until}")
}

/// A process by its program and arguments.
fn name(process: &Completeness) -> String {
    const LONGEST: usize = 60;
    clean(&cut(&command_line(&process.command), LONGEST)).into_owned()
}

fn push_finding(out: &mut String, title: &str, finding: &Finding, answer: &Answer, page: &MemcheckPage<'_>) {
    let words = format!("{} [{}]", sentence(finding), finding.kind.id());
    let lines = wrap(&clean(&words), page.width.saturating_sub(columns(title)));
    let lines = lines.iter().map(|line| styled(BOLD, line)).collect::<Vec<_>>();
    push_titled(out, title, BOLD, &lines);
    push_stack(out, &finding.at, finding.kind.is_leak(), page);
    for site in &finding.sites {
        push_site(out, site, &finding.at, page);
    }
    if let Some(words) = how_often(finding, answer) {
        push_wrapped_below(out, &words, page);
    }
    if page.thorough && finding.kind == Kind::Uninitialised {
        return push_step(out, "do", "initialise it where it comes from", page);
    }
    push_step(out, "do", finding.advice(), page);
}

/// The title, with the signal that it ended with.
pub(crate) fn sentence(finding: &Finding) -> String {
    match (&finding.crash, finding.kind) {
        (Some(signal), kind) if kind != Kind::Crash => {
            format!("{}; {signal} ended the program here", finding.title)
        }
        _ => finding.title.clone(),
    }
}

fn push_step(out: &mut String, title: &str, text: &str, page: &MemcheckPage<'_>) {
    let title = format!("{INDENT}{title}: ");
    let lines = wrap(&clean(text), page.width.saturating_sub(columns(&title)));
    push_titled(out, &title, BOLD, &lines);
}

fn push_wrapped_below(out: &mut String, words: &str, page: &MemcheckPage<'_>) {
    for line in wrap(&clean(words), page.width.saturating_sub(columns(INDENT))) {
        push_line(out, &format!("{INDENT}{line}"));
    }
}

/// The frames that say something: the innermost, and code that is not the standard library's or the runtime's.
fn push_stack(out: &mut String, site: &Site, is_leak: bool, page: &MemcheckPage<'_>) {
    let is_own = |place: &Place| matches!(place.kind, CodeKind::Yours | CodeKind::Unknown);
    let has_own = site.stack.iter().any(is_own);
    if site.own.is_none() {
        return push_wrapped_below(out, "at an unknown place: the stack cannot be read there", page);
    }
    // That memory is from malloc is no news.
    let says = |place: &Place| !(is_leak && place.kind == CodeKind::Allocator);
    let wanted = |(at, place): &(usize, &Place)| {
        let is_shown = *at == 0 || Some(*at) == site.own || !has_own || is_own(place);
        page.full_stacks || (is_shown && (says(place) || Some(*at) == site.own))
    };
    let all: Vec<(usize, &Place)> = site.stack.iter().enumerate().filter(wanted).collect();
    let most = if page.full_stacks { usize::MAX } else { FRAMES };
    let before = all.iter().position(|(at, _)| Some(*at) == site.own).unwrap_or(0);
    // The own line is always shown.
    let skipped = (before + 1).saturating_sub(most);
    for (at, place) in all.iter().skip(skipped).take(most) {
        let is_here = Some(*at) == site.own;
        let word = match site.own {
            _ if is_here => styled(BOLD, "at  "),
            Some(own) if *at < own => styled(DIM, "in  "),
            _ => styled(DIM, "from"),
        };
        let line = format!("{INDENT}{word} {}", place_words(place, page.width.saturating_sub(8)));
        push_line(out, &line);
        if is_here
            && let Some(path) = place.frame.path()
            && let Some(source) = (page.source)(&path, place.frame.line)
        {
            let line = format!("{INDENT}{:>5} | {}", place.frame.line, clean_source(source.trim()));
            push_line(out, &styled(DIM, cut(&line, page.width)));
        }
    }
    let more = all.len().saturating_sub(skipped + most.min(all.len()));
    if more > 0 {
        push_line(
            out,
            &styled(
                DIM,
                format!("{INDENT}   {} more: -v shows all", number_of(more as u64, "frame", "frames")),
            ),
        );
    }
}

/// `parse  src/parse.c:12`, or the library of a function without a line.
fn place_words(place: &Place, room: usize) -> String {
    let (name, line) = (clean(&place.name).into_owned(), location(place));
    let name = names::shorten(&name, room.saturating_sub(columns(&line) + 2).max(20));
    format!("{}  {line}", styled(kind_style(place.kind), name)).trim_end().to_owned()
}

fn location(place: &Place) -> String {
    match (place.frame.path(), place.frame.line) {
        (Some(path), line) if line > 0 => names::place(&clean(&path), line, PLACE),
        _ => {
            let object = place.frame.object.rsplit('/').next().unwrap_or_default();
            // Valgrind's own version of a function of the C library.
            let is_valgrinds = object.starts_with("vgpreload_");
            if object.is_empty() || is_valgrinds { String::new() } else { format!("({})", clean(object)) }
        }
    }
}

/// `allocated at make  a.c:6, from main  a.c:9`
fn push_site(out: &mut String, site: &Site, at: &Site, page: &MemcheckPage<'_>) {
    if site.stack.is_empty() {
        return push_wrapped_below(out, &site.role, page);
    }
    if page.full_stacks {
        push_wrapped_below(out, &format!("{}:", site.role), page);
        return push_stack(out, site, false, page);
    }
    let own = site.own.unwrap_or(0);
    // Callers that the error has, too, are shown there.
    let is_new = |place: &&Place| {
        place.kind == CodeKind::Yours && !at.stack.iter().any(|known| is_same_line(known, place))
    };
    let callers = site.stack.iter().skip(own + 1).filter(is_new);
    let places: Vec<String> =
        site.stack.get(own).into_iter().chain(callers.take(CALLERS)).map(short_place).collect();
    push_wrapped_below(out, &format!("{} at {}", site.role, places.join(", from ")), page);
}

fn is_same_line(a: &Place, b: &Place) -> bool {
    a.frame.line == b.frame.line && a.frame.file == b.frame.file && a.frame.folder == b.frame.folder
}

fn short_place(place: &Place) -> String {
    const NAME: usize = 40;
    let location = location(place);
    let name = names::shorten(&place.name, NAME);
    match location.as_str() {
        "" => name,
        library if library.starts_with('(') => format!("{name} {library}"),
        line => format!("{name} ({line})"),
    }
}

/// How often it happened and where, unless it was once in the main thread of the program.
fn how_often(finding: &Finding, answer: &Answer) -> Option<String> {
    let mut words = Vec::new();
    if finding.times > 1 && !finding.kind.is_leak() {
        let least = if finding.is_at_least { "at least " } else { "" };
        words.push(format!("{least}{}", number_of(finding.times, "time", "times")));
    }
    let main = answer.processes.first().map_or(0, |process| process.pid);
    let threads: Vec<String> = finding
        .occurrences
        .iter()
        .filter(|at| at.thread > 1 || (at.thread == 1 && finding.occurrences.len() > 1 && at.pid == main))
        .filter(|_| !finding.kind.is_leak())
        .map(|at| match (at.thread, at.thread_name.as_str()) {
            (1, _) => "the main thread".to_owned(),
            (number, "") => format!("thread {number}"),
            (number, name) => format!("thread {number} ({name})"),
        })
        .collect();
    if !threads.is_empty() {
        let mut threads = threads;
        threads.dedup();
        words.push(format!("in {}", short_list(&threads)));
    }
    let processes: BTreeMap<u32, String> = finding
        .occurrences
        .iter()
        .map(|at| {
            let process = answer.processes.iter().find(|process| process.pid == at.pid);
            let of = process.map_or(String::new(), |process| {
                let program = process
                    .command
                    .first()
                    .map_or("", |program| program.rsplit('/').next().unwrap_or_default());
                match (program, process.is_forked) {
                    ("", false) => String::new(),
                    ("", true) => " (forked)".to_owned(),
                    (program, false) => format!(" ({program})"),
                    (program, true) => format!(" ({program}, forked)"),
                }
            });
            (at.pid, format!("process {}{of}", at.pid))
        })
        .collect();
    if processes.len() > 1 || processes.keys().any(|pid| *pid != main) {
        let processes: Vec<String> = processes.into_values().collect();
        words.push(format!("in {}", short_list(&processes)));
    }
    (!words.is_empty()).then(|| words.join(" "))
}

/// Some of a list, and how many more.
fn short_list(items: &[String]) -> String {
    const MOST: usize = 3;
    let shown = items.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    match items.len().saturating_sub(MOST) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Leaks in sums, what is not shown, what is suppressed, and what was not checked.
fn push_rest(out: &mut String, answer: &Answer, page: &MemcheckPage<'_>) {
    let leaks: Vec<String> = leak_sums(answer)
        .iter()
        .map(|(kind, bytes, blocks)| {
            let word = match kind {
                Kind::LeakDefinite => "definitely lost",
                Kind::LeakPossible => "possibly lost",
                Kind::LeakIndirect => "indirectly lost",
                _ => "still reachable",
            };
            format!("{} {word} in {}", crate::units::bytes(*bytes), number_of(*blocks, "block", "blocks"))
        })
        .collect();
    if !leaks.is_empty() {
        push_wrapped(out, PLAIN, &format!("leaks: {}", leaks.join(", ")), page.width);
    }
    if !page.all {
        let hidden =
            |kind: Kind| answer.findings.iter().filter(|finding| finding.kind == kind).count() as u64;
        let lines = [
            (Kind::LeakReachable, "place that still uses memory", "places that still use memory"),
            (Kind::LeakIndirect, "place of indirectly lost memory", "places of indirectly lost memory"),
            (
                Kind::DescriptorOpen,
                "place that leaves a descriptor open",
                "places that leave a descriptor open",
            ),
        ];
        let lines = lines.into_iter().filter(|(kind, ..)| hidden(*kind) > 0);
        let lines: Vec<String> = lines.map(|(kind, one, more)| number_of(hidden(kind), one, more)).collect();
        if !lines.is_empty() {
            push_wrapped(out, DIM, &format!("not shown, --all shows them: {}", lines.join(", ")), page.width);
        }
    }
    for suppressed in &answer.suppressed {
        let reports = number_of(suppressed.count, "report", "reports");
        let why = suppressed.why.as_ref().map_or(String::new(), |why| format!(". {why}"));
        let words = format!("suppressed: {reports} by `{}`{why}", suppressed.name);
        push_wrapped(out, DIM, &clean(&words), page.width);
    }
    for process in answer.cut() {
        let words = format!(
            "not checked to the end: process {} ({}): its report stops in the middle. It was killed, still ran, or \
             ended without Valgrind; its leaks are not known",
            process.pid,
            name(process)
        );
        push_wrapped(out, PLAIN, &words, page.width);
    }
}

/// Bytes and blocks of each kind of leak that there is.
pub(crate) fn leak_sums(answer: &Answer) -> Vec<(Kind, u64, u64)> {
    let kinds = [Kind::LeakDefinite, Kind::LeakIndirect, Kind::LeakPossible, Kind::LeakReachable];
    let sum = |kind: Kind| {
        let leaks = answer
            .findings
            .iter()
            .filter(|finding| finding.kind == kind)
            .filter_map(|finding| finding.leaked);
        leaks.fold((0_u64, 0_u64), |(bytes, blocks), leaked| {
            // Those of indirectly lost blocks are counted with them.
            let own = leaked.bytes.saturating_sub(leaked.indirect);
            (bytes.saturating_add(own), blocks.saturating_add(leaked.blocks))
        })
    };
    kinds
        .into_iter()
        .map(|kind| (kind, sum(kind)))
        .filter(|(_, (_, blocks))| *blocks > 0)
        .map(|(kind, (bytes, blocks))| (kind, bytes, blocks))
        .collect()
}

/// Annotations that CI shows next to the lines of a pull request.
pub fn memcheck_annotations(answer: &Answer, all: bool, relative: impl Fn(&str) -> String) -> String {
    let mut out = String::new();
    for finding in shown(answer, all) {
        let place = finding.at.own_place().and_then(|place| Some((place.frame.path()?, place.frame.line)));
        let place = place.map(|(file, line)| (relative(&file), line));
        let level = match finding.kind.severity() {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "notice",
        };
        let message = long_message(finding);
        let place = place.as_ref().map(|(file, line)| (file.as_str(), *line));
        out.push_str(&super::explain::annotation(level, place, finding.kind.id(), &message));
    }
    out
}

/// The sentence, where the block is from, and what to do.
pub(crate) fn long_message(finding: &Finding) -> String {
    let sites = finding
        .sites
        .iter()
        .filter_map(|site| Some(format!("; {} at {}", site.role, short_place(site.own_place()?))));
    format!("{}{}. To do: {}", sentence(finding), sites.collect::<String>(), finding.advice())
}

/// A file of suppressions, with a comment for each finding. Valgrind and whyslow read it.
pub fn memcheck_suppressions(answer: &Answer, all: bool) -> String {
    const PLACEHOLDER: &str = "<insert_a_suppression_name_here>";
    let mut out = String::new();
    let mut count = 0;
    for finding in shown(answer, all) {
        let place =
            finding.at.own_place().map(|place| clean(&short_place(place)).into_owned()).unwrap_or_default();
        out.push_str(&format!("# {} at {place}\n", clean(&sentence(finding))));
        if finding.suppressions.is_empty() {
            out.push_str("# Valgrind has no suppressions for this\n");
        }
        for suppression in &finding.suppressions {
            count += 1;
            let name = format!("{} {count}: {place}", finding.kind.id());
            let lines = suppression.trim().replace(PLACEHOLDER, &name);
            // Names in it come from the program; a line ends where Valgrind ended it.
            out.extend(lines.lines().map(|line| format!("{}\n", clean(line))));
        }
        out.push('\n');
    }
    out
}
