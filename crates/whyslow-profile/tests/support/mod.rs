//! Shared by the file tests: profiles generated from a seed, and a second, independent parser of the chunks.

use whyslow_profile::simulation::{Cache, Simulation};
use whyslow_profile::{
    BranchTarget, Causal, CausalNote, CausalPoint, CausalTarget, Code, CodeKind, Counter, CounterId,
    ExitStatus, Experiment, ExperimentId, Frame, Function, FunctionId, Growth, GrowthBar, HeapCounts,
    HeapFacts, HeapNote, HeapSite, HeapTransfer, HistogramBar, HistogramOf, Host, ImportNote, KernelView,
    Lengths, LocationId, MemoryCurve, MemorySnapshot, MemoryTime, Meta, Metric, Module, ModuleId, ModuleKind,
    Note, Optimised, Origin, OverTime, PointId, PointKind, Process, ProcessId, Profile, ProfileNs,
    RecordingNote, RelativeAddress, Sampler, Samples, Sampling, SnapshotKind, SourceLine, Span, StackId,
    Static, StillRunning, StringId, Subject, SymbolState, Syscalls, TargetId, TargetKind, Thread, ThreadId,
    ThreadTimes, Trigger, Unit, Visits, WaitDetail, WhyLeftOut, WokenBy,
};

/// A stream of numbers from a seed (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// Small, medium and huge numbers, and edge cases.
    fn number(&mut self) -> u64 {
        match self.below(6) {
            0 => 0,
            1 => u64::MAX,
            2 => self.next(),
            _ => self.next() >> (24 + self.below(40)),
        }
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.below(3) == 0 { None } else { Some(make(self)) }
    }

    fn text(&mut self) -> String {
        const PIECES: &[&str] =
            &["", "main", "core::ops::", "λ", "/usr/lib/", "🦀", "\n", "\0", "very long ", "x"];
        (0..self.below(6)).map(|_| PIECES[self.below(PIECES.len())]).collect()
    }

    fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }
}

