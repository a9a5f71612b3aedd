//! Keeps README.md and docs/ true: commands parse, cheap ones run, links resolve, pages keep their limits.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::cli::{self, Request};
use crate::exit::Exit;

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// A Markdown file, with its path below the root.
struct Document {
    path: PathBuf,
    text: String,
}

/// All documents for users and contributors.
fn documents() -> Vec<Document> {
    let mut paths: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
        .into_iter()
        .map(PathBuf::from)
        .chain(["docs", "docs/findings", "docs/decisions", "lab", "viewer"].into_iter().flat_map(markdown_in))
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text =
            std::fs::read_to_string(root().join(&path)).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        Document { path, text }
    };
    paths.into_iter().map(read).collect()
}

fn markdown_in(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".md")).map(|name| Path::new(folder).join(name)).collect()
}

/// A command in a document.
struct Shown {
    line: usize,
    words: Vec<String>,
    /// Whether it is in a code block, to be typed. Otherwise the running text only mentions it.
    is_code: bool,
}

/// A line of Markdown, and whether it is in a code block.
struct Line<'a> {
    number: usize,
    text: &'a str,
    is_code: bool,
}

impl Document {
    fn lines(&self) -> Vec<Line<'_>> {
        let mut fenced = false;
        let mut after_blank = true;
        let mut indented = false;
        let mut lines = Vec::new();
        for (index, text) in self.text.lines().enumerate() {
            let is_fence = text.trim_start().starts_with("```");
            if is_fence {
                fenced = !fenced;
            }
            // An indented block starts after a blank line and ends at the first line that is not indented.
            indented = text.starts_with("    ") && (after_blank || indented);
            after_blank = text.trim().is_empty();
            lines.push(Line { number: index + 1, text, is_code: !is_fence && (fenced || indented) });
        }
        lines
    }

    /// The commands it shows: lines of code blocks, and code in running text.
    fn commands(&self) -> Vec<Shown> {
        let mut commands = Vec::new();
        for Line { number, text, is_code } in self.lines() {
            let shown: Vec<&str> = if is_code {
                vec![text]
            } else {
                // Cells of tables write a pipe as `\|`.
                text.split('`').skip(1).step_by(2).collect()
            };
            let calls = shown.into_iter().flat_map(commands_of);
            commands.extend(calls.map(|words| Shown { line: number, words, is_code }));
        }
        commands
    }
}

/// The calls of whyslow in a line of shell. Output that merely mentions it has other words in front.
fn commands_of(line: &str) -> Vec<Vec<String>> {
    let line = line.trim().trim_start_matches("$ ");
    // A comment starts with `#`, or in a table of commands with two spaces.
    let line = line.split(" #").next().unwrap_or_default();
    let line = line.split("   ").next().unwrap_or_default();
    let calls = line.split("&&").flat_map(|part| part.split(" | ")).flat_map(|part| part.split("; "));
    calls.filter_map(words_of).collect()
}

/// The words of one call, without `sudo`, redirections and the dots of "and so on".
fn words_of(call: &str) -> Option<Vec<String>> {
    let call = call.split(" > ").next().unwrap_or_default();
    let mut words = whyslow_bench::words::split(call.trim()).ok()?;
    if words.first().is_some_and(|word| word == "sudo") {
        words.remove(0);
    }
    let is_call = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["whyslow", second, ..] => second != "COMMAND" && !second.starts_with('['),
        ["cargo", "whyslow", ..] => true,
        _ => false,
    };
    let words = words.into_iter().map(|word| word.trim_end_matches(['…', '.']).to_owned());
    is_call.then(|| words.filter(|word| !word.is_empty()).collect())
}

