//! A recording from start to end: start the program, drain the rings while it runs, finish the file.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use whyslow_profile::file::Writer;
use whyslow_profile::{EventSource, ExitStatus, HeapFacts, KernelView, Meta};

use crate::convert::Converter;
use crate::heap::{self, HeapRows, HeapWatch};
use crate::host::{self, Usage};
use crate::launch::{Running, Suspended};
use crate::marks::Marks;
use crate::output::Output;
use crate::perf::{Events, Plan, Scope};
use crate::refusal;
use crate::signals::{self, Received, Signals};
use crate::{Options, RecordError, Recording, Target};

/// How long samples may wait in a ring. Reading a live stack needs a drain within the life of its outer frames, so
/// drains come faster while that is needed, and at first, when it is not known yet. Each costs some 30 µs.
const CALM: Duration = Duration::from_millis(50);
const EAGER: Duration = Duration::from_millis(5);
/// Drains that stay eager at first, and after a live stack was read.
const EAGER_AT_FIRST: u32 = 20;
const EAGER_AFTER_READ: u32 = 100;
/// A record may be this much younger than another ring's and not be visible yet.
const SETTLE_NS: u64 = 200_000;
/// How often the file gets what was recorded.
const FLUSH: Duration = Duration::from_secs(1);
const FLUSH_SAMPLES: usize = 100_000;

/// Who is being recorded.
enum Subject {
    Child(Running),
    /// An attached process, with the descriptor that tells of its end.
    Process(u32, Option<OwnedFd>),
    System,
}

/// What ended the recording.
enum End {
    Exited(ExitStatus, Usage),
    Stopped,
}

