//! Finds out what a recording gets on this machine by starting one and undoing everything.

use whyslow_profile::Sampling;

use crate::agent::{AgentWatch, Wanted};
use crate::chosen::Choice;
use crate::launch::Suspended;
use crate::perf::OpenError;
use crate::sampling::{self, SampleTarget};
use crate::signals::Signals;
use crate::{Command, Options, RecordError, Target};

/// What the kernel permits to a recording of a started program, with the default options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// The events, as they were opened, or why they could not be.
    pub events: Result<Granted, Refused>,
    /// With timer sampling: samples per second of a thread's CPU time, or why timers cannot be used.
    pub timers: Result<u32, String>,
    /// Whether the program's memory can be read while it runs.
    pub memory_is_readable: bool,
}

/// Events that were opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// Whether they cover whole CPUs or only the program's threads.
    pub sampling: Sampling,
    /// Whether the hardware's cycle counter triggers the samples.
    pub cycles: bool,
    /// Whether they include kernel mode.
    pub kernel: bool,
    /// Bytes of each CPU's ring.
    pub ring_bytes: usize,
    /// Bytes of stack copied with a sample.
    pub stack_bytes: u32,
    /// The number of CPUs.
    pub cpus: usize,
}

/// What was refused, with the errno.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The events themselves.
    Events(i32),
    /// Memory for their ring buffers.
    Rings(i32),
}

/// Starts a recording as [`crate::record`] does, up to the point where it would execute the program.
pub fn trial() -> Result<Trial, RecordError> {
    let _signals = Signals::new().map_err(|error| RecordError::System { what: "signals", error })?;
    // Never executed: the process waits until it is cancelled.
    let command = Command { program: "true".into(), ..Command::default() };
    let child = Suspended::new(&command, None)?;
    let trial = Trial {
        events: events_of(child.pid),
        timers: timers(command),
        memory_is_readable: can_read(child.pid),
    };
    child.cancel();
    Ok(trial)
}

fn events_of(child: u32) -> Result<Granted, Refused> {
    let cpus = whyslow_proc::machine::online_cpus();
    let sampled = sampling::open(&SampleTarget::child(child), &cpus, &Options::default(), &Choice::default())
        .map_err(refused)?;
    let plan = sampled.events.plan;
    Ok(Granted {
        sampling: sampled.sampling,
        cycles: plan.cycles,
        kernel: plan.kernel,
        ring_bytes: sampled.events.ring_bytes,
        stack_bytes: plan.stack_bytes,
        cpus: cpus.len(),
    })
}

fn timers(command: Command) -> Result<u32, String> {
    let period = 1_000_000_000 / u64::from(Options::default().frequency_hz);
    let wanted = Wanted { cpu_period_ns: Some(period), ..Wanted::default() };
    let watch = AgentWatch::start(wanted, &Target::Command(command)).map_err(|error| error.to_string())?;
    watch.sampling_hz().ok_or_else(|| "the kernel has no periodic clock tick".to_owned())
}

fn refused(error: OpenError) -> Refused {
    let number = |error: std::io::Error| error.raw_os_error().unwrap_or(libc::EINVAL);
    match error {
        OpenError::RingTooLarge(error) => Refused::Rings(number(error)),
        OpenError::Gone => Refused::Events(libc::ESRCH),
        OpenError::Denied(error)
        | OpenError::Unsupported(error)
        | OpenError::TooManyFiles(error)
        | OpenError::Other(error) => Refused::Events(number(error)),
    }
}

/// A forked process has the same contents at the same addresses as the recorder.
fn can_read(child: u32) -> bool {
    static KNOWN: [u8; 8] = *b"readable";
    let mut read = [0; 8];
    whyslow_proc::read_memory(child, KNOWN.as_ptr() as u64, &mut read).is_ok() && read == KNOWN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_reports_the_events_of_a_recording_and_leaves_nothing_behind() {
        let before = whyslow_proc::process::children(std::process::id(), usize::MAX);
        let trial = trial().unwrap();
        let cpus = whyslow_proc::machine::online_cpus();
        let opened = sampling::open(
            &SampleTarget::Processes(vec![std::process::id()]),
            &cpus,
            &Options::default(),
            &Choice::default(),
        );
        match (trial.events, opened) {
            (Ok(granted), Ok(opened)) => {
                assert_eq!(
                    (granted.cycles, granted.kernel),
                    (opened.events.plan.cycles, opened.events.plan.kernel)
                );
                assert_eq!((granted.sampling, granted.cpus), (opened.sampling, cpus.len()));
                assert!(granted.ring_bytes.is_power_of_two() && granted.stack_bytes >= 4 << 10);
            }
            (Err(refusal), Err(error)) => assert_eq!(refusal, refused(error)),
            (trial, recording) => panic!("{trial:?} {recording:?}"),
        }
        assert!(trial.memory_is_readable || whyslow_proc::kernel::Settings::now().ptrace_scope >= Some(2));
        let after = whyslow_proc::process::children(std::process::id(), usize::MAX);
        assert!(after.iter().all(|child| before.contains(child)), "{before:?} {after:?}");
    }

    #[test]
    fn distinguishes_refused_events_from_refused_rings() {
        let error = |number| std::io::Error::from_raw_os_error(number);
        assert_eq!(refused(OpenError::Denied(error(libc::EACCES))), Refused::Events(libc::EACCES));
        assert_eq!(refused(OpenError::Unsupported(error(libc::ENOSYS))), Refused::Events(libc::ENOSYS));
        assert_eq!(refused(OpenError::RingTooLarge(error(libc::EPERM))), Refused::Rings(libc::EPERM));
    }
}
