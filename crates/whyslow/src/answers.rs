//! Answers after a recording, for stderr, and answers as JSON.

use std::path::Path;
use std::time::Duration;

use whyslow_analyze::Quality;
use whyslow_answers::views::{self, View};
use whyslow_answers::{Answer, Body, Detail, Query, Refusal};
use whyslow_profile::Profile;
use whyslow_render::json;
use whyslow_render::text::{self, Page};

use crate::cli::Format;
use crate::failure::{Failure, Result};
use crate::recording::Shown;
use crate::{allowed, refusals, shell, terminal};

/// Rows of each list of an answer in JSON; the file has all.
const JSON_ROWS: usize = 20;

/// Everything that was recorded, in one view. The file is where it was saved.
fn whole(view: &'static View, profile: &Profile, saved: Option<&Path>) -> Query {
    Query { file: saved.map(shell::file), ..Query::whole(view, Detail::Screen, profile) }
}

/// The answer as text, or why there is none.
fn text(query: &Query, profile: &Profile) -> std::result::Result<String, Refusal> {
    let width = terminal::width(std::io::stderr());
    query.answer(profile).map(|answer| text::answer(&answer, width, false))
}

/// The one-screen answer.
pub(crate) fn summary(profile: &Profile, saved: Option<&Path>, shown: Shown) -> Result<String> {
    // A whyslow.toml that cannot be read is an error of `explain`, not of a recording.
    let allowed = allowed::read(None, profile).unwrap_or_default();
    let query = Query { ranking: shown.ranking, allowed, ..whole(&views::SUMMARY, profile, saved) };
    match shown.format {
        Format::Text => Ok(text(&query, profile).unwrap_or_else(|refusal| format!("{refusal}\n"))),
        Format::Json => {
            let query = Query { detail: Detail::Complete, ..query };
            let answer = query.answer(profile).map_err(|refusal| Failure::new(refusal.to_string()))?;
            json::answer(&answer).map_err(|error| Failure::new(format!("the answer as JSON: {error}")))
        }
    }
}

/// The answer after a recording of the heap.
pub(crate) fn heap(profile: &Profile, saved: Option<&Path>) -> String {
    text(&whole(&views::HEAP, profile, saved), profile).unwrap_or_else(|refusal| format!("{refusal}\n"))
}

/// The misses of simulated caches.
pub(crate) fn cache(profile: &Profile, saved: Option<&Path>, format: Format) -> Result<String> {
    of_view(&views::CACHE, profile, saved, format)
}

/// How often heap blocks are read and written.
pub(crate) fn accesses(profile: &Profile, saved: Option<&Path>, format: Format) -> Result<String> {
    of_view(&views::HEAP, profile, saved, format)
}

fn of_view(view: &'static View, profile: &Profile, saved: Option<&Path>, format: Format) -> Result<String> {
    let query = whole(view, profile, saved);
    match format {
        Format::Text => Ok(text(&query, profile).unwrap_or_else(|refusal| format!("no answer: {refusal}\n"))),
        Format::Json => {
            let query = Query { detail: Detail::Complete, limit: Some(JSON_ROWS), ..query };
            let answer = query.answer(profile).map_err(|refusal| Failure::new(refusal.to_string()))?;
            json::answer(&answer).map_err(|error| Failure::new(format!("the answer as JSON: {error}")))
        }
    }
}

/// What speeding code up would buy.
pub(crate) fn causal(profile: &Profile, saved: Option<&Path>, format: Format) -> Result<String> {
    let query = whole(&views::CAUSAL, profile, saved);
    match format {
        Format::Text => {
            let path = saved.unwrap_or(Path::new("FILE"));
            let mut text = text(&query, profile)
                .unwrap_or_else(|refusal| format!("no answer: {}\n", refusals::of(path, refusal)));
            if let Some(file) = query.file {
                text.push_str(&format!(
                    "\nsaved: {file}; next: whyslow report {file} causal   whyslow view {file}\n"
                ));
            }
            Ok(text)
        }
        Format::Json => {
            let query = Query { detail: Detail::Complete, ..query };
            let answer = query.answer(profile).map_err(|refusal| Failure::new(refusal.to_string()))?;
            json::answer(&answer).map_err(|error| Failure::new(format!("the answer as JSON: {error}")))
        }
    }
}

/// The locks that threads waited for.
pub(crate) fn locks(profile: &Profile, saved: Option<&Path>, shortest: Duration) -> String {
    /// This many fit a screen.
    const LOCKS: usize = 4;
    let shortest_wait_ns = shortest.as_nanos() as u64;
    let query = Query { limit: Some(LOCKS), shortest_wait_ns, ..whole(&views::LOCKS, profile, saved) };
    let Ok(mut text) = text(&query, profile) else {
        return format!("{}\nno waits were recorded, so no locks are known\n", verdict(profile));
    };
    if let Some(file) = query.file {
        text.push_str(&format!("\nsaved: {file}; next: whyslow report {file} locks   whyslow report {file} waits   whyslow view {file}\n"));
    }
    text
}

/// The most expensive system call, as a line, or why none was recorded. Empty if system calls were not requested.
pub(crate) fn costliest_syscall(profile: &Profile, saved: &Path) -> String {
    let query = whole(&views::SYSCALLS, profile, Some(saved));
    let line = match query.answer(profile).map(|answer| answer.body) {
        Ok(Body::Syscalls(table)) => text::costliest_syscall(&table, profile, query.file.as_deref()),
        Err(Refusal::NotRecorded { noted: Some(remark), .. }) => Some(text::remark_line(&remark)),
        _ => None,
    };
    line.map_or_else(String::new, |line| format!("{line}\n"))
}

/// How far to trust a recording.
pub(crate) fn verdict(profile: &Profile) -> String {
    let page = Page::new(profile, profile.main_metric(), terminal::width(std::io::stderr()));
    text::verdict_lines(&Quality::of(profile), page)
}

/// The functions of a profile as JSON, as `whyslow report FILE --format json` prints them.
pub(crate) fn functions_as_json(path: &Path, profile: &Profile) -> Result<String> {
    let query = Query::whole(&views::FUNCTIONS, Detail::Complete, profile);
    let answer = query.answer(profile).map_err(|refusal| refusals::of(path, refusal))?;
    as_json(path, &answer)
}

/// An answer as JSON.
pub(crate) fn as_json(path: &Path, answer: &Answer<'_>) -> Result<String> {
    json::answer(answer).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}
