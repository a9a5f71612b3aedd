//! The messages of notes on recordings of other tools.

use whyslow_profile::{ImportNote, LeftOutSamples};

use whyslow_words::{About, Remark};
use whyslow_words::{Count, number_of};

/// The command that makes perf record complete stacks.
const WHOLE_STACKS: &str = "perf record --call-graph dwarf";

/// The remark for a note.
pub(super) fn remark(note: &ImportNote) -> Remark {
    let about = match note {
        ImportNote::NoCallStacks
        | ImportNote::ForeignStackBytes { .. }
        | ImportNote::LbrStacks
        | ImportNote::KernelCallchains
        | ImportNote::BeyondCopiedBytes { .. } => About::Stacks,
        ImportNote::PprofUnnamed
        | ImportNote::ChangedFiles { .. }
        | ImportNote::UnprovenFiles { .. }
        | ImportNote::OtherKernel => About::Names,
        ImportNote::SamplesLeftOut { .. }
        | ImportNote::IdleCpus { .. }
        | ImportNote::SamplesWithoutTime { .. } => About::Samples,
        _ => About::Format,
    };
    Remark { fix: fix(note).map(str::to_owned), ..Remark::note(note.id(), about, text(note)) }
}

fn text(note: &ImportNote) -> String {
    let constant = match note {
        ImportNote::UnreadableLines { lines: 1, first, what } => {
            return format!("line {first} was skipped: {what}");
        }
        ImportNote::UnreadableLines { lines, first, what } => {
            return format!("{} lines were skipped; the first is line {first}: {what}", Count(*lines));
        }
        ImportNote::SamplesLeftOut { samples, which } => {
            let which = match which {
                LeftOutSamples::WithoutStack => "samples without a stack",
                LeftOutSamples::WithoutAddress => "samples without an address",
                LeftOutSamples::Negative => "negative values (of a comparison)",
            };
            return format!("skipped {which}: {}", Count(*samples));
        }
        ImportNote::Fractions { scale } => {
            return format!("some values are fractions: all values are in units of 1/{scale}");
        }
        ImportNote::NotBytes { unit } => return format!("its values are in {unit}, not in bytes"),
        ImportNote::FreedLeftOut { events } => {
            return format!("freed memory is not imported: {}", number_of(*events, "event", "events"));
        }
        ImportNote::NewerFormat { known } => {
            return format!("its format is newer than version {known}: later additions are not imported");
        }
        ImportNote::LabelsLeftOut { labels } => {
            return format!("labels are not imported: {}", labels.join(", "));
        }
        ImportNote::ProfilesLeftOut { kind } => return format!("profiles of type '{kind}' are not imported"),
        ImportNote::UnmatchedEvents { events } => {
            return format!(
                "skipped events without a counterpart (a begin without an end or the reverse): {}",
                Count(*events)
            );
        }
        ImportNote::OtherEvents { events } => {
            return format!(
                "skipped events of other kinds (flows, objects, memory dumps): {}",
                Count(*events)
            );
        }
        ImportNote::SamplesWithoutTime { samples } => {
            let samples = number_of(*samples, "sample has no time and is", "samples have no time and are");
            return format!("{samples} shown at the start");
        }
        ImportNote::ForeignStackBytes { arch } => {
            return format!("copied stacks of {arch} are not unwound: only callchains are shown");
        }
        ImportNote::BeyondCopiedBytes { stacks, of } => {
            return format!(
                "{} of {} stacks are truncated: they are larger than what perf copied",
                Count(*stacks),
                Count(*of)
            );
        }
        ImportNote::ChangedFiles { file, more } => {
            return format!(
                "{} changed since the recording (another build ID): no symbols and no unwinding there",
                list(file, *more)
            );
        }
        ImportNote::UnprovenFiles { file, more } => {
            return format!(
                "the recording has no build ID of {}: symbols come from the files on this machine, which may differ",
                list(file, *more)
            );
        }
        ImportNote::IdleCpus { samples } => {
            return format!("skipped samples of idle CPUs: {}", Count(*samples));
        }
        ImportNote::UnknownRecords { records } => {
            return format!("skipped unknown records: {}", Count(*records));
        }
        ImportNote::NoTimes => "the format has no times: all samples are shown at the start",
        ImportNote::NoTimesAndThreads => {
            "the format has no times and no threads: all samples are shown at the start, on one thread"
        }
        ImportNote::ValuesWithoutTimes => {
            "the values are not times, so samples have no place in time: all are shown at the start"
        }
        ImportNote::FoldedStacks => {
            "folded stacks have no times, threads, lines or addresses; their values have no unit"
        }
        ImportNote::TwoColumns => {
            "each stack has two values, as in a comparison: the metric samples has the second, samples-before the first"
        }
        ImportNote::DhatBlocks => "DHAT does not record which blocks were temporary and which grew",
        ImportNote::HeaptrackTimes => {
            "heaptrack records no threads and no lifetimes, and times only to 10 ms"
        }
        ImportNote::MassifMoments => {
            "massif records live bytes per call site in a few snapshots, not how often anything was allocated"
        }
        ImportNote::MassifTime => "its time axis counts instructions or bytes: only `report memory` shows it",
        ImportNote::CallgrindCounts => {
            "callgrind counts instead of sampling: there are no times and no separate threads"
        }
        ImportNote::CallgrindCalls => {
            "callgrind records calls, not stacks: where a function has several callers, the costs of its callees are divided \
             among them in proportion; self and total costs are exact, except for mutually recursive functions"
        }
        ImportNote::CachegrindLines => {
            "cachegrind counts per line: there are no call stacks, times, threads or modules"
        }
        ImportNote::CozExperiments => {
            "coz does not write functions, when points were visited, and how busy the machine was: an overloaded machine goes \
             unnoticed"
        }
        ImportNote::OffsetsAsTimes => "its time axis is a file offset: offsets are shown as times",
        ImportNote::OpenMarkers => "skipped markers without an end",
        ImportNote::PprofUnnamed => "locations without a symbol are shown by address",
        ImportNote::OpenFrames => "frames that were never closed end with the last event",
        ImportNote::EventsWithoutEnd => {
            "the list of events is cut off: the program was stopped while it wrote the file"
        }
        ImportNote::RoundedCounters => "fractional counter values are rounded",
        ImportNote::IdleLeftOut => "idle time is not imported",
        ImportNote::OpenStretches => "slices without an end last until the last event of their thread",
        ImportNote::OverlappingStretches => {
            "some slices of a thread overlap without nesting: stacks cut them off, spans show them whole"
        }
        ImportNote::PerfScriptText => {
            "perf script prints no module addresses and no unwind errors; perf.data has both"
        }
        ImportNote::NoProcessNumbers => {
            "perf script printed no process numbers: all threads are shown as one process"
        }
        ImportNote::NoCallStacks => "perf recorded no call stacks",
        ImportNote::PerfUnfinished => {
            "perf was stopped before it finished the file: build IDs and host are unknown"
        }
        ImportNote::LbrStacks => {
            "stacks come from the CPU's branch records (LBR): frames beyond the innermost 16 or 32 are missing"
        }
        ImportNote::KernelCallchains => {
            "stacks are the kernel's callchains: frames of code without frame pointers are missing"
        }
        ImportNote::OtherKernel => "it was recorded under another kernel: kernel functions have no names",
        ImportNote::HardwareTraces => "hardware traces (such as Intel PT) are not imported",
    };
    constant.to_owned()
}

/// `a`, or `a and 3 more`.
fn list(first: &str, more: u64) -> String {
    if more == 0 { first.to_owned() } else { format!("{first} and {} more", Count(more)) }
}

fn fix(note: &ImportNote) -> Option<&'static str> {
    match note {
        ImportNote::MassifTime => Some("record with `valgrind --tool=massif --time-unit=ms PROGRAM`"),
        ImportNote::PprofUnnamed => {
            Some("`pprof -symbolize=local -proto PROGRAM FILE` adds the symbols; then import its output")
        }
        ImportNote::NoProcessNumbers => Some("perf script -F +pid"),
        ImportNote::SamplesWithoutTime { .. } => Some("perf script -F +time"),
        ImportNote::NoCallStacks | ImportNote::LbrStacks | ImportNote::KernelCallchains => Some(WHOLE_STACKS),
        ImportNote::BeyondCopiedBytes { .. } => {
            Some("`perf record --call-graph dwarf,65528`, or `whyslow record`, which completes them")
        }
        _ => None,
    }
}
