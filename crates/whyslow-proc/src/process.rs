//! One process: `/proc/PID`.

use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

fn folder(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}

/// All processes, ascending.
pub fn all() -> Vec<u32> {
    numbers_in(Path::new("/proc")).unwrap_or_default()
}

/// The threads of a process, ascending.
pub fn threads(pid: u32) -> io::Result<Vec<u32>> {
    numbers_in(&folder(pid).join("task"))
}

/// The running children of a process; looks at no more than this many of its threads.
pub fn children(pid: u32, most_threads: usize) -> Vec<u32> {
    let threads = threads(pid).unwrap_or_default().into_iter().take(most_threads);
    let lists = threads.filter_map(|tid| fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).ok());
    lists.flat_map(|list| list.split_whitespace().flat_map(str::parse).collect::<Vec<_>>()).collect()
}

/// The entries of a folder with numeric names, ascending.
pub fn numbers_in(folder: &Path) -> io::Result<Vec<u32>> {
    let entries = fs::read_dir(folder)?;
    let mut numbers: Vec<u32> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The name of a process: at most 15 bytes.
pub fn name(pid: u32) -> Option<String> {
    name_in(&folder(pid))
}

/// The name of a thread.
pub fn thread_name(pid: u32, tid: u32) -> Option<String> {
    name_in(&folder(pid).join("task").join(tid.to_string()))
}

fn name_in(folder: &Path) -> Option<String> {
    let name = fs::read(folder.join("comm")).ok()?;
    let name = name.strip_suffix(b"\n").unwrap_or(&name);
    (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
}

/// The command line of a process; empty for kernel threads.
pub fn command_line(pid: u32) -> Vec<String> {
    let line = fs::read(folder(pid).join("cmdline")).unwrap_or_default();
    let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// The path of a process's program, as it was when it was executed.
pub fn program(pid: u32) -> Option<PathBuf> {
    fs::read_link(program_file(pid)).ok()
}

/// A path that opens a process's program, even if it was renamed or deleted.
pub fn program_file(pid: u32) -> PathBuf {
    folder(pid).join("exe")
}

/// A path that opens a file of a process, which may have its own root folder.
pub fn file_in_root(pid: u32, path: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/root{path}"))
}

/// A path that opens the file of a mapping, even if it was renamed or deleted. Needs more permissions than
/// the mapping itself.
pub fn mapped_file(pid: u32, range: &Range<u64>) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/map_files/{:x}-{:x}", range.start, range.end))
}

/// The user that owns a process; `None` if it does not exist.
pub fn owner(pid: u32) -> Option<u32> {
    fs::metadata(folder(pid)).ok().map(|about| about.uid())
}

/// Whether a process with this id exists, even one that has exited and is not reaped yet.
pub fn exists(pid: u32) -> bool {
    folder(pid).exists()
}

/// The contents of `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// `R` running, `S` sleeping, `Z` exited and not reaped, …
    pub state: char,
    /// Its parent process.
    pub parent: u32,
    /// The start of the main thread's stack; `None` without permission.
    pub stack_start: Option<u64>,
}

impl Stat {
    /// Reads that of a process.
    pub fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read(folder(pid).join("stat")).ok()?)
    }

    /// Reads that of a thread.
    pub fn of_thread(pid: u32, tid: u32) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{pid}/task/{tid}/stat")).ok()?)
    }

    /// `PID (NAME) STATE PARENT …`; the name can contain anything.
    fn parse(stat: &[u8]) -> Option<Self> {
        let behind_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
        let mut words = std::str::from_utf8(&stat[behind_name..]).ok()?.split_ascii_whitespace();
        let (state, parent) = (words.next()?.chars().next()?, words.next()?.parse().ok()?);
        // The 28th field in proc(5); those above are the third and the fourth.
        let stack_start = words.nth(28 - 5).and_then(|word| word.parse().ok()).filter(|start| *start > 0);
        Some(Self { state, parent, stack_start })
    }

    /// Whether it has not exited.
    pub fn runs(&self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }
}

/// Whether a process exists and has not exited. An unreaped process is still listed, but does not run.
pub fn runs(pid: u32) -> bool {
    Stat::of(pid).is_some_and(|stat| stat.runs())
}

