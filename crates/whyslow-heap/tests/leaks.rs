//! Leak checks of real programs, compared with what the programs print and with memcheck.

#![expect(clippy::unwrap_used, reason = "a failed unwrap in a helper is a failed test")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use tempfile::TempDir;
use whyslow_heap::leaks::{self, Class, LeakError, Live, LiveBlock, Subject, Waiting as WaitingThread};
use whyslow_heap::{Address, StackRow};

/// Builds a program of this folder; `None`, with a message, if there is no compiler for it.
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
            whyslow_lab_harness::skip(&format!("{compiler} is not installed"));
            None
        }
        built => {
            assert!(built.unwrap().success(), "the test program does not compile");
            Some(program)
        }
    }
}

/// A waiting program; it is killed on drop.
struct Waiting {
    child: Child,
    /// Its output after it is ready.
    says: BufReader<ChildStdout>,
    blocks: Vec<LiveBlock>,
    /// The expected class of each block as the program prints it: a letter, then why.
    words: Vec<String>,
}

impl Waiting {
    /// Starts a program and waits until it pauses.
    fn start(program: &Path, arguments: &[&str]) -> Self {
        let waiting = Self::run(program, arguments);
        waiting.until_it_pauses();
        waiting
    }

    /// Starts a program that runs on after it is ready.
    fn run(program: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.arg("wait").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut blocks, mut words) = (Vec::new(), Vec::new());
        let mut says = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        loop {
            line.clear();
            says.read_line(&mut line).unwrap();
            let line = line.trim_end();
            if line == "ready" {
                break;
            }
            let mut fields = line.splitn(3, ' ');
            let address = u64::from_str_radix(fields.next().unwrap(), 16).unwrap();
            let size = fields.next().unwrap().parse().unwrap();
            blocks.push(LiveBlock {
                address: Address(address),
                size,
                stack: StackRow(blocks.len() as u32),
                inherited: false,
            });
            words.push(fields.next().unwrap_or("").to_owned());
        }
        Self { child, says, blocks, words }
    }

    /// The program prints the line shortly before it pauses.
    fn until_it_pauses(&self) {
        let pause = format!("{} ", libc::SYS_pause);
        let file = format!("/proc/{}/syscall", self.child.id());
        while !std::fs::read_to_string(&file).unwrap().starts_with(&pause) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    fn check(&self) -> Result<leaks::LeakReport, LeakError> {
        self.check_as(None, &[])
    }

    fn check_as(&self, tid: Option<u32>, skip: &[(u64, u64)]) -> Result<leaks::LeakReport, LeakError> {
        check(self.child.id(), tid, &self.blocks, skip)
    }

    /// Blocks with another class than the program expects.
    fn wrong(&self, classes: &[Class]) -> Vec<String> {
        let rows = self.words.iter().zip(classes).filter(|(word, class)| !word.starts_with(letter(**class)));
        rows.map(|(word, class)| format!("{word}: {class:?}")).collect()
    }
}