/// What the command line makes of these words.
fn parsed(words: &[String]) -> Result<Request, String> {
    let arguments: Vec<OsString> = words.iter().map(OsString::from).collect();
    let request = match words[0].as_str() {
        "cargo" => cli::parse_cargo(arguments[1..].to_vec()),
        _ => cli::parse(arguments),
    };
    match request {
        Ok(Request::Answered(Exit::Failed)) => Err("clap refuses it".to_owned()),
        Ok(request) => Ok(request),
        Err(failure) => Err(failure.to_string()),
    }
}

/// Whether a mention such as `whyslow asm --list` names a command and options that exist.
fn exists(words: &[String]) -> bool {
    let options = |words: &[String], command: &clap::Command| {
        words.iter().filter(|word| word.starts_with('-')).all(|word| {
            let name = word.trim_start_matches('-');
            let is_named = |argument: &clap::Arg| {
                argument.get_long() == Some(name)
                    || argument.get_short().is_some_and(|short| name.len() == 1 && name.starts_with(short))
            };
            command.get_arguments().any(is_named)
        })
    };
    match words {
        [_, name, rest @ ..] if words[0] == "whyslow" => {
            cli::whyslow_command().find_subcommand(name).is_some_and(|command| options(rest, command))
        }
        _ => false,
    }
}

#[test]
fn every_command_in_the_documents_parses() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for document in documents() {
        for Shown { line, words, is_code } in document.commands() {
            count += 1;
            let place = format!("{}:{line}: {}", document.path.display(), words.join(" "));
            match parsed(&words) {
                Err(_) if !is_code && exists(&words) => {}
                Err(why) => wrong.push(format!("{place}: {why}")),
                // A misspelt command would be taken for a program.
                Ok(Request::Run(args, _)) => {
                    let program = args.program.first().map(|word| word.to_string_lossy().into_owned());
                    let is_program = program.as_deref().is_none_or(|word| {
                        word.contains('/')
                            || word.chars().all(|letter| letter.is_ascii_uppercase())
                            || word == "tokei"
                    });
                    if !is_program {
                        wrong.push(format!("{place}: no command, and not the path of a program"));
                    }
                }
                Ok(_) => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 200, "only {count} commands were found: does the test still recognise them?");
}

/// Commands that only read a profile. Each document's examples use the same few names for files and functions.
const CHEAP: [&str; 5] = ["report", "explain", "flame", "diff", "verify"];

/// Words of commands that need a special recording, a browser or a running program.
const NEEDS_MORE: &[&str] = &[
    "waits",
    "locks",
    "critical-path",
    "tasks",
    "syscalls",
    "causal",
    "spans",
    "heap",
    "leaks",
    "memory",
    "--span",
    "--metric",
    "--live-at",
    "--open",
    "--runs",
    "--thread",
    "--process",
    "parallelism",
    "--rule",
];

#[test]
fn cheap_commands_in_the_documents_run() {
    let folder = tempfile::tempdir().unwrap();
    let profile = whyslow_analyze::testing::profile(
        "main;app::main;app::parse;core::str::from_utf8 400\nmain;app::main;app::parse 300\nmain;app::main;app::render;tokei::parse_lines 300\n",
    );
    let mut shown = BTreeSet::new();
    for document in documents() {
        for Shown { words, .. } in document.commands() {
            let is_cheap = words[0] == "whyslow" && CHEAP.contains(&words[1].as_str());
            let has_file = words.iter().any(|word| word.ends_with(".whyslow"));
            if is_cheap && has_file && !words.iter().any(|word| NEEDS_MORE.contains(&word.as_str())) {
                shown.insert(words);
            }
        }
    }
    assert!(shown.len() > 10, "only {} commands are run: {shown:#?}", shown.len());
    for words in shown {
        let is_file = |word: &str| {
            [".whyslow", ".svg", ".html", ".json", ".md", ".sarif"].iter().any(|end| word.ends_with(end))
        };
        let place = |word: &String| {
            if !is_file(word) {
                return word.clone();
            }
            let path = folder.path().join(word);
            if word.ends_with(".whyslow") {
                whyslow_profile::file::write(&path, &profile).unwrap();
            }
            path.to_string_lossy().into_owned()
        };
        let placed: Vec<String> = words.iter().map(place).collect();
        let request = parsed(&placed).unwrap_or_else(|why| panic!("{words:?}: {why}"));
        let exit = cli::run(request).unwrap_or_else(|failure| panic!("{}: {failure}", words.join(" ")));
        assert!(matches!(exit, Exit::Success | Exit::Found), "{}: {exit:?}", words.join(" "));
    }
}

/// The target of each `[text](target)` and `![text](target)` in running text.
fn links(document: &Document) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for Line { number, text, is_code } in document.lines() {
        let text: String = text.split('`').step_by(2).collect();
        for part in text.split("](").skip(1).filter(|_| !is_code) {
            links.push((number, part.split(')').next().unwrap_or_default().to_owned()));
        }
    }
    links
}