pub(crate) fn record(target: &Target, options: &Options, output: &Path) -> Result<Recording, RecordError> {
    let system = |what| move |error| RecordError::System { what, error };
    let (output_file, file) = Output::create(output)?;
    let signals = Signals::new().map_err(system("signals could not be set up"))?;
    let started = SystemTime::now();
    let mut heap = options.heap.as_ref().map(|how| HeapWatch::start(how, target)).transpose()?;

    let mut suspended = None;
    let (scope, cpus) = match target {
        Target::Command(command) => {
            let mut command = command.clone();
            command.env.extend(heap.iter().flat_map(HeapWatch::environment));
            let child = Suspended::new(&command, &signals)?;
            let pid = child.pid;
            suspended = Some(child);
            (Scope::Threads(vec![pid]), host::allowed_cpus(pid))
        }
        Target::Process(pid) => {
            host::raise_file_limit();
            let threads = crate::threads_of(*pid);
            if threads.is_empty() {
                return Err(RecordError::Refused(format!(
                    "there is no process {pid}; `ps` lists the running ones"
                )));
            }
            (Scope::Threads(threads), host::online_cpus())
        }
        Target::System => (Scope::System, host::online_cpus()),
    };
    let plan = Plan {
        cycles: true,
        precise: 0,
        kernel: !options.user_only,
        frequency_hz: options.frequency_hz,
        stack_bytes: 0,
        enable_on_exec: matches!(target, Target::Command(_)),
    };
    let events = if options.cpu {
        match Events::open(&scope, &cpus, plan, options.stack_bytes) {
            Ok(events) => Some(events),
            Err(error) => {
                if let Some(child) = suspended {
                    child.cancel();
                }
                return Err(refusal::explain(error, target));
            }
        }
    } else {
        None
    };

    let sampled = events.as_ref().map(|events| (events.plan.cycles, events.plan.kernel));
    let kernel_base = sampled.and_then(|(_, kernel)| if kernel { host::kernel_base() } else { None });
    let mut meta = Meta {
        command: command_line(target),
        recorder: format!("whyslow {}", env!("CARGO_PKG_VERSION")),
        started_unix_ns: started
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos() as u64),
        frequency_hz: if options.cpu { options.frequency_hz } else { 0 },
        stack_bytes: events.as_ref().map_or(0, |events| events.plan.stack_bytes),
        source: match sampled {
            Some((true, _)) => EventSource::Cycles,
            Some((false, _)) => EventSource::CpuClock,
            None => EventSource::Unknown,
        },
        kernel: match (sampled, kernel_base) {
            (None, _) => KernelView::Unknown,
            (Some((_, false)), _) => KernelView::Hidden,
            (Some((_, true)), None) => KernelView::Unnamed,
            (Some((_, true)), Some(_)) => KernelView::Included,
        },
        host: host::describe(cpus.len()),
        ..Meta::default()
    };
    let own_before = host::own_usage();
    let start_ns = host::monotonic_ns();
    let mut converter = Converter::new(start_ns, kernel_base.unwrap_or(0), options.cpu);
    let heap_rows = heap.as_ref().map(|heap| HeapRows::new(&mut converter, heap.unused()));
    if let Some(heap) = &heap {
        heap.begin(&meta, start_ns);
    }
    converter.marks = Marks::live(start_ns, runtime_folder(target).as_deref());
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
    let subject = match (target, suspended) {
        (Target::Command(command), Some(child)) => {
            let name = Path::new(&command.program).file_name().unwrap_or(&command.program);
            converter.add_process(child.pid, &name.to_string_lossy());
            Subject::Child(match &mut heap {
                Some(heap) => heap.enter(child)?,
                None => child.release()?,
            })
        }
        (Target::Process(pid), _) => {
            converter.add_running_process(*pid);
            enable(events.as_ref())?;
            Subject::Process(*pid, signals::watch(*pid))
        }
        _ => {
            for pid in crate::numbers_in(Path::new("/proc")) {
                converter.add_running_process(pid);
            }
            enable(events.as_ref())?;
            Subject::System
        }
    };
    let moved_aside = output_file.keep()?;

    let heap = heap.zip(heap_rows);
    let mut session = Session { events, heap, converter, writer, write_error: None, signals, subject };
    let deadline = options.duration.map(|duration| Instant::now() + duration);
    let end = session.run(deadline);
    let duration_ns = host::monotonic_ns().saturating_sub(start_ns);
    session.drain(u64::MAX);
    session.read_marker_files();

    meta.duration_ns = duration_ns;
    if let End::Exited(exit, usage) = &end {
        meta.exit = Some(*exit);
        meta.user_time_ns = usage.user.as_nanos() as u64;
        meta.system_time_ns = usage.system.as_nanos() as u64;
        meta.max_resident_bytes = usage.max_resident_bytes;
    }
    let Session { mut converter, mut writer, mut write_error, heap, signals, .. } = session;
    if let Some((watch, rows)) = heap {
        let outcome = watch.finish();
        let outliving = rows.finish(&mut converter, &outcome, start_ns + duration_ns);
        meta.notes.extend(outcome.notes);
        meta.notes.extend(outliving.filter(|_| meta.exit.is_some()));
        let leaks = heap::explain(outcome.facts.leaks.clone(), meta.exit);
        meta.heap = Some(HeapFacts { leaks, ..heap::since(start_ns, outcome.facts) });
    }
    if let Some((true, kernel)) = sampled {
        let visible = meta.user_time_ns + if kernel { meta.system_time_ns } else { 0 };
        meta.ns_per_cycle =
            (visible > 0 && converter.total_value > 0).then(|| visible as f64 / converter.total_value as f64);
    }
    let own = host::own_usage();
    meta.counters = std::mem::take(&mut converter.counters);
    meta.notes.extend(converter.marks.notes());
    meta.counters.recorder_max_resident_bytes = own.max_resident_bytes;
    meta.counters.recorder_cpu_ns =
        (own.user + own.system).saturating_sub(own_before.user + own_before.system).as_nanos() as u64;
    if write_error.is_none() {
        write_error = writer.append(&mut converter.builder).and_then(|()| writer.meta(&meta)).err();
    }
    let exit = meta.exit;
    let files = converter.files();
    let path = output.to_owned();
    Ok(Recording { path, writer, meta, exit, files, write_error, moved_aside, _signals: signals })
}

fn enable(events: Option<&Events>) -> Result<(), RecordError> {
    events
        .map_or(Ok(()), Events::enable)
        .map_err(|error| RecordError::System { what: "sampling could not be started", error })
}

struct Session {
    events: Option<Events>,
    heap: Option<(HeapWatch, HeapRows)>,
    converter: Converter,
    writer: Writer,
    write_error: Option<io::Error>,
    signals: Signals,
    subject: Subject,
}

