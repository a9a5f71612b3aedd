//! A recording from start to end: starts the program, drains the rings while it runs, finishes the file.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use linux_perf_event_reader::RecordType;
use whyslow_convert::{Converter, Input, WaitStacks, perf};
use whyslow_proc::accounts::Io;
use whyslow_proc::{kernel, machine, process};
use whyslow_profile::file::Writer;
use whyslow_profile::{
    HeapFacts, HeapNote, KernelView, Meta, Metric, MetricId, NoSyscalls, Note, RecordingNote, Sampler,
    Sampling, StillRunning, Trigger,
};

use crate::agent::{self, AgentWatch, TimerSource, Wanted};
use crate::calls;
use crate::cgroup::ProgramGroup;
use crate::chosen::{Choice, Counts};
use crate::heap::{self, HeapRows};
use crate::host;
use crate::launch::Suspended;
use crate::live::LiveWorld;
use crate::marks::Marks;
use crate::output::{Kept, NewProfile};
use crate::pace::{Pace, Turn};
use crate::perf::{EventRole, Events, OpenError, OpenEvent};
use crate::ptrace_sampling::{self, PtraceSource};
use crate::queues::Queues;
use crate::recorded_processes::RecordedProcesses;
use crate::refusal;
use crate::sampling::{self, SampleTarget, Sampled};
use crate::signals::{self, Signals};
use crate::subject::{End, Subject};
use crate::switches::PolledSwitches;
use crate::waiting::{self, WaitSnapshots};
use crate::{Options, RecordError, Recording, SamplerChoice, Target};

/// How long samples may wait in a ring. Reading a live stack requires a drain while its outer frames are
/// still active, so drains are faster while that is needed, and at the start, when it is not known yet. Each
/// drain costs about 30 µs.
const CALM: Duration = Duration::from_millis(50);
const EAGER: Duration = Duration::from_millis(5);
/// Number of fast drains at the start, and after a live stack was read.
const EAGER_AT_FIRST: u32 = 20;
const EAGER_AFTER_READ: u32 = 100;
/// How long it may take until a record is visible in its ring.
const SETTLE_NS: u64 = 200_000;
/// How often rows are flushed to the file. The first flush is early, so that the file holds something
/// whatever happens.
const FIRST_FLUSH: Duration = Duration::from_millis(100);
const FLUSH: Duration = Duration::from_secs(1);
const FLUSH_SAMPLES: usize = 100_000;

