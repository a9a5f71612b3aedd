//! A command to compare: its words, and how it is started.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use whyslow_bench::contender::filled;
use whyslow_bench::words::{WordsError, split};
use whyslow_bench::{Contender, Parameter};
use whyslow_capture::Command;

use crate::failure::{Failure, Result};

/// A command to compare, ready to start.
#[derive(Debug, Clone)]
pub(crate) struct Runnable {
    pub(crate) contender: Contender,
    pub(crate) words: Vec<String>,
    pub(crate) folder: Option<PathBuf>,
    /// The parameters for its hooks.
    pub(crate) parameters: Vec<Parameter>,
    /// The index of its command on the command line.
    pub(crate) given: usize,
}

impl Runnable {
    /// The command to start.
    pub(crate) fn command(&self) -> Command {
        let mut words = self.words.iter().map(OsString::from);
        Command {
            program: words.next().unwrap_or_default(),
            args: words.collect(),
            folder: self.folder.clone(),
            ..Command::default()
        }
    }

    /// The same command in a folder. A program with a relative path is that of the folder.
    pub(crate) fn inside(mut self, folder: &Path) -> Self {
        let program = Path::new(&self.words[0]);
        if program.is_relative() && program.components().count() > 1 {
            self.words[0] = folder.join(program).to_string_lossy().into_owned();
        }
        self.folder = Some(folder.to_owned());
        self
    }
}

/// The words of a command, or the shell that runs it.
pub(crate) fn words(command: &str, shell: Option<&str>) -> Result<Vec<String>> {
    if let Some(shell) = shell {
        let mut words = split(shell).map_err(|error| Failure::new(format!("--shell: {error}")))?;
        words.extend(["-c".to_owned(), command.to_owned()]);
        return Ok(words);
    }
    split(command).map_err(|error| {
        let failure = Failure::new(error.to_string());
        match error {
            WordsError::Shell { .. } => failure.next("--shell, or quotes if it is part of an argument"),
            WordsError::Open(_) => failure.next("closing the quote"),
            WordsError::Empty => failure.next("whyslow bench './old input' './new input'"),
        }
    })
}

/// A hook for a command, with its parameters filled in.
pub(super) fn hook(hooks: &[String], runnable: &Runnable) -> Option<String> {
    let hook = hooks.get(if hooks.len() == 1 { 0 } else { runnable.given })?;
    Some(filled(hook, &runnable.parameters))
}
