//! The one-screen summary.

use whyslow_analyze::{CallTree, Overview, OwnRow, Quality, Spent, Together};
use whyslow_answers::{Answer, EventTotal, HeapTotal, Ranking, Summary};
use whyslow_explain::RuleId;
use whyslow_profile::{CodeKind, ExitStatus, Profile};
use whyslow_words::{Fact, Percent, Remark, Severity};

use super::explain::{short_findings, waiting_words};
use super::functions::rows;
use super::heap::line_words;
use super::layout::{
    BOLD, DIM, PLAIN, Page, columns, cut, flow, kind_style, number_of, push_line, push_titled, push_wrapped,
    styled,
};
use super::own::{MEANING, name_in_crate, own_rows};
use super::quality::headline;
use super::remark::remark_lines;
use super::syscalls::costliest_syscall;
use super::threads::programs;
use super::tree::repeat_note;
use super::waits::wait_rows;
use crate::sanitize::clean;
use crate::units::{bytes, duration};

/// The usual height of a terminal; the summary fits into it.
const SCREEN: usize = 24;
const MOST_FUNCTIONS: usize = 10;
const FEWEST_FUNCTIONS: usize = 5;
const MOST_WARNINGS: usize = 3;
const PATH_LINES: usize = 3;
const MOST_FINDINGS: usize = 3;
/// The title of the findings.
const WHY: &str = "why: ";

/// The one-screen answer, and what it is the answer to.
#[derive(Clone, Copy)]
struct View<'a> {
    summary: &'a Summary,
    profile: &'a Profile,
    quality: &'a Quality,
    ranking: Ranking,
    /// The file, safe to print; `None` if it could not be written.
    file: Option<&'a str>,
    page: Page,
}