pub(crate) fn record(target: &Target, options: &Options, output: &Path) -> Result<Recording, RecordError> {
    let system = |what| move |error| RecordError::System { what, error };
    let target = &resolved(target)?;
    let cpus = cpus_to_record(options)?;
    let choice = Choice::try_all(target, options, &cpus);
    if choice.chosen.is_empty() && !choice.refused.is_empty() {
        // If a process may not be observed at all, report that reason instead.
        if let Target::Processes(pids) = target
            && let Err(error) =
                sampling::open(&SampleTarget::Processes(pids.clone()), &cpus, options, &choice)
        {
            return Err(refusal::explain(error, target));
        }
        return Err(RecordError::NoEvents(choice.refused));
    }
    let (output_file, file) = NewProfile::create(output, options.names)?;
    let signals = Signals::new().map_err(system("signals could not be set up"))?;
    let started = SystemTime::now();
    let Started { mut agent, suspended, group, sample_target, sampled, ptrace_hz, refused } =
        begin(target, options, &cpus, &choice)?;
    let timer_hz = agent.as_ref().and_then(AgentWatch::sampling_hz);

    let plan = sampled.as_ref().map(|sampled| (sampled.events.plan.cycles, sampled.events.plan.kernel));
    let kernel_base = plan.and_then(|(_, kernel)| if kernel { kernel::text_address() } else { None });
    let mut meta = Meta {
        command: target.words(),
        recorder: format!("whyslow {}", env!("CARGO_PKG_VERSION")),
        started_unix_ns: started
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos() as u64),
        stack_bytes: match (&sampled, ptrace_hz, timer_hz) {
            (Some(sampled), ..) => sampled.events.plan.stack_bytes,
            (None, Some(_), _) => ptrace_sampling::STACK_BYTES as u32,
            (None, None, Some(_)) => agent::STACK_BYTES as u32,
            (None, None, None) => 0,
        },
        sampling: match (&sampled, timer_hz, ptrace_hz) {
            (Some(sampled), ..) => sampled.sampling,
            (None, Some(_), _) => Sampling::Timers,
            (None, None, Some(_)) => Sampling::Ptrace,
            (None, None, None) => Sampling::Unknown,
        },
        only_cpus: options.cpus.as_ref().map(|_| whyslow_words::cpu_words(&cpus)),
        kernel: match (plan, kernel_base) {
            (None, _) if timer_hz.or(ptrace_hz).is_some() => KernelView::Callers,
            (None, _) => KernelView::Unknown,
            (Some((_, false)), _) => KernelView::Hidden,
            (Some((_, true)), None) => KernelView::Unnamed,
            (Some((_, true)), Some(_)) => KernelView::Included,
        },
        host: host::describe(
            suspended.as_ref().map_or(cpus.len(), |child| machine::allowed_cpus(child.pid).len()),
        ),
        ..Meta::default()
    };
    let own_before = host::own_usage();
    let start_ns = whyslow_proc::monotonic_ns();
    let by_events = plan.map(|(cycles, _)| Sampler {
        trigger: if cycles { Trigger::Cycles } else { Trigger::CpuClock },
        rate_hz: options.frequency_hz,
    });
    let by_timer = timer_hz.map(|rate_hz| Sampler { trigger: Trigger::Timer, rate_hz });
    let by_ptrace = ptrace_hz.map(|rate_hz| Sampler { trigger: Trigger::Ptrace, rate_hz });
    let sampler = by_events.or(by_timer).or(by_ptrace);
    let marks = Marks::live(start_ns, target.runtime_folder().as_deref());
    let world = LiveWorld::new(marks);
    let mut converter = Converter::new(world, start_ns, kernel_base.unwrap_or(0));
    let cpu_time = sampler.map(|sampler| converter.builder.metric(Metric::cpu_time(sampler)));
    let heap_rows = options.heap.as_ref().map(|options| HeapRows::new(&mut converter, options));
    if let Some(agent) = &agent {
        agent.begin(&meta, start_ns);
    }
    let mut wait_snapshots = None;
    if let Some(sampled) = sampled.as_ref().filter(|_| options.off_cpu) {
        let metric = converter.builder.metric(Metric::off_cpu_time());
        converter.record_waits(metric, !sampled.has_leaving());
        wait_snapshots = (!sampled.has_leaving()).then(WaitSnapshots::default);
    }
    let polls_switches = options.off_cpu && sampled.is_none() && timer_hz.or(ptrace_hz).is_some();
    if polls_switches {
        let metric = converter.builder.metric(Metric::off_cpu_time());
        converter.record_waits(metric, true);
        wait_snapshots = Some(WaitSnapshots::default());
    }
    let has_leaving = sampled.as_ref().is_some_and(Sampled::has_leaving);
    let pace = has_leaving.then(|| Pace::new(start_ns));
    let has_wakers = sampled.as_ref().is_some_and(Sampled::has_waking);
    if sampled.is_some() || polls_switches {
        converter.expect_switches();
    }
    let chosen = choice.chosen.iter().map(|chosen| converter.builder.metric(chosen.metric()));
    let chosen: Vec<MetricId> = chosen.collect();
    let has_calls = sampled.as_ref().is_some_and(Sampled::has_calls);
    if has_calls {
        let metrics = Metric::of_syscalls().map(|metric| converter.builder.metric(metric));
        converter.record_calls(metrics);
    }
    let no_calls = (options.syscalls && !has_calls)
        .then(|| sampled.as_ref().and_then(|sampled| sampled.no_calls).unwrap_or(NoSyscalls::NoEvents));
    if let Some(metric) = cpu_time.filter(|_| meta.sampling == Sampling::Threads) {
        converter.account(metric, options.frequency_hz, plan.is_none_or(|(cycles, _)| !cycles));
    }
    let cannot_write = |error| RecordError::Output { path: output.to_owned(), error };
    let writer = match Writer::new(file, &meta) {
        Ok(writer) => writer,
        Err(error) => {
            if let Some(child) = suspended {
                child.cancel();
            }
            return Err(cannot_write(error));
        }
    };
    match &sample_target {
        SampleTarget::Child { .. } => {}
        SampleTarget::Processes(pids) => pids.iter().for_each(|pid| converter.add_running_process(*pid)),
        SampleTarget::Machine => {
            for pid in process::all() {
                converter.add_running_process(pid);
            }
        }
    }
    let on_exec = sampled.as_ref().is_none_or(|sampled| sampled.on_exec);
    let timer = cpu_time.filter(|_| timer_hz.is_some()).map(TimerSource::new);
    let ptrace = match (cpu_time, ptrace_hz, &sample_target) {
        (Some(metric), Some(hz), SampleTarget::Processes(pids)) => Some(
            PtraceSource::start(metric, pids, hz).map_err(system("ptrace sampling could not be started"))?,
        ),
        _ => None,
    };
    let records = sampled.zip(cpu_time).map(|(Sampled { events, recorded, .. }, metric)| {
        let taken = events.open.iter().map(|event| {
            let (metric, period, request) = match event.role {
                EventRole::Requested(request) => {
                    (chosen[request], choice.chosen[request].period(), Some(request))
                }
                _ => (metric, 1, None),
            };
            let reading = perf::Event { metric, period, unwinds: true, role: event.role.of_samples() };
            Taken { reading, request, samples: 0 }
        });
        let taken = taken.collect();
        Records { events, recorded, reader: perf::Reader::default(), taken }
    });
    if !on_exec && let Err(error) = records.as_ref().map_or(Ok(()), |records| records.events.enable()) {
        if let Some(child) = suspended {
            child.cancel();
        }
        return Err(system("sampling could not be started")(error));
    }
    if let (Some(_), SampleTarget::Processes(pids)) = (&records, &sample_target) {
        waiting::begin_with(pids, &mut converter);
    }
    let child_pid = suspended.as_ref().map(|child| child.pid);
    let io_before = no_calls.map(|_| io_of(&sample_target));
    if let SampleTarget::Child { pid, .. } = sample_target {
        converter.add_process(pid, &name_of(target));
    }
    let estimates_queues =
        records.is_some() && !has_wakers && !matches!(sample_target, SampleTarget::Machine);
    let queues = estimates_queues.then(|| Queues::begin(&mut converter));
    let switches = polls_switches.then(|| PolledSwitches::begin(&mut converter));
    let subject = match (target, suspended) {
        (_, Some(child)) => Subject::Child(match &mut agent {
            Some(agent) => agent.enter(child)?,
            None => child.release()?,
        }),
        (Target::Processes(pids), None) => Subject::attached(pids),
        _ => Subject::UntilStopped,
    };
    let Kept { path, moved_aside } = output_file.keep()?;
    let background = options.background.and_then(host::run_at_low_priority);

    let mut session = Session {
        records,
        agent,
        timer,
        ptrace,
        pace,
        wait_snapshots,
        queues,
        switches,
        child_pid,
        heap_rows,
        converter,
        writer,
        write_error: None,
        signals,
        subject,
    };
    let deadline = options.duration.map(|duration| Instant::now() + duration);
    let priority = host::RaisedPriority::new();
    let end = session.run(deadline);
    let end_ns = whyslow_proc::monotonic_ns();
    let has_paused = session.pace.as_ref().is_some_and(|pace| pace.has_paused);
    let has_accounts = session.switches.as_ref().is_some_and(|switches| switches.works);
    let has_wait_snapshots = session.wait_snapshots.is_some();
    // Read the counts before the last records, so that nothing is missed if the program still runs.
    let happened: Vec<u64> = session.records.iter().flat_map(Records::requested_counts).collect();
    session.drain(u64::MAX);
    if let Some(ptrace) = &mut session.ptrace {
        ptrace.finish(&mut session.converter);
    }
    if let (Some(timer), Some(agent)) = (&mut session.timer, &session.agent) {
        timer.finish(agent.cpu_losses().period_ns, &mut session.converter);
    }
    drop(priority);
    session.converter.account_all(end_ns);
    session.converter.end_waits(end_ns);
    session.converter.end_calls(end_ns);
    session.read_marker_files();

    meta.duration_ns = end_ns.saturating_sub(start_ns);
    if let End::Exited(exit, usage) = &end {
        meta.exit = Some(*exit);
        // The resources of the program are not those of the whole machine.
        if matches!(target, Target::Command(_)) {
            meta.user_time_ns = usage.user.as_nanos() as u64;
            meta.system_time_ns = usage.system.as_nanos() as u64;
            // 0 means unknown.
            meta.max_resident_bytes = usage.known_peak_bytes().unwrap_or(0);
        }
    }
    if let Some(records) = &session.records {
        let lost = &mut session.converter.counters.lost_samples;
        *lost = records.recorded.lost_of(*lost);
    }
    let requested = session.records.iter().flat_map(|records| &records.taken);
    let requested = requested.filter_map(|taken| Some((taken.request?, taken.samples)));
    let counts =
        requested.zip(happened).map(|((request, samples), happened)| Counts { request, happened, samples });
    let counts: Vec<Counts> = counts.collect();
    let Session { mut converter, mut writer, mut write_error, agent, heap_rows, signals, .. } = session;
    if matches!(target, Target::Command(_)) {
        meta.still_running = still_running(&converter, child_pid);
    }
    drop(group);
    if let Some(agent) = agent {
        let losses = agent.cpu_losses();
        converter.counters.lost_samples += losses.lost;
        meta.notes.extend(losses.notes().into_iter().map(Note::from));
        let mut outcome = agent.finish();
        let outliving = heap_rows.and_then(|rows| {
            let outliving = rows.finish(&mut converter, &mut outcome, end_ns);
            let leaks = heap::explain(outcome.facts.leaks.clone(), meta.exit);
            let facts = std::mem::take(&mut outcome.facts);
            meta.heap = Some(HeapFacts { leaks, ..heap::since(start_ns, facts) });
            outliving.filter(|_| meta.exit.is_some())
        });
        let heap_was_recorded = meta.heap.is_some();
        meta.notes.extend(outcome.notes.into_iter().chain(outliving).map(|note| match note {
            HeapNote::ProgramLeftOut { program, why } if !heap_was_recorded => {
                RecordingNote::ProgramNotSampled { program, why }.into()
            }
            note => Note::from(note),
        }));
    }
    meta.notes.extend(refused.map(Note::from));
    let recorded: Vec<u64> = chosen.iter().map(|metric| converter.total(*metric)).collect();
    meta.notes.extend(choice.notes(&counts, &recorded).into_iter().map(Note::from));
    if let (Some(why), Some(before)) = (no_calls, io_before) {
        let now = match &end {
            End::Exited(_, usage) if matches!(target, Target::Command(_)) => usage.io,
            _ => io_of(&sample_target),
        };
        let io = now.zip(before).map(|(now, before)| now.since(before));
        meta.notes.push(calls::not_recorded(why, io).into());
    }
    if converter.unpaired_calls() > 0 {
        meta.notes.push(RecordingNote::SyscallsUnpaired { calls: converter.unpaired_calls() }.into());
    }
    if options.off_cpu {
        let note = match plan {
            None if has_accounts => Some(RecordingNote::WaitsFromAccounts),
            None => Some(RecordingNote::WaitsNotRecorded),
            Some(_) if has_wait_snapshots => Some(RecordingNote::WaitSnapshots),
            Some(_) if has_paused => {
                let stacks = converter.wait_stacks();
                Some(RecordingNote::WaitsSampled { stacks: stacks.with_stack, waits: stacks.waits })
            }
            Some(_) => None,
        };
        meta.notes.extend(note.map(Note::from));
        let WaitStacks { total_ns, with_stack, estimated, estimated_ns, .. } = converter.wait_stacks();
        if estimated > 0 {
            let note =
                RecordingNote::WaitsEstimated { estimated, estimated_ns, total_ns, stacks: with_stack };
            meta.notes.push(note.into());
        }
    }
    let (waits, total_ns) = converter.doubtful_waits();
    if waits > 0 {
        meta.notes.push(RecordingNote::WaitsAcrossLosses { waits, total_ns }.into());
    }
    if options.wakers && !has_wakers {
        meta.notes.push(RecordingNote::WakersNotRecorded.into());
    }
    if let Some((true, kernel)) = plan
        && meta.only_cpus.is_none()
    {
        let visible = meta.user_time_ns + if kernel { meta.system_time_ns } else { 0 };
        if let Some(metric) = cpu_time {
            converter.set_cycle_worth(metric, visible);
        }
    }
    let own = host::own_usage();
    meta.counters = std::mem::take(&mut converter.counters);
    meta.notes.extend(converter.world.marks.notes().into_iter().map(Note::from));
    meta.counters.recorder_max_resident_bytes = own.max_resident_bytes;
    meta.counters.recorder_cpu_ns =
        (own.user + own.system).saturating_sub(own_before.user + own_before.system).as_nanos() as u64;
    if write_error.is_none() {
        write_error = writer.append(&mut converter.builder).and_then(|()| writer.meta(&meta)).err();
    }
    let exit = meta.exit;
    let files = converter.files();
    // It is optional work: a failure loses nothing.
    let _ = background.map(std::thread::JoinHandle::join);
    drop(converter);
    if meta.heap.is_some() {
        heap::return_freed_memory();
    }
    Ok(Recording { path, writer, meta, exit, files, write_error, moved_aside, _signals: signals })
}

