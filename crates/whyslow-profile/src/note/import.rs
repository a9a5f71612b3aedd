//! Notes about other tools' recordings: what their formats lack, and what was left out.

use serde::{Deserialize, Serialize};

crate::facts! {
    /// A note about another tool's recording.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(tag = "id", rename_all = "kebab-case")]
    pub enum ImportNote {
        /// Unreadable lines are left out.
        "unreadable-lines" => UnreadableLines {
            /// How many.
            lines: u64,
            /// The number of the first.
            first: u64,
            /// What is wrong with it.
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
        /// Values other than times have no position in time.
        "values-without-times" => ValuesWithoutTimes,
        /// Fractional values are multiplied.
        "fractions" => Fractions {
            /// The factor.
            scale: u64,
        },
        /// The values in the file are not bytes.
        "not-bytes" => NotBytes {
            /// Their unit.
            unit: String,
        },

        /// Folded stacks contain little.
        "folded-stacks" => FoldedStacks,
        /// Each folded stack has two values.
        "two-columns" => TwoColumns,
        /// DHAT records less than a heap recording.
        "dhat-blocks" => DhatBlocks,
        /// heaptrack records less, too.
        "heaptrack-times" => HeaptrackTimes,
        /// massif records points in time.
        "massif-moments" => MassifMoments,
        /// massif's time unit is not time.
        "massif-time" => MassifTime,
        /// callgrind counts.
        "callgrind-counts" => CallgrindCounts,
        /// callgrind records calls, from which stacks are reconstructed.
        "callgrind-calls" => CallgrindCalls,
        /// cachegrind counts per line.
        "cachegrind-lines" => CachegrindLines,
        /// coz writes less about its experiments than whyslow.
        "coz-experiments" => CozExperiments,

        /// Firefox's time axis is an offset in a file.
        "offsets-as-times" => OffsetsAsTimes,
        /// Freed memory is left out.
        "freed-left-out" => FreedLeftOut {
            /// How many events.
            events: u64,
        },
        /// Markers without an end are left out.
        "open-markers" => OpenMarkers,
        /// The file has a newer version of its format.
        "newer-format" => NewerFormat {
            /// The newest known version.
            known: u64,
        },
        /// Locations in the pprof profile have no names.
        "pprof-unnamed" => PprofUnnamed,
        /// Labels are left out.
        "labels-left-out" => LabelsLeftOut {
            /// The first of them.
            labels: Vec<String>,
        },
        /// Profiles of an unsupported kind are left out.
        "profiles-left-out" => ProfilesLeftOut {
            /// The kind.
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
        /// Spans never end.
        "open-stretches" => OpenStretches,
        /// Spans overlap.
        "overlapping-stretches" => OverlappingStretches,

        /// perf script prints less than perf.data contains.
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
        /// Stack bytes of another architecture are not unwound.
        "foreign-stack-bytes" => ForeignStackBytes {
            /// The architecture.
            arch: String,
        },
        /// Stacks come from the CPU's last branch records.
        "lbr-stacks" => LbrStacks,
        /// Stacks are the kernel's callchains.
        "kernel-callchains" => KernelCallchains,
        /// Stacks continue beyond the bytes that perf copied.
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
        /// It was recorded with another kernel.
        "other-kernel" => OtherKernel,
        /// Samples of idle CPUs are left out.
        "idle-cpus" => IdleCpus {
            /// How many.
            samples: u64,
        },
        /// Hardware traces are not read.
        "hardware-traces" => HardwareTraces,
        /// Unknown records are left out.
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