fn check(
    pid: u32,
    tid: Option<u32>,
    blocks: &[LiveBlock],
    skip: &[(u64, u64)],
) -> Result<leaks::LeakReport, LeakError> {
    let waiting = tid.map(|tid| WaitingThread { tid, ..WaitingThread::default() });
    let subject = Subject { pid, waiting, skip: skip.to_vec(), skip_listed: None };
    let live = || Live { blocks: blocks.to_vec(), moving: false };
    leaks::check(&subject, live).map(|(report, _)| report)
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

/// (bytes, blocks) by letter, from memcheck's summary; `None` if it is not installed.
fn memcheck(program: &Path, arguments: &[&str]) -> Option<BTreeMap<char, (u64, u64)>> {
    let output = Command::new("valgrind")
        .args(["--leak-check=full", "--show-leak-kinds=all", "--run-libc-freeres=no"])
        .arg(program)
        .args(arguments)
        .output();
    let Ok(output) = output else {
        whyslow_lab_harness::skip("valgrind is not installed");
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

/// Checks that every block of a program has the class that the program expects, and that memcheck has the
/// same sums.
fn matches_program_and_memcheck(source: &str, options: &[&str], arguments: &[&str], with_memcheck: bool) {
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
    matches_program_and_memcheck("leaks.c", &["-O0"], &[], true);
}

#[test]
fn a_static_program_is_read_like_a_dynamic_one() {
    matches_program_and_memcheck("leaks.c", &["-O0", "-static"], &[], false);
    matches_program_and_memcheck("leaks.c", &["-O0", "-static"], &["2"], false);
}

#[test]
fn stacks_and_arenas_of_other_threads_are_recognised() {
    matches_program_and_memcheck("leaks.c", &["-O0"], &["5"], false);
}

#[test]
fn memchecks_heuristics_find_cpp_objects() {
    matches_program_and_memcheck("leaks.cc", &["-O0"], &[], true);
}

#[test]
fn a_program_runs_on_and_gets_its_signals_during_checks() {
    let folder = TempDir::new().unwrap();
    let Some(program) = build(folder.path(), "churn.c", &["-O0"]) else { return };
    let mut running = Waiting::run(&program, &[]);
    let mut checks = 0;
    loop {
        match running.check() {
            Ok(report) => assert_eq!(running.wrong(&report.classes), Vec::<String>::new()),
            // It has exited, and has not been waited for yet.
            Err(LeakError::Exited { .. }) => break,
            Err(error) => panic!("{error}"),
        }
        checks += 1;
        drop(running.child.stdin.take());
    }
    let mut said = String::new();
    running.says.read_to_string(&mut said).unwrap();
    assert_eq!(said, "2000 signals\n", "after {checks} checks");
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
    assert!(checks > 0);
}

#[test]
fn a_program_killed_during_a_check_is_an_error() {
    let folder = TempDir::new().unwrap();
    let Some(program) = build(folder.path(), "churn.c", &["-O0"]) else { return };
    for after_us in [0, 100, 300, 1000, 3000, 10_000] {
        let mut running = Waiting::run(&program, &[]);
        let pid = running.child.id();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_micros(after_us));
            Command::new("kill").args(["-9", &pid.to_string()]).status()
        });
        let error = loop {
            match running.check() {
                Ok(report) => assert_eq!(running.wrong(&report.classes), Vec::<String>::new()),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, LeakError::Exited { .. }), "{error}");
        killer.join().unwrap().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&running.child.wait().unwrap()), Some(9));
    }
}

#[test]
fn a_missing_process_or_thread_is_an_error() {
    assert!(matches!(check(0x7fff_0000, None, &[], &[]), Err(LeakError::Exited { .. })));
    let folder = TempDir::new().unwrap();
    let Some(program) = build(folder.path(), "leaks.c", &["-O0"]) else { return };
    let waiting = Waiting::start(&program, &[]);
    let pid = waiting.child.id();
    let with = |tid| waiting.check_as(Some(tid), &[]);
    assert!(matches!(with(1), Err(LeakError::Exited { .. })));
    assert_eq!(waiting.wrong(&with(pid).unwrap().classes), Vec::<String>::new());
}

#[test]
fn skipped_ranges_are_not_roots() {
    let folder = TempDir::new().unwrap();
    let Some(program) = build(folder.path(), "leaks.c", &["-O0"]) else { return };
    let waiting = Waiting::start(&program, &[]);
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", waiting.child.id())).unwrap();
    let data: Vec<(u64, u64)> = maps
        .lines()
        .filter(|line| line.contains("rw-p") && line.ends_with("/program"))
        .map(|line| line.split_once(' ').unwrap().0.split_once('-').unwrap())
        .map(|(start, end)| (u64::from_str_radix(start, 16).unwrap(), u64::from_str_radix(end, 16).unwrap()))
        .collect();
    let report = waiting.check_as(None, &data).unwrap();
    let wrong = waiting.wrong(&report.classes);
    assert!(wrong.iter().any(|line| line == "R chain: DefinitelyLost"), "{wrong:?}");
}

#[test]
fn counts_bytes_that_were_never_written() {
    let folder = TempDir::new().unwrap();
    let Some(program) = build(folder.path(), "filled.c", &["-O1"]) else { return };
    let waiting = Waiting::start(&program, &[]);
    let expected: Vec<u64> = waiting.words.iter().map(|word| word.parse().unwrap()).collect();
    assert_eq!(
        leaks::unused_bytes(&Subject { pid: waiting.child.id(), ..Subject::default() }, &waiting.blocks)
            .unwrap(),
        expected
    );
}

#[test]
fn a_million_blocks_have_their_classes_in_any_order() {
    let folder = TempDir::new().unwrap();
    let Some(program) = build(folder.path(), "million.c", &["-O1"]) else { return };
    for order in ["in order", "mixed"] {
        let waiting = Waiting::start(&program, &[order]);
        assert_eq!(waiting.wrong(&waiting.check().unwrap().classes).len(), 0);
        if let Some(expected) = memcheck(&program, &["end", order]) {
            assert_eq!(sums(&waiting.blocks, &waiting.check().unwrap().classes), expected);
        }
    }
}
