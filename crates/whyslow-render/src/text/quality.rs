//! The quality of a profile as text.

use whyslow_analyze::{HeapQuality, Quality, WaitQuality};
use whyslow_profile::{KernelView, Sampling, Trigger};
use whyslow_words::{About, Fact, Severity};

use super::layout::{PLAIN, Page, grade_style, left, number_of, push_line, push_titled, styled, wrap};
use super::remark::{push_remark, remark_lines};
use crate::sanitize::clean;
use crate::units::{Count, Percent, bytes};

const KEY: usize = 20;

/// Renders all facts about a profile's quality.
pub fn quality(quality: &Quality, width: usize) -> String {
    let mut out = String::new();
    push_line(&mut out, &headline(quality));
    out.push('\n');
    let mut fact = |key: &str, text: String| {
        push_titled(&mut out, &left(key, KEY), PLAIN, &wrap(&text, width.saturating_sub(KEY)));
    };
    if let Some(heap) = &quality.heap {
        fact("allocations", Count(heap.allocations).to_string());
        fact("method", counting_words(heap));
        fact("complete heap stacks", Percent(1.0 - heap.cut_share).to_string());
        fact("lost heap events", Count(heap.lost_events).to_string());
    }
    if let Some(waits) = &quality.waits {
        waiting(quality, waits, &mut fact);
    } else if quality.heap.as_ref().is_none_or(|heap| !heap.only) {
        sampling(quality, &mut fact);
    }
    fact("recording", if quality.incomplete { "incomplete" } else { "complete" }.to_owned());
    if !quality.warnings.is_empty() {
        out.push('\n');
    }
    for remark in quality.remarks() {
        out.push_str(&remark_lines(&remark, width));
    }
    out
}

/// Adds the facts about CPU samples.
fn sampling(quality: &Quality, fact: &mut dyn FnMut(&str, String)) {
    if quality.counted {
        fact("method", "counted, not sampled".to_owned());
    } else {
        fact("samples", Count(quality.samples).to_string());
    }
    if let (Some(expected), Some(achieved)) = (quality.expected_samples, quality.achieved_share()) {
        let rate = quality.frequency_hz;
        fact(
            "expected",
            format!("{} at {rate} per second of CPU time: {} recorded", Count(expected), Percent(achieved)),
        );
    }
    fact("source", source_words(quality));
    if quality.sampling != Sampling::Unknown {
        fact("sampled", sampling_words(quality));
    }
    fact("kernel", kernel_words(quality));
    fact("stacks complete", Percent(1.0 - quality.truncated_share).to_string());
    fact(
        "unresolved",
        format!("{} of the samples end in code without symbols", Percent(quality.unresolved_share)),
    );
    fact("no frame resolved", Percent(quality.nameless_share).to_string());
    let lost = number_of(quality.lost, "sample", "samples");
    fact("lost", format!("{lost}, {}", number_of(quality.lost_records, "other record", "other records")));
    fact("throttled", number_of(quality.throttled, "time", "times"));
}

/// Adds the facts about waits.
fn waiting(quality: &Quality, waits: &WaitQuality, fact: &mut dyn FnMut(&str, String)) {
    fact("waits", Count(waits.waits).to_string());
    let how = match (waits.snapshots, waits.in_turns) {
        (true, _) => "snapshots of waiting threads",
        (false, true) => "from the kernel, sampled because there were too many waits",
        (false, false) => "from the kernel, one per wait",
    };
    fact("stacks", how.to_owned());
    fact(
        "complete stacks",
        format!("{}, {} of the waiting time", Count(waits.whole), Percent(waits.whole_share)),
    );
    fact("without a stack", format!("{} of the waiting time", Percent(waits.no_stack_share)));
    if waits.estimated_share > 0.0 {
        let (share, error) = (Percent(waits.estimated_share), Percent(waits.estimated_error));
        fact(
            "place estimated",
            format!("{share} of the waiting time; shares of places are right to about ±{error}"),
        );
    }
    let lost = number_of(quality.lost, "record", "records");
    fact("lost", format!("{lost}, {}", number_of(quality.lost_records, "other record", "other records")));
}

fn counting_words(heap: &HeapQuality) -> String {
    match heap.sample_bytes {
        None if heap.allocations == 0 => "no allocation recorded".to_owned(),
        None if heap.partly_seen => "some allocations not recorded".to_owned(),
        None => "every allocation counted".to_owned(),
        Some(size) => format!("one sample per {} on average", bytes(size)),
    }
}

/// The verdict in one line: `good: 4,812 samples, 99.9 % of stacks complete, 0 lost`.
pub fn headline(quality: &Quality) -> String {
    let grade = styled(grade_style(quality.grade), quality.grade.label());
    let waits = quality.waits.as_ref().map(|waits| wait_words(waits, quality.lost));
    let mut text = match &quality.heap {
        _ if waits.is_some() => format!("{grade}: {}", waits.unwrap_or_default()),
        Some(heap) if heap.only => {
            let (counted, lost) = (counting_words(heap), Count(heap.lost_events));
            format!("{grade}: {counted}, {} of stacks complete, {lost} lost", Percent(1.0 - heap.cut_share))
        }
        None if quality.counted => {
            format!("{grade}: counted, {} of stacks complete", Percent(1.0 - quality.truncated_share))
        }
        _ => {
            let mut text = format!("{grade}: {}", number_of(quality.samples, "sample", "samples"));
            if quality.samples > 0 {
                text.push_str(&format!(", {} of stacks complete", Percent(1.0 - quality.truncated_share)));
            }
            text + &format!(", {} lost", Count(quality.lost))
        }
    };
    if quality.incomplete {
        text.push_str(", recording incomplete");
    }
    text
}

