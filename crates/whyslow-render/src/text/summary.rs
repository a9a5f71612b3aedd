//! The one-screen summary.

use whyslow_analyze::heap::Sites;
use whyslow_analyze::{
    BlockedWorker, By, CallTree, Charges, FunctionTable, HotPath, Overview, OwnRow, OwnTable, Quality,
    Selection, SerialPart, Spent, SyscallTable, Threads, Together, Waited, record_again, wait_metric,
};
use whyslow_explain::Finding;
use whyslow_profile::{CodeKind, ExitStatus, HeapFacts, Profile, Subject};
use whyslow_words::{Fact, Percent, Remark, Severity};

use super::explain::short_findings;
use super::functions::rows;
use super::heap::line_words;
use super::layout::{
    BOLD, DIM, PLAIN, Page, columns, cut, flow, kind_style, number_of, push_line, push_titled, push_wrapped,
    styled,
};
use super::own::{MEANING, name_in_crate, own_rows};
use super::parallelism::serial_words;
use super::quality::headline;
use super::remark::remark_lines;
use super::syscalls::costliest_syscall;
use super::threads::programs;
use super::tree::repeat_note;
use super::waits::{findings, wait_rows};
use crate::sanitize::clean;
use crate::units::{bytes, duration};

/// The usual height of a terminal; the summary fits into it.
const SCREEN: usize = 24;
const MOST_FUNCTIONS: usize = 10;
const FEWEST_FUNCTIONS: usize = 5;
const MOST_WARNINGS: usize = 3;
const PATH_LINES: usize = 3;
const MOST_BLOCKED: usize = 2;
const MOST_FINDINGS: usize = 3;
/// The title of the findings.
const WHY: &str = "why: ";

/// The contents of the one-screen summary.
#[derive(Debug, Clone, Copy)]
pub struct Summary<'a> {
    /// The profile.
    pub profile: &'a Profile,
    /// The order of the table of functions.
    pub by: By,
    /// Its functions, by self time.
    pub functions: &'a FunctionTable,
    /// Its functions, by own time.
    pub own: &'a OwnTable,
    /// Its hottest path.
    pub hot_path: &'a HotPath,
    /// How long it waited, if that is worth a line.
    pub waited: Option<&'a Waited>,
    /// What its time is spent on.
    pub spent: &'a Spent,
    /// Calls that block worker threads of an executor, the longest first.
    pub blocked: &'a [BlockedWorker],
    /// The part that ran on a single thread, if that is worth a line.
    pub serial: Option<SerialPart>,
    /// Its system calls, if they were recorded.
    pub syscalls: Option<&'a SyscallTable>,
    /// Its findings, largest gain first.
    pub findings: &'a [Finding],
    /// Its threads and processes.
    pub threads: &'a Threads,
    /// Its quality.
    pub quality: &'a Quality,
    /// Its file, quoted for the shell; `None` if it could not be written.
    pub file: Option<&'a str>,
}

/// Renders duration, samples, quality, the hottest functions, the hottest path, and the next commands.
pub fn summary(summary: &Summary<'_>, page: Page) -> String {
    let Summary { profile, quality, .. } = *summary;
    let file = summary.file.map(clean);
    let foot = foot(summary, file.as_deref(), page);
    let lines = |text: &str| text.lines().count();
    // The table's header and the minimum number of functions must fit; then warnings, then more functions.
    let mut head = String::new();
    // A few samples of a waiting program are too few for remarks about them.
    let most = if *summary.spent == Spent::WaitingUnseen { 1 } else { MOST_WARNINGS };
    for warnings in shown_warnings(quality, most) {
        head = self::head(summary, warnings, file.as_deref(), page);
        if lines(&head) + 1 + FEWEST_FUNCTIONS + lines(&foot) <= SCREEN {
            break;
        }
    }
    let room = SCREEN.saturating_sub(lines(&head) + 1 + lines(&foot));
    let limit = room.clamp(FEWEST_FUNCTIONS, MOST_FUNCTIONS);
    let mut functions = match summary.by {
        _ if *summary.spent != Spent::Running => waits_instead(summary, limit, page),
        By::Own => own_rows(profile, summary.own, limit, false, page),
        By::SelfValue => {
            let with_samples = summary.functions.rows.iter().take_while(|row| row.self_value > 0).count();
            rows(profile, summary.functions, limit.min(with_samples), false, page)
        }
    };
    let ran = *summary.spent == Spent::Running;
    if ran && summary.by == By::Own && !functions.is_empty() && lines(&functions) <= room {
        let meaning = cut(&format!("{}{MEANING}; see --by self", " ".repeat(10)), page.width);
        push_line(&mut functions, &styled(DIM, meaning));
    }
    if functions.is_empty() {
        return format!("{}{foot}", head.strip_suffix('\n').unwrap_or(&head));
    }
    format!("{head}{functions}{foot}")
}

