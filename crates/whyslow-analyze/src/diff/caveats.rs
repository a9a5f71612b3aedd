//! Why two profiles may not be comparable.

use std::fmt;

use whyslow_profile::{ExitStatus, KernelView, LeakCheck, ModuleKind, Optimised, Profile, Trigger};

use super::Side;
use super::runs::{Runs, merged_runs};
use crate::labels::module_file_name;
use whyslow_words::{About, Fact, Remark, Severity};
use whyslow_words::{Count, number_of};

/// One of two profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The first.
    Before,
    /// The second.
    After,
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "before",
            Self::After => "after",
        })
    }
}

whyslow_profile::facts! {
    /// A difference between two recordings other than the change under test. Where a quality warning says the
    /// same of one recording, the caveat has the warning's id.
    #[derive(Debug, Clone, PartialEq)]
    pub enum Caveat {
        /// Both files hold the same recording.
        "same-recording" => SameRecording,
        /// Too few pairs of runs to measure run-to-run noise.
        "few-runs" => FewRuns(usize),
        /// The files hold merged runs, as many as this: their means are compared.
        "merged-runs" => MergedRuns([u64; 2]),
        /// The runs of one side differ in program or arguments.
        "mixed-runs" => MixedRuns(Which),
        /// The programs differ.
        "program" => Program([String; 2]),
        /// The arguments differ: those of both sides, without the common start and end.
        "arguments" => Arguments([Vec<String>; 2]),
        /// The exit status differs.
        "end" => End([String; 2]),
        /// The recorder was killed.
        "incomplete" => Incomplete(Which),
        /// This many samples or events were lost.
        "lost" => Lost(Which, u64),
        /// This one is a build without optimisation, the other is not.
        "debug-build" => DebugBuild(Which),
        /// The machines differ.
        "machine" => Machine([String; 2]),
        /// The sampling rates differ, in samples per second.
        "frequency" => Frequency([u32; 2]),
        /// Different sources triggered the samples.
        "source" => Source,
        /// This one lacks kernel time, the other has it.
        "kernel-hidden" => KernelHidden(Which),
        /// The heap sampling differs: bytes between two samples, `None` where every allocation was counted.
        "heap-sampling" => HeapSampling([Option<u64>; 2]),
        /// Different allocators were recorded.
        "allocators" => Allocators([String; 2]),
        /// Allocations may be missing: an allocator was not found, or recorded only in part.
        "partly-seen" => PartlySeen(Which),
        /// This one has no leak check, the other has.
        "no-leak-check" => NoLeakCheck(Which),
        /// This one is a snapshot of a running program, the other is not.
        "snapshot" => Snapshot(Which),
        /// Blocks counted as temporary if freed within this many allocations; the limits differ.
        "temporary-within" => TemporaryWithin([u64; 2]),
    }
}

impl Fact for Caveat {
    fn remark(&self) -> Remark {
        let (id, about, severity) = (self.id(), About::Comparison, Severity::Warning);
        Remark { id, about, severity, text: self.to_string(), fix: None }
    }
}

