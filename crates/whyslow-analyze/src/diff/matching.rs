//! Matches the functions and lines of two profiles when the program was rebuilt in between.
//!
//! Addresses, hashes and line numbers change with every build. Matching first uses everything, then drops
//! step by step what may have changed: the text of the line, its distance from the start of its function, the
//! module, the folder, the file.

use std::borrow::Cow;
use std::collections::VecDeque;

use rustc_hash::FxHashMap;

/// The identity of a function or a line in one profile.
#[derive(Debug, Default, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Item<'p> {
    /// The function's name, demangled and without hashes.
    pub name: Cow<'p, str>,
    /// The file.
    pub file: Option<&'p str>,
    /// The last part of the module's path.
    pub module: Option<&'p str>,
    /// The line, counted from the start of its function if that is known.
    pub line: u32,
    /// The source text of the line.
    pub text: Option<&'p str>,
    /// For your code: the name without that of its crate, which differs between two programs.
    pub path: Option<String>,
}

impl Item<'_> {
    /// The last part of the file's path.
    pub(super) fn file_name(&self) -> Option<&str> {
        self.file?.rsplit('/').next()
    }
}

/// A function's name with `crate` in place of its crate: `<crate::Set as core::fmt::Display>::fmt`.
pub(super) fn path_of(name: &str, crate_name: &str) -> Option<String> {
    let mut path = String::with_capacity(name.len());
    let (mut rest, mut found) = (name, false);
    while let Some(at) = rest.find(crate_name) {
        let (before, after) = (&rest[..at], &rest[at + crate_name.len()..]);
        let starts = !path
            .chars()
            .chain(before.chars())
            .next_back()
            .is_some_and(|last| last.is_alphanumeric() || "_:".contains(last));
        let is_crate = starts && after.starts_with("::");
        path.push_str(before);
        path.push_str(if is_crate { "crate" } else { crate_name });
        (rest, found) = (after, found || is_crate);
    }
    path.push_str(rest);
    found.then_some(path)
}

/// Rows of both sides that belong together.
pub(super) type Pair = (Option<usize>, Option<usize>);

#[derive(PartialEq, Eq, Hash)]
struct Key<'i> {
    name: &'i str,
    file: Option<&'i str>,
    module: Option<&'i str>,
    line: Option<u32>,
    text: Option<&'i str>,
}

type Step = for<'i> fn(&'i Item<'_>) -> Option<Key<'i>>;

/// From the most to the least reliable. `None` leaves a row to later steps.
const STEPS: [Step; 6] = [
    |item| Some(Key { line: Some(item.line), ..with_text(item)? }),
    |item| with_text(item),
    |item| Some(Key { line: Some(item.line), ..in_place(item) }),
    |item| Some(in_place(item)),
    |item| Some(Key { line: Some(item.line), ..in_file_of_that_name(item)? }),
    |item| in_file_of_that_name(item),
];

fn in_place<'i>(item: &'i Item<'_>) -> Key<'i> {
    Key { name: &item.name, file: item.file, module: item.module, line: None, text: None }
}

fn with_text<'i>(item: &'i Item<'_>) -> Option<Key<'i>> {
    Some(Key { text: Some(item.text?), ..in_place(item) })
}

fn in_file_of_that_name<'i>(item: &'i Item<'_>) -> Option<Key<'i>> {
    Some(Key { file: Some(item.file_name()?), module: None, ..in_place(item) })
}

fn by_name<'i>(item: &'i Item<'_>) -> Key<'i> {
    Key { file: None, module: None, ..in_place(item) }
}

