//! The arrows of ARCHITECTURE.md: which crate never depends on which, directly or through others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What knows of Linux or of programs that run.
const LIVE: &[&str] = &["whyslow-capture", "whyslow-agent-host", "whyslow-heap", "whyslow-proc", "rustix"];
/// The same for what asks whyslow-symbols, which reads the kernel's list of functions.
const LIVE_BUT_PROC: &[&str] = &["whyslow-capture", "whyslow-agent-host", "whyslow-heap"];
/// Each row: a crate, and what it never depends on.
const NEVER: &[(&str, &[&[&str]])] = &[
    ("whyslow-words", &[OURS]),
    ("whyslow-names", &[OURS]),
    ("whyslow-stats", &[OURS]),
    ("whyslow-numbers", &[OURS]),
    ("whyslow-processor", &[OURS]),
    ("whyslow-agent-wire", &[OURS, &["libc", "rustix"]]),
    ("whyslow-agent", &[LIVE, &["whyslow-profile", "whyslow-inject"]]),
    ("whyslow-agent-host", &[&["whyslow-heap", "whyslow-capture", "whyslow-convert", "whyslow-unwind"]]),
    ("whyslow-heap", &[&["whyslow-capture", "whyslow-convert", "whyslow-unwind"]]),
    ("whyslow-unwind", &[LIVE]),
    ("whyslow-convert", &[&["whyslow-capture", "whyslow-agent-host", "whyslow-heap"]]),
    ("whyslow-profile", &[LIVE, &["libc", "whyslow-elf", "whyslow-convert", "whyslow-analyze"]]),
    ("whyslow-causal", &[LIVE, READERS, SHOWN, &["whyslow-analyze", "whyslow-answers", "whyslow-render"]]),
    ("whyslow-memcheck", &[LIVE, READERS, SHOWN, &["whyslow-analyze", "whyslow-answers", "whyslow-render"]]),
    ("whyslow-symbols", &[&["whyslow-capture", "whyslow-analyze"]]),
    ("whyslow-size", &[LIVE_BUT_PROC, &["whyslow-render", "whyslow-answers", "whyslow-explain"]]),
    ("whyslow-analyze", &[LIVE, READERS, &["whyslow-explain", "whyslow-render"]]),
    ("whyslow-explain", &[LIVE, READERS, &["whyslow-render"]]),
    ("whyslow-answers", &[LIVE, READERS, SHOWN, &["whyslow-render"]]),
    ("whyslow-render", &[LIVE, READERS]),
    ("whyslow-valgrind", &[&["whyslow-analyze", "whyslow-formats", "whyslow-render", "whyslow-symbols"]]),
    ("whyslow-formats", &[&["whyslow-capture", "whyslow-agent-host", "whyslow-heap", "whyslow-render"]]),
];
/// Arguments and terminals: what only a front end knows.
const SHOWN: &[&str] = &["clap", "anstyle", "anstream", "terminal_size"];
/// Every crate of ours.
const OURS: &[&str] = &["whyslow*"];
/// What reads the files of programs and of other tools.
const READERS: &[&str] = &["whyslow-elf", "whyslow-symbols", "whyslow-convert", "whyslow-formats"];

/// The crates that each crate of the workspace names in its manifest; tests may depend on anything.
fn named() -> BTreeMap<String, BTreeSet<String>> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let crates = std::fs::read_dir(root.join("crates")).expect("the folder of crates");
    crates.map(|folder| of_manifest(&folder.expect("a folder").path().join("Cargo.toml"))).collect()
}

fn of_manifest(path: &Path) -> (String, BTreeSet<String>) {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let manifest: toml::Table = toml::from_str(&text).unwrap_or_else(|error| panic!("{error}"));
    let sections = std::iter::once(&manifest).chain(
        manifest
            .get("target")
            .and_then(toml::Value::as_table)
            .into_iter()
            .flat_map(|targets| targets.values().filter_map(toml::Value::as_table)),
    );
    let mut dependencies = BTreeSet::new();
    for section in sections {
        for kind in ["dependencies", "build-dependencies"] {
            let table = section.get(kind).and_then(toml::Value::as_table);
            dependencies.extend(table.into_iter().flat_map(toml::Table::keys).cloned());
        }
    }
    let name = manifest["package"]["name"].as_str().expect("a name").to_owned();
    (name, dependencies)
}

