//! Why two profiles may not be comparable.

use std::fmt;

use whyslow_profile::{
    ExitStatus, HeapFacts, KernelView, LeakCheck, ModuleKind, Optimised, Profile, Trigger,
};

use super::Side;
use super::runs::Runs;
use crate::labels::module_file_name;
use crate::remark::{About, Fact, Remark, Severity};
use crate::units::Count;

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
    /// Something that makes a difference other than the change that is looked for. What a warning tells of one recording has the
    /// warning's id here.
    #[derive(Debug, Clone, PartialEq)]
    pub enum Caveat {
        /// Both are one recording.
        "same-recording" => SameRecording,
        /// So few pairs of runs hardly say how runs differ from each other.
        "few-runs" => FewRuns(usize),
        /// The runs of one side are not all of one program with one set of arguments.
        "mixed-runs" => MixedRuns(Which),
        /// They are of different programs.
        "program" => Program([String; 2]),
        /// The same program was called differently: the words of both between what they have in common.
        "arguments" => Arguments([Vec<String>; 2]),
        /// The program ended differently.
        "end" => End([String; 2]),
        /// The recorder was killed.
        "incomplete" => Incomplete(Which),
        /// Samples or events are missing, so many.
        "lost" => Lost(Which, u64),
        /// The program was built without optimisation, the other one with.
        "debug-build" => DebugBuild(Which),
        /// Machines differ.
        "machine" => Machine([String; 2]),
        /// Sampled at different rates, per second.
        "frequency" => Frequency([u32; 2]),
        /// Other things triggered the samples.
        "source" => Source,
        /// Kernel time is in one of them only; this one lacks it.
        "kernel-hidden" => KernelHidden(Which),
        /// Bytes between two samples of the heap; `None` where all was counted.
        "heap-sampling" => HeapSampling([Option<u64>; 2]),
        /// Different allocators were watched.
        "allocators" => Allocators([String; 2]),
        /// Allocations may be missing, because an allocator was not found or seen only in part.
        "partly-seen" => PartlySeen(Which),
        /// Leaks were looked for in one of them only; this one lacks them.
        "no-leak-check" => NoLeakCheck(Which),
        /// One was taken while the program ran.
        "snapshot" => Snapshot(Which),
        /// A block counted as temporary when it outlived less than so many others.
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
                "{pairs} pairs of runs hardly say how much runs differ from each other: {RECOMMENDED_PAIRS} or more are better"
            ),
            Self::MixedRuns(which) => {
                write!(f, "the runs {which} are not all of one program with the same arguments")
            }
            Self::Program([before, after]) => {
                write!(f, "they are of different programs: {before} before, {after} after")
            }
            Self::Arguments([before, after]) => {
                let words = |arguments: &Vec<String>| match arguments.join(" ") {
                    words if words.is_empty() => "none".to_owned(),
                    words => format!("`{words}`"),
                };
                write!(f, "the program had other arguments: {} before, {} after", words(before), words(after))
            }
            Self::End([before, after]) => {
                write!(f, "the program ended differently: {before} before, {after} after")
            }
            Self::Incomplete(which) => {
                write!(f, "{which} is incomplete: its recorder was stopped, and what came later is missing")
            }
            Self::Lost(which, lost) => {
                write!(f, "{which} has lost {} events: its numbers are too low", Count(*lost))
            }
            Self::DebugBuild(which) => write!(f, "{which} is a build without optimisation, the other is not"),
            Self::Machine([before, after]) => {
                write!(f, "they are of different machines: {before} before, {after} after")
            }
            Self::Frequency([before, after]) => {
                write!(f, "they were sampled at different rates: -F {before} before, -F {after} after")
            }
            Self::Source => {
                write!(f, "different clocks triggered the samples: times may differ by some per cent")
            }
            Self::KernelHidden(which) => write!(f, "{which} lacks kernel time, the other has it"),
            Self::HeapSampling([before, after]) => {
                let words = |every: &Option<u64>| match every {
                    None => "all counted".to_owned(),
                    Some(every) => format!("one sample per {} bytes", Count(*every)),
                };
                write!(
                    f,
                    "the heap was recorded differently: {} before, {} after",
                    words(before),
                    words(after)
                )
            }
            Self::Allocators([before, after]) => {
                write!(f, "different allocators were watched: {before} before, {after} after")
            }
            Self::PartlySeen(which) => write!(f, "{which} does not have every allocation"),
            Self::NoLeakCheck(which) => write!(f, "{which} has no leak check: leaks are not compared"),
            Self::Snapshot(which) => {
                write!(f, "{which} is a snapshot of a running program: it holds what was until then")
            }
            Self::TemporaryWithin([before, after]) => {
                write!(f, "temporary means freed within {before} allocations before, within {after} after")
            }
        }
    }
}

/// With fewer pairs of runs only large changes are found.
const RECOMMENDED_PAIRS: usize = 5;

/// What stands between the runs of both sides: of any pair, and within a side.
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

/// What stands between the profiles, for the metric of the heap or another.
fn of(before: &Profile, after: &Profile, heap: bool) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    let metas = [&before.meta, &after.meta];
    let sides = [(Which::Before, before), (Which::After, after)];
    let identity = metas.map(|meta| (meta.started_unix_ns, meta.duration_ns, &meta.command));
    if identity[0] == identity[1] && metas[0].started_unix_ns > 0 {
        caveats.push(Caveat::SameRecording);
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
    // What triggered an imported recording is not known, but it was another tool's.
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
        if HeapFacts::is_partly_seen(facts[at]) {
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

/// The words between the first ones and the last ones that are the same on both sides.
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

/// The name of what was run.
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
    fn a_folder_is_not_another_program_and_another_name_is() {
        let mut before = testing::profile("main;a 3");
        let mut after = before.clone();
        after.meta.command = vec!["/elsewhere/app".to_owned()];
        assert_eq!(ids(&before, &after, false), [""; 0]);
        after.meta.command.push("-v".to_owned());
        assert_eq!(
            of(&before, &after, false)[0].to_string(),
            "the program had other arguments: none before, `-v` after"
        );
        before.meta.command = vec!["other".to_owned()];
        assert_eq!(ids(&before, &after, false), ["program"]);
        before.meta.command.clear();
        assert_eq!(ids(&before, &after, false), ["arguments"], "the module is called `app`");
    }

    #[test]
    fn of_long_command_lines_the_different_words_are_named() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let [before, after] = different([words("-j 1 foo src src"), words("-j 1 -i bar src")]);
        assert_eq!((before, after), (words("foo src"), words("-i bar")));
        assert_eq!(different([words("a b"), words("a b b")]), [vec![], words("b")]);
    }

    #[test]
    fn what_differs_in_cpu_recordings_is_named() {
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
    fn what_differs_in_heap_recordings_is_named() {
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
    fn a_file_is_not_compared_with_itself_by_mistake() {
        let mut profile = testing::profile("main;a 3");
        profile.meta.started_unix_ns = 5;
        assert_eq!(ids(&profile, &profile, false), ["same-recording"]);
    }
}
