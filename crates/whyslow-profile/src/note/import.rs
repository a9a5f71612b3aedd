//! Notes of other tools' recordings: what their formats do not hold, and what was left out.

use serde::{Deserialize, Serialize};

crate::facts! {
    /// What is to be known of another tool's recording.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(tag = "id", rename_all = "kebab-case")]
    pub enum ImportNote {
        /// Lines that cannot be read are left out.
        "unreadable-lines" => UnreadableLines {
            /// How many.
            lines: u64,
            /// The number of the first.
            first: u64,
            /// What is wrong with that.
            what: String,
        },
        /// Samples are left out.
        "samples-left-out" => SamplesLeftOut {
            /// How many.
            samples: u64,
            /// Which.
            which: LeftOutSamples,
        },
        /// The format has no times.
        "no-times" => NoTimes,
        /// The format has neither times nor threads.
        "no-times-and-threads" => NoTimesAndThreads,
        /// Values that are no times have no place in time.
        "values-without-times" => ValuesWithoutTimes,
        /// Values that are no whole numbers are multiplied.
        "fractions" => Fractions {
            /// With this.
            scale: u64,
        },
        /// What the file counts are no bytes.
        "not-bytes" => NotBytes {
            /// What they are.
            unit: String,
        },

        /// Folded stacks hold little.
        "folded-stacks" => FoldedStacks,
        /// Each folded stack has two values.
        "two-columns" => TwoColumns,
        /// DHAT does not know all that a heap recording does.
        "dhat-blocks" => DhatBlocks,
        /// heaptrack does not, either.
        "heaptrack-times" => HeaptrackTimes,
        /// massif knows moments.
        "massif-moments" => MassifMoments,
        /// massif's time is no time.
        "massif-time" => MassifTime,
        /// callgrind counts.
        "callgrind-counts" => CallgrindCounts,
        /// callgrind keeps calls, of which stacks are made.
        "callgrind-calls" => CallgrindCalls,
        /// cachegrind counts per line.
        "cachegrind-lines" => CachegrindLines,

        /// Firefox's time axis is an offset in a file.
        "offsets-as-times" => OffsetsAsTimes,
        /// Memory that was given back is left out.
        "freed-left-out" => FreedLeftOut {
            /// How many events.
            events: u64,
        },
        /// Markers that did not end are left out.
        "open-markers" => OpenMarkers,
        /// The file is of a later version of its format.
        "newer-format" => NewerFormat {
            /// The newest that is known.
            known: u64,
        },
        /// Places in pprof's profile have no names.
        "pprof-unnamed" => PprofUnnamed,
        /// Labels are left out.
        "labels-left-out" => LabelsLeftOut {
            /// The first of them.
            labels: Vec<String>,
        },
        /// Profiles of a kind that has no place are left out.
        "profiles-left-out" => ProfilesLeftOut {
            /// Which kind.
            kind: String,
        },
        /// Frames were never closed.
        "open-frames" => OpenFrames,

        /// The list of events has no end.
        "events-without-end" => EventsWithoutEnd,
        /// Values of counters are rounded.
        "rounded-counters" => RoundedCounters,
        /// Events lack their counterpart.
        "unmatched-events" => UnmatchedEvents {
            /// How many.
            events: u64,
        },
        /// Events of other kinds are left out.
        "other-events" => OtherEvents {
            /// How many.
            events: u64,
        },
        /// Idle time is left out.
        "idle-left-out" => IdleLeftOut,
        /// Stretches never end.
        "open-stretches" => OpenStretches,
        /// Stretches overlap.
        "overlapping-stretches" => OverlappingStretches,

        /// perf script prints less than perf.data holds.
        "perf-script-text" => PerfScriptText,
        /// It printed no process numbers.
        "no-process-numbers" => NoProcessNumbers,
        /// Samples have no time.
        "samples-without-time" => SamplesWithoutTime {
            /// How many.
            samples: u64,
        },
        /// perf recorded no stacks.
        "no-call-stacks" => NoCallStacks,
        /// perf was stopped before it finished its file.
        "perf-unfinished" => PerfUnfinished,
        /// Stack bytes of another processor are not unwound.
        "foreign-stack-bytes" => ForeignStackBytes {
            /// Which processor.
            arch: String,
        },
        /// Stacks are what the CPU remembers of calls.
        "lbr-stacks" => LbrStacks,
        /// Stacks are the kernel's callchains.
        "kernel-callchains" => KernelCallchains,
        /// Stacks go on beyond the bytes that perf copied.
        "beyond-copied-bytes" => BeyondCopiedBytes {
            /// How many.
            stacks: u64,
            /// Of how many.
            of: u64,
        },
        /// Files have changed since the recording.
        "changed-files" => ChangedFiles {
            /// The first of them.
            file: String,
            /// How many more there are.
            more: u64,
        },
        /// Files cannot be proved to be those of the recording.
        "unproven-files" => UnprovenFiles {
            /// The first of them.
            file: String,
            /// How many more there are.
            more: u64,
        },
        /// It was recorded under another kernel.
        "other-kernel" => OtherKernel,
        /// Samples of idle CPUs are left out.
        "idle-cpus" => IdleCpus {
            /// How many.
            samples: u64,
        },
        /// Hardware traces are not read.
        "hardware-traces" => HardwareTraces,
        /// Records that cannot be understood are left out.
        "unknown-records" => UnknownRecords {
            /// How many.
            records: u64,
        },
    }
}

/// Which samples are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeftOutSamples {
    /// Those without a stack.
    WithoutStack,
    /// Those without an address.
    WithoutAddress,
    /// Those with negative values, as in a comparison.
    Negative,
}
