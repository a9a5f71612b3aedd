//! Answers another whyslow's request for what holds memory now, while the programs run on.

use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;
use whyslow_agent_host::{Host, Programs, Requests, Until};
use whyslow_agent_wire::VERSION;
use whyslow_agent_wire::snapshot::{MOST_TEXT, Reply, Request, status};
use whyslow_numbers::ClockNs;
use whyslow_profile::{HeapCounts, HeapSnapshot, LeakCheck, NoLeakCheck};

use crate::accounting::Accounting;
use crate::exits::{skip, skip_listed};
use crate::ids::{Pid, ProcessRow, StackRow};
use crate::inspect::{ExitInspector, Findings};
use crate::leaks::{Live, Subject};
use crate::outcome::{Batch, Outcome};
use crate::residents::resident;
use crate::sys;

/// Maximum number of waiting requests.
const MOST_WAITING: usize = 8;
/// Events this old can be read in any ring: see the host's margin.
const SETTLE: Duration = Duration::from_micros(200);

/// Writes the results so far as a profile. Called on a separate thread.
pub trait SnapshotWriter: Send + Sync {
    /// Writes the profile into an empty file. `outcome` holds everything from the start, and one timeline row
    /// per thread and stack; live at exit means live now.
    fn write(&self, outcome: &Outcome, file: File) -> io::Result<()>;
}

impl<F: Fn(&Outcome, File) -> io::Result<()> + Send + Sync> SnapshotWriter for F {
    fn write(&self, outcome: &Outcome, file: File) -> io::Result<()> {
        self(outcome, file)
    }
}

/// Writes no snapshots.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoSnapshots;

impl SnapshotWriter for NoSnapshots {
    fn write(&self, _outcome: &Outcome, _file: File) -> io::Result<()> {
        Err(io::Error::other("this recording has no snapshots"))
    }
}

/// Serves requests one after the other.
pub(crate) struct Snapshots {
    writer: Arc<dyn SnapshotWriter>,
    turn: Mutex<()>,
    waiting: AtomicUsize,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) enum Answer {
    Taken(File),
    /// The process is not recorded here. The text lists those that are.
    Unknown(String),
    Ended,
    Failed(String),
}

impl Answer {
    /// The answer as it is sent.
    fn into_reply(self) -> whyslow_agent_host::Reply {
        let (status, text) = match &self {
            Self::Taken(_) => (status::TAKEN, ""),
            Self::Unknown(others) => (status::UNKNOWN, others.as_str()),
            Self::Ended => (status::ENDED, ""),
            Self::Failed(why) => (status::FAILED, why.as_str()),
        };
        // The cut may split a character; the reader tolerates that.
        let text = &text.as_bytes()[..text.len().min(MOST_TEXT)];
        let reply = Reply { version: VERSION, status, text: text.len() as u32 };
        let bytes = [&reply.to_bytes()[..], text].concat();
        let file = if let Self::Taken(file) = self { Some(file) } else { None };
        whyslow_agent_host::Reply { bytes, file }
    }
}

impl Requests for Snapshots {
    fn answer(&self, host: &Mutex<Host>, packet: &[u8]) -> Option<whyslow_agent_host::Reply> {
        let request = Request::parse(packet)?;
        Some(self.serve(host, request).into_reply())
    }
}

impl Snapshots {
    pub(crate) fn new(writer: Arc<dyn SnapshotWriter>) -> Self {
        Self { writer, turn: Mutex::new(()), waiting: AtomicUsize::new(0) }
    }

    /// Answers a request.
    fn serve(&self, host: &Mutex<Host>, request: Request) -> Answer {
        if request.version != VERSION {
            return Answer::Failed(
                "another version of whyslow records this program: request the snapshot with that version"
                    .to_owned(),
            );
        }
        if self.waiting.fetch_add(1, Ordering::AcqRel) >= MOST_WAITING {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            return Answer::Failed(
                "too many snapshot requests at once: try again in a few seconds".to_owned(),
            );
        }
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = catch_unwind(AssertUnwindSafe(|| self.take(host, request.pid)));
        drop(turn);
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        answer.unwrap_or_else(|_| {
            Answer::Failed("the snapshot failed because of a bug in whyslow: please report it".to_owned())
        })
    }

    fn take(&self, host: &Mutex<Host>, pid: u32) -> Answer {
        let task = match begin(host, Pid(pid)) {
            Some(Ok(task)) => task,
            Some(Err(answer)) => return answer,
            None => return Answer::Ended,
        };
        let outcome = {
            let _guard = SnapshotGuard(host);
            task.take(host)
        };
        let Some(outcome) = outcome else { return Answer::Ended };
        let written = sys::memory_file().and_then(|file| {
            self.writer.write(&outcome, file.try_clone()?)?;
            Ok(file)
        });
        match written {
            Ok(file) => Answer::Taken(file),
            Err(error) => Answer::Failed(format!("cannot write the snapshot: {error}")),
        }
    }
}

fn lock(host: &Mutex<Host>) -> MutexGuard<'_, Host> {
    host.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While this exists, the exit inspection of the snapshot's process waits.
struct SnapshotGuard<'a>(&'a Mutex<Host>);

impl Drop for SnapshotGuard<'_> {
    fn drop(&mut self) {
        lock(self.0).with(|heap: &mut Accounting, _| heap.snapshot_of = None);
    }
}

/// How to take a snapshot of a process.
pub(crate) struct SnapshotTask {
    row: ProcessRow,
    /// The inspector, or why the blocks cannot be classified.
    inspector: Result<Arc<dyn ExitInspector>, NoLeakCheck>,
    subject: Subject,
}

