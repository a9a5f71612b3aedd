//! The critical path as text.

use whyslow_analyze::{CriticalPath, Did, PathStep, Percent};
use whyslow_profile::{Profile, ThreadId};

use super::layout::{
    BOLD, DIM, PLAIN, Page, columns, label_name, left, number_of, place, push_line, push_wrapped, right,
    styled,
};
use super::locks::thread_name;
use crate::sanitize::clean;
use crate::units::duration;

const SHARE: usize = 8;
const NUMBER: usize = 10;
const WHAT: usize = 13;
/// Maximum number of stretches shown, and the minimum share of each.
const STRETCHES: usize = 20;
const LEAST: f64 = 0.005;

/// Renders the lines of code on the path, at most `limit`, and the threads that it runs through.
pub fn critical_path(path: &CriticalPath, profile: &Profile, limit: usize, page: Page) -> String {
    let mut out = String::new();
    let share = |part: u64| Percent(part as f64 / path.total_ns.max(1) as f64);
    let waited = path.total_ns.saturating_sub(path.ran_ns);
    let intro = format!(
        "the critical path takes {}: threads ran {} ({}) and waited {}; only changes on this path make the run shorter",
        duration(path.total_ns),
        duration(path.ran_ns),
        share(path.ran_ns),
        duration(waited)
    );
    push_wrapped(&mut out, PLAIN, &intro, page.width);
    if path.unknown_ns > 0 {
        let text = format!(
            "the waker is unknown for {} of waits, so the path may be wrong there: run `whyslow record --wakers` as root",
            duration(path.unknown_ns)
        );
        push_wrapped(&mut out, DIM, &text, page.width);
    }
    if path.rows.is_empty() {
        return out;
    }
    out.push('\n');
    let shown = &path.rows[..path.rows.len().min(limit)];
    let threads: Vec<String> = shown.iter().map(|row| thread_name(profile, row.thread)).collect();
    let thread_column = threads.iter().map(|name| columns(name)).max().unwrap_or(0).clamp(6, 28);
    let rest = page.width.saturating_sub(SHARE + NUMBER + WHAT + thread_column + 6);
    let header = format!(
        "{}{}  {}{}  function",
        right("share", SHARE),
        right("time", NUMBER),
        left("state", WHAT),
        left("thread", thread_column)
    );
    push_line(&mut out, &styled(BOLD, header));
    for (row, thread) in shown.iter().zip(&threads) {
        let function = match row.site {
            Some(site) => {
                let name = page.fit(&label_name(profile, site.label), rest * 3 / 5);
                let place = site.file.map(|file| place(&clean(profile.text(file)), site.line, rest * 2 / 5));
                place.map_or(name.clone(), |place| format!("{name}  {place}"))
            }
            None if row.did == Did::Ran => "(no sample)".to_owned(),
            None => "(other threads had the CPUs)".to_owned(),
        };
        let line = format!(
            "{}{}  {}{}  {function}",
            right(&share(row.total_ns).to_string(), SHARE),
            right(&duration(row.total_ns), NUMBER),
            left(word(row.did), WHAT),
            left(&page.fit(thread, thread_column), thread_column)
        );
        push_line(&mut out, line.trim_end());
    }
    if path.rows.len() > limit {
        let more = number_of((path.rows.len() - limit) as u64, "more line", "more lines");
        push_line(&mut out, &styled(DIM, format!("and {more}")));
    }
    push_way(&mut out, path, profile);
    out
}

/// The word for a thread's state on the path.
fn word(did: Did) -> &'static str {
    match did {
        Did::Ran => "ran",
        Did::Waited(reason) => reason.word(),
    }
}

/// A part of the path on one thread.
struct Stretch {
    thread: ThreadId,
    start_ns: u64,
    end_ns: u64,
    ran_ns: u64,
}

fn push_way(out: &mut String, path: &CriticalPath, profile: &Profile) {
    let mut stretches: Vec<Stretch> = Vec::new();
    for &PathStep { thread, did, start_ns, end_ns, .. } in &path.steps {
        let ran_ns = if did == Did::Ran { end_ns - start_ns } else { 0 };
        match stretches.last_mut() {
            Some(last) if last.thread == thread => {
                last.end_ns = end_ns;
                last.ran_ns += ran_ns;
            }
            _ => stretches.push(Stretch { thread, start_ns, end_ns, ran_ns }),
        }
    }
    if stretches.len() < 2 {
        return;
    }
    let least = (path.total_ns as f64 * LEAST) as u64;
    let all = stretches.len();
    stretches.retain(|stretch| stretch.end_ns - stretch.start_ns >= least);
    stretches.truncate(STRETCHES);
    out.push('\n');
    push_line(out, &styled(BOLD, "the path in order of time"));
    for stretch in &stretches {
        let length = stretch.end_ns - stretch.start_ns;
        let waited = length.saturating_sub(stretch.ran_ns);
        let line = format!(
            "{}  {}  {}: ran {}, waited {}",
            right(&format!("at {}", duration(stretch.start_ns)), NUMBER + 3),
            right(&duration(length), NUMBER),
            thread_name(profile, stretch.thread),
            duration(stretch.ran_ns),
            duration(waited)
        );
        push_line(out, &line);
    }
    if all > stretches.len() {
        let more = number_of(
            (all - stretches.len()) as u64,
            "shorter or later stretch",
            "shorter or later stretches",
        );
        push_line(out, &styled(DIM, format!("and {more}")));
    }
}
