//! Executors of async Rust: which of their functions poll tasks, and which run code that may block.
//!
//! ```text
//! loop      takes tasks and polls them, on a worker
//! poll      polls one: its callees are the task
//! blocking  runs closures that may block, on separate threads
//! ```
//! A function is recognised by the beginning of its path without generic arguments, as
//! `whyslow_profile::function_path` gives it.

use whyslow_profile::{AsyncForm, Profile};

use crate::labels::{self, Label};

/// The name of an executor, and how the paths of its functions begin.
struct Executor {
    word: &'static str,
    blocking: &'static [&'static str],
    loops: &'static [&'static str],
    polls: &'static [&'static str],
}

const EXECUTORS: &[Executor] = &[
    Executor {
        word: "tokio",
        blocking: &[
            "tokio::runtime::blocking::",
            "tokio::task::blocking::block_in_place",
            "tokio::runtime::scheduler::multi_thread::worker::block_in_place",
            "tokio::runtime::scheduler::block_in_place",
        ],
        loops: &[
            "tokio::runtime::scheduler::multi_thread::worker::",
            "tokio::runtime::scheduler::multi_thread_alt::worker::",
            "tokio::runtime::scheduler::current_thread::",
        ],
        polls: &[
            "tokio::runtime::task::",
            "tokio::task::coop::",
            "tokio::task::local::",
            "tokio::runtime::park::CachedParkThread::block_on",
        ],
    },
    Executor {
        word: "async-executor",
        blocking: &["blocking::"],
        loops: &["async_executor::"],
        polls: &["async_task::raw::", "async_io::driver::block_on", "futures_lite::future::block_on"],
    },
    Executor { word: "futures", blocking: &[], loops: &[], polls: &["futures_executor::"] },
];

/// Pool functions that run jobs, which are not tasks of an executor.
const JOBS: &[&str] = &["rayon_core::job::", "threadpool::Task", "crossbeam_utils::thread::"];

/// The role of a function in an executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Runs code that may block.
    Blocking(&'static str),
    /// Takes tasks on a worker.
    Loop(&'static str),
    /// Polls a task.
    Poll(&'static str),
    /// Runs a job of a pool.
    Job,
}

impl Role {
    pub(crate) fn of(profile: &Profile, label: Label) -> Option<Self> {
        let path = path(profile, label)?;
        let begins = |starts: &[&str]| starts.iter().any(|start| path.starts_with(start));
        if begins(JOBS) {
            return Some(Self::Job);
        }
        EXECUTORS.iter().find_map(|executor| {
            let roles = [
                (executor.blocking, Self::Blocking(executor.word)),
                (executor.loops, Self::Loop(executor.word)),
                (executor.polls, Self::Poll(executor.word)),
            ];
            roles.into_iter().find(|(starts, _)| begins(starts)).map(|(_, role)| role)
        })
    }

    /// Whether its callees are actual work: a thread that waits in there is not idle.
    pub(crate) fn runs_work(self) -> bool {
        matches!(self, Self::Poll(_) | Self::Job)
    }
}

fn path(profile: &Profile, label: Label) -> Option<String> {
    let Label::Function(id) = label else { return None };
    let function = profile.functions.get(id.index())?;
    let file = function.file.map(|file| profile.text(file));
    Some(whyslow_profile::function_path(profile.text(function.name), file))
}

/// Whether a function is a state machine of async Rust, or the `poll` of a hand-written future.
pub(crate) fn is_future(profile: &Profile, label: Label) -> bool {
    let name = labels::name(profile, label);
    AsyncForm::split(&name).0.is_some()
        || AsyncForm::of_debug_name(&name).is_some()
        || (name.starts_with('<') && name.ends_with("Future>::poll"))
}
