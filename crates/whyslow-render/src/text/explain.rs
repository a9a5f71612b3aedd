//! Findings as text: for a terminal, and as annotations on a pull request.

use whyslow_analyze::heap::is_heap_metric;
use whyslow_analyze::{CallTree, Label, record_again};
use whyslow_explain::{Change, Evidence, Explanation, Finding, Outcome, Place, Shape, Waiting};
use whyslow_profile::{MetricId, Profile, Unit};
use whyslow_words::{Percent, number_of};

use super::layout::{
    BOLD, DIM, PLAIN, Page, columns, cut, label_name, push_line, push_titled, push_wrapped, styled, wrap,
};
use super::summary::quoted;
use crate::names;
use crate::sanitize::clean;
use crate::units::{Count, duration, times};

/// The indentation of everything that belongs to a finding.
const INDENT: &str = "   ";
/// The maximum width of a place.
const PLACE: usize = 48;

/// Renders at most `limit` findings, or the shape of the profile if there are none. `file` is the path as the
/// user would type it.
pub fn explain(profile: &Profile, explanation: &Explanation, limit: usize, file: &str, page: Page) -> String {
    let mut out = String::new();
    let mut hotspot = Some(&explanation.shape).filter(|shape| matches!(shape, Shape::Hotspot { .. }));
    for (number, finding) in explanation.findings.iter().take(limit).enumerate() {
        if hotspot.is_some_and(|shape| unexplained(shape) > finding.share) {
            push_wrapped(&mut out, BOLD, &shape(profile, explanation, file), page.width);
            out.push('\n');
            hotspot = None;
        }
        push_finding(&mut out, profile, &format!("{}. ", number + 1), finding, page);
        push_check(&mut out, finding, page);
        out.push('\n');
    }
    if explanation.findings.is_empty() {
        push_wrapped(&mut out, BOLD, "no known pattern stands out", page.width);
    }
    push_experiments(&mut out, profile, explanation, limit, page);
    let more = explanation.findings.len().saturating_sub(limit);
    if more > 0 {
        push_line(&mut out, &styled(DIM, format!("+{more} more: -n 0 shows all")));
    }
    if explanation.allowed > 0 {
        let allowed = format!("{} not shown: allowed", Count(explanation.allowed as u64));
        push_line(&mut out, &styled(DIM, allowed));
    }
    let is_shown = matches!(explanation.shape, Shape::Hotspot { .. }) && hotspot.is_none();
    if is_shown {
        return out;
    }
    push_wrapped(
        &mut out,
        if explanation.findings.is_empty() { anstyle::Style::new() } else { DIM },
        &shape(profile, explanation, file),
        page.width,
    );
    out
}

/// What experiments say about lines, at most `limit` of them.
fn push_experiments(
    out: &mut String,
    profile: &Profile,
    explanation: &Explanation,
    limit: usize,
    page: Page,
) {
    let shown = explanation.experiments.iter().take(limit);
    for experimented in shown {
        let target = experimented.target(profile);
        let function = clean(profile.text(target.function));
        let place = match target.file {
            Some(file) => format!(" ({})", names::place(&clean(profile.text(file)), target.line, PLACE)),
            None => String::new(),
        };
        let name = names::shorten(&function, PLACE);
        let words = format!("experiments: {name}{place}: {}", experimented.sentence(profile));
        push_wrapped(out, PLAIN, &words, page.width);
    }
    if !explanation.experiments.is_empty() {
        out.push('\n');
    }
}

/// The share of a hotspot that no finding explains.
fn unexplained(shape: &Shape) -> f64 {
    match shape {
        Shape::Hotspot { share, explained, .. } => share - explained,
        _ => 0.0,
    }
}

/// One or two lines per finding, for the one-screen summary.
pub(super) fn short_findings(
    profile: &Profile,
    findings: &[Finding],
    most: usize,
    width: usize,
) -> Vec<String> {
    /// Width of a place that leaves room for the words.
    const SHORT: usize = 28;
    let lines = |finding: &Finding| {
        let place = finding.place.map_or(String::new(), |place| match place.file {
            Some(file) => format!(" at {}", names::place(profile.text(file), place.line, SHORT)),
            None => format!(" in {}", names::shorten(&label_name(profile, place.label), SHORT)),
        });
        let share = format!("{:>6} ", Percent(finding.share).to_string());
        let words = wrap(&clean(&format!("{}{place}", finding.title)), width.saturating_sub(columns(&share)));
        let indent = " ".repeat(columns(&share));
        let starts = std::iter::once(share).chain(std::iter::repeat(indent));
        starts.zip(words).map(|(start, line)| format!("{start}{line}")).collect::<Vec<_>>()
    };
    findings.iter().take(most).flat_map(lines).collect()
}

