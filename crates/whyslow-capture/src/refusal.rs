//! When the kernel refuses to sample: what happened, why, and what to try.

use std::io;

use whyslow_profile::RecordingNote;

use crate::chosen::Choice;
use crate::looks::{self, Refusal};
use crate::perf::OpenError;
use crate::sampling::{self, Whom};
use crate::{Options, RecordError, Target};

/// The message for a refused recording.
pub(crate) fn explain(error: OpenError, target: &Target) -> RecordError {
    let paranoid = whyslow_proc::kernel::Settings::now().perf_event_paranoid;
    match error {
        OpenError::Denied(error) => RecordError::Refused(denied(&error, target, paranoid)),
        OpenError::Unsupported(error) if paranoid.is_none() => RecordError::Refused(format!(
            "this kernel has no perf events ({error}). Recording needs them; in a container or sandbox, run whyslow on the host"
        )),
        OpenError::Unsupported(error) => RecordError::Refused(format!(
            "the kernel offers no event to sample with ({error}). Run `whyslow doctor` to see what this machine has"
        )),
        OpenError::Gone => {
            RecordError::Refused("the process has ended; start it again or give another PID".to_owned())
        }
        OpenError::RingTooLarge(error) => RecordError::Refused(format!(
            "no memory for ring buffers may be locked ({error}). Other recordings of this user may hold it; end them, or raise \
             the limit: sudo sysctl kernel.perf_event_mlock_kb=2048"
        )),
        OpenError::TooManyFiles(error) => RecordError::Refused(format!(
            "attaching needs one open file per thread and CPU, and the limit is too low ({error}). Raise it with \
             `ulimit -n`, or record the whole machine with -a"
        )),
        OpenError::Other(error) => RecordError::System { what: "perf events could not be opened", error },
    }
}

/// Why the kernel refuses to sample one's own program, where there is another way.
pub(crate) fn reason(error: &OpenError, target: &Target, level: Option<i64>) -> Option<RecordingNote> {
    let refused = match error {
        OpenError::Denied(error) | OpenError::Unsupported(error) => error,
        _ => return None,
    };
    let level = level.filter(|level| *level > 2);
    let (error, looked) = (refused.raw_os_error().unwrap_or(0), matches!(target, Target::Processes(_)));
    // Whose process may not be observed may not be looked at either.
    if looked && level.is_none() && matches!(error, libc::EPERM | libc::EACCES) && !is_for_everybody() {
        return None;
    }
    Some(RecordingNote::EventsRefused { level, error, looked })
}

/// Whether all processes may be looked at from the outside, or why one may not.
pub(crate) fn look(target: &Target) -> Result<(), RecordError> {
    let Target::Processes(pids) = target else { return Ok(()) };
    let refused = pids.iter().find_map(|pid| Some((*pid, looks::refusal(*pid)?)));
    let Some((pid, refusal)) = refused else { return Ok(()) };
    Err(RecordError::Refused(match refusal {
        Refusal::Traced { by } => {
            format!(
                "process {pid} is traced by process {by}, a debugger or a tool like strace: end that first"
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
            "kernel.yama.ptrace_scope is {scope}, which allows it to nobody but root; run whyslow with sudo, or start the program \
             with whyslow"
        ),
        Refusal::Forbidden => format!(
            "process {pid} may not be traced: it protects itself, or a container or sandbox filters the call (docker run --cap-add \
             SYS_PTRACE allows it)"
        ),
    }))
}

/// Whether events are refused even of this very process, so that it is not for whom they are asked.
fn is_for_everybody() -> bool {
    let ourselves = Whom::Processes(vec![std::process::id()]);
    let cpus = whyslow_proc::machine::online_cpus();
    matches!(
        sampling::open(&ourselves, &cpus, &Options::default(), &Choice::default()),
        Err(OpenError::Denied(_))
    )
}

fn denied(error: &io::Error, target: &Target, paranoid: Option<i64>) -> String {
    let level = paranoid.map_or_else(|| "unknown".to_owned(), |level| level.to_string());
    match target {
        Target::System { .. } if paranoid.is_none_or(|level| level <= 2) && is_for_everybody() => format!(
            "perf events are not allowed ({error}) although kernel.perf_event_paranoid is {level}: a container or sandbox \
             filters the system call. The whole machine cannot be recorded without them; a process can (-p PID), and so can a program \
             that whyslow starts: whyslow PROGRAM"
        ),
        Target::System { .. } => format!(
            "recording the whole machine is not allowed ({error}): kernel.perf_event_paranoid is {level} and must be 0 or less \
             without root. Try: sudo sysctl kernel.perf_event_paranoid=0, or run whyslow with sudo"
        ),
        Target::Processes(pids) if paranoid.is_none_or(|level| level <= 2) && !is_for_everybody() => format!(
            "process {} may not be observed ({error}): it belongs to another user or changed its user. Run whyslow as that \
             user or with sudo",
            pids.iter().map(u32::to_string).collect::<Vec<_>>().join(" or ")
        ),
        _ if paranoid.is_some_and(|level| level > 2) => format!(
            "perf events are not allowed ({error}): kernel.perf_event_paranoid is {level}, and 2 or less is needed to record \
             one's own programs. Try: sudo sysctl kernel.perf_event_paranoid=2"
        ),
        _ => format!(
            "perf events are not allowed ({error}) although kernel.perf_event_paranoid is {level}: a container or sandbox \
             filters the system call. Allow it (docker run --cap-add PERFMON --security-opt seccomp=unconfined …) or record on \
             the host"
        ),
    }
}
