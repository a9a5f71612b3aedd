//! Exports folded stacks: one line per distinct stack, for flame graph scripts and many viewers.
//!
//! ```text
//! main;parse;read 1500000
//! ```
//! Frames are outermost first, joined by `;`. A space and the value follow: the sum of the samples'
//! values in the metric's own unit (nanoseconds for CPU time, not a count of samples), so that nothing is rounded and
//! the values of all lines add up to the profile's total.

use std::collections::BTreeMap;
use std::io;

use whyslow_analyze::{CallTree, Selection, TreeOptions};
use whyslow_profile::{Profile, Samples, SpecialFrame};

/// What precedes the outermost frame of each stack.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum FoldedRoot {
    /// Nothing: stacks of all threads are merged.
    #[default]
    None,
    /// The process's name. Processes of the same name are merged.
    Process,
    /// The thread's name. Threads of the same name, such as those of a pool, are merged.
    Thread,
}

/// How to fold stacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoldedOptions {
    /// What precedes the outermost frame.
    pub root: FoldedRoot,
    /// Whether inlined functions have their own frames.
    pub inline: bool,
    /// Whether inlined frames end in `_[i]`.
    pub mark_inlined: bool,
}

impl Default for FoldedOptions {
    fn default() -> Self {
        Self { root: FoldedRoot::None, inline: true, mark_inlined: false }
    }
}

/// Writes the selected samples as folded stacks, heavier branches first.
///
/// In names, `;` becomes `:` and control characters become spaces: the format has no way to quote them.
pub fn write_folded(
    profile: &Profile,
    selection: &Selection,
    options: &FoldedOptions,
    out: &mut impl io::Write,
) -> io::Result<()> {
    if options.root == FoldedRoot::None {
        return write_tree(profile, selection, options, "", out);
    }
    // One tree per name, each over a copy that holds only that name's samples.
    let mut groups: BTreeMap<String, Samples> = BTreeMap::new();
    let Some(samples) = profile.samples.get(selection.metric.index()) else { return Ok(()) };
    for row in 0..samples.len() {
        let id = samples.thread[row];
        let thread = &profile.threads[id.index()];
        let name = match options.root {
            FoldedRoot::Process => profile.processes[thread.process.index()].name,
            FoldedRoot::None | FoldedRoot::Thread => thread.name,
        };
        let name = profile.text(name);
        if !groups.contains_key(name) {
            groups.insert(name.to_owned(), Samples::default());
        }
        if let Some(group) = groups.get_mut(name) {
            group.push(samples.time_ns[row], id, samples.stack[row], samples.value[row]);
        }
    }
    let mut part = profile.clone();
    for (name, samples) in groups {
        part.samples[selection.metric.index()] = samples;
        let mut root = String::new();
        push_name(&mut root, &name);
        write_tree(&part, selection, options, &root, out)?;
    }
    Ok(())
}

fn write_tree(
    profile: &Profile,
    selection: &Selection,
    options: &FoldedOptions,
    root: &str,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let tree_options = TreeOptions { inline: options.inline, ..TreeOptions::default() };
    let tree = CallTree::build(profile, selection, &tree_options);
    let children = tree.children();
    let mut path = root.to_owned();
    // Nodes still to visit, each with the length of its caller's path. No recursion: recorded stacks can be
    // deeper than this thread's stack allows.
    let mut pending: Vec<(u32, usize)> =
        children.of(0).iter().rev().map(|&node| (node, path.len())).collect();
    while let Some((node, caller)) = pending.pop() {
        let at = node as usize;
        path.truncate(caller);
        if !path.is_empty() {
            path.push(';');
        }
        push_name(&mut path, &CallTree::name(profile, tree.label[at]));
        if options.mark_inlined && tree.inlined[at] {
            path.push_str("_[i]");
        }
        if tree.self_value[at] > 0 {
            writeln!(out, "{path} {}", tree.self_value[at])?;
        }
        pending.extend(children.of(node).iter().rev().map(|&child| (child, path.len())));
    }
    Ok(())
}