/// A valid profile with up to `size` rows per table.
pub(crate) fn profile(seed: u64, size: usize) -> Profile {
    let r = &mut Random(seed);
    let mut p = Profile { meta: meta(r), sealed: true, ..Profile::default() };
    let texts = 1 + r.below(size);
    for _ in 0..texts {
        p.strings.push(&r.text());
    }
    let text = |r: &mut Random| StringId::from(r.below(texts));
    let processes = 1 + r.below(size);
    p.processes = (0..processes)
        .map(|row| Process {
            pid: r.next() as u32,
            // Any order without a cycle: all parents precede their children, or all follow them.
            parent: if seed.is_multiple_of(2) {
                (row > 0).then(|| ProcessId::from(r.below(row)))
            } else {
                (row + 1 < processes).then(|| ProcessId::from(row + 1 + r.below(processes - row - 1)))
            },
            name: text(r),
            start_ns: r.number(),
            end_ns: r.maybe(|r| r.number() >> 1),
        })
        .collect();
    p.threads = (0..1 + r.below(size))
        .map(|_| Thread {
            process: ProcessId::from(r.below(p.processes.len())),
            tid: r.next() as u32,
            name: text(r),
            start_ns: r.number(),
            end_ns: r.maybe(|r| r.number() >> 1),
            times: r.maybe(|r| ThreadTimes {
                ran_ns: r.number(),
                queued_ns: r.number(),
                queued_estimated_ns: r.number(),
                blocked_ns: r.number(),
                waits: r.number(),
                preemptions: r.number(),
            }),
        })
        .collect();
    p.modules = (0..1 + r.below(size))
        .map(|_| Module {
            path: text(r),
            build_id: r.maybe(text),
            kind: r.pick(&ModuleKind::all().collect::<Vec<_>>()),
            symbols: r.pick(SymbolState::ALL),
            optimised: r.pick(Optimised::ALL),
        })
        .collect();
    let module = |r: &mut Random| ModuleId::from(r.below(p.modules.len()));
    for _ in 0..r.below(size) {
        p.locations.push(r.maybe(module), RelativeAddress(r.number()));
    }
    p.functions = (0..r.below(size))
        .map(|_| Function {
            name: text(r),
            raw_name: text(r),
            crate_name: r.maybe(text),
            kind: r.pick(CodeKind::ALL),
            file: r.maybe(text),
            line: r.next() as u32,
            module: r.maybe(module),
        })
        .collect();
    // In any order of locations, and some more than once: the last one counts.
    for _ in 0..if p.functions.is_empty() { 0 } else { r.below(size) } {
        let location = LocationId::from(r.below(p.locations.len()));
        let frame = |r: &mut Random| Frame {
            function: FunctionId::from(r.below(p.functions.len())),
            file: r.maybe(text),
            line: r.next() as u32,
        };
        let frames = (0..1 + r.below(4)).map(|_| frame(r)).collect::<Vec<_>>();
        p.frames.set(location, &frames);
    }
    p.spans = (0..r.below(size))
        .map(|_| {
            let (start_ns, length) = (r.number() >> 1, r.number() >> 1);
            let thread = r.maybe(|r| ThreadId::from(r.below(p.threads.len())));
            Span { name: text(r), thread, start_ns, end_ns: start_ns + length, detail: r.maybe(text) }
        })
        .collect();
    p.counters = (0..r.below(size))
        .map(|_| {
            let process = r.maybe(|r| ProcessId::from(r.below(p.processes.len())));
            Counter { name: text(r), unit: r.pick(Unit::ALL), process }
        })
        .collect();
    for _ in 0..if p.counters.is_empty() { 0 } else { r.below(size) } {
        let counter = CounterId::from(r.below(p.counters.len()));
        p.counter_values.push(counter, r.number(), r.number().cast_signed());
    }
    for row in 0..1 + r.below(size) {
        let parent = (row > 0).then(|| r.maybe(|r| StackId::from(r.below(row)))).flatten();
        p.stacks.push(parent, LocationId::from(r.below(p.locations.len())));
    }
    for _ in 0..r.below(size) {
        p.wait_details.push(WaitDetail {
            thread: ThreadId::from(r.below(p.threads.len())),
            end_ns: r.number(),
            cpu: r.maybe(|r| r.below(4096) as u32),
            argument: r.number(),
            parked_on: r.number(),
            data: r.maybe(|r| (module(r), RelativeAddress(r.number()))),
            woken_by: r.pick(WokenBy::ALL),
            waker: r.maybe(|r| ThreadId::from(r.below(p.threads.len()))),
            waker_stack: r.maybe(|r| StackId::from(r.below(p.stacks.len()))),
        });
    }
    for _ in 0..r.below(size) {
        let bars = (0..r.below(4)).map(|_| (r.below(500) as u16, r.number() >> 8)).collect::<Vec<_>>();
        p.syscalls.push(Syscalls {
            time_ns: r.number(),
            thread: ThreadId::from(r.below(p.threads.len())),
            stack: StackId::from(r.below(p.stacks.len())),
            call: text(r),
            file: r.maybe(text),
            error: r.maybe(text),
            count: r.number(),
            spread: r.number(),
            total_ns: r.number(),
            max_ns: r.number(),
            bytes: r.number(),
            lengths: Lengths::from_bars(bars),
        });
    }
    for _ in 0..r.below(3) {
        let sampler = Sampler { trigger: r.pick(Trigger::ALL), rate_hz: r.next() as u32 };
        p.metrics.push(Metric {
            name: text(r),
            unit: r.pick(Unit::ALL),
            of: r.pick(Subject::ALL),
            origin: r.pick(&[
                Origin::Unknown,
                Origin::Sampled(sampler),
                Origin::Counted,
                Origin::Estimated,
                Origin::Simulated,
            ]),
            over_time: r.pick(OverTime::ALL),
        });
        let mut samples = Samples::default();
        for _ in 0..r.below(size) {
            let (time, value) = (r.number(), r.number() >> 24);
            let thread = ThreadId::from(r.below(p.threads.len()));
            samples.push(time, thread, StackId::from(r.below(p.stacks.len())), value);
        }
        p.samples.push(samples);
    }
    p.heap.sites = (0..r.below(size))
        .map(|_| HeapSite {
            stack: StackId::from(r.below(p.stacks.len())),
            counts: HeapCounts::from_numbers(std::array::from_fn(|_| r.number())),
            growth: r.pick(Growth::ALL),
        })
        .collect();
    for _ in 0..if p.heap.sites.is_empty() { 0 } else { r.below(size) } {
        let (site, bar) = (r.below(p.heap.sites.len()) as u32, r.below(65) as u8);
        let bar = HistogramBar { site, of: r.pick(HistogramOf::ALL), bar, blocks: r.number() };
        p.heap.histograms.push(bar);
        let bar = GrowthBar::from_numbers(std::array::from_fn(|_| r.number()));
        p.heap.growth.push(GrowthBar { site: site.into(), bar: r.below(65) as u64, ..bar });
        let (from, to) = (r.below(p.threads.len()), r.below(p.threads.len()));
        let (from, to) = (ThreadId::from(from), ThreadId::from(to));
        p.heap.transfers.push(HeapTransfer { from, to, blocks: r.number(), bytes: r.number() });
    }
    p.causal = causal(r, texts, size);
    p.statics = (0..r.below(size))
        .map(|_| Static {
            module: module(r),
            start: RelativeAddress(r.number()),
            len: r.number(),
            name: text(r),
        })
        .collect();
    p.sources.rows = (0..r.below(size))
        .map(|_| SourceLine { file: text(r), line: r.next() as u32, text: text(r) })
        .collect();
    p.sources.rows.sort_by_key(|row| (row.file, row.line));
    p.code.rows = (0..r.below(size))
        .map(|_| Code {
            module: module(r),
            start: RelativeAddress(r.number() >> 1),
            bytes: (0..r.below(40)).map(|_| r.next() as u8).collect(),
        })
        .collect();
    p.targets = (0..r.below(size))
        .map(|_| BranchTarget {
            module: module(r),
            address: RelativeAddress(r.number()),
            is_slot: r.below(2) == 1,
            name: text(r),
            size: r.number(),
        })
        .collect();
    p
}

