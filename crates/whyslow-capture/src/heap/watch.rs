//! Brings the agent into the program, by the loader or at its exec.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use whyslow_agent_embed::AGENT;
use whyslow_convert::Converter;
use whyslow_heap::{Batch, Collector, Outcome};
use whyslow_heap_wire::SOCKET_VARIABLE;
use whyslow_inject::{Entry, Injector, entry_of};
use whyslow_profile::Meta;

use super::inspector::Inspector;
use super::rows::HeapRows;
use super::snapshot::Snapshots;
use crate::launch::{Running, Suspended};
use crate::live::LiveWorld;
use crate::{Command, HeapOptions, RecordError, Target};

/// A running collector, and how the program gets its agent.
#[derive(Debug)]
pub(crate) struct HeapWatch {
    collector: Collector,
    snapshots: Arc<Snapshots>,
    /// What is started.
    program: String,
    inject: bool,
    unused: bool,
    sampled: bool,
}

impl HeapWatch {
    /// Starts the collector, or says why the target's heap cannot be recorded.
    pub(crate) fn start(options: &HeapOptions, target: &Target) -> Result<Self, RecordError> {
        let Target::Command(command) = target else {
            return Err(RecordError::Refused(
                "the heap of a program that runs already cannot be recorded: start it with `whyslow heap -- PROGRAM`"
                    .to_owned(),
            ));
        };
        // What is no program is refused when it is started, in the usual words.
        let is_program = |path: &PathBuf| {
            std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
        };
        let entry = find(command).filter(is_program).map_or(Entry::Preload, |path| entry_of(&path));
        if let Entry::Impossible(why) = entry {
            return Err(RecordError::Refused(format!("the heap cannot be recorded: {why}")));
        }
        // Unused bytes of blocks that stay are found by the same look at the end.
        let config = HeapOptions { leak_check: options.leak_check || options.unused, ..options.clone() };
        let inspector = Arc::new(Inspector { leaks: options.leak_check, unused: options.unused });
        let snapshots = Arc::new(Snapshots::default());
        let collector = Collector::start(
            config,
            AGENT,
            Box::new(whyslow_inject::plan),
            inspector,
            Arc::clone(&snapshots) as _,
        )
        .map_err(|error| RecordError::Refused(error.to_string()))?;
        let program = command.program.to_string_lossy().into_owned();
        Ok(Self {
            collector,
            snapshots,
            program,
            inject: entry == Entry::Inject,
            unused: options.unused,
            sampled: options.sample_bytes.is_some(),
        })
    }

    /// What the program needs in its environment.
    pub(crate) fn environment(&self) -> Vec<(OsString, OsString)> {
        self.collector.environment()
    }

    /// The recording begins: from now on others can ask for snapshots.
    pub(crate) fn begin(&self, meta: &Meta, start_ns: u64) {
        self.snapshots.begin(meta, start_ns);
    }

    /// The rows that its numbers will be.
    pub(crate) fn rows(&self, converter: &mut Converter<LiveWorld>) -> HeapRows {
        HeapRows::new(converter, self.unused, self.sampled)
    }

    /// Lets the program start, with the agent in it.
    pub(crate) fn enter(&mut self, child: Suspended) -> Result<Running, RecordError> {
        self.collector.expect(child.pid, &self.program);
        if !self.inject {
            return child.release();
        }
        let refused = |error: whyslow_inject::InjectError| {
            RecordError::Refused(format!("the heap of this static program cannot be recorded: {error}"))
        };
        let injector = match Injector::watch(child.pid) {
            Ok(injector) => injector,
            Err(error) => {
                child.cancel();
                return Err(refused(error));
            }
        };
        let running = child.release()?;
        let socket = self.environment().into_iter().find(|(name, _)| name == SOCKET_VARIABLE);
        let socket = socket.map_or_else(PathBuf::new, |(_, path)| path.into());
        injector.inject(AGENT, &socket).map_err(|error| {
            running.kill();
            refused(error)
        })?;
        Ok(running)
    }

    /// What is new.
    pub(crate) fn take(&self) -> Batch {
        self.collector.take()
    }

    /// Everything else.
    pub(crate) fn finish(self) -> Outcome {
        self.collector.finish()
    }
}

/// The file that the system would execute.
fn find(command: &Command) -> Option<PathBuf> {
    let program = Path::new(&command.program);
    let in_folder = |path: &Path| match &command.folder {
        Some(folder) => folder.join(path),
        None => path.to_owned(),
    };
    if command.program.as_encoded_bytes().contains(&b'/') {
        return Some(in_folder(program));
    }
    let set = command.env.iter().rev().find(|(name, _)| name == OsStr::new("PATH"));
    let path = set.map(|(_, value)| value.clone()).or_else(|| std::env::var_os("PATH"))?;
    std::env::split_paths(&path).map(|folder| in_folder(&folder.join(program))).find(|path| path.is_file())
}