/// Everything that is set up when the recording starts.
struct Started {
    agent: Option<AgentWatch>,
    suspended: Option<Suspended>,
    /// The program's control group, if its events are limited to one.
    group: Option<ProgramGroup>,
    sample_target: SampleTarget,
    sampled: Option<Sampled>,
    /// With ptrace sampling: samples per second of a thread's CPU time.
    ptrace_hz: Option<u32>,
    /// Why the program samples itself, if perf events are not permitted.
    refused: Option<RecordingNote>,
}

/// Opens events where the kernel permits them. Otherwise, a started program samples itself with timers, and
/// running processes are sampled with ptrace.
fn begin(target: &Target, options: &Options, cpus: &[u32], choice: &Choice) -> Result<Started, RecordError> {
    let wanted = Wanted { heap: options.heap.clone(), cpu_period_ns: None };
    let needs_events = options.cpus.is_some() || options.user_only || !choice.chosen.is_empty();
    if options.cpu && matches!(options.sampler, SamplerChoice::Timer | SamplerChoice::Ptrace) {
        if needs_events {
            return Err(RecordError::Refused(
                "timer and ptrace sampling cannot select CPUs, events or user mode: -C, -e and --user-only need perf \
                 events (--sampler perf)"
                    .to_owned(),
            ));
        }
        return begin_without_events(target, options, wanted).map_err(|error| error.explained(target));
    }
    let open = |sample_target: &SampleTarget| {
        options.cpu.then(|| sampling::open(sample_target, cpus, options, choice)).transpose()
    };
    let group = (options.cpu && matches!(target, Target::Command(_)) && sampling::may_watch_cpus(cpus))
        .then(ProgramGroup::new)
        .flatten();
    let refused = match begin_with(target, wanted.clone(), group, open) {
        Err(NotStarted::Events(error)) => error,
        started => return started.map_err(|error| error.explained(target)),
    };
    let other_ways = match target {
        Target::Command(_) => cfg!(feature = "heap"),
        Target::Processes(_) => options.heap.is_none(),
        Target::System { .. } => false,
    };
    let level = whyslow_proc::kernel::Settings::now().perf_event_paranoid;
    match refusal::reason(&refused, target, level) {
        Some(note) if other_ways && !needs_events && options.sampler == SamplerChoice::Auto => {
            match begin_without_events(target, options, wanted) {
                Ok(started) => Ok(Started { refused: Some(note), ..started }),
                Err(NotStarted::Other(error)) => Err(RecordError::Refused(format!(
                    "{}. {}: {error}",
                    refusal::explain(refused, target),
                    match target {
                        Target::Command(_) => "Timer sampling is not possible either",
                        _ => "Ptrace sampling is not possible either",
                    }
                ))),
                Err(error) => Err(error.explained(target)),
            }
        }
        _ => Err(refusal::explain(refused, target)),
    }
}