/// The places where a waiting program waits, in place of its functions.
fn waits_instead(summary: &Summary<'_>, limit: usize, page: Page) -> String {
    match summary.spent {
        Spent::Waiting(table) => wait_rows(table, summary.profile, limit, page),
        Spent::WaitingUnseen | Spent::Running => String::new(),
    }
}

/// How many warnings to show, and how many of them with their fix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shown {
    warnings: usize,
    fixes: usize,
}

/// What to try until it fits, the most first. The reasons of a grade below good are always shown, and what to do
/// about the first: without a reason, a grade says nothing.
fn shown_warnings(quality: &Quality, most: usize) -> Vec<Shown> {
    let most = most.min(quality.warnings.len());
    let worst = quality.remarks().first().map_or(Severity::Fine, |remark| remark.severity);
    let is_reason = |remark: &Remark| remark.severity == worst && worst > Severity::Note;
    let reasons = quality.remarks().iter().take(most).filter(|remark| is_reason(remark)).count();
    let with_fixes = (reasons..=most).rev().map(|warnings| Shown { warnings, fixes: warnings });
    let without = (1..reasons).rev().map(|fixes| Shown { warnings: reasons, fixes });
    with_fixes.chain(without).collect()
}

fn head(summary: &Summary<'_>, shown: Shown, file: Option<&str>, page: Page) -> String {
    let Summary { profile, quality, .. } = *summary;
    let mut head = String::new();
    if !profile.meta.command.is_empty() {
        push_line(&mut head, &styled(BOLD, cut(&command_line(&profile.meta.command), page.width)));
    }
    push_wrapped(&mut head, PLAIN, &times(profile), page.width);
    head.push_str(&programs(profile, summary.threads, page));
    if let Some(waited) = summary.waited {
        push_wrapped(&mut head, PLAIN, &waited_line(waited, file, profile), page.width);
    }
    head.push_str(&findings(profile, summary.blocked, MOST_BLOCKED, page));
    if let Some(part) = &summary.serial {
        let where_to = file.map(|file| format!(": whyslow report {file} parallelism")).unwrap_or_default();
        push_wrapped(&mut head, PLAIN, &format!("{}{where_to}", serial_words(part, profile)), page.width);
    }
    let costliest = summary.syscalls.and_then(|table| costliest_syscall(table, profile, file));
    if let Some(costliest) = costliest {
        push_wrapped(&mut head, PLAIN, &costliest, page.width);
    }
    if let Some(facts) = &profile.meta.heap {
        push_wrapped(&mut head, PLAIN, &heap_line(profile, facts), page.width);
    }
    for line in event_lines(profile, file, page) {
        push_wrapped(&mut head, PLAIN, &line, page.width);
    }
    push_line(&mut head, &headline(quality));
    for (at, warning) in quality.warnings[..shown.warnings].iter().enumerate() {
        let mut remark = warning.remark();
        // The line about waits already has the command that helps.
        let is_said = *summary.spent == Spent::WaitingUnseen && warning.is_of_waiting();
        remark.fix = remark.fix.filter(|_| !is_said && at < shown.fixes);
        head.push_str(&remark_lines(&remark, page.width));
    }
    let more = quality.warnings.len() - shown.warnings;
    if more > 0 {
        let where_to = file.map(|file| format!(": whyslow report {file} quality")).unwrap_or_default();
        push_line(&mut head, &styled(DIM, format!("+{more} more{where_to}")));
    }
    head.push('\n');
    let findings = short_findings(profile, summary.findings, MOST_FINDINGS, page.width - columns(WHY));
    if !findings.is_empty() {
        push_titled(&mut head, WHY, BOLD, &findings);
        head.push('\n');
    }
    head
}