/// Pairs the rows of two profiles; each row is in one pair. Rows with equal keys are paired in line order.
pub(super) fn pair<'i>(before: &'i [Item<'_>], after: &'i [Item<'_>]) -> Vec<Pair> {
    let mut left = [in_order(before), in_order(after)];
    let mut pairs = Vec::with_capacity(before.len().max(after.len()));
    for step in STEPS {
        join(before, after, &mut left, &mut pairs, step);
    }
    // The name alone is enough if all its remaining rows are in one file on each side: the file was renamed.
    let files = [files_of(before, &left[0]), files_of(after, &left[1])];
    let renamed =
        |item: &Item<'_>| files.iter().all(|files| files.get(&*item.name).is_some_and(Option::is_some));
    let renamed_steps: [Step; 3] = [
        |item| Some(Key { text: Some(item.text?), ..by_name(item) }),
        |item| Some(Key { line: Some(item.line), ..by_name(item) }),
        |item| Some(by_name(item)),
    ];
    for step in renamed_steps {
        join(before, after, &mut left, &mut pairs, |item| renamed(item).then(|| step(item)).flatten());
    }
    // Two programs have functions of the same path in their own crates.
    let paths = [paths_of(before, &left[0]), paths_of(after, &left[1])];
    let is_once = |path: &str| paths.iter().all(|paths| paths.get(path) == Some(&1));
    let of_crate = |item: &'i Item<'_>| Some(Key { name: item.path.as_deref()?, ..by_name(item) });
    join(before, after, &mut left, &mut pairs, |item| {
        Some(Key { file: Some(item.file_name()?), line: Some(item.line), ..of_crate(item)? })
    });
    join(before, after, &mut left, &mut pairs, |item| {
        Some(Key { file: Some(item.file_name()?), ..of_crate(item)? })
    });
    join(before, after, &mut left, &mut pairs, |item| of_crate(item).filter(|key| is_once(key.name)));
    let [gone, new] = left;
    pairs.extend(gone.into_iter().map(|row| (Some(row), None)));
    pairs.extend(new.into_iter().map(|row| (None, Some(row))));
    pairs
}

/// How many rows each path has.
fn paths_of<'i>(items: &'i [Item<'_>], left: &[usize]) -> FxHashMap<&'i str, usize> {
    let mut paths = FxHashMap::default();
    for path in left.iter().filter_map(|&row| items[row].path.as_deref()) {
        *paths.entry(path).or_default() += 1;
    }
    paths
}

/// The file and module of each name; `None` if there are several.
fn files_of<'i>(items: &'i [Item<'_>], left: &[usize]) -> FxHashMap<&'i str, Option<[Option<&'i str>; 2]>> {
    let mut files = FxHashMap::default();
    for item in left.iter().map(|&row| &items[row]) {
        let file = [item.file, item.module];
        let known = files.entry(&*item.name).or_insert(Some(file));
        if *known != Some(file) {
            *known = None;
        }
    }
    files
}

fn in_order(items: &[Item<'_>]) -> Vec<usize> {
    let mut rows = (0..items.len()).collect::<Vec<_>>();
    rows.sort_by(|&a, &b| {
        (&items[a].name, items[a].line, &items[a]).cmp(&(&items[b].name, items[b].line, &items[b]))
    });
    rows
}

/// Pairs the remaining rows with equal keys.
fn join<'i>(
    before: &'i [Item<'_>],
    after: &'i [Item<'_>],
    [first, second]: &mut [Vec<usize>; 2],
    pairs: &mut Vec<Pair>,
    key: impl Fn(&'i Item<'_>) -> Option<Key<'i>>,
) {
    let mut waiting: FxHashMap<Key<'i>, VecDeque<usize>> = FxHashMap::default();
    for &row in &*first {
        if let Some(key) = key(&before[row]) {
            waiting.entry(key).or_default().push_back(row);
        }
    }
    let mut taken = vec![false; before.len()];
    second.retain(|&row| {
        let found = key(&after[row]).and_then(|key| waiting.get_mut(&key)?.pop_front());
        if let Some(found) = found {
            taken[found] = true;
            pairs.push((Some(found), Some(row)));
        }
        found.is_none()
    });
    first.retain(|&row| !taken[row]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `name file:line text`, with the module `app`.
    fn items(text: &'static str) -> Vec<Item<'static>> {
        let item = |line: &'static str| {
            let mut words = line.splitn(3, ' ');
            let name = words.next().unwrap().into();
            let place = words.next().and_then(|place| place.split_once(':'));
            let line = place.map_or(0, |(_, line)| line.parse().unwrap());
            let file = place.map(|(file, _)| file);
            Item { name, file, module: Some("app"), line, text: words.next(), path: None }
        };
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(item).collect()
    }

    /// Pairs as `line→line`.
    fn paired(before: &'static str, after: &'static str) -> Vec<String> {
        let (before, after) = (items(before), items(after));
        let line = |items: &[Item<'_>], row: Option<usize>| {
            row.map_or("-".to_owned(), |row| format!("{}:{}", items[row].name, items[row].line))
        };
        let mut pairs = pair(&before, &after)
            .into_iter()
            .map(|(a, b)| format!("{} {}", line(&before, a), line(&after, b)))
            .collect::<Vec<_>>();
        pairs.sort();
        pairs
    }

    #[test]
    fn matches_a_line_that_moved() {
        assert_eq!(paired("f a.rs:10", "f a.rs:14"), ["f:10 f:14"]);
        assert_eq!(paired("f a.rs:10", "g a.rs:10"), ["- g:10", "f:10 -"]);
    }

    #[test]
    fn pairs_equal_lines_first_and_the_rest_in_order() {
        assert_eq!(
            paired("f a.rs:10\nf a.rs:20\nf a.rs:30", "f a.rs:35\nf a.rs:25\nf a.rs:10\nf a.rs:40"),
            ["- f:40", "f:10 f:10", "f:20 f:25", "f:30 f:35"]
        );
    }

    #[test]
    fn source_text_wins_over_the_line_number() {
        let before = "f a.rs:10 v.push(1)\nf a.rs:20 Vec::new()\nf a.rs:30 w.push(2)";
        let after = "f a.rs:20 v.push(1)\nf a.rs:30 Vec::new()\nf a.rs:40 w.push(3)";
        assert_eq!(paired(before, after), ["f:10 f:20", "f:20 f:30", "f:30 f:40"]);
    }

    #[test]
    fn matches_another_checkout_of_the_same_code() {
        assert_eq!(paired("f /old/src/a.rs:10", "f /new/src/a.rs:12"), ["f:10 f:12"]);
        assert_eq!(
            paired("f src/a.rs:1\nf src/b.rs:2", "f new/b.rs:1\nf new/a.rs:2"),
            ["f:1 f:2", "f:2 f:1"]
        );
    }

    #[test]
    fn matches_a_unique_name_in_a_renamed_file() {
        assert_eq!(paired("f a.rs:1", "f b.rs:9"), ["f:1 f:9"]);
        assert_eq!(paired("f a.rs:1\nf a.rs:3 x()", "f b.rs:9\nf b.rs:5 x()"), ["f:1 f:9", "f:3 f:5"]);
        assert_eq!(paired("f a.rs:1", "f b.rs:2\nf c.rs:3"), ["- f:2", "- f:3", "f:1 -"]);
    }

    #[test]
    fn functions_of_two_crates_match_by_their_path() {
        let items = |crate_name: &str, names: &[&str]| {
            let item = |name: &&str| {
                let name = name.replace("app", crate_name);
                let path = path_of(&name, crate_name);
                Item { name: name.into(), path, ..Item::default() }
            };
            names.iter().map(item).collect::<Vec<_>>()
        };
        let names = ["app::parse", "<app::Set as core::fmt::Display>::fmt", "app::only_old"];
        let (before, after) = (items("old", &names), items("new_one", &names[..2]));
        assert_eq!(pair(&before, &after), [(Some(1), Some(1)), (Some(0), Some(0)), (Some(2), None)]);
        assert_eq!(path_of("app::f::app::g", "app").as_deref(), Some("crate::f::app::g"));
        assert_eq!(path_of("happ::f", "app"), None);
        assert_eq!(path_of("std::f", "app"), None);
    }

    #[test]
    fn each_row_is_in_one_pair() {
        let (before, after) = (items("f a.rs:1\nf a.rs:1\ng"), items("f a.rs:1\nh\ng"));
        let pairs = pair(&before, &after);
        let mut rows = pairs.iter().filter_map(|pair| pair.0).collect::<Vec<_>>();
        rows.sort_unstable();
        assert_eq!(rows, [0, 1, 2]);
        assert_eq!(pairs.len(), 4);
    }
}