/// Everything that a crate reaches, and the crate that names it.
fn reached<'a>(named: &'a BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeMap<&'a str, &'a str> {
    let mut reached = BTreeMap::new();
    let mut next: Vec<&str> = named.get_key_value(from).map(|(name, _)| name.as_str()).into_iter().collect();
    while let Some(name) = next.pop() {
        for dependency in named.get(name).into_iter().flatten() {
            if reached.insert(dependency.as_str(), name).is_none() {
                next.push(dependency);
            }
        }
    }
    reached
}

fn violations(named: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut found = Vec::new();
    for (from, never) in NEVER {
        assert!(named.contains_key(*from), "{from} is no crate of the workspace");
        let reached = reached(named, from);
        for pattern in never.iter().copied().flatten() {
            let is_one = |name: &&str| match pattern.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => name == pattern,
            };
            let known = |name: &&str| is_one(name) && named.contains_key(*name);
            let exists = !pattern.starts_with("whyslow") || named.keys().any(|name| known(&name.as_str()));
            assert!(exists, "{pattern} is no crate of the workspace");
            found.extend(
                reached
                    .iter()
                    .filter(|(name, _)| is_one(name))
                    .map(|(name, by)| format!("{from} reaches {name}, which {by} names")),
            );
        }
    }
    found
}

#[test]
fn arrows_between_crates_go_one_way() {
    assert_eq!(violations(&named()), Vec::<String>::new());
}

#[test]
fn an_arrow_through_another_crate_is_found() {
    let mut named = named();
    let add = |named: &mut BTreeMap<String, BTreeSet<String>>, from: &str, to: &str| {
        named.get_mut(from).expect("a crate").insert(to.to_owned());
    };
    add(&mut named, "whyslow-unwind", "whyslow-agent-host");
    let found = violations(&named);
    assert!(
        found.contains(&"whyslow-convert reaches whyslow-agent-host, which whyslow-unwind names".to_owned()),
        "{found:?}"
    );
}

/// A front end of other commands: it builds a program first.
const BUILDS_FOR_OTHERS: &str = "cargo";
/// What runs commands, and what compares them with the documentation.
const KNOW_COMMANDS: [&str; 3] = ["cli.rs", "lib.rs", "remark_ids.rs"];

/// The commands that a file names.
fn commands_named<'a>(text: &str, commands: &'a BTreeSet<String>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for start in ["super::", "commands::"] {
        for (at, _) in text.match_indices(start) {
            let rest = &text[at + start.len()..];
            let list = rest.strip_prefix('{').and_then(|rest| rest.split('}').next());
            let end = rest.find(|of: char| !of.is_alphanumeric() && of != '_').unwrap_or(rest.len());
            let words = list.unwrap_or(&rest[..end]).split(|of: char| !of.is_alphanumeric() && of != '_');
            found.extend(words.filter_map(|word| commands.get(word)).map(String::as_str));
        }
    }
    found
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let files = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    files.collect()
}

#[test]
fn commands_share_modules_and_do_not_call_each_other() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../crates/whyslow/src");
    let folder = root.join("commands");
    let stem = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
    let entries = std::fs::read_dir(&folder).expect("commands").map(|entry| entry.expect("an entry").path());
    let commands: BTreeSet<String> = entries.map(|path| stem(&path)).filter(|name| name != "mod").collect();
    assert!(commands.len() > 20, "{commands:?}");
    let mut found = Vec::new();
    for file in sources(&root) {
        let text = std::fs::read_to_string(&file).expect("a source");
        let inside = file.strip_prefix(&folder).ok().and_then(|path| path.iter().next()).map(Path::new);
        let own = inside.map(stem);
        let may = match &own {
            Some(own) => own == BUILDS_FOR_OTHERS || own == "mod",
            None => KNOW_COMMANDS.iter().any(|known| root.join(known) == file),
        };
        let named = commands_named(&text, &commands);
        let is_known = |name: &str| own.as_deref() == Some("causal") && name == "record";
        let others = named.into_iter().filter(|name| !may && own.as_deref() != Some(name) && !is_known(name));
        found.extend(others.map(|name| format!("{} names the command {name}", file.display())));
    }
    assert_eq!(found, Vec::<String>::new());
}
