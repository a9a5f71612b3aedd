//! Leak checks of real programs, against what they say of themselves and against memcheck.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use whyslow_heap::leaks::{self, Class, LeakError, LiveBlock};

/// Builds a program of this folder; `None` (said in words) if there is no compiler for it.
fn build(folder: &Path, source: &str, options: &[&str]) -> Option<PathBuf> {
    let compiler = if source.ends_with(".cc") { "g++" } else { "gcc" };
    let program = folder.join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let built = Command::new(compiler)
        .args(["-g", "-w", "-pthread"])
        .args(options)
        .arg("-o")
        .args([&program, &source])
        .status();
    match built {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: {compiler} is not installed");
            None
        }
        built => {
            assert!(built.unwrap().success(), "the test program does not compile");
            Some(program)
        }
    }
}

/// A program that waits; it ends with this.
struct Waiting {
    child: Child,
    blocks: Vec<LiveBlock>,
    /// What each block is, in the program's words: a letter, then why.
    words: Vec<String>,
}

impl Waiting {
    fn start(program: &Path, arguments: &[&str]) -> Self {
        let mut child =
            Command::new(program).arg("wait").args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let (mut blocks, mut words) = (Vec::new(), Vec::new());
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            if line == "ready" {
                break;
            }
            let mut fields = line.splitn(3, ' ');
            let address = u64::from_str_radix(fields.next().unwrap(), 16).unwrap();
            let size = fields.next().unwrap().parse().unwrap();
            blocks.push(LiveBlock { address, size, site: blocks.len() as u32 });
            words.push(fields.next().unwrap_or("").to_owned());
        }
        let waiting = Self { child, blocks, words };
        waiting.until_it_pauses();
        waiting
    }

    /// The line comes a moment before the program stands still.
    fn until_it_pauses(&self) {
        let pause = format!("{} ", libc::SYS_pause);
        let file = format!("/proc/{}/syscall", self.child.id());
        while !std::fs::read_to_string(&file).unwrap().starts_with(&pause) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    fn check(&self) -> Result<leaks::LeakReport, LeakError> {
        leaks::check(self.child.id(), None, &self.blocks, &[])
    }

    /// Blocks that are not what the program says they are.
    fn wrong(&self, classes: &[Class]) -> Vec<String> {
        let rows = self.words.iter().zip(classes).filter(|(word, class)| !word.starts_with(letter(**class)));
        rows.map(|(word, class)| format!("{word}: {class:?}")).collect()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn letter(class: Class) -> char {
    match class {
        Class::DefinitelyLost => 'D',
        Class::IndirectlyLost => 'I',
        Class::PossiblyLost => 'P',
        Class::Reachable => 'R',
    }
}

/// (bytes, blocks) by letter, of memcheck's summary; `None` if it is not installed.
fn memcheck(program: &Path, arguments: &[&str]) -> Option<BTreeMap<char, (u64, u64)>> {
    let output = Command::new("valgrind")
        .args(["--leak-check=full", "--show-leak-kinds=all", "--run-libc-freeres=no"])
        .arg(program)
        .args(arguments)
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: valgrind is not installed");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut sums = BTreeMap::new();
    for (name, letter) in [
        ("definitely lost:", 'D'),
        ("indirectly lost:", 'I'),
        ("possibly lost:", 'P'),
        ("still reachable:", 'R'),
    ] {
        let line =
            text.lines().find_map(|line| Some(line.split_once(name)?.1.to_owned())).unwrap_or_default();
        let numbers: Vec<u64> =
            line.split([' ', '\n']).filter_map(|word| word.replace(',', "").parse().ok()).collect();
        sums.insert(letter, (numbers.first().copied().unwrap_or(0), numbers.get(1).copied().unwrap_or(0)));
    }
    assert!(sums.values().any(|&(_, blocks)| blocks > 0), "no summary: {text}");
    Some(sums)
}

fn sums(blocks: &[LiveBlock], classes: &[Class]) -> BTreeMap<char, (u64, u64)> {
    let mut sums = BTreeMap::from(['D', 'I', 'P', 'R'].map(|letter| (letter, (0, 0))));
    for (block, class) in blocks.iter().zip(classes) {
        let sum = sums.get_mut(&letter(*class)).unwrap();
        *sum = (sum.0 + block.size, sum.1 + 1);
    }
    sums
}

/// Every block of a program is what the program says, and memcheck has the same sums.
fn same_as_said_and_as_memcheck(source: &str, options: &[&str], arguments: &[&str], with_memcheck: bool) {
    let folder = TempDir::new().unwrap();
    let Some(program) = build(folder.path(), source, options) else { return };
    let waiting = Waiting::start(&program, arguments);
    let report = waiting.check().unwrap();
    assert_eq!(waiting.wrong(&report.classes), Vec::<String>::new());
    assert!(!waiting.blocks.is_empty());
    if with_memcheck {
        let arguments: Vec<&str> = ["end"].iter().chain(arguments).copied().collect();
        if let Some(expected) = memcheck(&program, &arguments) {
            assert_eq!(sums(&waiting.blocks, &report.classes), expected);
        }
    }
}

#[test]
fn a_program_with_one_thread_has_memchecks_classes() {
    same_as_said_and_as_memcheck("leaks.c", &["-O0"], &[], true);
}

#[test]
fn a_static_program_is_read_like_a_dynamic_one() {
    same_as_said_and_as_memcheck("leaks.c", &["-O0", "-static"], &[], false);
    same_as_said_and_as_memcheck("leaks.c", &["-O0", "-static"], &["2"], false);
}

#[test]
fn stacks_and_arenas_of_other_threads_are_understood() {
    same_as_said_and_as_memcheck("leaks.c", &["-O0"], &["5"], false);
}

#[test]
fn objects_of_cpp_are_found_by_memchecks_heuristics() {
    same_as_said_and_as_memcheck("leaks.cc", &["-O0"], &[], true);
}