/// The findings that belong to a view of `report`, for the lines above its table.
pub(super) fn findings_of_view(profile: &Profile, findings: &[Finding], page: Page) -> String {
    let mut out = String::new();
    findings.iter().for_each(|finding| push_finding(&mut out, profile, "finding: ", finding, page));
    out
}

/// What was found, how much it costs, where, and what to do.
fn push_finding(out: &mut String, profile: &Profile, title: &str, finding: &Finding, page: Page) {
    let words = format!("{} [{}]", finding.title, finding.rule.id);
    let lines = wrap(&clean(&words), page.width.saturating_sub(columns(title)));
    let lines = lines.iter().map(|line| styled(BOLD, line)).collect::<Vec<_>>();
    push_titled(out, title, BOLD, &lines);
    let room = page.width.saturating_sub(columns(INDENT));
    let [low, high] = finding.interval;
    let mut words = format!("{} of {}", Percent(finding.share), finding.of.label());
    let [low, high] = [low, high].map(|share| format!("{:.1}", share * 100.0));
    if low != high {
        words.push_str(&format!(" ({low} to {high})"));
    }
    if let Some(gain) = gain(profile, finding) {
        words.push_str(&format!("; {gain}"));
    }
    words.push_str(&format!("; confidence: {}", finding.confidence.label()));
    for line in wrap(&words, room) {
        push_line(out, &format!("{INDENT}{line}"));
    }
    if let Some(place) = &finding.place {
        push_line(
            out,
            &format!("{INDENT}{} {}", styled(BOLD, "at"), clean(&place_words(profile, place, room))),
        );
        if let Some(text) = place.file.and_then(|file| profile.sources.get(file, place.line)) {
            let text = clean(profile.text(text).trim());
            let line = format!("{INDENT}{:>5} | {text}", place.line);
            push_line(out, &styled(DIM, cut(&line, page.width)));
        }
    }
    // The finding's own place is not repeated, but numbers about it are shown.
    let is_repeated = |evidence: &Evidence| evidence.place.is_some() && evidence.place == finding.place;
    let numbers_only = |evidence: &Evidence| {
        let text = evidence.text.trim_end_matches(':').to_owned();
        Evidence { text, place: None, share: None, ..evidence.clone() }
    };
    let evidence = finding.evidence.iter().filter(|one| !is_repeated(one) || one.text.ends_with(':'));
    let evidence = evidence.map(|one| if is_repeated(one) { numbers_only(one) } else { one.clone() });
    for evidence in evidence {
        let words = clean(&evidence_words(profile, &evidence, room)).into_owned();
        // Sentences wrap; names are cut.
        let lines = match evidence.place {
            None => wrap(&words, room.saturating_sub(2)),
            Some(_) => vec![cut(&words, room.saturating_sub(2))],
        };
        lines.iter().for_each(|line| push_line(out, &format!("{INDENT}  {line}")));
    }
    if !finding.advice.is_empty() {
        push_step(out, "do", &finding.advice, page);
    }
}

/// The command that checks whether a change helped.
fn push_check(out: &mut String, finding: &Finding, page: Page) {
    push_step(out, "check", &finding.verify, page);
}

fn push_step(out: &mut String, title: &str, text: &str, page: Page) {
    let title = format!("{INDENT}{title}: ");
    let lines = wrap(&clean(text), page.width.saturating_sub(columns(&title)));
    push_titled(out, &title, BOLD, &lines);
}

/// What a change can gain: without the finding's share, and without all of the function that it is in. `None`
/// if it is not about time, or if a number would say nothing.
pub(crate) fn gain(profile: &Profile, finding: &Finding) -> Option<String> {
    /// Of more than this, a number only repeats the sampling error.
    const NEARLY_ALL: f64 = 0.99;
    /// More than this bounds nothing.
    const BOUND: f64 = 0.9;
    /// Functions that have this much more of the time than the finding bound it differently.
    const DIFFERS: f64 = 0.02;
    /// The width of a name.
    const NAME: usize = 40;
    let (alone, most) = (finding.speedup?, finding.max_speedup?);
    if finding.share >= NEARLY_ALL {
        return None;
    }
    let it = if finding.rule.is_about_loop() { "this loop" } else { "it" };
    let Some(of) = finding.enclosing.filter(|of| of.share > NEARLY_ALL.min(finding.share + DIFFERS)) else {
        return Some(format!("at most {} times as fast without {it}", times(most)));
    };
    let name = names::shorten(&label_name(profile, of.function), NAME);
    let name = match of.others {
        0 => clean(&name).into_owned(),
        others => format!("{} and {}", clean(&name), number_of(others as u64, "other", "others")),
    };
    let alone = format!("{} times as fast without {it}", times(alone));
    Some(if of.share > BOUND {
        format!("{alone}, more if the rest of {name} ({}) becomes faster too", Percent(of.share))
    } else {
        format!("{alone}, at most {} times without all of {name}", times(most))
    })
}