/// Renders duration, samples, quality, the hottest functions, the hottest path, and the next commands.
pub(super) fn summary(summary: &Summary, answer: &Answer<'_>, page: Page) -> String {
    let file = answer.query.file.as_deref().map(clean);
    let view = View {
        summary,
        profile: answer.profile,
        quality: &answer.quality,
        ranking: answer.query.ranking,
        file: file.as_deref(),
        page,
    };
    let foot = foot(view);
    let lines = |text: &str| text.lines().count();
    // The table's header and the minimum number of functions must fit; then warnings, then more functions.
    let mut head = String::new();
    // A few samples of a waiting program are too few for remarks about them.
    let most = if summary.spent == Spent::WaitingUnseen { 1 } else { MOST_WARNINGS };
    for warnings in shown_warnings(view.quality, most) {
        head = self::head(view, warnings);
        if lines(&head) + 1 + FEWEST_FUNCTIONS + lines(&foot) <= SCREEN {
            break;
        }
    }
    let room = SCREEN.saturating_sub(lines(&head) + 1 + lines(&foot));
    let limit = room.clamp(FEWEST_FUNCTIONS, MOST_FUNCTIONS);
    let (ran, by_own) = (summary.spent == Spent::Running, view.ranking == Ranking::Own);
    let mut functions = match &summary.spent {
        Spent::Waiting(table) => wait_rows(table, view.profile, limit, page),
        Spent::WaitingUnseen => String::new(),
        Spent::Running if by_own => own_rows(view.profile, &summary.own, limit, page),
        Spent::Running => {
            let with_samples = summary.functions.rows.iter().take_while(|row| row.self_value > 0).count();
            rows(view.profile, &summary.functions, limit.min(with_samples), page)
        }
    };
    if ran && by_own && !functions.is_empty() && lines(&functions) <= room {
        let meaning = cut(&format!("{}{MEANING}; see --by self", " ".repeat(10)), page.width);
        push_line(&mut functions, &styled(DIM, meaning));
    }
    if functions.is_empty() {
        return format!("{}{foot}", head.strip_suffix('\n').unwrap_or(&head));
    }
    format!("{head}{functions}{foot}")
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

fn head(view: View<'_>, shown: Shown) -> String {
    let View { summary, profile, quality, file, page, .. } = view;
    let mut head = String::new();
    if !profile.meta.command.is_empty() {
        push_line(&mut head, &styled(BOLD, cut(&command_line(&profile.meta.command), page.width)));
    }
    push_wrapped(&mut head, PLAIN, &times(&summary.overview, profile), page.width);
    head.push_str(&programs(profile, &summary.threads, page));
    if let Some(waited) = waited_line(view) {
        push_wrapped(&mut head, PLAIN, &waited, page.width);
    }
    let costliest = summary.syscalls.as_ref().and_then(|table| costliest_syscall(table, profile, file));
    if let Some(costliest) = costliest {
        push_wrapped(&mut head, PLAIN, &costliest, page.width);
    }
    if let Some(heap) = &summary.heap {
        push_wrapped(&mut head, PLAIN, &heap_line(profile, heap), page.width);
    }
    for event in &summary.events {
        push_wrapped(&mut head, PLAIN, &event_line(event, view), page.width);
    }
    push_line(&mut head, &headline(quality));
    for (at, warning) in quality.warnings[..shown.warnings].iter().enumerate() {
        let mut remark = warning.remark();
        // The line about waits already has the command that helps.
        let is_said = summary.spent == Spent::WaitingUnseen && warning.is_of_waiting();
        remark.fix = remark.fix.filter(|_| !is_said && at < shown.fixes);
        head.push_str(&remark_lines(&remark, page.width));
    }
    let more = quality.warnings.len() - shown.warnings;
    if more > 0 {
        let where_to = file.map(|file| format!(": whyslow report {file} quality")).unwrap_or_default();
        push_line(&mut head, &styled(DIM, format!("+{more} more{where_to}")));
    }
    head.push('\n');
    let findings = short_findings(profile, &summary.findings, MOST_FINDINGS, page.width - columns(WHY));
    if !findings.is_empty() {
        push_titled(&mut head, WHY, BOLD, &findings);
        head.push('\n');
    }
    head
}

/// An event recorded in addition to CPU time: its total, the user's function with most of it, and the next command.
fn event_line(event: &EventTotal, view: View<'_>) -> String {
    let View { profile, file, page, .. } = view;
    let mut line = Page::new(profile, event.metric, page.width).whole(profile, event.value);
    if let Some((label, share)) = event.most {
        let name = name_in_crate(profile, label);
        line.push_str(&format!("; {} in {}", Percent(share.value), page.fit(&name, 40)));
    }
    if let Some(file) = file {
        let name = quoted(profile.text(profile.metrics[event.metric.index()].name));
        line.push_str(&format!(": whyslow report {file} --metric {name}"));
    }
    line
}

/// How long the program waited, and the command that shows where; `None` if that is not worth a line.
fn waited_line(view: View<'_>) -> Option<String> {
    let View { summary, profile, file, .. } = view;
    let Some(together) = &summary.together else {
        let waiting = summary.waiting.as_ref()?;
        return Some(waiting_words(profile, waiting, file.unwrap_or("FILE")));
    };
    let text = together_words(together);
    Some(match file {
        Some(file) => format!("{text}: whyslow report {file} waits"),
        None => text,
    })
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

fn foot(view: View<'_>) -> String {
    let View { summary, file, page, .. } = view;
    let mut foot = String::from("\n");
    let ran = summary.spent == Spent::Running;
    if ran && !summary.hot_path.steps.is_empty() {
        foot.push_str(&hottest_path(view));
    }
    let Some(file) = file else { return foot };
    push_line(&mut foot, &format!("{} {file}", styled(BOLD, "saved:")));
    let mut commands = vec![
        format!("whyslow view {file}"),
        format!("whyslow report {file} tree"),
        format!("whyslow flame {file}"),
    ];
    let found = &summary.findings;
    if !found.is_empty() {
        commands.insert(0, format!("whyslow explain {file}"));
    }
    if found.iter().any(|finding| finding.rule.id == RuleId::PoorParallelism) {
        commands.insert(1, format!("whyslow report {file} parallelism"));
    }
    // Without lines of the program, the view has nothing to show.
    let has_line =
        |row: &OwnRow| row.line.is_some() && row.own_value.saturating_mul(20) >= summary.own.total_value;
    if ran && summary.own.rows.iter().any(has_line) {
        commands.push(format!("whyslow report {file} lines"));
    }
    if summary.has_waits {
        let place = if ran { commands.len() } else { 0 };
        commands.insert(place, format!("whyslow report {file} waits"));
    }
    if view.quality.heap.is_some() {
        commands.push(format!("whyslow report {file} heap"));
    }
    foot.push_str(&next_commands(commands, page.width));
    foot
}

fn times(overview: &Overview, profile: &Profile) -> String {
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
fn heap_line(profile: &Profile, heap: &HeapTotal) -> String {
    let totals = &heap.totals;
    let mut text = format!(
        "heap: {}, {} in all, {} at the peak",
        number_of(totals.allocations, "allocation", "allocations"),
        bytes(totals.bytes_allocated),
        bytes(heap.peak_bytes)
    );
    if let Some(row) = &heap.most {
        let share = Percent(row.counts.peak_bytes as f64 / totals.peak_bytes.max(1) as f64);
        text.push_str(&format!(", {share} by {}", line_words(profile, row)));
    }
    text
}

/// The steps with arrows, wrapped. If there are too many, steps outside the user's code are left out first.
fn hottest_path(view: View<'_>) -> String {
    let title = "hottest path: ";
    let room = view.page.width - columns(title);
    let pieces = path_pieces(view, room);
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

fn path_pieces(view: View<'_>, room: usize) -> Vec<Piece> {
    let View { summary, profile, page, .. } = view;
    let path = &summary.hot_path;
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