/// Appends a name as one frame.
fn push_name(path: &mut String, name: &str) {
    if name.trim().is_empty() {
        path.push_str(SpecialFrame::NoName.text());
        return;
    }
    path.extend(name.chars().map(|c| match c {
        ';' => ':',
        c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => ' ',
        c => c,
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use whyslow_analyze::testing;

    fn folded(profile: &Profile, options: &FoldedOptions) -> String {
        let mut out = Vec::new();
        write_folded(profile, &Selection::default(), options, &mut out).expect("memory takes it");
        String::from_utf8(out).expect("UTF-8")
    }

    const STACKS: &str = "
        main;a;b 10
        main;a 5
        worker: main;c;+d;b 20
        [truncated];b 1
        [libfoo.so] 2";

    #[test]
    fn stacks_are_written_from_the_root_with_values_in_nanoseconds() {
        assert_eq!(
            folded(&testing::profile(STACKS), &FoldedOptions::default()),
            "main;c;d;b 20000000\n\
             main;a 5000000\n\
             main;a;b 10000000\n\
             [libfoo.so] 2000000\n\
             [truncated stack];b 1000000\n"
        );
    }

    #[test]
    fn threads_and_inlining_are_shown_on_request() {
        let profile = testing::profile(STACKS);
        let options = FoldedOptions { root: FoldedRoot::Thread, mark_inlined: true, inline: true };
        assert_eq!(
            folded(&profile, &options),
            "main;main;a 5000000\n\
             main;main;a;b 10000000\n\
             main;[libfoo.so] 2000000\n\
             main;[truncated stack];b 1000000\n\
             worker;main;c;d_[i];b 20000000\n"
        );
        let options = FoldedOptions { root: FoldedRoot::Process, inline: false, ..FoldedOptions::default() };
        assert!(folded(&profile, &options).starts_with("app;main;c;b 20000000\n"));
    }

    #[test]
    fn names_cannot_break_lines_or_frames() {
        let mut path = String::new();
        push_name(&mut path, "f<[u8; 4]>\n;\u{2028}x\0");
        assert_eq!(path, "f<[u8: 4]> : x ");
        path.clear();
        push_name(&mut path, "");
        assert_eq!(path, "[no name]");
    }

    #[test]
    fn ten_thousand_frames_need_little_stack_of_our_own() {
        let write = || {
            let deep = format!("{} 1", vec!["f"; 10_000].join(";"));
            let text = folded(&testing::profile(&deep), &FoldedOptions::default());
            assert_eq!(text.matches(';').count(), 9_999);
        };
        std::thread::Builder::new()
            .stack_size(256 << 10)
            .spawn(write)
            .expect("a thread")
            .join()
            .expect("no overflow");
    }

    proptest! {
        #[test]
        fn values_add_up_to_the_total(
            stacks in prop::collection::vec((prop::collection::vec(0usize..6, 1..8), 0usize..3, 1u64..20), 1..30),
            root in prop::sample::select(vec![FoldedRoot::None, FoldedRoot::Process, FoldedRoot::Thread]),
            inline: bool,
        ) {
            let names = ["main", "std::f", "+g", "h", "[unknown]", "k<a b>"];
            let mut text = String::new();
            for (frames, thread, count) in &stacks {
                let frames: Vec<&str> = frames.iter().map(|&frame| names[frame]).collect();
                text.push_str(&format!("t{thread}: main;{} {count}\n", frames.join(";")));
            }
            let profile = testing::profile(&text);
            let lines = folded(&profile, &FoldedOptions { root, inline, mark_inlined: false });
            let mut sum = 0;
            for line in lines.lines() {
                let (frames, value) = line.rsplit_once(' ').expect("a value");
                prop_assert!(frames.split(';').all(|frame| !frame.is_empty()));
                sum += value.parse::<u64>().expect("a number");
            }
            prop_assert_eq!(sum, profile.samples[0].value.iter().sum::<u64>());
        }
    }
}