/// Formats `15 waits, 14 with complete stacks (99.9 % of the time), 0 lost`.
fn wait_words(waits: &WaitQuality, lost: u64) -> String {
    let mut text = number_of(waits.waits, "wait", "waits");
    if waits.waits > 0 {
        let (whole, share) = (Count(waits.whole), Percent(waits.whole_share));
        text.push_str(&format!(", {whole} with complete stacks ({share} of the time)"));
    }
    if waits.estimated_share > 0.0 {
        text.push_str(&format!(", {} of the time estimated", Percent(waits.estimated_share)));
    } else if waits.in_turns {
        text.push_str(", stacks sampled");
    }
    text + &format!(", {} lost", Count(lost))
}

/// The verdict on one line without styles: the headline and the problems.
pub fn verdict(quality: &Quality) -> String {
    let problems =
        problems(quality).into_iter().map(|(severity, words)| format!("; {}: {words}", severity.label()));
    headline(quality) + &problems.collect::<String>()
}

/// The verdict for the top of a view: the headline, and below it the problems.
pub fn verdict_lines(quality: &Quality, page: Page) -> String {
    let mut out = String::new();
    push_line(&mut out, &headline(quality));
    for (severity, words) in problems(quality) {
        push_remark(&mut out, severity, &words, page.width);
    }
    out
}

/// The problems of experiments. The samples beside them only draw the flame graph.
pub(super) fn experiment_lines(quality: &Quality, page: Page) -> String {
    let mut out = String::new();
    let remarks = quality.warnings.iter().map(Fact::remark);
    for remark in remarks.filter(|of| of.about == About::Experiments && of.severity > Severity::Note) {
        push_remark(&mut out, remark.severity, &clean(&remark.text), page.width);
    }
    out
}

/// The problems, worst first, and how many notes there are; notes appear only in the view `quality`.
fn problems(quality: &Quality) -> Vec<(Severity, String)> {
    let remarks = quality.warnings.iter().map(Fact::remark).filter(|remark| remark.severity > Severity::Note);
    let mut problems: Vec<(Severity, String)> =
        remarks.map(|remark| (remark.severity, clean(&remark.text).into_owned())).collect();
    let notes = (quality.warnings.len() - problems.len()) as u64;
    if let (Some((_, words)), 1..) = (problems.last_mut(), notes) {
        words.push_str(&format!(" (+{}: `report FILE quality`)", number_of(notes, "note", "notes")));
    }
    problems
}

/// The JSON label of the samples' trigger.
pub(crate) fn source_label(quality: &Quality) -> String {
    match &quality.imported_from {
        Some(tool) => format!("imported: {tool}"),
        None => quality.trigger.label().to_owned(),
    }
}

/// The JSON label of the kernel's visibility.
pub(crate) fn kernel_label(kernel: KernelView) -> &'static str {
    match kernel {
        KernelView::Unknown => "unknown",
        KernelView::Included => "included",
        KernelView::Unnamed => "unnamed",
        KernelView::Hidden => "hidden",
        KernelView::Callers => "callers",
    }
}

/// The JSON label of the sampler.
pub(crate) fn sampling_label(sampling: Sampling) -> &'static str {
    match sampling {
        Sampling::Unknown => "unknown",
        Sampling::Cpus => "cpus",
        Sampling::Threads => "threads",
        Sampling::Timers => "timers",
        Sampling::Ptrace => "looks",
    }
}

fn sampling_words(quality: &Quality) -> String {
    match quality.sampling {
        Sampling::Cpus => "per CPU: even short-lived threads get their share".to_owned(),
        Sampling::Timers => format!(
            "per thread, at clock ticks: {} of the CPU time has no sample",
            Percent(quality.not_sampled_share)
        ),
        Sampling::Ptrace => format!(
            "running threads, by ptrace: {} of the CPU time has no sample",
            Percent(quality.not_sampled_share)
        ),
        Sampling::Threads => {
            format!("per thread: {} of the CPU time has no sample", Percent(quality.not_sampled_share))
        }
        Sampling::Unknown => sampling_label(quality.sampling).to_owned(),
    }
}

fn source_words(quality: &Quality) -> String {
    match quality.trigger {
        Trigger::Cycles => "cycles: hardware counter".to_owned(),
        Trigger::CpuClock => "cpu-clock: kernel timer".to_owned(),
        Trigger::Timer => "timer: CPU timers in the program, one per thread".to_owned(),
        Trigger::Ptrace => "look: ptrace stops the thread briefly".to_owned(),
        Trigger::Event => "the event: one sample every N occurrences".to_owned(),
        Trigger::Unknown => clean(&source_label(quality)).into_owned(),
    }
}

fn kernel_words(quality: &Quality) -> String {
    match quality.kernel {
        KernelView::Hidden if quality.missing_kernel_share == 0.0 => {
            "hidden: no kernel time was counted".to_owned()
        }
        KernelView::Hidden => {
            let how =
                if quality.sampling == Sampling::Threads { "has no sample" } else { "is not in the profile" };
            format!("hidden: {} of the CPU time {how}", Percent(quality.missing_kernel_share))
        }
        KernelView::Unnamed => "unnamed: kernel time is included, without function names".to_owned(),
        KernelView::Callers => "not recorded: kernel time counts for the calling code".to_owned(),
        kernel => kernel_label(kernel).to_owned(),
    }
}