fn evidence_words(profile: &Profile, evidence: &Evidence, room: usize) -> String {
    let share = evidence.share.map_or(String::new(), |share| format!("{:>7} ", Percent(share).to_string()));
    let words = format!("{share}{}", evidence.text);
    let room = room.saturating_sub(columns(&words) + 3);
    evidence.place.map_or(words.clone(), |place| format!("{words} {}", place_words(profile, &place, room)))
}

/// Formats a function and its line: `app::parse  src/main.rs:12`.
fn place_words(profile: &Profile, place: &Place, room: usize) -> String {
    let line = place
        .file
        .map_or(String::new(), |file| format!("  {}", names::place(profile.text(file), place.line, PLACE)));
    let name = label_name(profile, place.label);
    format!("{}{line}", names::shorten(&name, room.saturating_sub(columns(&line)).max(20)))
}

/// Whether a function has no name but its address.
fn is_nameless(profile: &Profile, label: Label) -> bool {
    match label {
        Label::Function(id) => {
            let function = profile.functions.get(id.index());
            function.is_some_and(|function| profile.text(function.raw_name).is_empty())
        }
        _ => true,
    }
}

/// The shape of the profile in a sentence, with the next command. `file` is quoted for the shell.
pub fn shape(profile: &Profile, explanation: &Explanation, file: &str) -> String {
    let (file, shape) = (clean(file), &explanation.shape);
    let time = cost_noun(profile, explanation.metric);
    let is_heap = is_heap_metric(profile, explanation.metric);
    match shape {
        Shape::TooFew { samples, needed } => format!(
            "too few samples: {} of the {} needed. Record a longer run, or raise the rate: {}",
            Count(*samples),
            Count(*needed),
            clean(&record_again(profile, "-F 9970"))
        ),
        Shape::Waiting => explanation
            .waiting
            .as_ref()
            .map_or(String::new(), |waiting| waiting_words(profile, waiting, &file)),
        Shape::Hotspot { function, share, line, .. } => {
            let name = CallTree::name(profile, *function);
            let line = line.and_then(|(place, part)| Some((place.file?, place.line, part)));
            // Of many lines with a little each, none is worth a look.
            let is_hot = |part: f64| part >= share / 20.0;
            let shown = line.filter(|(.., part)| is_hot(*part));
            let shown = shown.map_or(String::new(), |(file, line, part)| {
                format!(", {} at {}", Percent(part), names::place(profile.text(file), line, PLACE))
            });
            // What nobody explains is read in its loops.
            let next = if is_heap {
                format!("See its lines: whyslow report {file} heap")
            } else if is_nameless(profile, *function) {
                format!("It has no name. See how to get it: whyslow report {file} quality")
            } else if unexplained(shape) > share / 2.0 {
                format!(
                    "No known pattern explains most of it. See its loops: whyslow asm {file} {}",
                    quoted(&name)
                )
            } else if line.is_none() {
                format!("See its machine code: whyslow asm {file} {}", quoted(&name))
            } else {
                format!("See its lines: whyslow report {file} lines")
            };
            format!(
                "one hotspot: {} and its callees take {} of the {time}{shown}. {next}",
                clean(&name),
                Percent(*share)
            )
        }
        Shape::Frameworks { share } => format!(
            "{} of the {time} is in code that your code did not call. Check how that code is configured: whyslow report {file} crates",
            Percent(*share)
        ),
        Shape::Spread { largest, functions } => format!(
            "spread out: {functions} functions take 1 % or more of the {time} each, the largest {}. Look for common callers: whyslow report {file} tree",
            Percent(*largest)
        ),
    }
}

/// How long a program waited, and the command that shows where. `file` is quoted for the shell, and escaped.
pub(super) fn waiting_words(profile: &Profile, waiting: &Waiting, file: &str) -> String {
    match waiting {
        Waiting::Blocked { blocked_ns, wall_ns, first, recorded } => {
            let first = first.as_ref().map_or(String::new(), |times| {
                format!(
                    " (the main thread was blocked for {}, {})",
                    duration(times.blocked_ns),
                    number_of(times.waits, "time", "times")
                )
            });
            let next = match recorded {
                true => format!("whyslow report {file} waits"),
                false => clean(&record_again(profile, "--off-cpu")).into_owned(),
            };
            format!(
                "mostly waits: all threads were blocked for {} of {}{first}; to see where: {next}",
                duration(*blocked_ns),
                duration(*wall_ns)
            )
        }
        // One thread alone cannot be more than there are CPUs.
        Waiting::Queued { queued_ns, ran_ns } if profile.threads.len() == 1 => format!(
            "the main thread ran {} and queued {} for a CPU: the machine is busy",
            duration(*ran_ns),
            duration(*queued_ns)
        ),
        Waiting::Queued { queued_ns, ran_ns } => format!(
            "threads ran {} and queued {} for a CPU: the machine is busy, or the program has more busy threads than CPUs",
            duration(*ran_ns),
            duration(*queued_ns)
        ),
    }
}