impl fmt::Display for Caveat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SameRecording => write!(f, "both files hold the same recording"),
            Self::FewRuns(pairs) => write!(
                f,
                "{pairs} pairs of runs are too few to measure run-to-run noise: record {RECOMMENDED_PAIRS} or more"
            ),
            Self::MergedRuns([before, after]) => write!(
                f,
                "the files hold merged runs, {before} before and {after} after: numbers are means of one run, and the runs \
                 cannot be told apart for a verdict; compare the recordings themselves with --before and --after"
            ),
            Self::MixedRuns(which) => {
                write!(f, "the runs {which} differ in program or arguments")
            }
            Self::Program([before, after]) => {
                write!(f, "the programs differ: {before} before, {after} after")
            }
            Self::Arguments([before, after]) => {
                let words = |arguments: &Vec<String>| match arguments.join(" ") {
                    words if words.is_empty() => "none".to_owned(),
                    words => format!("`{words}`"),
                };
                write!(f, "the arguments differ: {} before, {} after", words(before), words(after))
            }
            Self::End([before, after]) => {
                write!(f, "the exit status differs: {before} before, {after} after")
            }
            Self::Incomplete(which) => {
                write!(
                    f,
                    "{which} is incomplete: its recorder was killed, and everything after that is missing"
                )
            }
            Self::Lost(which, lost) => {
                write!(f, "{which} lost {}: its numbers are too low", number_of(*lost, "event", "events"))
            }
            Self::DebugBuild(which) => write!(f, "{which} was built without optimisation, the other with"),
            Self::Machine([before, after]) => {
                write!(f, "the machines differ: {before} before, {after} after")
            }
            Self::Frequency([before, after]) => {
                write!(f, "the sampling rates differ: -F {before} before, -F {after} after")
            }
            Self::Source => {
                write!(f, "different clocks triggered the samples: times may differ by a few per cent")
            }
            Self::KernelHidden(which) => write!(f, "{which} lacks kernel time, the other has it"),
            Self::HeapSampling([before, after]) => {
                let words = |every: &Option<u64>| match every {
                    None => "all counted".to_owned(),
                    Some(every) => format!("one sample per {} bytes", Count(*every)),
                };
                write!(f, "the heap sampling differs: {} before, {} after", words(before), words(after))
            }
            Self::Allocators([before, after]) => {
                write!(f, "the recorded allocators differ: {before} before, {after} after")
            }
            Self::PartlySeen(which) => {
                write!(f, "{which} lacks some allocations: an allocator or program was not recorded")
            }
            Self::NoLeakCheck(which) => write!(f, "{which} has no leak check: leaks are not compared"),
            Self::Snapshot(which) => {
                write!(f, "{which} is a snapshot of a running program: it covers the time until then")
            }
            Self::TemporaryWithin([before, after]) => {
                write!(f, "temporary means freed within {before} allocations before, within {after} after")
            }
        }
    }
}

/// With fewer pairs of runs only large changes show.
const RECOMMENDED_PAIRS: usize = 5;

/// The caveats of several runs per side: those of any pair, and those within a side.
pub(super) fn of_runs(before: &Runs<'_>, after: &Runs<'_>, heap: bool) -> Vec<Caveat> {
    let mut caveats: Vec<Caveat> = Vec::new();
    for (before, after) in before.sides.iter().zip(&after.sides) {
        for caveat in of(before.profile, after.profile, heap) {
            if caveats.iter().all(|known| known.id() != caveat.id()) {
                caveats.push(caveat);
            }
        }
    }
    if (2..RECOMMENDED_PAIRS).contains(&before.count()) {
        caveats.push(Caveat::FewRuns(before.count()));
    }
    for (which, runs) in [(Which::Before, before), (Which::After, after)] {
        let call =
            |side: &Side<'_>| (program(side.profile), side.profile.meta.command.get(1..).map(<[_]>::to_vec));
        if runs.sides.windows(2).any(|two| call(&two[0]) != call(&two[1])) {
            caveats.push(Caveat::MixedRuns(which));
        }
    }
    caveats
}

/// The caveats of two profiles, for a heap metric or another.
fn of(before: &Profile, after: &Profile, heap: bool) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    let metas = [&before.meta, &after.meta];
    let sides = [(Which::Before, before), (Which::After, after)];
    let identity = metas.map(|meta| (meta.started_unix_ns, meta.duration_ns, &meta.command));
    if identity[0] == identity[1] && metas[0].started_unix_ns > 0 {
        caveats.push(Caveat::SameRecording);
    }
    let merged = [before, after].map(merged_runs);
    if merged != [1, 1] {
        caveats.push(Caveat::MergedRuns(merged));
    }
    let programs = sides.map(|(_, profile)| program(profile));
    let arguments = metas.map(|meta| meta.command.get(1..).unwrap_or_default().to_vec());
    if programs[0] != programs[1] {
        caveats.push(Caveat::Program(programs));
    } else if arguments[0] != arguments[1] {
        caveats.push(Caveat::Arguments(different(arguments)));
    }
    if let [Some(before), Some(after)] = metas.map(|meta| meta.exit)
        && before != after
    {
        caveats.push(Caveat::End([before, after].map(end_words)));
    }
    for (which, profile) in sides {
        if !profile.sealed {
            caveats.push(Caveat::Incomplete(which));
        }
        let lost = match (heap, &profile.meta.heap) {
            (true, facts) => facts.as_ref().map_or(0, |facts| facts.lost_events),
            (false, _) => profile.meta.counters.lost_samples,
        };
        if lost > 0 {
            caveats.push(Caveat::Lost(which, lost));
        }
    }
    if heap {
        of_heap(before, after, &mut caveats);
    } else {
        of_samples(before, after, &mut caveats);
    }
    caveats
}