/// Starts timer or ptrace sampling.
fn begin_without_events(target: &Target, options: &Options, wanted: Wanted) -> Result<Started, NotStarted> {
    let by_ptrace = match (options.sampler, target) {
        (SamplerChoice::Timer, _) => false,
        (SamplerChoice::Ptrace, Target::Processes(_)) => true,
        (SamplerChoice::Ptrace, _) => {
            return Err(NotStarted::Other(RecordError::Refused(
                "ptrace sampling is only for running processes (-p PID); a program that whyslow starts can sample \
                 itself: --sampler timer"
                    .to_owned(),
            )));
        }
        (SamplerChoice::Auto | SamplerChoice::Perf, target) => matches!(target, Target::Processes(_)),
    };
    let hz = options.frequency_hz.max(1);
    if !by_ptrace {
        let wanted = Wanted { cpu_period_ns: Some(1_000_000_000 / u64::from(hz)), ..wanted };
        return begin_with(target, wanted, None, |_| Ok(None));
    }
    refusal::check_ptrace(target).map_err(NotStarted::Other)?;
    let started = begin_with(target, wanted, None, |_| Ok(None))?;
    Ok(Started { ptrace_hz: Some(hz.min(ptrace_sampling::MAX_HZ)), ..started })
}

/// Why a recording could not start.
enum NotStarted {
    /// The kernel refuses events.
    Events(OpenError),
    /// The agent cannot be loaded, or a process cannot be stopped with ptrace.
    Other(RecordError),
    /// The program cannot be started.
    Program(RecordError),
}