/// What a share of this metric is a share of: `time`, `allocated bytes`.
pub(crate) fn cost_noun(profile: &Profile, metric: MetricId) -> String {
    let hides = || (0..profile.stacks.len()).any(|stack| profile.is_not_sampled(stack.into()));
    match profile.metrics.get(metric.index()) {
        Some(metric) if metric.unit != Unit::Nanoseconds => match profile.text(metric.name) {
            "bytes-allocated" => "allocated bytes".to_owned(),
            "bytes-freed" => "freed bytes".to_owned(),
            "live-at-peak" => "bytes at the peak".to_owned(),
            name => clean(name).replace('-', " "),
        },
        _ if hides() => "sampled time".to_owned(),
        _ => "time".to_owned(),
    }
}

/// How much a finding costs, and what it is: `12.0 % of CPU time: …`.
pub(crate) fn message(finding: &Finding) -> String {
    format!("{} of {}: {}", Percent(finding.share), finding.of.label(), finding.title)
}

/// Renders findings as annotations that CI shows next to the lines of a pull request.
pub fn annotations(
    profile: &Profile,
    explanation: &Explanation,
    relative: impl Fn(&str) -> String,
) -> String {
    let mut out = String::new();
    for finding in &explanation.findings {
        let place = finding.place.and_then(|place| Some((place.file?, place.line)));
        let place = place.map(|(file, line)| (relative(profile.text(file)), line));
        let place = place.as_ref().map(|(file, line)| (file.as_str(), *line));
        let message = format!("{}. {}", message(finding), finding.advice);
        out.push_str(&annotation("warning", place, finding.rule.id.as_str(), message.trim_end()));
    }
    out
}

/// One annotation: its level, file and line, title and message.
pub(super) fn annotation(level: &str, place: Option<(&str, u32)>, title: &str, message: &str) -> String {
    // The format gives a meaning to percent signs and line ends, and in properties also to colons and commas.
    let escaped = |text: &str| clean(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let property = |text: &str| escaped(text).replace(':', "%3A").replace(',', "%2C");
    let place = place.map_or(String::new(), |(file, line)| format!("file={},line={line},", property(file)));
    format!("::{level} {place}title={}::{}\n", property(title), escaped(message))
}

/// Renders the findings of two profiles, compared.
pub fn explained_change(profiles: [&Profile; 2], changes: &[Change<'_>], page: Page) -> String {
    let mut out = String::new();
    for change in changes {
        let Some((profile, finding)) = change
            .after
            .map(|finding| (profiles[1], finding))
            .or(change.before.map(|finding| (profiles[0], finding)))
        else {
            continue;
        };
        let share = |finding: Option<&Finding>| {
            finding.map_or("-".to_owned(), |finding| Percent(finding.share).to_string())
        };
        let head = format!(
            "{:<11} {:>8} → {:>8}  ",
            change.outcome.word(),
            share(change.before),
            share(change.after)
        );
        let words = format!("{} [{}]", finding.title, finding.rule.id);
        push_titled(&mut out, &head, BOLD, &wrap(&clean(&words), page.width.saturating_sub(columns(&head))));
        if let Some(place) = &finding.place {
            let indent = " ".repeat(columns(&head));
            push_line(
                &mut out,
                &format!(
                    "{indent}{}",
                    clean(&place_words(profile, place, page.width.saturating_sub(columns(&indent))))
                ),
            );
        }
        let is_worse = change.outcome == Outcome::New || change.outcome == Outcome::More;
        if is_worse && !finding.advice.is_empty() {
            let title = format!("{}do: ", " ".repeat(columns(&head)));
            push_titled(
                &mut out,
                &title,
                BOLD,
                &wrap(&clean(&finding.advice), page.width.saturating_sub(columns(&title))),
            );
        }
    }
    if changes.is_empty() {
        push_wrapped(&mut out, BOLD, "no known pattern stands out in either profile", page.width);
    }
    if changes.iter().any(Change::is_sampled) {
        let words = "One recording per side cannot show run-to-run noise, so there is no verdict; \
                     `whyslow verify --runs 5 'BEFORE' 'AFTER'` gives one.";
        push_wrapped(&mut out, PLAIN, words, page.width);
    }
    out
}
