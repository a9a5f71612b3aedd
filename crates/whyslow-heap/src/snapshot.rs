//! Answers another whyslow's request for what holds memory now, while the programs run on.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;
use whyslow_agent_wire::VERSION;
use whyslow_agent_wire::snapshot::{MOST_TEXT, Reply, Request, status};
use whyslow_profile::{HeapCounts, HeapSnapshot, LeakCheck, NoLeakCheck};

use crate::drain::{Drain, Until, Watched, resident};
use crate::exits::Exit;
use crate::ids::{Pid, ProcessRow, StackRow};
use crate::inspect::{ExitInspector, Findings};
use crate::leaks::{Live, Subject};
use crate::outcome::{Batch, Outcome};
use crate::sys;

/// Maximum number of waiting requests.
const MOST_WAITING: usize = 8;
/// Events this old can be read in any ring: see the drain's margin.
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

/// Serves requests one after the other.
pub(crate) struct Counter {
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
    /// The file with the profile.
    pub(crate) fn file(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Taken(file) => Some(file.as_fd()),
            Self::Unknown(_) | Self::Ended | Self::Failed(_) => None,
        }
    }

    /// The answer as it is sent, without the file.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let (status, text) = match self {
            Self::Taken(_) => (status::TAKEN, ""),
            Self::Unknown(others) => (status::UNKNOWN, others.as_str()),
            Self::Ended => (status::ENDED, ""),
            Self::Failed(why) => (status::FAILED, why.as_str()),
        };
        // The cut may split a character; the reader tolerates that.
        let text = &text.as_bytes()[..text.len().min(MOST_TEXT)];
        let reply = Reply { version: VERSION, status, text: text.len() as u32 };
        [&reply.to_bytes()[..], text].concat()
    }
}

impl Counter {
    pub(crate) fn new(writer: Arc<dyn SnapshotWriter>) -> Self {
        Self { writer, turn: Mutex::new(()), waiting: AtomicUsize::new(0) }
    }

    /// Answers a request.
    pub(crate) fn serve(&self, drain: &Mutex<Drain>, request: Request) -> Answer {
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
        let answer = catch_unwind(AssertUnwindSafe(|| self.take(drain, request.pid)));
        drop(turn);
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        answer.unwrap_or_else(|_| {
            Answer::Failed("the snapshot failed because of a bug in whyslow: please report it".to_owned())
        })
    }

    fn take(&self, drain: &Mutex<Drain>, pid: u32) -> Answer {
        let task = match lock(drain).begin_snapshot(Pid(pid)) {
            Ok(task) => task,
            Err(answer) => return answer,
        };
        let outcome = {
            let _guard = SnapshotGuard(drain);
            task.take(drain)
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

fn lock(drain: &Mutex<Drain>) -> MutexGuard<'_, Drain> {
    drain.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While this exists, the exit inspection of the snapshot's process waits.
struct SnapshotGuard<'a>(&'a Mutex<Drain>);

impl Drop for SnapshotGuard<'_> {
    fn drop(&mut self) {
        lock(self.0).snapshot_of = None;
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
    fn take(&self, drain: &Mutex<Drain>) -> Option<Outcome> {
        let snapshot = || {
            std::thread::sleep(SETTLE);
            lock(drain).snapshot(self.row, Pid(self.subject.pid))
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
    let time_ns = outcome.facts.snapshot.map_or(0, |snapshot| snapshot.time_ns);
    outcome.facts.leaks = match findings.leaks {
        LeakCheck::AtExit | LeakCheck::AtSnapshot(_) => LeakCheck::AtSnapshot(time_ns),
        other => other,
    };
    outcome.notes.extend(findings.notes);
}

impl Drain {
    /// Prepares a snapshot of a process. The caller must clear `snapshot_of` at the end.
    pub(crate) fn begin_snapshot(&mut self, pid: Pid) -> Result<SnapshotTask, Answer> {
        // A process that was just forked already has a ring.
        self.round(Until::Now);
        self.processes.find_ended();
        let Some(row) = self.processes.living(pid) else {
            if self.processes.knows(pid) {
                return Err(Answer::Ended);
            }
            let others =
                self.processes.living_names().into_iter().map(|(pid, name)| format!("{pid} ({name})"));
            return Err(Answer::Unknown(others.collect::<Vec<_>>().join(", ")));
        };
        let watched = self.areas.iter().find(|watched| watched.has(row));
        let ends =
            |exit: &Exit| matches!(exit, Exit::Inspected { inspection, .. } if inspection.process == row);
        if self.is_closed()
            || self.processes.has_exited(row)
            || watched.is_some_and(|watched| ends(&watched.exit))
        {
            return Err(Answer::Ended);
        }
        let inspector = match (self.tally.is_sampled(), self.processes.same_numbers(row)) {
            (true, _) => Err(NoLeakCheck::OnlySamples),
            (false, None) => Err(NoLeakCheck::InContainer),
            (false, Some(_)) => Ok(Arc::clone(&self.inspector)),
        };
        let skip = watched.map(Watched::skip).unwrap_or_default();
        let skip_listed = watched.and_then(Watched::skip_listed);
        self.snapshot_of = Some(row);
        Ok(SnapshotTask { row, inspector, subject: Subject { pid: pid.0, waiting: None, skip, skip_listed } })
    }

    /// Everything from the start up to now, and the live blocks of one process; `None` if it has exited.
    pub(crate) fn snapshot(&mut self, row: ProcessRow, pid: Pid) -> Option<(Outcome, Live)> {
        self.round(Until::Now);
        self.processes.find_ended();
        if self.is_closed() || self.processes.has_exited(row) || self.processes.has_ended(row) {
            return None;
        }
        let now = sys::now();
        let time_ns = self.tally.clock().ns(now);
        let so_far = self.tally.so_far(row, &self.processes.of_threads(), now);
        let (processes, threads, ended) = self.processes.all();
        self.note_left_out();
        let losses = self.losses();
        let mut facts = self.facts(&losses);
        facts.leaks = LeakCheck::NotDone;
        facts.snapshot = Some(HeapSnapshot { pid: pid.0, time_ns });
        let batch = Batch {
            processes,
            threads,
            ended,
            modules: self.stacks.all_modules(),
            stacks: self.stacks.all_stacks(),
            rows: so_far.rows,
            counters: so_far.counters.into_iter().chain(resident(&self.processes, time_ns)).collect(),
        };
        let notes = self.notices.notes().iter().cloned().chain(losses.note()).collect();
        let outcome = Outcome { batch, sites: so_far.sites, transfers: so_far.transfers, facts, notes };
        Some((outcome, self.tally.live(row)))
    }
}
