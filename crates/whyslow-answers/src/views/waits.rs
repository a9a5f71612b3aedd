//! Views of what programs wait for: waits, locks, the critical path, system calls.

use whyslow_analyze::{
    CriticalPath, LockTable, SyscallTable, WaitTable, has_syscalls, remark_of, wait_metric,
};
use whyslow_explain::Topic;
use whyslow_profile::{Note, Profile, RecordingNote};

use super::{Needs, View};
use crate::answer::Body;
use crate::refusal::{Missing, Refusal};

/// Where threads wait, for what, and how long.
pub static WAITS: View = View {
    name: "waits",
    help: &[("waits", "where threads wait, and for what (record --off-cpu)")],
    function: Needs::Nothing,
    of_samples: false,
    of_waits: true,
    topic: Some(Topic::Waits),
    refusal: |profile, _, _| without_waits(profile, Missing::Waits),
    body: |query, profile| {
        let (selection, charges) = query.waits(profile);
        Ok(Body::Waits(WaitTable::build(profile, &selection, &charges, query.shortest_wait_ns)))
    },
};

/// Lock contention.
pub static LOCKS: View = View {
    name: "locks",
    help: &[("locks", "locks that threads waited for, and their holders")],
    topic: None,
    refusal: |profile, _, _| without_waits(profile, Missing::Locks),
    body: |query, profile| {
        let (selection, charges) = query.waits(profile);
        Ok(Body::Locks(LockTable::build(profile, &selection, &charges, query.shortest_wait_ns)))
    },
    ..WAITS
};

/// What delayed the end of the recording, or of a time range.
pub static CRITICAL_PATH: View = View {
    name: "critical-path",
    help: &[("critical-path", "what delayed the end, across threads (record --wakers)")],
    topic: None,
    refusal: |profile, _, _| without_waits(profile, Missing::Wakers),
    body: |query, profile| {
        let (selection, charges) = query.waits(profile);
        let path = CriticalPath::build(profile, &selection, &charges);
        Ok(Body::CriticalPath(path.unwrap_or_default()))
    },
    ..WAITS
};

/// System calls by line: count, time, bytes, files.
pub static SYSCALLS: View = View {
    name: "syscalls",
    help: &[("syscalls", "system calls by line and file (record --syscalls)")],
    of_waits: false,
    topic: Some(Topic::Syscalls),
    refusal: |profile, _, _| {
        let asked = |note: &RecordingNote| matches!(note, RecordingNote::SyscallsNotRecorded { .. });
        (!has_syscalls(profile)).then(|| not_recorded(profile, Missing::Syscalls, asked))
    },
    body: |query, profile| {
        let charges = query.cpu_charges(profile);
        Ok(Body::Syscalls(SyscallTable::build(profile, &query.selection, &charges)))
    },
    ..WAITS
};

fn without_waits(profile: &Profile, missing: Missing) -> Option<Refusal> {
    let asked = |note: &RecordingNote| matches!(note, RecordingNote::WaitsNotRecorded);
    wait_metric(profile).is_none().then(|| not_recorded(profile, missing, asked))
}

/// If the data were asked for, the recording knows why they are missing.
fn not_recorded(profile: &Profile, missing: Missing, asked: fn(&RecordingNote) -> bool) -> Refusal {
    let is_asked = |note: &&Note| matches!(note, Note::Recording(note) if asked(note));
    Refusal::NotRecorded { missing, noted: profile.meta.notes.iter().find(is_asked).map(remark_of) }
}