fn of_samples(before: &Profile, after: &Profile, caveats: &mut Vec<Caveat>) {
    let metas = [&before.meta, &after.meta];
    let debug = [before, after].map(is_debug_build);
    if let [Some(before), Some(after)] = debug
        && before != after
    {
        caveats.push(Caveat::DebugBuild(if before { Which::Before } else { Which::After }));
    }
    let machines = metas.map(|meta| format!("{} CPUs, {}", meta.host.cpus, meta.host.cpu));
    if machines[0] != machines[1] {
        caveats.push(Caveat::Machine(machines));
    }
    let samplers = [before, after].map(Profile::main_sampler);
    let rates = samplers.map(|sampler| sampler.rate_hz);
    if rates[0] != rates[1] && !rates.contains(&0) {
        caveats.push(Caveat::Frequency(rates));
    }
    // The trigger of an imported recording is unknown, but it is another tool's.
    let sources = [0, 1].map(|side| (samplers[side].trigger, &metas[side].imported_from));
    if sources[0] != sources[1] && !sources.contains(&(Trigger::Unknown, &None)) {
        caveats.push(Caveat::Source);
    }
    match metas.map(|meta| meta.kernel) {
        [KernelView::Hidden, KernelView::Included | KernelView::Unnamed] => {
            caveats.push(Caveat::KernelHidden(Which::Before));
        }
        [KernelView::Included | KernelView::Unnamed, KernelView::Hidden] => {
            caveats.push(Caveat::KernelHidden(Which::After));
        }
        _ => {}
    }
}

fn of_heap(before: &Profile, after: &Profile, caveats: &mut Vec<Caveat>) {
    let (Some(first), Some(second)) = (&before.meta.heap, &after.meta.heap) else { return };
    let facts = [first, second];
    let every = facts.map(|facts| facts.sample_bytes);
    if every[0] != every[1] {
        caveats.push(Caveat::HeapSampling(every));
    }
    let allocators = facts.map(|facts| facts.allocators.join(", "));
    if allocators[0] != allocators[1] {
        caveats.push(Caveat::Allocators(allocators));
    }
    let checked = facts.map(|facts| matches!(facts.leaks, LeakCheck::AtExit | LeakCheck::AtSnapshot(_)));
    let snapshots = facts.map(|facts| facts.snapshot.is_some());
    for (at, which) in [Which::Before, Which::After].into_iter().enumerate() {
        let other = 1 - at;
        if [before, after][at].meta.misses_allocations() {
            caveats.push(Caveat::PartlySeen(which));
        }
        if !checked[at] && checked[other] {
            caveats.push(Caveat::NoLeakCheck(which));
        }
        if snapshots[at] && !snapshots[other] {
            caveats.push(Caveat::Snapshot(which));
        }
    }
    let within = facts.map(|facts| facts.temporary_within);
    if within[0] != within[1] {
        caveats.push(Caveat::TemporaryWithin(within));
    }
}

/// The words of both sides, without those that both share at the start and at the end.
fn different([mut before, mut after]: [Vec<String>; 2]) -> [Vec<String>; 2] {
    let same = before.iter().zip(&after).take_while(|(before, after)| before == after).count();
    let (before, after) = (before.split_off(same), after.split_off(same));
    let same =
        before.iter().rev().zip(after.iter().rev()).take_while(|(before, after)| before == after).count();
    [before, after].map(|mut words| {
        words.truncate(words.len() - same);
        words
    })
}

/// The file name of the program.
fn program(profile: &Profile) -> String {
    match profile.meta.command.first() {
        Some(path) => path.rsplit('/').next().unwrap_or(path).to_owned(),
        None => {
            let row = profile.modules.iter().position(|module| module.kind == ModuleKind::Program);
            row.map_or(String::new(), |row| module_file_name(profile, row.into()).to_owned())
        }
    }
}

