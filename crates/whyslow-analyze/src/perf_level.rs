//! The levels of `kernel.perf_event_paranoid`: which one permits what.

/// What a level of `kernel.perf_event_paranoid` permits to users without privileges. Each level also permits
/// what the higher ones do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PerfLevel {
    /// Tracepoints, such as those of system calls.
    Tracepoints,
    /// Events of whole CPUs: other users' programs, and a share of the samples for short-lived threads.
    WholeCpus,
    /// The kernel's part of the user's own programs.
    Kernel,
}

impl PerfLevel {
    /// The setting as `sysctl` takes it.
    pub fn setting(self) -> &'static str {
        self.command().trim_start_matches("sudo sysctl ")
    }

    /// The command that sets it until the next boot.
    pub const fn command(self) -> &'static str {
        match self {
            Self::Tracepoints => "sudo sysctl kernel.perf_event_paranoid=-1",
            Self::WholeCpus => "sudo sysctl kernel.perf_event_paranoid=0",
            Self::Kernel => "sudo sysctl kernel.perf_event_paranoid=1",
        }
    }
}