fn causal(r: &mut Random, texts: usize, size: usize) -> Causal {
    let mut causal = Causal::default();
    let text = |r: &mut Random| StringId::from(r.below(texts));
    let share = |r: &mut Random| r.pick(&[0.0, 0.25, 0.1 + 0.2, f64::MIN_POSITIVE, 1.0]);
    let Causal { points, targets, experiments, visits } = &mut causal;
    points.extend((0..r.below(size)).map(|_| CausalPoint {
        kind: r.pick(PointKind::ALL),
        name: text(r),
        file: r.maybe(text),
        line: r.next() as u32,
    }));
    targets.extend((0..r.below(size)).map(|_| CausalTarget {
        kind: r.pick(TargetKind::ALL),
        function: text(r),
        file: r.maybe(text),
        line: r.next() as u32,
        share: share(r),
        samples: r.number(),
    }));
    experiments.extend((0..r.below(size)).map(|_| Experiment {
        start_ns: r.number(),
        length_ns: r.number(),
        target: r.maybe(|r| (!targets.is_empty()).then(|| TargetId::from(r.below(targets.len())))).flatten(),
        speedup: share(r),
        delay_ns: r.number(),
        hits: r.number(),
        samples: r.number(),
        queued: r.pick(&[0.0, 0.3, 17.5, f64::MAX]),
        busy_threads: r.next() as u32,
        waits: r.number(),
        run: r.next() as u32,
    }));
    if points.is_empty() || experiments.is_empty() {
        return causal;
    }
    visits.extend((0..r.below(size)).map(|_| Visits {
        experiment: ExperimentId::from(r.below(experiments.len())),
        point: PointId::from(r.below(points.len())),
        count: r.number(),
        first_ns: r.number(),
        last_ns: r.number(),
        arrivals: r.number(),
        in_flight_ns: r.number(),
    }));
    causal
}

