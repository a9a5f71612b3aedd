//! A recording from start to end: starts the program, drains the sources while it runs, finishes the file.

mod begin;
mod sources;

use std::io;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use whyslow_convert::{Converter, Setup, WaitStacks};
use whyslow_numbers::{ClockNs, Start};
use whyslow_proc::{machine, process};
use whyslow_profile::file::Writer;
use whyslow_profile::{Builder, Counters, Meta, Note, RecordingNote, StillRunning};

pub(crate) use self::begin::resolved;
use self::begin::{Started, begin, cpus_to_record, try_requests};
use self::sources::{Metrics, sources};
use crate::cpu_sampler::WaitsBy;
use crate::heap;
use crate::host::{self, Usage};
use crate::launch::{Program, Running, Suspended};
use crate::live::LiveWorld;
use crate::marks::Marks;
use crate::output::{Kept, NewProfile};
use crate::recorder::{Control, Order, Progress, Recorder, Watch};
use crate::sampling::SampleTarget;
use crate::signals::{self, Signals};
use crate::source::{CALM, EAGER, Ending, LiveConverter, Source};
use crate::subject::{End, Subject};
use crate::{Options, RecordError, Recording, Target};

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
/// The span of a pause.
const PAUSED: &str = "recording paused";

pub(crate) fn record(
    Recorder { control, watch }: Recorder,
    target: &Target,
    options: &Options,
    output: &Path,
) -> Result<Recording, RecordError> {
    let target = &resolved(target)?;
    let cpus = cpus_to_record(options)?;
    let requests = try_requests(target, options, &cpus)?;
    let (output_file, file) = NewProfile::create(output, options.names)?;
    let signals =
        Signals::new().map_err(|error| RecordError::System { what: "signals could not be set up", error })?;
    let signals = signals.telling(options.causal.as_ref().map(|causal| causal.shared.interrupted()));
    let begun = SystemTime::now();
    let started = begin(target, options, &cpus, &requests)?;
    let kernel_base = started.cpu.kernel_base();
    let mut meta = Meta {
        started_unix_ns: begun.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64),
        kernel: started.cpu.kernel_view(kernel_base),
        only_cpus: options.cpus.as_ref().map(|_| whyslow_words::cpu_words(&cpus)),
        ..describe(target, &started, cpus.len())
    };
    let own_before = host::own_usage();

    let time_0 = Start::at(whyslow_proc::now());
    let marks = Marks::live(time_0, target.runtime_folder().as_deref());
    let mut rows = Builder::new();
    let (metrics, setup) =
        Metrics::create(options, &started.cpu, &started.sample_target, &requests, &mut rows);
    let setup = Setup { start: time_0, kernel_base: kernel_base.unwrap_or_default(), ..setup };
    let mut converter = Converter::new(LiveWorld::new(marks), rows, &setup);
    if let Some(agent) = &started.agent {
        agent.begin(&meta, time_0);
    }
    let writer = match Writer::new(file, &meta) {
        Ok(writer) => writer,
        Err(error) => {
            started.cancel();
            return Err(RecordError::Output { path: output.to_owned(), error });
        }
    };
    add_processes(&started.sample_target, target, &mut converter);
    meta.notes.extend(started.refused.clone().map(Note::from));
    if started.cpu.events().is_none() {
        meta.notes.extend(requests.notes(&[], &[]).into_iter().map(Note::from));
    }
    let waits = options.off_cpu.then(|| started.cpu.waits());
    let no_wakers = options.wakers && !started.cpu.has_wakers();
    let Started { agent, suspended, group, sample_target, cpu, .. } = started;
    let child_pid = suspended.as_ref().map(|child| child.pid);
    let mut sources = sources(options, &sample_target, agent, cpu, requests, metrics);
    let subject = start(&mut sources, target, suspended, &mut converter)?;
    let Kept { path, moved_aside } = output_file.keep()?;
    let background = options.background.and_then(host::run_at_low_priority);

    let mut session = Session {
        sources,
        converter,
        writer,
        write_error: None,
        signals,
        subject,
        control,
        watch,
        written: 0,
        paused: None,
    };
    let deadline = options.duration.map(|duration| Instant::now() + duration);
    let priority = host::RaisedPriority::new();
    let end = session.run(deadline);
    let end_time = whyslow_proc::now();
    session.stop(end_time);
    drop(priority);

    meta.duration_ns = time_0.since(end_time).0;
    let is_program = matches!(target, Target::Command(_));
    if is_program {
        meta.still_running = still_running(&session.converter, child_pid);
    }
    drop(group);
    // The resources of the program are not those of the whole machine.
    let usage = set_end(&mut meta, end).filter(|_| is_program);
    meta.counters = session.converter.counters().clone();
    session.finish_sources(&mut meta, end_time, usage.as_ref());
    meta.notes.extend(notes_of_waits(&session.converter, waits).map(Note::from));
    meta.notes.extend(no_wakers.then_some(RecordingNote::WakersNotRecorded).map(Note::from));
    meta.notes.extend(session.converter.world_mut().marks.notes().into_iter().map(Note::from));
    set_own_usage(&mut meta.counters, &own_before);
    session.write_rest(&meta);
    let Session { converter, writer, write_error, signals, .. } = session;
    let (exit, files) = (meta.exit, converter.files());
    // It is optional work: a failure loses nothing.
    let _ = background.map(std::thread::JoinHandle::join);
    drop(converter);
    if meta.heap.is_some() {
        heap::return_freed_memory();
    }
    Ok(Recording { path, writer, meta, exit, files, write_error, moved_aside, _signals: signals })
}

