//! Exports the text of `perf script`, which many tools read: one paragraph per sample.
//!
//! ```text
//! app 100/101 1.500000000:    1000000 cpu-time:
//!             1f3a app::parse (/home/me/app)
//!             1f3a app::run (inlined)
//!             20b4 main (/home/me/app)
//! ```
//! Frames are innermost first. An inlined function precedes the one it is inlined into.

use std::io::{self, Write};
use whyslow_profile::SpecialFrame;

use super::places::{module_of, places};
use super::{Export, LeftOut, one_line};

/// Writes the samples. Returns what the format cannot hold.
pub fn write_perf_script(export: &Export<'_>, out: &mut dyn Write) -> io::Result<Vec<LeftOut>> {
    let profile = export.profile;
    let event = one_line(export.metric_name()).replace([' ', ':'], "-");
    // The text of each stack's own location, built once.
    let mut texts: Vec<Option<Box<str>>> = vec![None; profile.locations.len()];
    let samples = &export.samples;
    for row in 0..samples.len() {
        let thread = &profile.threads[samples.thread[row].index()];
        let process = &profile.processes[thread.process.index()];
        let time = samples.time_ns[row];
        let name = one_line(profile.text(thread.name));
        let name = if name.trim().is_empty() { SpecialFrame::NoName.text().into() } else { name };
        writeln!(
            out,
            "{} {}/{} {}.{:09}: {:>10} {event}:",
            name.trim(),
            process.pid,
            thread.tid,
            time / 1_000_000_000,
            time % 1_000_000_000,
            samples.value[row]
        )?;
        for location in profile.locations_of(samples.stack[row]) {
            let text = texts[location.index()].get_or_insert_with(|| lines(export, location).into());
            out.write_all(text.as_bytes())?;
        }
        writeln!(out)?;
    }
    let others = export.left_out(&[LeftOut::Lines, LeftOut::Spans, LeftOut::Counters, LeftOut::Code]);
    Ok(export.other_metrics().into_iter().chain(others).collect())
}

/// The lines of one location, innermost frame first.
fn lines(export: &Export<'_>, location: whyslow_profile::LocationId) -> String {
    let profile = export.profile;
    let address = profile.locations.address[location.index()].0;
    let module = module_of(profile, location).map(|id| profile.text(profile.modules[id.index()].path));
    let module = module_word(module.unwrap_or(SpecialFrame::Unknown.text()));
    let mut text = String::new();
    for place in places(profile, location, export.inline).iter().rev() {
        let name = one_line(&place.name);
        let name = if name.trim().is_empty() { SpecialFrame::NoName.text() } else { name.trim() };
        let dso = if place.depth > 0 { "inlined" } else { &module };
        text.push_str(&format!("\t{address:16x} {name} ({dso})\n"));
    }
    text
}

/// A module as one word: readers use the text after the last space, and ignore a frame without a module.
fn module_word(path: &str) -> String {
    let path = path.trim().trim_end_matches(" (deleted)");
    if path.is_empty() || SpecialFrame::NoName.is_named(path) {
        return SpecialFrame::Unknown.text().to_owned();
    }
    path.replace(|c: char| c.is_control() || c.is_whitespace(), "_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_analyze::{Selection, testing};

    #[test]
    fn a_sample_is_a_paragraph() {
        let profile = testing::profile("main;a;+b 1\nwork er: [truncated];[libfoo.so] 1");
        let selection = Selection::default();
        let mut out = Vec::new();
        let notes = write_perf_script(&Export::new(&profile, &selection, true), &mut out).expect("memory");
        assert_eq!(notes, []);
        assert_eq!(
            String::from_utf8(out).expect("UTF-8"),
            "main 100/100 0.000000000:    1000000 cpu-time:\n\
             \t            1020 b (inlined)\n\
             \t            1020 a (/home/me/app)\n\
             \t            1010 main (/home/me/app)\n\
             \n\
             work er 100/101 0.001000000:    1000000 cpu-time:\n\
             \t            1030 [libfoo.so] (/usr/lib/libfoo.so)\n\
             \t               0 [truncated stack] ([unknown])\n\
             \n"
        );
    }

    #[test]
    fn a_module_is_one_word() {
        for (path, word) in [
            ("", "[unknown]"),
            ("[no name]", "[unknown]"),
            ("/tmp/my app", "/tmp/my_app"),
            ("/tmp/x (deleted)", "/tmp/x"),
            ("a\nb\u{2028}c", "a_b_c"),
            ("[kernel]", "[kernel]"),
        ] {
            assert_eq!(module_word(path), word);
        }
        let mut profile = testing::profile("main;a 1");
        profile.modules[0].path = profile.strings.push("[no name]");
        let mut out = Vec::new();
        write_perf_script(&Export::new(&profile, &Selection::default(), true), &mut out).expect("memory");
        let text = String::from_utf8(out).expect("UTF-8");
        assert!(
            text.lines().filter(|line| line.starts_with('\t')).all(|line| line.ends_with(" ([unknown])")),
            "{text}"
        );
    }
}