/// Whether a thread exists and has not exited.
pub fn thread_runs(pid: u32, tid: u32) -> bool {
    Stat::of_thread(pid, tid).is_some_and(|stat| stat.runs())
}

/// All processes and their parents.
pub fn parents() -> Vec<(u32, u32)> {
    all().into_iter().filter_map(|pid| Some((pid, Stat::of(pid)?.parent))).collect()
}

/// The contents of `/proc/PID/status`: `Name:\tvalue` on each line.
#[derive(Debug, Clone, Default)]
pub struct Status(String);

impl Status {
    /// Reads that of a process or a thread.
    pub fn of(pid: u32) -> Option<Self> {
        Self::read(&folder(pid).join("status"))
    }

    /// Reads a file in this format.
    pub fn read(path: &Path) -> Option<Self> {
        Some(Self(String::from_utf8_lossy(&fs::read(path).ok()?).into_owned()))
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        // The first line is the process's own name, in which newlines are escaped.
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }

    /// The numeric value of a name.
    pub fn number(&self, name: &str) -> Option<u32> {
        self.get(name)?.parse().ok()
    }

    /// The peak number of bytes in memory.
    pub fn peak_resident_bytes(&self) -> Option<u64> {
        self.get("VmHWM")?.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    }

    /// The voluntary and involuntary context switches of the thread.
    pub fn switches(&self) -> Option<(u64, u64)> {
        let number = |name| self.get(name)?.parse().ok();
        Some((number("voluntary_ctxt_switches")?, number("nonvoluntary_ctxt_switches")?))
    }

    /// The process of a thread.
    pub fn process(&self) -> Option<u32> {
        self.number("Tgid")
    }

    /// The thread that traces it.
    pub fn tracer(&self) -> Option<u32> {
        self.number("TracerPid").filter(|tracer| *tracer != 0)
    }

    /// Its effective capabilities, one bit each.
    pub fn capabilities(&self) -> u64 {
        self.get("CapEff").and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0)
    }

    /// Whether a system call filter (seccomp) is active.
    pub fn is_filtered(&self) -> bool {
        self.get("Seccomp") == Some("2")
    }

    /// The CPUs that it may use.
    pub fn allowed_cpus(&self) -> Vec<u32> {
        self.get("Cpus_allowed_list").map(whyslow_words::cpu_list).unwrap_or_default()
    }
}

/// The process of a thread: the thread's own id for the main thread, another one for others; `None` if it has
/// exited.
pub fn process_of(tid: u32) -> Option<u32> {
    Status::of(tid)?.process()
}

