//! How far a profile can be trusted, in words.

use whyslow_analyze::{Fact, HeapQuality, Quality, Remark, Severity, WaitQuality};
use whyslow_profile::{KernelView, Sampling, Trigger};

use super::layout::{PLAIN, Page, grade_style, left, number_of, push_line, push_titled, styled, wrap};
use super::remark::{push_remark, remark_lines};
use crate::sanitize::clean;
use crate::units::{Count, Percent, bytes};

const KEY: usize = 20;

/// Everything that is known of a profile's quality.
pub fn quality(quality: &Quality, width: usize) -> String {
    let mut out = String::new();
    push_line(&mut out, &headline(quality));
    out.push('\n');
    let mut fact = |key: &str, text: String| {
        push_titled(&mut out, &left(key, KEY), PLAIN, &wrap(&text, width.saturating_sub(KEY)));
    };
    if let Some(heap) = &quality.heap {
        fact("allocations", Count(heap.allocations).to_string());
        fact("how", counting_words(heap));
        fact("heap stacks whole", Percent(1.0 - heap.cut_share).to_string());
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

/// What only CPU samples have.
fn sampling(quality: &Quality, fact: &mut dyn FnMut(&str, String)) {
    if quality.counted {
        fact("how", "counted, not sampled".to_owned());
    } else {
        fact("samples", Count(quality.samples).to_string());
    }
    if let (Some(expected), Some(achieved)) = (quality.expected_samples, quality.achieved_share()) {
        let rate = quality.frequency_hz;
        fact(
            "expected",
            format!("{} at {rate} per second of CPU time: {} came", Count(expected), Percent(achieved)),
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
        format!("{} of the samples end in code without a name", Percent(quality.unresolved_share)),
    );
    fact("without any name", Percent(quality.nameless_share).to_string());
    let lost = number_of(quality.lost, "sample", "samples");
    fact("lost", format!("{lost}, {}", number_of(quality.lost_records, "other record", "other records")));
    fact("throttled", number_of(quality.throttled, "time", "times"));
}

/// What only waits have.
fn waiting(quality: &Quality, waits: &WaitQuality, fact: &mut dyn FnMut(&str, String)) {
    fact("waits", Count(waits.waits).to_string());
    let how = match (waits.looked_at, waits.in_turns) {
        (true, _) => "threads were looked at while they waited",
        (false, true) => "the kernel gave them, in turns because there were too many waits",
        (false, false) => "the kernel gave one with each wait",
    };
    fact("stacks", how.to_owned());
    fact(
        "whole stacks",
        format!("{}, {} of the waiting time", Count(waits.whole), Percent(waits.whole_share)),
    );
    fact("without a stack", format!("{} of the waiting time", Percent(waits.unseen_share)));
    let lost = number_of(quality.lost, "record", "records");
    fact("lost", format!("{lost}, {}", number_of(quality.lost_records, "other record", "other records")));
}

fn counting_words(heap: &HeapQuality) -> String {
    match heap.sample_bytes {
        None if heap.allocations == 0 => "no allocation seen".to_owned(),
        None if heap.partly_seen => "not every allocation could be seen".to_owned(),
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

/// `15 waits, 14 with whole stacks (99.9 % of the time), 0 lost`.
fn wait_words(waits: &WaitQuality, lost: u64) -> String {
    let mut text = number_of(waits.waits, "wait", "waits");
    if waits.waits > 0 {
        let (whole, share) = (Count(waits.whole), Percent(waits.whole_share));
        text.push_str(&format!(", {whole} with whole stacks ({share} of the time)"));
    }
    if waits.in_turns {
        text.push_str(", in turns");
    }
    text + &format!(", {} lost", Count(lost))
}

/// The verdict in plain words on one line: the headline and the worst thing that is wrong.
pub fn verdict(quality: &Quality) -> String {
    match worst(quality) {
        Some(worst) => {
            format!("{}; {}: {}", headline(quality), worst.severity.label(), worst_words(quality, &worst))
        }
        None => headline(quality),
    }
}

/// The verdict for the top of a view: the headline, and below it the worst thing that is wrong.
pub fn verdict_lines(quality: &Quality, page: Page) -> String {
    let mut out = String::new();
    push_line(&mut out, &headline(quality));
    if let Some(worst) = worst(quality) {
        push_remark(&mut out, worst.severity, &worst_words(quality, &worst), page.width);
    }
    out
}

/// The worst that is wrong; notes are for those who ask.
fn worst(quality: &Quality) -> Option<Remark> {
    quality.warnings.first().map(Fact::remark).filter(|worst| worst.severity > Severity::Note)
}

fn worst_words(quality: &Quality, worst: &Remark) -> String {
    let more = quality.warnings.len() - 1;
    let words = clean(&worst.text).into_owned();
    if more > 0 { format!("{words} (+{more} more: `report FILE quality`)") } else { words }
}

/// The word for what triggered the samples, as in JSON.
pub(crate) fn source_label(quality: &Quality) -> String {
    match &quality.imported_from {
        Some(tool) => format!("imported: {tool}"),
        None => quality.trigger.label().to_owned(),
    }
}

/// The word for what is seen of the kernel, as in JSON.
pub(crate) fn kernel_label(kernel: KernelView) -> &'static str {
    match kernel {
        KernelView::Unknown => "unknown",
        KernelView::Included => "included",
        KernelView::Unnamed => "unnamed",
        KernelView::Hidden => "hidden",
        KernelView::Callers => "callers",
    }
}

/// The word for what samples are bound to, as in JSON.
pub(crate) fn sampling_label(sampling: Sampling) -> &'static str {
    match sampling {
        Sampling::Unknown => "unknown",
        Sampling::Cpus => "cpus",
        Sampling::Threads => "threads",
        Sampling::Timers => "timers",
        Sampling::Looks => "looks",
    }
}

fn sampling_words(quality: &Quality) -> String {
    match quality.sampling {
        Sampling::Cpus => "each CPU: a thread gets its share however short it lives".to_owned(),
        Sampling::Timers => format!(
            "each thread by itself, at ticks of the clock: no sample stands for {} of the CPU time",
            Percent(quality.not_sampled_share)
        ),
        Sampling::Looks => format!(
            "each thread that runs, from the outside: no sample stands for {} of the CPU time",
            Percent(quality.not_sampled_share)
        ),
        Sampling::Threads => {
            format!(
                "each thread by itself: {} of the CPU time has no sample",
                Percent(quality.not_sampled_share)
            )
        }
        Sampling::Unknown => sampling_label(quality.sampling).to_owned(),
    }
}

fn source_words(quality: &Quality) -> String {
    match quality.trigger {
        Trigger::Cycles => "cycles: the hardware's counter".to_owned(),
        Trigger::CpuClock => "cpu-clock: the kernel's timer".to_owned(),
        Trigger::Timer => "timer: the program's own, on the CPU clock of each thread".to_owned(),
        Trigger::Look => "look: the thread is stopped for a moment, as by a debugger".to_owned(),
        Trigger::Event => "the event itself, every so many times".to_owned(),
        Trigger::Unknown => clean(&source_label(quality)).into_owned(),
    }
}

fn kernel_words(quality: &Quality) -> String {
    match quality.kernel {
        KernelView::Hidden if quality.missing_kernel_share == 0.0 => {
            "hidden: no time in it was counted".to_owned()
        }
        KernelView::Hidden => {
            let how =
                if quality.sampling == Sampling::Threads { "has no sample" } else { "is not in the profile" };
            format!("hidden: {} of the CPU time {how}", Percent(quality.missing_kernel_share))
        }
        KernelView::Unnamed => "unnamed: its time is there, its functions have no names".to_owned(),
        KernelView::Callers => "not seen: its time counts for the code that called it".to_owned(),
        kernel => kernel_label(kernel).to_owned(),
    }
}