impl SnapshotTask {
    /// Everything so far, with the leak classes of live blocks if possible; `None` if the process has exited
    /// in the meantime.
    fn take(&self, host: &Mutex<Host>) -> Option<Outcome> {
        let snapshot = || {
            std::thread::sleep(SETTLE);
            so_far(host, self.row, Pid(self.subject.pid))
        };
        let mut taken = None;
        let mut take = || {
            let (outcome, live) = snapshot().unzip();
            taken = Some(outcome);
            live.unwrap_or_default()
        };
        let findings = match &self.inspector {
            Ok(inspector) => {
                let inspect = || inspector.inspect(&self.subject, &mut take);
                catch_unwind(AssertUnwindSafe(inspect))
                    .unwrap_or_else(|_| impossible(NoLeakCheck::CheckFailed))
            }
            Err(why) => impossible(why.clone()),
        };
        let mut outcome = match taken {
            Some(outcome) => outcome?,
            None => snapshot()?.0,
        };
        add_findings(&mut outcome, findings);
        Some(outcome)
    }
}

fn impossible(why: NoLeakCheck) -> Findings {
    Findings { leaks: LeakCheck::Impossible(why), ..Findings::default() }
}

fn add_findings(outcome: &mut Outcome, findings: Findings) {
    let rows: FxHashMap<StackRow, usize> =
        outcome.sites.iter().enumerate().map(|(row, site)| (site.stack, row)).collect();
    for (stack, more) in &findings.stacks {
        let Some(&row) = rows.get(stack) else { continue };
        let counts = &mut outcome.sites[row].counts;
        let mut sums = counts.numbers();
        for (sum, more) in sums.iter_mut().zip(more.numbers()) {
            *sum = sum.saturating_add(more);
        }
        *counts = HeapCounts::from_numbers(sums);
    }
    let time_ns = outcome.facts.snapshot.map_or(ClockNs::MIN, |snapshot| snapshot.time_ns);
    outcome.facts.leaks = match findings.leaks {
        LeakCheck::AtExit | LeakCheck::AtSnapshot(_) => LeakCheck::AtSnapshot(time_ns),
        other => other,
    };
    outcome.notes.extend(findings.notes);
}

/// Prepares a snapshot of a process. The caller must clear `snapshot_of` at the end. `None` if the heap is not
/// recorded.
fn begin(host: &Mutex<Host>, pid: Pid) -> Option<Result<SnapshotTask, Answer>> {
    let mut host = lock(host);
    // A process that was just forked already has a ring.
    host.round(Until::Now);
    host.programs().processes.find_ended();
    host.with(|heap: &mut Accounting, programs| heap.begin_snapshot(programs, pid))
}

/// Everything from the start up to now, and the live blocks of one process; `None` if it has exited.
fn so_far(host: &Mutex<Host>, row: ProcessRow, pid: Pid) -> Option<(Outcome, Live)> {
    let mut host = lock(host);
    host.round(Until::Now);
    host.programs().processes.find_ended();
    host.with(|heap: &mut Accounting, programs| heap.snapshot(programs, row, pid)).flatten()
}

impl Accounting {
    fn begin_snapshot(&mut self, programs: &Programs, pid: Pid) -> Result<SnapshotTask, Answer> {
        let processes = &programs.processes;
        let Some(row) = processes.living(pid) else {
            if processes.knows(pid) {
                return Err(Answer::Ended);
            }
            let others = processes.living_names().into_iter().map(|(pid, name)| format!("{pid} ({name})"));
            return Err(Answer::Unknown(others.collect::<Vec<_>>().join(", ")));
        };
        if programs.is_closed() || processes.has_exited(row) || programs.is_held(row) {
            return Err(Answer::Ended);
        }
        let inspector = match (self.tally.is_sampled(), processes.same_numbers(row)) {
            (true, _) => Err(NoLeakCheck::OnlySamples),
            (false, None) => Err(NoLeakCheck::InContainer),
            (false, Some(_)) => Ok(Arc::clone(&self.inspector)),
        };
        let area = programs.area_of(row);
        let skip = area.map(skip).unwrap_or_default();
        let skip_listed = area.and_then(skip_listed);
        self.snapshot_of = Some(row);
        Ok(SnapshotTask { row, inspector, subject: Subject { pid: pid.0, waiting: None, skip, skip_listed } })
    }

    fn snapshot(&mut self, programs: &mut Programs, row: ProcessRow, pid: Pid) -> Option<(Outcome, Live)> {
        if programs.is_closed() || programs.processes.has_exited(row) || programs.processes.has_ended(row) {
            return None;
        }
        let now = sys::now();
        let time_ns = programs.clock.time(now);
        let so_far = self.tally.so_far(row, &programs.processes.of_threads(), now);
        let seen = programs.processes.all();
        programs.note_left_out();
        let mut facts = self.facts(programs);
        facts.leaks = LeakCheck::NotDone;
        facts.snapshot = Some(HeapSnapshot { pid: pid.0, time_ns });
        let batch = Batch {
            processes: seen.processes,
            threads: seen.threads,
            ended: seen.ended,
            modules: self.stacks.all_modules(),
            stacks: self.stacks.all_stacks(),
            rows: so_far.rows,
            counters: so_far.counters.into_iter().chain(resident(&programs.processes, time_ns)).collect(),
        };
        let notes = programs.notices.notes().iter().cloned().chain(self.ring_note()).collect();
        let outcome = Outcome { batch, sites: so_far.sites, transfers: so_far.transfers, facts, notes };
        Some((outcome, self.tally.live(row)))
    }
}