/// Whether the program was built without optimisation, when that is known.
fn is_debug_build(profile: &Profile) -> Option<bool> {
    let program = profile.modules.iter().find(|module| module.kind == ModuleKind::Program)?;
    match program.optimised {
        Optimised::Unknown => None,
        optimised => Some(optimised == Optimised::No),
    }
}

fn end_words(exit: ExitStatus) -> String {
    match exit {
        ExitStatus::Code(code) => format!("exit code {code}"),
        ExitStatus::Signal(signal) => format!("signal {signal}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use whyslow_profile::HeapFacts;

    fn ids(before: &Profile, after: &Profile, heap: bool) -> Vec<&'static str> {
        of(before, after, heap).iter().map(Caveat::id).collect()
    }

    #[test]
    fn two_runs_of_a_program_are_comparable() {
        let profile = testing::profile("main;a 3");
        assert_eq!(ids(&profile, &profile, false), [""; 0]);
        let heap = testing::heap_profile("main;a : allocations=3");
        assert_eq!(ids(&heap, &heap, true), [""; 0]);
    }

    #[test]
    fn another_folder_is_the_same_program_and_another_name_is_not() {
        let mut before = testing::profile("main;a 3");
        let mut after = before.clone();
        after.meta.command = vec!["/elsewhere/app".to_owned()];
        assert_eq!(ids(&before, &after, false), [""; 0]);
        after.meta.command.push("-v".to_owned());
        assert_eq!(
            of(&before, &after, false)[0].to_string(),
            "the arguments differ: none before, `-v` after"
        );
        before.meta.command = vec!["other".to_owned()];
        assert_eq!(ids(&before, &after, false), ["program"]);
        before.meta.command.clear();
        assert_eq!(ids(&before, &after, false), ["arguments"], "the module is called `app`");
    }

    #[test]
    fn names_only_the_different_words_of_long_command_lines() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let [before, after] = different([words("-j 1 foo src src"), words("-j 1 -i bar src")]);
        assert_eq!((before, after), (words("foo src"), words("-i bar")));
        assert_eq!(different([words("a b"), words("a b b")]), [vec![], words("b")]);
    }

    #[test]
    fn names_differences_between_cpu_recordings() {
        let before = testing::profile("main;a 3");
        let mut after = before.clone();
        after.sealed = false;
        after.modules[0].optimised = Optimised::No;
        let meta = &mut after.meta;
        meta.exit = Some(ExitStatus::Signal(9));
        meta.counters.lost_samples = 2;
        meta.host.cpus = 64;
        meta.kernel = KernelView::Hidden;
        testing::sampled_by(&mut after, Trigger::Cycles, 99);
        let mut before = before;
        before.meta.exit = Some(ExitStatus::Code(0));
        testing::sampled_by(&mut before, Trigger::CpuClock, 1000);
        before.meta.kernel = KernelView::Included;
        let expected =
            ["end", "incomplete", "lost", "debug-build", "machine", "frequency", "source", "kernel-hidden"];
        assert_eq!(ids(&before, &after, false), expected);
        assert_eq!(ids(&after, &before, false), expected);
    }

    #[test]
    fn names_differences_between_heap_recordings() {
        let before = testing::heap_profile("main;a : allocations=3");
        let mut after = before.clone();
        let facts = after.meta.heap.as_mut().unwrap();
        facts.sample_bytes = Some(524_288);
        facts.allocators = vec![HeapFacts::PARTLY_SEEN.to_owned()];
        facts.leaks = LeakCheck::NotDone;
        facts.snapshot = Some(whyslow_profile::HeapSnapshot::default());
        facts.temporary_within = 4;
        facts.lost_events = 1;
        let expected = [
            "lost",
            "heap-sampling",
            "allocators",
            "partly-seen",
            "no-leak-check",
            "snapshot",
            "temporary-within",
        ];
        assert_eq!(ids(&before, &after, true), expected);
        let sampling = &of(&before, &after, true)[1];
        assert!(sampling.to_string().ends_with("all counted before, one sample per 524,288 bytes after"));
    }

    #[test]
    fn comparing_a_file_with_itself_gets_a_caveat() {
        let mut profile = testing::profile("main;a 3");
        profile.meta.started_unix_ns = 5;
        assert_eq!(ids(&profile, &profile, false), ["same-recording"]);
    }
}