/// What is known about a recording when it starts.
fn describe(target: &Target, started: &Started, cpus: usize) -> Meta {
    let allowed = started.suspended.as_ref().map(|child| machine::allowed_cpus(child.pid).len());
    Meta {
        command: target.words(),
        standard_input: matches!(target, Target::Command(_)).then(input_file).flatten(),
        recorder: format!("whyslow {}", env!("CARGO_PKG_VERSION")),
        stack_bytes: started.cpu.stack_bytes(),
        sampling: started.cpu.sampling(),
        host: host::describe(allowed.unwrap_or(cpus)),
        ..Meta::default()
    }
}

/// The file that the program reads as its standard input, as a shell in this folder would name it.
fn input_file() -> Option<String> {
    let path = std::fs::read_link("/proc/self/fd/0").ok()?;
    let is_file = std::fs::metadata(&path).is_ok_and(|file| file.is_file());
    let folder = std::env::current_dir().unwrap_or_default();
    is_file.then(|| path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().into_owned())
}

/// Adds the processes that are recorded from the start.
fn add_processes(sample_target: &SampleTarget, target: &Target, converter: &mut LiveConverter) {
    match sample_target {
        SampleTarget::Child { pid, .. } => converter.add_process(*pid, &name_of(target)),
        SampleTarget::Processes(pids) => pids.iter().for_each(|pid| converter.add_running_process(*pid)),
        SampleTarget::Machine => {
            for pid in process::all() {
                converter.add_running_process(pid);
            }
        }
    }
}

/// Starts the sources, then the program.
fn start(
    sources: &mut [Box<dyn Source>],
    target: &Target,
    suspended: Option<Suspended>,
    converter: &mut LiveConverter,
) -> Result<Subject, RecordError> {
    let started = sources.iter_mut().try_for_each(|source| source.start(converter));
    if let Err(error) = started {
        if let Some(child) = suspended {
            child.cancel();
        }
        return Err(error);
    }
    Ok(match (target, suspended) {
        (_, Some(child)) => Subject::Child(release(child, sources)?),
        (Target::Processes(pids), None) => Subject::attached(pids),
        _ => Subject::UntilStopped,
    })
}

/// Lets the program execute, through the source that must be inside it from the start if there is one.
fn release(mut child: Suspended, sources: &mut [Box<dyn Source>]) -> Result<Running, RecordError> {
    for source in sources {
        child = match source.enter(child)? {
            Program::Running(running) => return Ok(running),
            Program::Suspended(child) => child,
        };
    }
    child.release()
}

/// Notes how the recording ended. Returns what the program used.
fn set_end(meta: &mut Meta, end: End) -> Option<Usage> {
    let End::Exited(exit, usage) = end else { return None };
    meta.exit = Some(exit);
    Some(usage)
}