/// One line per event recorded in addition to CPU time: its total, the user's function with most of it, and
/// the next command.
fn event_lines(profile: &Profile, file: Option<&str>, page: Page) -> Vec<String> {
    /// More lines would leave no room for functions.
    const MOST: usize = 4;
    let is_additional =
        |metric: &usize| *metric != profile.main_metric() && profile.metrics[*metric].of == Subject::Event;
    let line = |metric: usize| {
        let weights = Selection { metric, ..Selection::default() }.weigh(profile);
        let own = OwnTable::build(profile, &weights, &Charges::of_metric(profile, true, metric));
        let mut line = Page::new(profile, metric, page.width).whole(profile, weights.total_value);
        if let Some(most) = own.rows.first() {
            let name = name_in_crate(profile, most.label);
            line.push_str(&format!("; {} in {}", Percent(own.own_share(most).value), page.fit(&name, 40)));
        }
        if let Some(file) = file {
            let name = quoted(profile.text(profile.metrics[metric].name));
            line.push_str(&format!(": whyslow report {file} --metric {name}"));
        }
        line
    };
    (0..profile.metrics.len()).filter(is_additional).take(MOST).map(line).collect()
}

/// How long the program waited, and the command that shows where.
fn waited_line(waited: &Waited, file: Option<&str>, profile: &Profile) -> String {
    match waited {
        Waited::Recorded { together, .. } => {
            let text = together_words(together);
            match file {
                Some(file) => format!("{text}: whyslow report {file} waits"),
                None => text,
            }
        }
        Waited::Mostly { idle_ns, wall_ns, first } => {
            let first = first.as_ref().map_or(String::new(), |times| {
                format!(
                    " (the main thread was blocked for {}, {})",
                    duration(times.blocked_ns),
                    number_of(times.waits, "time", "times")
                )
            });
            format!(
                "mostly waits: all threads were blocked for {} of {}{first}; to see where: {}",
                duration(*idle_ns),
                duration(*wall_ns),
                clean(&record_again(profile, "--off-cpu"))
            )
        }
        // One thread alone cannot be more than there are CPUs.
        Waited::Queued { queued_ns, ran_ns } if profile.threads.len() == 1 => format!(
            "the main thread ran {} and queued {} for a CPU: the machine is busy",
            duration(*ran_ns),
            duration(*queued_ns)
        ),
        Waited::Queued { queued_ns, ran_ns } => format!(
            "threads ran {} and queued {} for a CPU: the machine is busy, or the program has more busy threads than CPUs",
            duration(*ran_ns),
            duration(*queued_ns)
        ),
    }
}

/// How long all threads were blocked and what for, how long some thread ran, and how long none had a CPU.
fn together_words(together: &Together) -> String {
    /// Maximum number of reasons listed.
    const MOST: usize = 4;
    let Together { elapsed_ns, ran_ns, queued_ns, blocked_ns, .. } = *together;
    let several = together.threads > 1;
    let elapsed = duration(elapsed_ns);
    let is_notable = |part: u64| part.saturating_mul(100) >= elapsed_ns && part > 0;
    let mut text = if is_notable(blocked_ns) {
        let who = if several { "all threads were" } else { "the main thread was" };
        let reasons = together.reasons.iter().take(MOST);
        let reasons: Vec<String> =
            reasons.map(|(reason, ns)| format!("{} {}", reason.word(), duration(*ns))).collect();
        let reasons = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
        let others = if several && is_notable(ran_ns) {
            format!(", at least one ran for {}", duration(ran_ns))
        } else {
            String::new()
        };
        format!("{who} blocked for {} of {elapsed}{reasons}{others}", duration(blocked_ns))
    } else {
        let who = if several { "at least one thread" } else { "the main thread" };
        format!("{who} ran for {} of {elapsed}", duration(ran_ns))
    };
    if is_notable(queued_ns) {
        let queued = if several { "none had a CPU for" } else { "queued for a CPU for" };
        text.push_str(&format!(", and {queued} {}", duration(queued_ns)));
    }
    text
}