/// A limit of a process, such as `Max open files`; `None` if it is unlimited or unknown.
pub fn limit(pid: u32, name: &str) -> Option<u64> {
    let limits = fs::read_to_string(folder(pid).join("limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The CPU time of all threads of a process, including exited ones.
#[expect(unsafe_code, reason = "rustix knows no clocks of other processes")]
pub fn cpu_time_ns(pid: u32) -> Option<u64> {
    let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0)?;
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both calls write to these locals.
    let known = unsafe {
        libc::clock_getcpuclockid(pid, &raw mut clock) == 0 && libc::clock_gettime(clock, &raw mut time) == 0
    };
    known.then(|| time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}

/// The CPU time and run-queue delay of a process's main thread, in nanoseconds. Available until the process
/// is reaped.
pub fn first_thread_ns(pid: u32) -> Option<[u64; 2]> {
    let times = fs::read_to_string(folder(pid).join("schedstat")).ok()?;
    let mut numbers = times.split_whitespace().map_while(|word| word.parse().ok());
    Some([numbers.next()?, numbers.next()?])
}

/// The bytes of a process that are in memory.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    let statm = fs::read_to_string(folder(pid).join("statm")).ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

/// The auxiliary vector that the kernel passes to a process at its start.
#[derive(Debug, Clone)]
pub struct Auxiliary(Vec<[u64; 2]>);

impl Auxiliary {
    /// Reads that of a process.
    pub fn of(pid: u32) -> io::Result<Self> {
        Ok(Self::parse(&fs::read(folder(pid).join("auxv"))?))
    }

    fn parse(table: &[u8]) -> Self {
        let words: Vec<u64> = table.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        Self(words.as_chunks::<2>().0.to_vec())
    }

    /// The value of a key (`AT_…`); 0 if it is missing.
    pub fn get(&self, key: u64) -> u64 {
        self.0.iter().find(|[known, _]| *known == key).map_or(0, |[_, value]| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_hide_the_state() {
        let stat = Stat::parse(b"42 (a ) R 7 (\n)) S 13 42 42 0").unwrap();
        assert_eq!((stat.state, stat.parent), ('S', 13));
        assert!(stat.runs() && !Stat { state: 'Z', ..stat }.runs());
        for damaged in [&b""[..], b"42 (a", b"42 (a)", b"42 (a) S", b"42 (a) S x", b"42 (\xff) S \xff"] {
            assert_eq!(Stat::parse(damaged), None, "{}", String::from_utf8_lossy(damaged));
        }
        assert_eq!(Stat::parse(b"42 (\xff) S 1"), Some(Stat { state: 'S', parent: 1, stack_start: None }));
    }

    #[test]
    fn a_status_is_read_by_name() {
        let status = Status(
            "Name:\ta Tgid:\t9\nTgid:\t12\nTracerPid:\t0\nCapEff:\t0000004000080000\nSeccomp:\t2\n\
             Cpus_allowed:\t7\nCpus_allowed_list:\t0-2\nVmHWM:\t  1732 kB\nvoluntary_ctxt_switches:\t7\n\
             nonvoluntary_ctxt_switches:\t9\n"
                .to_owned(),
        );
        assert_eq!((status.process(), status.tracer()), (Some(12), None));
        assert_eq!(status.capabilities(), 1 << 38 | 1 << 19);
        assert!(status.is_filtered());
        assert_eq!(status.allowed_cpus(), [0, 1, 2]);
        assert_eq!((status.peak_resident_bytes(), status.switches()), (Some(1732 << 10), Some((7, 9))));
        let empty = Status::default();
        assert_eq!((empty.process(), empty.capabilities(), empty.is_filtered()), (None, 0, false));
    }

    #[test]
    fn this_process_is_described() {
        let own = std::process::id();
        assert_eq!(program(own).as_deref(), std::env::current_exe().ok().as_deref());
        assert_eq!(process_of(own), Some(own));
        assert!(threads(own).unwrap().contains(&own) && all().contains(&own));
        assert!(runs(own) && thread_runs(own, own) && exists(own));
        assert_eq!(Stat::of(own).map(|stat| stat.parent), Some(std::os::unix::process::parent_id()));
        assert_eq!(owner(own), Some(crate::user()));
        assert_eq!(command_line(own).first(), std::env::args().next().as_ref());
        assert!(resident_bytes(own).unwrap() > 1 << 20);
        assert!(cpu_time_ns(own).unwrap() > 0 && cpu_time_ns(u32::MAX).is_none());
        // AT_PAGESZ
        assert_eq!(Auxiliary::of(own).unwrap().get(6), rustix::param::page_size() as u64);
    }

    #[test]
    fn missing_processes_give_no_answer() {
        let none = u32::MAX;
        assert!(threads(none).is_err() && children(none, 9).is_empty() && command_line(none).is_empty());
        assert_eq!((name(none), program(none), owner(none), process_of(none)), (None, None, None, None));
        assert!(!runs(none) && !exists(none) && limit(none, "Max open files").is_none());
    }

    #[test]
    fn a_child_is_found_until_it_exits() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        assert!(children(std::process::id(), 64).contains(&child.id()));
        child.kill().unwrap();
        while runs(child.id()) {
            std::thread::yield_now();
        }
        assert!(exists(child.id()), "it is not reaped yet");
        child.wait().unwrap();
    }

    #[test]
    fn a_truncated_auxiliary_vector_has_its_complete_entries() {
        let words = [6u64, 4096, 7, 99];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(Auxiliary::parse(&bytes).get(7), 99);
        assert_eq!(Auxiliary::parse(&bytes[..31]).get(7), 0);
        assert_eq!(Auxiliary::parse(&bytes[..31]).get(6), 4096);
    }
}