impl NotStarted {
    fn explained(self, target: &Target) -> RecordError {
        match self {
            Self::Events(error) => refusal::explain(error, target),
            Self::Other(error) | Self::Program(error) => error,
        }
    }
}

fn begin_with(
    target: &Target,
    wanted: Wanted,
    group: Option<ProgramGroup>,
    open: impl FnOnce(&SampleTarget) -> Result<Option<Sampled>, OpenError>,
) -> Result<Started, NotStarted> {
    let needs_agent = wanted.heap.is_some() || wanted.cpu_period_ns.is_some();
    let agent =
        needs_agent.then(|| AgentWatch::start(wanted, target)).transpose().map_err(NotStarted::Other)?;
    let suspended = match target.command() {
        Some(command) => {
            let mut command = command.clone();
            command.env.extend(agent.iter().flat_map(AgentWatch::environment));
            Some(Suspended::new(&command, group.as_ref()).map_err(NotStarted::Program)?)
        }
        None => None,
    };
    let group = group.zip(suspended.as_ref()).and_then(|(group, child)| group.holding(child.pid));
    let sample_target = match (target, &suspended) {
        (Target::Command(_), Some(child)) => {
            SampleTarget::Child { pid: child.pid, group: group.as_ref().map(ProgramGroup::handle) }
        }
        (Target::Processes(pids), _) => SampleTarget::Processes(pids.clone()),
        _ => SampleTarget::Machine,
    };
    match open(&sample_target) {
        Ok(sampled) => {
            Ok(Started { agent, suspended, group, sample_target, sampled, ptrace_hz: None, refused: None })
        }
        Err(error) => {
            if let Some(child) = suspended {
                child.cancel();
            }
            Err(NotStarted::Events(error))
        }
    }
}