fn foot(summary: &Summary<'_>, file: Option<&str>, page: Page) -> String {
    let mut foot = String::from("\n");
    let ran = *summary.spent == Spent::Running;
    if ran && !summary.hot_path.steps.is_empty() {
        foot.push_str(&hottest_path(summary, page));
    }
    let Some(file) = file else { return foot };
    push_line(&mut foot, &format!("{} {file}", styled(BOLD, "saved:")));
    let mut commands = vec![
        format!("whyslow view {file}"),
        format!("whyslow report {file} tree"),
        format!("whyslow flame {file}"),
    ];
    if !summary.findings.is_empty() {
        commands.insert(0, format!("whyslow explain {file}"));
    }
    // Without lines of the program, the view has nothing to show.
    let has_line =
        |row: &OwnRow| row.line.is_some() && row.own_value.saturating_mul(20) >= summary.own.total_value;
    if ran && summary.own.rows.iter().any(has_line) {
        commands.push(format!("whyslow report {file} lines"));
    }
    if wait_metric(summary.profile).is_some() {
        let place = if ran { commands.len() } else { 0 };
        commands.insert(place, format!("whyslow report {file} waits"));
    }
    if summary.quality.heap.is_some() {
        commands.push(format!("whyslow report {file} heap"));
    }
    foot.push_str(&next_commands(commands, page.width));
    foot
}

fn times(profile: &Profile) -> String {
    let overview = Overview::of(profile);
    let mut text = format!("{} wall, {} CPU", duration(overview.duration_ns), duration(overview.cpu_time_ns));
    if overview.duration_ns > 0 {
        let cores = overview.cpu_time_ns as f64 / overview.duration_ns as f64;
        text.push_str(&format!(" ({cores:.2} cores busy)"));
    }
    text.push_str(&format!(", {}", number_of(overview.threads, "thread", "threads")));
    if overview.processes > 1 {
        text.push_str(&format!(" in {}", number_of(overview.processes, "process", "processes")));
    }
    text + &exit_words(profile)
}

/// How the program ended, unless it exited with code 0.
pub(super) fn exit_words(profile: &Profile) -> String {
    match profile.meta.exit {
        Some(ExitStatus::Code(code)) if code != 0 => format!(", exit code {code}"),
        Some(ExitStatus::Signal(signal)) => format!(", ended by signal {signal}{}", signal_name(signal)),
        _ => String::new(),
    }
}

/// ` (SIGTERM)`; empty for signals that rarely end programs. Linux numbers them the same on every
/// architecture that whyslow supports.
fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        3 => " (SIGQUIT)",
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        14 => " (SIGALRM)",
        15 => " (SIGTERM)",
        _ => "",
    }
}

/// The heap in a sentence, if it was recorded together with CPU time.
fn heap_line(profile: &Profile, facts: &HeapFacts) -> String {
    let sites = Sites::build(profile);
    let totals = &sites.totals;
    let mut text = format!(
        "heap: {}, {} in all, {} at the peak",
        number_of(totals.allocations, "allocation", "allocations"),
        bytes(totals.bytes_allocated),
        bytes(facts.peak_bytes)
    );
    if let Some(row) = sites.rows.first().filter(|row| row.counts.peak_bytes > 0) {
        let share = Percent(row.counts.peak_bytes as f64 / totals.peak_bytes.max(1) as f64);
        text.push_str(&format!(", {share} by {}", line_words(profile, row)));
    }
    text
}