/// The anchors that headings get: lower case, spaces as dashes, no punctuation.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn links_and_images_resolve() {
    let mut broken = Vec::new();
    for document in documents() {
        for (number, link) in links(&document) {
            if link.starts_with("http") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let folder = document.path.parent().unwrap_or(Path::new(""));
            let path = if file.is_empty() { document.path.clone() } else { folder.join(file) };
            let place = format!("{}:{number}: {link}", document.path.display());
            match std::fs::read(root().join(&path)) {
                Err(_) if root().join(&path).is_dir() => {}
                Err(error) => broken.push(format!("{place}: {error}")),
                Ok(bytes) if path.extension().is_some_and(|end| end == "png") && bytes.len() > 200_000 => {
                    broken.push(format!("{place}: {} bytes are too many", bytes.len()));
                }
                Ok(bytes)
                    if !anchor.is_empty()
                        && !anchors(&String::from_utf8_lossy(&bytes)).iter().any(|it| it == anchor) =>
                {
                    broken.push(format!("{place}: no such heading"));
                }
                Ok(_) => {}
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn documents_keep_their_limits() {
    let limits = [
        ("README.md", 150, 120),
        ("ARCHITECTURE.md", 150, 200),
        ("CONTRIBUTING.md", 150, 140),
        ("CHANGELOG.md", 400, 120),
    ];
    for (name, most_lines, most_columns) in limits {
        let text = std::fs::read_to_string(root().join(name)).unwrap();
        assert!(text.lines().count() <= most_lines, "{name} has {} lines", text.lines().count());
        for (index, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            assert!(columns <= most_columns, "{name}:{} has {columns} columns", index + 1);
        }
    }
}

#[test]
fn the_index_lists_every_page() {
    let index = std::fs::read_to_string(root().join("docs/README.md")).unwrap();
    for page in markdown_in("docs") {
        let name = page.file_name().unwrap().to_string_lossy().into_owned();
        assert!(name == "README.md" || index.contains(&format!("({name})")), "docs/README.md lacks {name}");
    }
}

/// Turns of phrase that make a reader stop. Code, names of functions and quoted output are left out.
const ODD_WORDS: &[&str] = &[
    "is told",
    "are told",
    "told apart",
    "is gone",
    "are gone",
    "of it ran",
    "whosever",
    "chance explains",
    "the likes of",
    "who was there",
    "asked for",
    "is no problem",
    "of its own accord",
    "in vain",
];

#[test]
fn documents_use_plain_words() {
    let mut odd = Vec::new();
    for document in documents() {
        for Line { number, text, is_code } in document.lines() {
            let prose: String = text.split('`').step_by(2).collect::<String>().to_lowercase();
            for words in ODD_WORDS.iter().filter(|words| !is_code && prose.contains(**words)) {
                odd.push(format!("{}:{number}: \"{words}\"", document.path.display()));
            }
        }
    }
    assert!(odd.is_empty(), "{}", odd.join("\n"));
}