impl Session {
    /// Drains until the program has ended or the recording is stopped.
    fn run(&mut self, deadline: Option<Instant>) -> End {
        let mut waits: Vec<libc::pollfd> = std::iter::once(self.signals.fd())
            .chain(self.events.iter().flat_map(|events| events.wait_on().iter().copied()))
            .map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 })
            .collect();
        let mut eager_left = EAGER_AT_FIRST;
        let mut flushed = Instant::now();
        loop {
            let mut pause = if eager_left > 0 { EAGER } else { CALM };
            if let Some(deadline) = deadline {
                pause = pause.min(deadline.saturating_duration_since(Instant::now()));
            }
            signals::poll(&mut waits, pause.as_millis() as i32);
            // Once all tasks of an event are gone its descriptor is always ready; waiting on it would spin.
            waits.retain(|wait| wait.revents & (libc::POLLHUP | libc::POLLERR) == 0);

            let end = self.signals_received().or_else(|| self.is_over(deadline));
            if end.is_none() {
                eager_left = if self.drain(host::monotonic_ns().saturating_sub(SETTLE_NS)) {
                    EAGER_AFTER_READ
                } else {
                    eager_left.saturating_sub(1)
                };
            }
            if flushed.elapsed() >= FLUSH || self.converter.builder.pending_samples() >= FLUSH_SAMPLES {
                self.flush();
                flushed = Instant::now();
            }
            if let Some(end) = end {
                return end;
            }
        }
    }

    /// Takes the records up to a time; whether a live stack had to be read for them.
    fn drain(&mut self, until: u64) -> bool {
        let Self { events, converter, .. } = self;
        converter.begin_drain();
        converter.marks.collect();
        if let Some(events) = events {
            events.merge.drain(until, events.parse_info, |record| converter.record(record));
        }
        converter.add_marks(until);
        converter.has_read_live()
    }

    /// Writes what is new. After a failure (disk full) nothing more is written, and the rows are dropped: the program
    /// runs on undisturbed and memory stays bounded.
    fn flush(&mut self) {
        self.read_marker_files();
        if let Some((watch, rows)) = &mut self.heap {
            rows.add(&mut self.converter, &watch.take());
        }
        if self.write_error.is_none() {
            self.write_error = self.writer.append(&mut self.converter.builder).err();
        }
        if self.write_error.is_some() {
            self.converter.builder.discard_samples();
        }
    }

    fn read_marker_files(&mut self) {
        self.converter.marks.read_files(&mut self.converter.builder);
    }

    fn signals_received(&mut self) -> Option<End> {
        let mut end = None;
        while let Some(signal) = self.signals.next() {
            match (signal, &self.subject) {
                (Received::Child, Subject::Child(child)) => {
                    if let Some((exit, usage)) = child.try_wait() {
                        end = Some(End::Exited(exit, usage));
                    }
                }
                (Received::Child, _) => {}
                // The program got it too, and decides what it means.
                (Received::FromTerminal(_), Subject::Child(_)) => {}
                (Received::Sent(signal), Subject::Child(child)) => signals::send(child.pid, signal),
                (Received::FromTerminal(_) | Received::Sent(_), _) => end = Some(End::Stopped),
            }
        }
        end
    }

    fn is_over(&self, deadline: Option<Instant>) -> Option<End> {
        let timed_out = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let gone = match &self.subject {
            Subject::Process(_, Some(watch)) => {
                let mut ended = [libc::pollfd { fd: watch.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
                signals::poll(&mut ended, 0);
                ended[0].revents != 0
            }
            Subject::Process(pid, None) => crate::threads_of(*pid).is_empty(),
            Subject::Child(_) | Subject::System => false,
        };
        (timed_out || gone).then_some(End::Stopped)
    }
}

/// The `XDG_RUNTIME_DIR` that the program sees.
fn runtime_folder(target: &Target) -> Option<OsString> {
    const NAME: &str = "XDG_RUNTIME_DIR";
    let set = match target {
        Target::Command(command) => command.env.iter().rev().find(|(name, _)| name == NAME),
        Target::Process(_) | Target::System => None,
    };
    set.map(|(_, value)| value.clone()).or_else(|| std::env::var_os(NAME))
}

fn command_line(target: &Target) -> Vec<String> {
    match target {
        Target::Command(command) => std::iter::once(&command.program)
            .chain(&command.args)
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        Target::Process(pid) => {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
            words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
        }
        Target::System => vec!["(the whole machine)".to_owned()],
    }
}
