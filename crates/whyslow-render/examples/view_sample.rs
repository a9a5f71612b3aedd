//! Writes the page of an invented recording with a million samples over 200,000 stacks, and prints how long
//! it took: `cargo run --release -p whyslow-render --example view_sample -- FILE.html [FILE.whyslow]`.

use std::fs::File;
use std::io::BufWriter;
use std::time::Instant;

use whyslow_profile::{
    Code, CodeKind, Frame, Function, Metric, Module, ModuleKind, Optimised, Process, ProcessId, Profile,
    RelativeAddress, Sampler, Samples, StackId, SymbolState, Thread, ThreadId,
};
use whyslow_render::html::{Page, write_page, write_payload};

const SAMPLES: usize = 1_000_000;
const STACKS: usize = 200_000;
const FUNCTIONS: usize = 8_000;
const LOCATIONS: usize = 40_000;
const THREADS: u32 = 16;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let page_file = arguments.next().expect("the page to write");
    let profile = profile();
    let begun = Instant::now();
    let mut payload = Vec::new();
    write_payload(&Page::new(&profile, "sample.whyslow"), &mut payload).expect("a payload");
    let payload_time = begun.elapsed();
    let begun = Instant::now();
    let file = BufWriter::new(File::create(&page_file).expect("the page is created"));
    write_page(&Page::new(&profile, "sample.whyslow"), file).expect("the page is written");
    let page_time = begun.elapsed();
    let page_size = std::fs::metadata(&page_file).expect("the page is there").len();
    eprintln!(
        "{SAMPLES} samples, {} stacks: payload {:.2} MB in {:.2} s, page {:.2} MB in {:.2} s",
        profile.stacks.len(),
        payload.len() as f64 / 1e6,
        payload_time.as_secs_f64(),
        page_size as f64 / 1e6,
        page_time.as_secs_f64()
    );
    let begun = Instant::now();
    let explained = whyslow_explain::explain(&whyslow_explain::Question {
        profile: &profile,
        selection: &whyslow_analyze::Selection::default(),
        only_metric: false,
        allowed: &whyslow_explain::Allowed::default(),
        file: "sample.whyslow",
    });
    eprintln!("{} findings in {:.3} s", explained.findings.len(), begun.elapsed().as_secs_f64());
    if let Some(profile_file) = arguments.next() {
        whyslow_profile::file::write(profile_file.as_ref(), &profile).expect("the profile is written");
    }
}

/// A deterministic pseudo-random generator (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.roll() % bound as u64) as usize
    }

    /// Returns small numbers more often than large ones, as the stacks of a real program would.
    fn low(&mut self, bound: usize) -> usize {
        let share = self.below(1 << 20) as f64 / f64::from(1 << 20);
        (bound as f64 * share.powi(4)) as usize
    }
}

fn profile() -> Profile {
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let mut profile = Profile { sealed: true, ..Profile::default() };
    profile.meta.command = vec!["./server".to_owned(), "--threads".to_owned(), THREADS.to_string()];
    profile.meta.recorder = "sample".to_owned();
    profile.meta.host.arch = "x86_64".to_owned();
    let name = profile.strings.push(Metric::CPU_TIME);
    profile.metrics.push(Metric::cpu_time(Sampler { rate_hz: 1000, ..Sampler::default() }).renamed(name));
    let name = profile.strings.push("server");
    profile.processes.push(Process { pid: 4000, parent: None, name, start_ns: 0, end_ns: None });
    for thread in 0..THREADS {
        let name = profile.strings.push(&format!("worker-{thread}"));
        profile.threads.push(Thread {
            process: ProcessId(0),
            tid: 4000 + thread,
            name,
            start_ns: 0,
            end_ns: None,
            times: None,
        });
    }
    let path = profile.strings.push("/srv/server/target/release/server");
    profile.modules.push(Module {
        path,
        build_id: None,
        kind: ModuleKind::Program,
        symbols: SymbolState::Lines,
        optimised: Optimised::Yes,
    });
    symbols(&mut profile, &mut dice);
    stacks(&mut profile, &mut dice);
    samples(&mut profile, &mut dice);
    profile
}

fn symbols(profile: &mut Profile, dice: &mut Dice) {
    let files: Vec<_> = (0..400)
        .map(|file| {
            profile.strings.push(&format!("/srv/server/crates/part{}/src/module_{file}.rs", file % 23))
        })
        .collect();
    for function in 0..FUNCTIONS {
        let (part, module) = (function % 23, function % 400);
        let name = profile.strings.push(&format!(
            "part{part}::module_{module}::Handler<T,{}>::step_{function}::{{{{closure}}}}",
            ["A", "alloc::alloc::Global", "&mut S"][function % 3]
        ));
        let raw_name = profile.strings.push(&format!("_RNvMs_Cs{function:016x}_server"));
        let crate_name = Some(profile.strings.push(&format!("part{part}")));
        let kind = CodeKind::ALL[1 + function % 3];
        let (file, line) = (Some(files[module]), 10 + function as u32 % 900);
        profile.functions.push(Function {
            name,
            raw_name,
            crate_name,
            kind,
            file,
            line,
            module: Some(0.into()),
        });
    }
    for location in 0..LOCATIONS {
        let address = RelativeAddress(0x1_0000 + 48 * location as u64 + dice.roll() % 48);
        let id = profile.locations.push(Some(0.into()), address);
        let owner = location * FUNCTIONS / LOCATIONS;
        let inlined = (0..dice.below(3)).map(|_| dice.below(FUNCTIONS)).collect::<Vec<_>>();
        let frames: Vec<_> = std::iter::once(owner)
            .chain(inlined)
            .map(|function| Frame {
                function: function.into(),
                file: Some(files[function % 400]),
                line: 10 + (function as u32 % 900) + (dice.roll() % 40) as u32,
            })
            .collect();
        profile.frames.set(id, &frames);
    }
    // Meaningless lines, but as many as a recording keeps.
    for function in 0..64 {
        let bytes = (0..4096).map(|_| dice.roll() as u8).collect();
        profile.code.rows.push(Code {
            module: 0.into(),
            start: RelativeAddress(0x1_0000 + 0x4000 * function),
            bytes,
        });
    }
}

/// Builds a tree in which most nodes are deep, as in real recordings.
fn stacks(profile: &mut Profile, dice: &mut Dice) {
    let mut tips: Vec<StackId> = Vec::new();
    while profile.stacks.len() < STACKS {
        let parent = (!tips.is_empty() && dice.below(50) > 0).then(|| {
            let back = dice.low(tips.len().min(2000));
            tips[tips.len() - 1 - back]
        });
        let location = 1 + dice.low(LOCATIONS);
        tips.push(profile.stacks.push(parent, location.into()));
    }
}

/// Samples every thread about once per millisecond; a thread remains in one part of the program for a while.
fn samples(profile: &mut Profile, dice: &mut Dice) {
    let mut samples = Samples::default();
    let mut corner = vec![0; THREADS as usize];
    for row in 0..SAMPLES {
        let thread = row % THREADS as usize;
        if dice.below(200) == 0 {
            corner[thread] = dice.below(STACKS);
        }
        let stack = (corner[thread] + dice.low(3000)) % STACKS;
        let time =
            (row / THREADS as usize) as u64 * 1_000_000 + thread as u64 * 60_000 + dice.roll() % 40_000;
        let value = 990_000 + dice.roll() % 20_000;
        samples.push(time, ThreadId(thread as u32), stack.into(), value);
    }
    profile.meta.duration_ns = (SAMPLES / THREADS as usize) as u64 * 1_000_000;
    profile.samples.push(samples);
}