/// The target with thread numbers replaced by those of their processes.
pub(crate) fn resolved(target: &Target) -> Result<Target, RecordError> {
    let Target::Processes(numbers) = target else { return Ok(target.clone()) };
    let mut pids = Vec::new();
    for number in numbers {
        let Some(pid) = process::process_of(*number) else {
            return Err(RecordError::Refused(format!(
                "there is no process {number}; `ps` lists the running ones"
            )));
        };
        if !pids.contains(&pid) {
            pids.push(pid);
        }
    }
    Ok(Target::Processes(pids))
}

/// The requested CPUs, or else all of them, since a program can move to any.
fn cpus_to_record(options: &Options) -> Result<Vec<u32>, RecordError> {
    let online = machine::online_cpus();
    let Some(wanted) = &options.cpus else { return Ok(online) };
    match wanted.iter().find(|cpu| !online.contains(cpu)) {
        Some(missing) => Err(RecordError::Refused(format!(
            "there is no CPU {missing}; this machine has {}",
            whyslow_words::cpu_words(&online)
        ))),
        None => Ok(online.into_iter().filter(|cpu| wanted.contains(cpu)).collect()),
    }
}

/// The bytes that processes have read and written so far, if readable.
fn io_of(sample_target: &SampleTarget) -> Option<Io> {
    let pids = match sample_target {
        SampleTarget::Child { pid, .. } => std::slice::from_ref(pid),
        SampleTarget::Processes(pids) => pids,
        SampleTarget::Machine => return None,
    };
    pids.iter().map(|pid| Io::of(*pid)).try_fold(Io::default(), |sum, io| Some(sum.plus(io?)))
}