fn meta(r: &mut Random) -> Meta {
    Meta {
        heap: r.maybe(|r| HeapFacts {
            peak_bytes: r.number(),
            peak_ns: ProfileNs(r.number()),
            ..HeapFacts::default()
        }),
        // Its own stream of numbers: the seeds of other tests keep their profiles.
        memory: Random(r.0).maybe(|r| MemoryCurve {
            time: r.pick(&[MemoryTime::Instructions, MemoryTime::Milliseconds, MemoryTime::Bytes]),
            snapshots: (0..r.below(4))
                .map(|_| MemorySnapshot {
                    time: r.number(),
                    useful: r.number(),
                    extra: r.number(),
                    stacks: r.number(),
                    kind: r.pick(&[SnapshotKind::Plain, SnapshotKind::Detailed, SnapshotKind::Peak]),
                })
                .collect(),
        }),
        simulation: r.maybe(|r| Simulation {
            tool: r.text(),
            version: r.text(),
            caches: (0..r.below(3))
                .map(|_| Cache {
                    name: r.text(),
                    bytes: r.number(),
                    line_bytes: r.number(),
                    ways: r.number(),
                })
                .collect(),
            elapsed_ns: r.number(),
            only_inside: (0..r.below(3)).map(|_| r.text()).collect(),
            lost_processes: (0..r.below(3)).map(|_| r.text()).collect(),
        }),
        command: (0..r.below(4)).map(|_| r.text()).collect(),
        standard_input: r.maybe(Random::text),
        recorder: r.text(),
        started_unix_ns: r.number(),
        duration_ns: r.number(),
        exit: r.maybe(|r| match r.below(2) {
            0 => ExitStatus::Code(r.next() as i32),
            _ => ExitStatus::Signal(r.next() as i32),
        }),
        stack_bytes: 32_000,
        imported_from: r.maybe(Random::text),
        sampling: r.pick(&[Sampling::Unknown, Sampling::Cpus, Sampling::Threads]),
        only_cpus: r.maybe(Random::text),
        still_running: (0..r.below(3))
            .map(|_| StillRunning { name: r.text(), processes: r.number() })
            .collect(),
        kernel: r.pick(&[KernelView::Unknown, KernelView::Included, KernelView::Unnamed, KernelView::Hidden]),
        user_time_ns: r.number(),
        system_time_ns: r.number(),
        max_resident_bytes: r.number(),
        host: Host {
            os: r.text(),
            cpus: r.next() as u32,
            virtualisation: r.maybe(Random::text),
            features: (0..r.below(3)).map(|_| r.text()).collect(),
            ..Host::default()
        },
        counters: whyslow_profile::Counters { lost_samples: r.number(), ..Default::default() },
        notes: (0..r.below(4)).map(|_| note(r)).collect(),
    }
}

fn note(r: &mut Random) -> Note {
    match r.below(5) {
        0 => Note::Text(r.text()),
        1 => RecordingNote::PooledWithoutHeap { files: (0..r.below(3)).map(|_| r.text()).collect() }.into(),
        2 => CausalNote::CausalUnvisited { points: vec![r.text()] }.into(),
        3 => {
            HeapNote::ProgramLeftOut { program: r.text(), why: WhyLeftOut::Refused { why: r.text() } }.into()
        }
        _ => ImportNote::UnreadableLines { lines: r.number(), first: r.number(), what: r.text() }.into(),
    }
}

/// The bytes of the file of a profile.
pub(crate) fn file_bytes(profile: &Profile) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.whyslow");
    whyslow_profile::file::write(&path, profile).unwrap();
    std::fs::read(&path).unwrap()
}

pub(crate) const HEADER_LEN: usize = 24;

/// A chunk with its payload unpacked.
#[derive(Clone)]
pub(crate) struct RawChunk {
    pub(crate) kind: [u8; 4],
    pub(crate) raw: Vec<u8>,
}

/// Splits a file as its documentation says, independently of the library.
pub(crate) fn split(file: &[u8]) -> Vec<RawChunk> {
    let mut chunks = Vec::new();
    let mut rest = &file[HEADER_LEN..];
    while !rest.is_empty() {
        let number = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap()) as usize;
        let (raw_len, stored_len) = (number(4), number(8));
        let raw = zstd::bulk::decompress(&rest[16..16 + stored_len], raw_len).unwrap();
        chunks.push(RawChunk { kind: rest[..4].try_into().unwrap(), raw });
        rest = &rest[16 + stored_len..];
    }
    chunks
}

/// Joins a file again, with valid checksums and lengths.
pub(crate) fn join(chunks: &[RawChunk], sealed: bool) -> Vec<u8> {
    let mut body = Vec::new();
    for chunk in chunks {
        let stored = zstd::bulk::compress(&chunk.raw, 1).unwrap();
        let start = body.len();
        body.extend_from_slice(&chunk.kind);
        body.extend_from_slice(&(chunk.raw.len() as u32).to_le_bytes());
        body.extend_from_slice(&(stored.len() as u32).to_le_bytes());
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&body[start..]);
        hasher.update(&stored);
        body.extend_from_slice(&hasher.finalize().to_le_bytes());
        body.extend_from_slice(&stored);
    }
    let sealed_len = if sealed { (HEADER_LEN + body.len()) as u64 } else { 0 };
    let mut file = header(whyslow_profile::file::VERSION, sealed_len);
    file.append(&mut body);
    file
}

/// A header with a valid checksum.
pub(crate) fn header(version: u32, sealed_len: u64) -> Vec<u8> {
    let mut header = b"whyslow\n".to_vec();
    header.extend_from_slice(&version.to_le_bytes());
    header.extend_from_slice(&sealed_len.to_le_bytes());
    let checksum = crc32fast::hash(&header);
    header.extend_from_slice(&checksum.to_le_bytes());
    header
}
