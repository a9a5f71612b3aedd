//! What notes of other tools' recordings say.

use whyslow_profile::{ImportNote, LeftOutSamples};

use super::{About, Fact, Remark};
use crate::units::{Count, number_of};

/// How perf records whole stacks.
const WHOLE_STACKS: &str = "perf record --call-graph dwarf";

impl Fact for ImportNote {
    fn remark(&self) -> Remark {
        let about = match self {
            Self::NoCallStacks
            | Self::ForeignStackBytes { .. }
            | Self::LbrStacks
            | Self::KernelCallchains
            | Self::BeyondCopiedBytes { .. } => About::Stacks,
            Self::PprofUnnamed
            | Self::ChangedFiles { .. }
            | Self::UnprovenFiles { .. }
            | Self::OtherKernel => About::Names,
            Self::SamplesLeftOut { .. } | Self::IdleCpus { .. } | Self::SamplesWithoutTime { .. } => {
                About::Samples
            }
            _ => About::Format,
        };
        Remark { fix: fix(self).map(str::to_owned), ..Remark::note(self.id(), about, text(self)) }
    }
}

fn text(note: &ImportNote) -> String {
    let constant = match note {
        ImportNote::UnreadableLines { lines: 1, first, what } => {
            return format!("line {first} is left out: {what}");
        }
        ImportNote::UnreadableLines { lines, first, what } => {
            return format!("{} lines are left out; the first is line {first}: {what}", Count(*lines));
        }
        ImportNote::SamplesLeftOut { samples, which } => {
            let which = match which {
                LeftOutSamples::WithoutStack => "samples without a stack",
                LeftOutSamples::WithoutAddress => "samples without an address",
                LeftOutSamples::Negative => "negative values (of a comparison)",
            };
            return format!("{which} are left out: {}", Count(*samples));
        }
        ImportNote::Fractions { scale } => {
            return format!("values that are no whole numbers: all are in units of 1/{scale}");
        }
        ImportNote::NotBytes { unit } => return format!("its values are counted in {unit}, not in bytes"),
        ImportNote::FreedLeftOut { events } => {
            return format!("memory that was given back is left out: {} events", Count(*events));
        }
        ImportNote::NewerFormat { known } => {
            return format!("its version is newer than {known}: what that added is left out");
        }
        ImportNote::LabelsLeftOut { labels } => return format!("labels are left out: {}", labels.join(", ")),
        ImportNote::ProfilesLeftOut { kind } => return format!("profiles of the type '{kind}' are left out"),
        ImportNote::UnmatchedEvents { events } => {
            return format!(
                "events without a counterpart (a begin without an end or the reverse) are left out: {}",
                Count(*events)
            );
        }
        ImportNote::OtherEvents { events } => {
            return format!(
                "events of other kinds (flows, objects, memory dumps) are left out: {}",
                Count(*events)
            );
        }
        ImportNote::SamplesWithoutTime { samples } => {
            let samples = number_of(*samples, "sample has no time and is", "samples have no time and are");
            return format!("{samples} at the start");
        }
        ImportNote::ForeignStackBytes { arch } => {
            return format!("stack bytes of {arch} are not unwound; only callchains are shown");
        }
        ImportNote::BeyondCopiedBytes { stacks, of } => {
            return format!(
                "{} of {} stacks go on beyond the bytes that perf copied and stay truncated",
                Count(*stacks),
                Count(*of)
            );
        }
        ImportNote::ChangedFiles { file, more } => {
            return format!(
                "{} changed since the recording (another build id): no names and no unwinding there",
                list(file, *more)
            );
        }
        ImportNote::UnprovenFiles { file, more } => {
            return format!(
                "the recording has no build id of {}: the files of this machine are used",
                list(file, *more)
            );
        }
        ImportNote::IdleCpus { samples } => {
            return format!("samples of idle CPUs are left out: {}", Count(*samples));
        }
        ImportNote::UnknownRecords { records } => {
            return format!("records that cannot be understood are left out: {}", Count(*records));
        }
        ImportNote::NoTimes => "the format has no times: all samples are at the start",
        ImportNote::NoTimesAndThreads => {
            "the format has no times and no threads: all samples are at the start, on one thread"
        }
        ImportNote::ValuesWithoutTimes => {
            "values that are not times have no place in time: all samples are at the start"
        }
        ImportNote::FoldedStacks => {
            "folded stacks have no times, threads, lines or addresses; their values have no unit"
        }
        ImportNote::TwoColumns => {
            "each stack has two values, as in a comparison: those after are samples, those before are samples-before"
        }
        ImportNote::DhatBlocks => "DHAT does not know which blocks were temporary and which grew",
        ImportNote::HeaptrackTimes => "heaptrack has no threads and no lifetimes, and knows times to 10 ms",
        ImportNote::MassifMoments => {
            "massif knows who had how much at some moments, and not how often anything was allocated"
        }
        ImportNote::MassifTime => "its time is counted in instructions or bytes: the timeline is left out",
        ImportNote::CallgrindCounts => {
            "callgrind counts, it does not sample: there are no times, and no threads apart"
        }
        ImportNote::CallgrindCalls => {
            "callgrind keeps calls, not stacks: where a function has several callers, its callees' costs are divided among \
             them in proportion; own and inclusive costs of functions are exact unless they call each other in turn"
        }
        ImportNote::CachegrindLines => {
            "cachegrind counts per line: there are no call stacks, times, threads or modules"
        }
        ImportNote::OffsetsAsTimes => "its time axis is an offset in a file: offsets are shown as times",
        ImportNote::OpenMarkers => "markers that began and did not end are left out",
        ImportNote::PprofUnnamed => "places without a name stay without one",
        ImportNote::OpenFrames => "frames that were never closed end with the last event",
        ImportNote::EventsWithoutEnd => {
            "the list of events has no end: the program was stopped while it wrote"
        }
        ImportNote::RoundedCounters => "counter values that are no whole numbers are rounded",
        ImportNote::IdleLeftOut => "idle time is left out",
        ImportNote::OpenStretches => {
            "stretches that never end are taken to last until their thread's last event"
        }
        ImportNote::OverlappingStretches => {
            "stretches of a thread that overlap without being nested are cut in stacks, not as spans"
        }
        ImportNote::PerfScriptText => {
            "perf script has no module addresses and no unwind quality; perf.data has"
        }
        ImportNote::NoProcessNumbers => {
            "perf script printed no process numbers: all threads are shown as one process"
        }
        ImportNote::NoCallStacks => "perf recorded no call stacks",
        ImportNote::PerfUnfinished => {
            "perf was stopped before it finished the file; build ids and host are not known"
        }
        ImportNote::LbrStacks => {
            "stacks are the calls that the CPU itself remembers (LBR): those beyond its 16 or 32 are missing"
        }
        ImportNote::KernelCallchains => {
            "stacks are the kernel's callchains: code without frame pointers is missing from them"
        }
        ImportNote::OtherKernel => "it was recorded under another kernel: kernel functions have no names",
        ImportNote::HardwareTraces => "hardware traces (Intel PT and the like) are not read",
    };
    constant.to_owned()
}

/// `a`, or `a and 3 more`.
fn list(first: &str, more: u64) -> String {
    if more == 0 { first.to_owned() } else { format!("{first} and {} more", Count(more)) }
}

fn fix(note: &ImportNote) -> Option<&'static str> {
    match note {
        ImportNote::MassifTime => Some("--time-unit=ms"),
        ImportNote::PprofUnnamed => Some("pprof's own `-symbolize` gives them names"),
        ImportNote::NoProcessNumbers => Some("perf script -F +pid"),
        ImportNote::SamplesWithoutTime { .. } => Some("perf script -F +time"),
        ImportNote::NoCallStacks | ImportNote::LbrStacks | ImportNote::KernelCallchains => Some(WHOLE_STACKS),
        ImportNote::BeyondCopiedBytes { .. } => {
            Some("perf record --call-graph dwarf,65528, or whyslow record, which completes them")
        }
        _ => None,
    }
}
