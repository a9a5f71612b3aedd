//! The views of a profile, one file each, and the list of them.

mod callers;
mod critical_path;
mod functions;
mod groups;
mod heap;
mod leaks;
mod lines;
mod locks;
mod parallelism;
mod quality;
mod spans;
mod syscalls;
mod tasks;
mod threads;
mod tree;
mod waits;

use whyslow_analyze::{Quality, wait_metric};
use whyslow_profile::Profile;
use whyslow_render::json::Context;
use whyslow_render::text::Page;

use super::ReportArgs;
use super::request::Request;
use crate::failure::{Failure, Result};

pub(super) use functions::VIEW as FUNCTIONS;
pub(super) use heap::VIEW as HEAP;

/// All views, in the order of the help.
pub(super) const ALL: [&View; 17] = [
    &functions::VIEW,
    &tree::VIEW,
    &callers::VIEW,
    &lines::VIEW,
    &threads::VIEW,
    &groups::MODULES,
    &groups::CRATES,
    &spans::VIEW,
    &waits::VIEW,
    &locks::VIEW,
    &critical_path::VIEW,
    &tasks::VIEW,
    &parallelism::VIEW,
    &syscalls::VIEW,
    &heap::VIEW,
    &leaks::VIEW,
    &quality::VIEW,
];

/// A view of a profile.
pub(super) struct View {
    /// Its name on the command line.
    pub(super) name: &'static str,
    /// What to type, and what it shows. Empty for a view that shares the line of the one before.
    pub(super) help: &'static [(&'static str, &'static str)],
    /// Whether it takes a function.
    pub(super) function: Needs,
    /// Whether its text says how far to trust the profile. Otherwise that is printed above it.
    pub(super) states_quality: bool,
    /// Whether it consists of samples, so that filters which no sample passes are an error. Other views have
    /// their own data: waits, calls, threads.
    pub(super) of_samples: bool,
    /// Whether it shows waits, whatever metric is requested.
    pub(super) of_waits: bool,
    /// Why it cannot be shown, if so.
    pub(super) refusal: fn(&ReportArgs, &Profile) -> Option<Failure>,
    pub(super) text: fn(&Request<'_>, &Quality, Page) -> Result<String>,
    pub(super) json: fn(&Request<'_>, &Context<'_>) -> Result<String>,
}

impl View {
    /// The metric that it shows.
    pub(super) fn metric(&self, request: &Request<'_>) -> usize {
        let waits = self.of_waits.then(|| wait_metric(request.profile)).flatten();
        waits.unwrap_or(request.selection.metric)
    }
}

/// Whether a view takes the name of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    MaybeOne,
    One,
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// For views that work for every profile.
const fn never(_: &ReportArgs, _: &Profile) -> Option<Failure> {
    None
}

/// The section of the help that lists the views.
pub(super) fn help() -> String {
    let mut text = String::from("Views:\n");
    for (typed, shown) in ALL.iter().flat_map(|view| view.help) {
        text.push_str(&format!("  {typed:<16}  {shown}\n"));
    }
    text
}