/// Sets what the recorder itself used.
fn set_own_usage(counters: &mut Counters, before: &Usage) {
    let own = host::own_usage();
    counters.recorder_max_resident_bytes = own.max_resident_bytes;
    let cpu_time = (own.user + own.system).saturating_sub(before.user + before.system);
    counters.recorder_cpu_ns = cpu_time.as_nanos() as u64;
}

/// What the profile says about its waits, in addition to the notes of their source.
fn notes_of_waits(
    converter: &LiveConverter,
    requested: Option<WaitsBy>,
) -> impl Iterator<Item = RecordingNote> {
    let not_recorded = (requested == Some(WaitsBy::Nothing)).then_some(RecordingNote::WaitsNotRecorded);
    let WaitStacks { total_ns, with_stack: stacks, estimated, estimated_ns, .. } = converter.wait_stacks();
    let estimated = (estimated > 0).then_some(RecordingNote::WaitsEstimated {
        estimated,
        estimated_ns,
        total_ns,
        stacks,
    });
    let (waits, total_ns) = converter.doubtful_waits();
    let doubtful = (waits > 0).then_some(RecordingNote::WaitsAcrossLosses { waits, total_ns });
    not_recorded.into_iter().chain(estimated).chain(doubtful)
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

struct Session {
    sources: Vec<Box<dyn Source>>,
    converter: LiveConverter,
    writer: Writer,
    write_error: Option<io::Error>,
    signals: Signals,
    subject: Subject,
    control: Control,
    watch: Option<Box<dyn Watch>>,
    /// The number of samples before those that the converter holds.
    written: u64,
    /// Since when the recording is paused.
    paused: Option<ClockNs>,
}

impl Session {
    /// Drains until the program has exited or the recording is stopped.
    fn run(&mut self, deadline: Option<Instant>) -> End {
        let mut waits: Vec<libc::pollfd> = [self.signals.fd(), self.control.fd()]
            .into_iter()
            .chain(self.sources.iter().flat_map(|source| source.wait_on().iter().copied()))
            .map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 })
            .collect();
        let mut eager_left = EAGER_AT_FIRST;
        let mut flush_at = Instant::now() + FIRST_FLUSH;
        loop {
            let mut interval = self.interval(eager_left > 0);
            if let Some(deadline) = deadline {
                interval = interval.min(deadline.saturating_duration_since(Instant::now()));
            }
            signals::poll(&mut waits, interval.as_millis() as i32);
            // Once all tasks of an event have exited, its descriptor is always ready; polling it would spin.
            waits.retain(|wait| wait.revents & (libc::POLLHUP | libc::POLLERR) == 0);

            // A signal that arrives from now on is read in the next round.
            let fd = self.signals.fd();
            let has_signals =
                waits.iter().any(|wait| wait.fd == fd && wait.revents != 0) || self.subject.has_exited();
            if has_signals && self.paused.is_none() {
                for source in &mut self.sources {
                    source.before_reaping(&mut self.converter);
                }
            }
            let end = self.follow_orders(has_signals, deadline);
            if end.is_none() {
                eager_left = if self.drain(whyslow_proc::now().minus(SETTLE_NS)) {
                    EAGER_AFTER_READ
                } else {
                    eager_left.saturating_sub(1)
                };
            }
            if Instant::now() >= flush_at || self.converter.rows().pending_samples() >= FLUSH_SAMPLES {
                self.flush();
                flush_at = Instant::now() + FLUSH;
            }
            self.report();
            if let Some(end) = end {
                return end;
            }
        }
    }

    /// The time until the next drain.
    fn interval(&mut self, eager: bool) -> Duration {
        if self.paused.is_some() {
            return CALM;
        }
        let interval = if eager { EAGER } else { CALM };
        self.sources.iter_mut().fold(interval, |interval, source| source.interval(interval))
    }

    /// Does what was ordered: by signals, by the duration, by the exit of processes, or from outside.
    fn follow_orders(&mut self, has_signals: bool, deadline: Option<Instant>) -> Option<End> {
        let end = has_signals.then(|| self.subject.signals_received(&self.signals)).flatten();
        let end = end.or_else(|| self.subject.is_over(deadline));
        let mut end = match end {
            Some(End::Stopped) => {
                self.control.give(Order::Stop);
                None
            }
            end => end,
        };
        for order in self.control.take() {
            match order {
                Order::Pause => self.pause(),
                Order::Resume => self.resume(),
                Order::Mark(name) => {
                    let now = whyslow_proc::now();
                    self.converter.world_mut().marks.add_own(&name, now, now);
                }
                Order::Stop => end = end.or(Some(End::Stopped)),
            }
        }
        end
    }

    /// Ends everything that is under way, as the end of the recording does.
    fn pause(&mut self) {
        if self.paused.is_some() {
            return;
        }
        let now = whyslow_proc::now().minus(SETTLE_NS);
        self.drain(now);
        self.converter.pause(now);
        for source in &mut self.sources {
            source.pause();
        }
        self.paused = Some(now);
    }

    /// Begins again, as with processes that already run.
    fn resume(&mut self) {
        let Some(since) = self.paused.take() else { return };
        let now = whyslow_proc::now();
        self.drain(now.minus(SETTLE_NS));
        self.converter.resume(now);
        for source in &mut self.sources {
            // A source that cannot go on gives no more samples; those so far are kept.
            let _ = source.resume(&mut self.converter);
        }
        self.converter.world_mut().marks.add_own(PAUSED, since, now);
    }

    /// Takes what was observed up to a time. Returns whether a live stack had to be read for it.
    fn drain(&mut self, until: ClockNs) -> bool {
        let Self { sources, converter, paused, .. } = self;
        converter.begin_drain();
        converter.world_mut().marks.collect();
        for source in &mut *sources {
            source.drain(until, converter);
        }
        converter.end_drain(until);
        if paused.is_none() {
            for source in sources {
                source.look(converter);
            }
        }
        converter.add_rows(|world, builder, tasks| world.marks.add(until, builder, tasks));
        converter.has_read_live()
    }

    /// Stops the sources, takes the rest, and ends what is under way.
    fn stop(&mut self, end: ClockNs) {
        if let Some(since) = self.paused {
            self.converter.world_mut().marks.add_own(PAUSED, since, end);
        }
        for source in &mut self.sources {
            source.stop();
        }
        self.drain(ClockNs::MAX);
        self.converter.end(end);
        self.read_marker_files();
    }

    /// Takes what the sources know only at the end.
    fn finish_sources(&mut self, meta: &mut Meta, end: ClockNs, usage: Option<&Usage>) {
        if let Some(usage) = usage {
            meta.user_time_ns = usage.user.as_nanos() as u64;
            meta.system_time_ns = usage.system.as_nanos() as u64;
            // 0 means unknown.
            meta.max_resident_bytes = usage.known_peak_bytes().unwrap_or(0);
        }
        let mut ending = Ending { time: end, converter: &mut self.converter, meta, usage };
        for source in self.sources.drain(..) {
            source.finish(&mut ending);
        }
    }

    /// Writes new rows. After a write error (disk full) nothing more is written and rows are dropped: the
    /// program runs on undisturbed and memory remains bounded.
    fn flush(&mut self) {
        self.read_marker_files();
        for source in &mut self.sources {
            source.flush(&mut self.converter);
        }
        self.converter.flush(whyslow_proc::now());
        self.written += self.converter.rows().pending_samples() as u64;
        self.show_rows();
        if self.write_error.is_none() {
            self.write_error = self.writer.append(self.converter.rows_mut()).err();
        }
        if self.write_error.is_some() {
            self.converter.rows_mut().discard_samples();
        }
    }

    /// Writes the last rows and the metadata.
    fn write_rest(&mut self, meta: &Meta) {
        self.show_rows();
        if self.write_error.is_none() {
            let written = self.writer.append(self.converter.rows_mut());
            self.write_error = written.and_then(|()| self.writer.meta(meta)).err();
        }
    }

    fn show_rows(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.rows(self.converter.rows());
        }
    }

    fn report(&self) {
        let elapsed_ns = self.converter.start().since(whyslow_proc::now()).0;
        self.control.report(Progress {
            elapsed: Duration::from_nanos(elapsed_ns),
            samples: self.written + self.converter.rows().pending_samples() as u64,
            is_paused: self.paused.is_some(),
        });
    }

    fn read_marker_files(&mut self) {
        self.converter.add_rows(|world, builder, _| world.marks.read_files(builder));
    }
}