/// The steps with arrows, wrapped. If there are too many, steps outside the user's code are left out first.
fn hottest_path(summary: &Summary<'_>, page: Page) -> String {
    let title = "hottest path: ";
    let room = page.width - columns(title);
    let pieces = path_pieces(summary, room, page);
    let mut kept = (0..pieces.len()).collect::<Vec<_>>();
    let mut lines = path_lines(&pieces, &kept, room);
    // Without the user's code, all steps are as good.
    if lines.len() > PATH_LINES && pieces.iter().filter(|piece| piece.keep).count() > 1 {
        kept.retain(|&index| pieces[index].keep);
        lines = path_lines(&pieces, &kept, room);
    }
    // Keep the outermost step (what the program was doing) and the innermost (where the time is).
    while lines.len() > PATH_LINES && kept.len() > 2 {
        kept.remove(1);
        lines = path_lines(&pieces, &kept, room);
    }
    let mut out = String::new();
    push_titled(&mut out, title, BOLD, &lines);
    out
}

/// One step of the path as text.
struct Piece {
    arrow: &'static str,
    text: String,
    /// The columns of the text.
    width: usize,
    /// Whether it is the user's code or the end of the path.
    keep: bool,
}

fn path_pieces(summary: &Summary<'_>, room: usize, page: Page) -> Vec<Piece> {
    let (profile, path) = (summary.profile, summary.hot_path);
    let share = |value: u64| Percent(value as f64 / summary.own.total_value.max(1) as f64);
    let last = path.steps.len() - 1;
    let pieces = path.steps.iter().enumerate().map(|(index, step)| {
        let arrow = if step.inlined { "⇢ " } else { "→ " };
        let mut after = repeat_note(step.repeat);
        if index == path.own_step {
            after.push_str(&format!(" {}", share(path.own_value)));
            // A tenth through other paths is not worth mentioning.
            if path.path_value < path.own_value / 10 * 9 {
                after.push_str(&format!(" ({} on this path)", share(path.path_value)));
            }
        } else if index == last {
            after.push_str(&format!(" {}", share(step.leading_value)));
        }
        let kind = CallTree::kind(profile, step.label);
        let name = page.fit(
            &name_in_crate(profile, step.label),
            room.saturating_sub(columns(arrow) + columns(&after) + columns("… ")),
        );
        Piece {
            arrow,
            width: columns(&name) + columns(&after),
            text: format!("{}{after}", styled(kind_style(kind), name)),
            keep: kind == CodeKind::Yours || index == path.own_step || index == last,
        }
    });
    pieces.collect()
}

/// The pieces with these numbers on as few lines as possible, with `→ …` in place of omitted ones.
fn path_lines(pieces: &[Piece], kept: &[usize], room: usize) -> Vec<String> {
    let mut shown = Vec::new();
    let mut before: Option<usize> = None;
    for &index in kept {
        if before.is_some_and(|before| before + 1 < index) {
            shown.push(("→ …".to_owned(), columns("→ …")));
        }
        let piece = &pieces[index];
        let arrow = if before.is_some() { piece.arrow } else { "" };
        shown.push((format!("{arrow}{}", piece.text), columns(arrow) + piece.width));
        before = Some(index);
    }
    flow(shown.into_iter(), " ", room)
}

/// The line with the next commands.
pub(super) fn next_commands(commands: Vec<String>, width: usize) -> String {
    let title = "next:  ";
    let pieces = commands.into_iter().map(|command| {
        let width = columns(&command);
        (command, width)
    });
    let mut out = String::new();
    push_titled(&mut out, title, BOLD, &flow(pieces, "   ", width - columns(title)));
    out
}

/// A command line as the user would type it.
pub(super) fn command_line(words: &[String]) -> String {
    clean(&whyslow_words::command_line(words)).into_owned()
}

/// Quotes a word for the shell if needed.
pub(super) fn quoted(word: &str) -> String {
    clean(&whyslow_words::quoted(word)).into_owned()
}