/// The name of a program before it has executed anything.
fn name_of(target: &Target) -> String {
    let program = target.command().map(|command| Path::new(&command.program)).unwrap_or(Path::new(""));
    program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned()
}

/// The processes that still run when a recording ends, by name, the program first.
fn still_running(converter: &Converter<LiveWorld>, program: Option<u32>) -> Vec<StillRunning> {
    let mut running = converter.not_ended();
    running.retain(|(pid, _)| process::runs(*pid));
    running.sort_by_key(|(pid, _)| Some(*pid) != program);
    let mut names: Vec<StillRunning> = Vec::new();
    for (_, name) in running {
        match names.iter_mut().find(|row| row.name == name) {
            Some(row) => row.processes += 1,
            None => names.push(StillRunning { name, processes: 1 }),
        }
    }
    names
}

/// The source of records, and how to read them.
struct Records {
    events: Events,
    recorded: RecordedProcesses,
    reader: perf::Reader,
    /// How to read the samples of each event, in the order of `events.open`.
    taken: Vec<Taken>,
}

/// How the samples of an open event are read.
struct Taken {
    reading: perf::Event,
    /// The index of the request, if the user requested this event.
    request: Option<usize>,
    /// How many samples were in the rings, of any process.
    samples: u64,
}

impl Records {
    /// Whether system calls are recorded.
    fn has_calls(&self) -> bool {
        self.events.has(|role| matches!(role, EventRole::Calls(_)))
    }

    /// How often each requested event happened.
    fn requested_counts(&self) -> impl Iterator<Item = u64> {
        let requested = self.events.open.iter().filter(|event| matches!(event.role, EventRole::Requested(_)));
        requested.map(OpenEvent::count)
    }
}

struct Session {
    records: Option<Records>,
    agent: Option<AgentWatch>,
    /// Reads the samples that programs take of themselves through the agent.
    timer: Option<TimerSource>,
    /// Samples running processes with ptrace.
    ptrace: Option<PtraceSource>,
    /// Limits the rate of stacks of threads leaving their CPU.
    pace: Option<Pace>,
    /// Takes snapshots of waiting threads.
    wait_snapshots: Option<WaitSnapshots>,
    /// Reads the run-queue delay of threads.
    queues: Option<Queues>,
    /// Stands in for records of context switches.
    switches: Option<PolledSwitches>,
    /// The program that was started.
    child_pid: Option<u32>,
    heap_rows: Option<HeapRows>,
    converter: Converter<LiveWorld>,
    writer: Writer,
    write_error: Option<io::Error>,
    signals: Signals,
    subject: Subject,
}

