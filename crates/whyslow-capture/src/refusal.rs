//! Error messages for refused sampling: what happened, why, and what to try.

use std::io;

use whyslow_profile::RecordingNote;

use crate::chosen::Choice;
use crate::perf::OpenError;
use crate::ptrace_sampling::{self, Refusal};
use crate::sampling::{self, SampleTarget};
use crate::{Command, Options, RecordError, Target};

/// The error for a refused recording.
pub(crate) fn explain(error: OpenError, target: &Target) -> RecordError {
    let paranoid = whyslow_proc::kernel::Settings::now().perf_event_paranoid;
    match error {
        OpenError::Denied(error) => RecordError::Refused(denied(&error, target, paranoid)),
        OpenError::Unsupported(error) if paranoid.is_none() => RecordError::Refused(format!(
            "this kernel has no perf events ({error}), and recording needs them. In a container or sandbox, run whyslow on the host"
        )),
        OpenError::Unsupported(error) => RecordError::Refused(format!(
            "the kernel has no event to sample with ({error}). Run `whyslow doctor` to see what this machine supports"
        )),
        OpenError::Gone => {
            RecordError::Refused("the process has ended; start it again or give another PID".to_owned())
        }
        OpenError::RingTooLarge(error) => RecordError::Refused(format!(
            "the kernel refuses to lock memory for ring buffers ({error}). Other recordings of this user may hold it: end them, or raise \
             the limit: sudo sysctl kernel.perf_event_mlock_kb=2048"
        )),
        OpenError::TooManyFiles(error) => RecordError::Refused(format!(
            "attaching needs one open file per thread and CPU, and the limit is too low ({error}). Raise it with \
             `ulimit -n`, or record the whole machine with -a"
        )),
        OpenError::Other(error) => RecordError::System { what: "perf events could not be opened", error },
    }
}

/// Why the threads of a program that whyslow starts cannot be sampled for experiments, and what to do.
pub fn experiments_refused() -> Option<String> {
    let own_process = SampleTarget::Processes(vec![std::process::id()]);
    let cpus = whyslow_proc::machine::online_cpus();
    let opened = sampling::open(&own_process, &cpus, &Options::default(), &Choice::default());
    let error @ (OpenError::Denied(_) | OpenError::Unsupported(_)) = opened.err()? else { return None };
    Some(format!(
        "experiments delay threads by fractions of a millisecond, and need perf events for that: CPU timers expire at most 250 \
         times a second. {}",
        explain(error, &Target::Command(Command::default()))
    ))
}

/// The note that says why perf events are not permitted, where another sampler takes over.
pub(crate) fn reason(error: &OpenError, target: &Target, level: Option<i64>) -> Option<RecordingNote> {
    let refused = match error {
        OpenError::Denied(error) | OpenError::Unsupported(error) => error,
        _ => return None,
    };
    let level = level.filter(|level| *level > 2);
    let (error, ptrace) = (refused.raw_os_error().unwrap_or(0), matches!(target, Target::Processes(_)));
    // A process that perf events may not observe may not be stopped with ptrace either.
    if ptrace
        && level.is_none()
        && matches!(error, libc::EPERM | libc::EACCES)
        && !are_events_refused_for_self()
    {
        return None;
    }
    Some(RecordingNote::EventsRefused { level, error, ptrace })
}

/// Checks that all processes may be stopped with ptrace, or says why one may not.
pub(crate) fn check_ptrace(target: &Target) -> Result<(), RecordError> {
    let Target::Processes(pids) = target else { return Ok(()) };
    let refused = pids.iter().find_map(|pid| Some((*pid, ptrace_sampling::refusal(*pid)?)));
    let Some((pid, refusal)) = refused else { return Ok(()) };
    Err(RecordError::Refused(match refusal {
        Refusal::Traced { by } => {
            format!(
                "process {by} already traces process {pid} (a debugger, or a tool like strace): end it first"
            )
        }
        Refusal::OtherUser => {
            format!("process {pid} belongs to another user: run whyslow as that user or with sudo")
        }
        Refusal::NotItsParent { scope: 1 } => format!(
            "process {pid} was not started by whyslow, and kernel.yama.ptrace_scope is 1. Try: sudo sysctl \
             kernel.yama.ptrace_scope=0, or run whyslow with sudo, or start the program with whyslow"
        ),
        Refusal::NotItsParent { scope } => format!(
            "kernel.yama.ptrace_scope is {scope}, which permits ptrace only to root. Run whyslow with sudo, or start the program \
             with whyslow"
        ),
        Refusal::Forbidden => format!(
            "process {pid} may not be traced: it protects itself, or a container or sandbox filters the call (docker run --cap-add \
             SYS_PTRACE allows it)"
        ),
    }))
}

/// Whether the kernel refuses events even for this process, so that the reason is not the target.
fn are_events_refused_for_self() -> bool {
    let own_process = SampleTarget::Processes(vec![std::process::id()]);
    let cpus = whyslow_proc::machine::online_cpus();
    matches!(
        sampling::open(&own_process, &cpus, &Options::default(), &Choice::default()),
        Err(OpenError::Denied(_))
    )
}

fn denied(error: &io::Error, target: &Target, paranoid: Option<i64>) -> String {
    let level = paranoid.map_or_else(|| "unknown".to_owned(), |level| level.to_string());
    match target {
        Target::System { .. } if paranoid.is_none_or(|level| level <= 2) && are_events_refused_for_self() => {
            format!(
                "perf events are not permitted here ({error}) although kernel.perf_event_paranoid is {level}: a container or sandbox \
             filters the system call. The whole machine cannot be recorded without them; a process can (-p PID), and so can a program \
             that whyslow starts: whyslow PROGRAM"
            )
        }
        Target::System { .. } => format!(
            "recording the whole machine is not permitted ({error}): kernel.perf_event_paranoid is {level}, and without root it must be 0 or \
             less. Try: sudo sysctl kernel.perf_event_paranoid=0, or run whyslow with sudo"
        ),
        Target::Processes(pids)
            if paranoid.is_none_or(|level| level <= 2) && !are_events_refused_for_self() =>
        {
            format!(
                "process {} may not be observed ({error}): it belongs to another user or changed its user. Run whyslow as that \
             user or with sudo",
                pids.iter().map(u32::to_string).collect::<Vec<_>>().join(" or ")
            )
        }
        _ if paranoid.is_some_and(|level| level > 2) => format!(
            "perf events are not permitted here ({error}): kernel.perf_event_paranoid is {level}, and recording \
             your own programs needs 2 or less. Try: sudo sysctl kernel.perf_event_paranoid=2"
        ),
        _ => format!(
            "perf events are not permitted here ({error}) although kernel.perf_event_paranoid is {level}: a container or sandbox \
             filters the system call. Allow it (docker run --cap-add PERFMON --security-opt seccomp=unconfined …) or record on \
             the host"
        ),
    }
}