impl Session {
    /// Drains until the program has exited or the recording is stopped.
    fn run(&mut self, deadline: Option<Instant>) -> End {
        let mut waits: Vec<libc::pollfd> = std::iter::once(self.signals.fd())
            .chain(self.records.iter().flat_map(|records| records.events.wait_on().iter().copied()))
            .map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 })
            .collect();
        let mut eager_left = EAGER_AT_FIRST;
        let mut flush_at = Instant::now() + FIRST_FLUSH;
        loop {
            // Descriptors must be looked up before they are closed.
            let calls = self.records.as_ref().is_some_and(Records::has_calls);
            let eager = eager_left > 0 || calls;
            let mut pause = match &mut self.wait_snapshots {
                Some(wait_snapshots) => wait_snapshots.pause(),
                None if eager => EAGER,
                None => CALM,
            };
            if let Some(deadline) = deadline {
                pause = pause.min(deadline.saturating_duration_since(Instant::now()));
            }
            signals::poll(&mut waits, pause.as_millis() as i32);
            // Once all tasks of an event have exited, its descriptor is always ready; polling it would spin.
            waits.retain(|wait| wait.revents & (libc::POLLHUP | libc::POLLERR) == 0);

            // These numbers disappear once the process is reaped.
            if let Some(queues) = &mut self.queues {
                queues.read(self.child_pid, &mut self.converter);
            }
            let end = self.subject.signals_received(&self.signals).or_else(|| self.subject.is_over(deadline));
            if end.is_none() {
                eager_left = if self.drain(whyslow_proc::monotonic_ns().saturating_sub(SETTLE_NS)) {
                    EAGER_AFTER_READ
                } else {
                    eager_left.saturating_sub(1)
                };
            }
            if Instant::now() >= flush_at || self.converter.builder.pending_samples() >= FLUSH_SAMPLES {
                self.flush();
                flush_at = Instant::now() + FLUSH;
            }
            if let Some(end) = end {
                return end;
            }
        }
    }

    /// Takes the records up to a time. Returns whether a live stack had to be read for them.
    fn drain(&mut self, until: u64) -> bool {
        let Self { records, agent, timer, ptrace, pace, wait_snapshots, queues, switches, converter, .. } =
            self;
        converter.begin_drain();
        converter.world.marks.collect();
        if let Some(Records { events, recorded, reader, taken }) = records {
            recorded.search(process::parents);
            let layouts = &events.layouts;
            let mut left = 0;
            events.merge.drain(until, layouts, |record| {
                let Taken { reading, request, samples } = &mut taken[layouts.event(record)];
                // Losses of requested events are known from their counts, and are not lost CPU time samples.
                if request.is_some() && record.record_type == RecordType::LOST {
                    return;
                }
                *samples += u64::from(record.record_type == RecordType::SAMPLE);
                // Call stacks that did not fit are optional.
                let is_stack = reading.role == perf::Role::Calls(perf::CallEvent::EnterWithStack);
                if is_stack && record.record_type != RecordType::SAMPLE {
                    return;
                }
                // Any process may wake a recorded thread.
                let wakes = matches!(reading.role, perf::Role::Wakes { .. });
                if (recorded.takes(record) || wakes && record.record_type == RecordType::SAMPLE)
                    && let Some(input) = reader.read(record, reading)
                {
                    left += u64::from(matches!(input, Input::Leaves(_)));
                    converter.take(&input);
                }
            });
            if let Some(turn) = pace.as_mut().and_then(|pace| pace.turn(left, whyslow_proc::monotonic_ns())) {
                // Wakeups without stacks continue to be recorded.
                for event in events.open.iter().filter(|event| event.role.is_paced()) {
                    event.pause(turn == Turn::Pause);
                }
            }
        }
        if let (Some(timer), Some(agent)) = (timer, agent) {
            timer.drain(agent, converter);
        }
        if let Some(ptrace) = ptrace {
            ptrace.drain(converter);
        }
        converter.end_drain(until);
        match (wait_snapshots, switches) {
            (Some(wait_snapshots), Some(switches)) => switches.read(wait_snapshots, converter),
            (Some(wait_snapshots), None) => wait_snapshots.take(converter),
            (None, _) => {}
        }
        if queues.is_some() {
            Queues::read_waiting(converter);
        }
        converter.with_tasks(|world, builder, tasks| world.marks.add(until, builder, tasks));
        converter.has_read_live()
    }

    /// Writes new rows. After a write error (disk full) nothing more is written and rows are dropped: the
    /// program runs on undisturbed and memory remains bounded.
    fn flush(&mut self) {
        self.read_marker_files();
        if let (Some(agent), Some(rows)) = (&self.agent, &mut self.heap_rows) {
            rows.add(&mut self.converter, &agent.take());
        }
        self.converter.flush_calls();
        self.converter.settle_waits(whyslow_proc::monotonic_ns(), false);
        if self.write_error.is_none() {
            self.write_error = self.writer.append(&mut self.converter.builder).err();
        }
        if self.write_error.is_some() {
            self.converter.builder.discard_samples();
        }
    }

    fn read_marker_files(&mut self) {
        self.converter.with_tasks(|world, builder, _| world.marks.read_files(builder));
    }
}
