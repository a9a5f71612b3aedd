//! The kernel's own accounting: `/proc/PID/stat` and `io` of a process, `/proc/stat` and `vmstat` of the
//! machine.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Time and page faults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Account {
    /// CPU time in user mode, in ticks of 10 ms on most machines.
    pub user_ns: u64,
    /// CPU time in the kernel.
    pub system_ns: u64,
    /// Page faults without reading from disk.
    pub minor_faults: u64,
    /// Page faults that read from disk.
    pub major_faults: u64,
}

impl Account {
    /// The account of a process and the children that it has waited for.
    pub fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?, nanoseconds_per_tick())
    }

    fn parse(stat: &[u8], tick_ns: u64) -> Option<Self> {
        let behind_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
        let words = std::str::from_utf8(&stat[behind_name..]).ok()?.split_ascii_whitespace();
        // The state is the third field in proc(5). From the tenth on: faults, those of children, and so on,
        // then times.
        let numbers: Vec<u64> = words.skip(10 - 3).take(8).map_while(|word| word.parse().ok()).collect();
        let [minor, minor_below, major, major_below, user, system, user_below, system_below] = numbers[..]
        else {
            return None;
        };
        Some(Self {
            user_ns: (user + user_below) * tick_ns,
            system_ns: (system + system_below) * tick_ns,
            minor_faults: minor + minor_below,
            major_faults: major + major_below,
        })
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            user_ns: self.user_ns + other.user_ns,
            system_ns: self.system_ns + other.system_ns,
            minor_faults: self.minor_faults + other.minor_faults,
            major_faults: self.major_faults + other.major_faults,
        }
    }

    /// The increase since an earlier reading.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
            minor_faults: self.minor_faults.saturating_sub(earlier.minor_faults),
            major_faults: self.major_faults.saturating_sub(earlier.major_faults),
        }
    }
}

fn nanoseconds_per_tick() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

/// Bytes read and written by a process and the children that it has waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Io {
    /// By system calls.
    pub read: u64,
    /// By system calls.
    pub written: u64,
    /// From disks.
    pub read_from_disk: u64,
    /// To disks, minus data that was discarded before it was written.
    pub written_to_disk: u64,
    /// System calls that read.
    pub reads: u64,
    /// System calls that write.
    pub writes: u64,
}

impl Io {
    /// The account of a process; `None` if it belongs to another user.
    pub fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/io")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let number = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.parse::<u64>().ok())
        };
        Some(Self {
            read: number("rchar")?,
            written: number("wchar")?,
            read_from_disk: number("read_bytes")?,
            written_to_disk: number("write_bytes")?.saturating_sub(number("cancelled_write_bytes")?),
            reads: number("syscr")?,
            writes: number("syscw")?,
        })
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            read: self.read + other.read,
            written: self.written + other.written,
            read_from_disk: self.read_from_disk + other.read_from_disk,
            written_to_disk: self.written_to_disk + other.written_to_disk,
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
        }
    }

    /// The increase since an earlier reading.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            read: self.read.saturating_sub(earlier.read),
            written: self.written.saturating_sub(earlier.written),
            read_from_disk: self.read_from_disk.saturating_sub(earlier.read_from_disk),
            written_to_disk: self.written_to_disk.saturating_sub(earlier.written_to_disk),
            reads: self.reads.saturating_sub(earlier.reads),
            writes: self.writes.saturating_sub(earlier.writes),
        }
    }
}

/// A handle to a process's I/O account that works until the process is reaped. An exited process belongs to
/// root, so the file must be opened before the exit; it can be read afterwards.
#[derive(Debug)]
pub struct IoFile(fs::File);

impl IoFile {
    /// Opens it while the process runs.
    pub fn open(pid: u32) -> Option<Self> {
        fs::File::open(format!("/proc/{pid}/io")).ok().map(Self)
    }

    /// The bytes read and written up to now.
    pub fn read(&self) -> Option<Io> {
        let mut text = [0; 1024];
        let length = self.0.read_at(&mut text, 0).ok()?;
        Io::parse(std::str::from_utf8(&text[..length]).ok()?)
    }
}

/// The run-queue delay of a thread. The file stays open: opening it takes five times as long as reading it.
#[derive(Debug)]
pub struct QueuedTime(fs::File);

impl QueuedTime {
    /// Opens that of a running thread.
    pub fn open(pid: u32, tid: u32) -> Option<Self> {
        fs::File::open(format!("/proc/{pid}/task/{tid}/schedstat")).ok().map(Self)
    }

    /// The delay up to now, in nanoseconds. `None` once the thread has exited; for a main thread, once its process is
    /// reaped.
    pub fn read_ns(&self) -> Option<u64> {
        self.read_both_ns().map(|(_, queued)| queued)
    }

    /// How long it ran, and that delay.
    pub fn read_both_ns(&self) -> Option<(u64, u64)> {
        let mut text = [0; 64];
        let length = self.0.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..length]).ok()?;
        let mut words = text.split_ascii_whitespace();
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    }
}

/// The kernel's accounting of the whole machine since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MachineAccount {
    /// Time and page faults of all processes.
    pub account: Account,
    /// Number of context switches.
    pub switches: u64,
    /// Bytes read from disks.
    pub read_from_disk: u64,
    /// Bytes written to disks.
    pub written_to_disk: u64,
}

impl MachineAccount {
    /// The account of this machine.
    pub fn now() -> Option<Self> {
        Self::under(Path::new("/"))
    }

    /// The account of the system under a root folder.
    pub fn under(root: &Path) -> Option<Self> {
        let read = |name: &str| fs::read_to_string(root.join("proc").join(name)).ok();
        Self::parse(&read("stat")?, &read("vmstat").unwrap_or_default(), nanoseconds_per_tick())
    }

    fn parse(stat: &str, vmstat: &str, tick_ns: u64) -> Option<Self> {
        let line = |text: &str, name: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
            Some(found.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect::<Vec<u64>>())
        };
        let number = |text: &str, name: &str| line(text, name).and_then(|words| words.first().copied());
        // user, nice, system, idle, iowait, irq, softirq
        let times = line(stat, "cpu")?;
        let [user, nice, system, _, _, interrupts, soft, ..] = times[..] else { return None };
        let faults = number(vmstat, "pgfault").unwrap_or(0);
        let major = number(vmstat, "pgmajfault").unwrap_or(0);
        let kib = |name| number(vmstat, name).unwrap_or(0).saturating_mul(1024);
        Some(Self {
            account: Account {
                user_ns: (user + nice) * tick_ns,
                system_ns: (system + interrupts + soft) * tick_ns,
                minor_faults: faults.saturating_sub(major),
                major_faults: major,
            },
            switches: number(stat, "ctxt").unwrap_or(0),
            read_from_disk: kib("pgpgin"),
            written_to_disk: kib("pgpgout"),
        })
    }

    /// The increase since an earlier reading.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            account: self.account.since(earlier.account),
            switches: self.switches.saturating_sub(earlier.switches),
            read_from_disk: self.read_from_disk.saturating_sub(earlier.read_from_disk),
            written_to_disk: self.written_to_disk.saturating_sub(earlier.written_to_disk),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_includes_waited_for_children() {
        let stat = b"7 (a ) b) S 1 7 7 0 -1 4194560 100 20 3 4 50 6 7 8 20 0 1 0";
        let account = Account { user_ns: 570, system_ns: 140, minor_faults: 120, major_faults: 7 };
        assert_eq!(Account::parse(stat, 10), Some(account));
        for damaged in [&b""[..], b"7 (a) S", b"7 (a) S 1 7 7 0 -1 4194560 100 20 3 4 x 6 7 8 20"] {
            assert_eq!(Account::parse(damaged, 10), None);
        }
        assert_eq!(account.plus(account).since(account), account);
    }

    #[test]
    fn bytes_that_never_reach_the_disk_are_not_counted() {
        let text = "rchar: 1000\nwchar: 500\nsyscr: 10\nsyscw: 5\nread_bytes: 4096\nwrite_bytes: 8192\n\
                    cancelled_write_bytes: 4096\n";
        let io = Io {
            read: 1000,
            written: 500,
            read_from_disk: 4096,
            written_to_disk: 4096,
            reads: 10,
            writes: 5,
        };
        assert_eq!(Io::parse(text), Some(io));
        assert_eq!(Io::parse("rchar: 1\n"), None);
    }

    #[test]
    fn io_of_an_exited_process_is_readable() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let io = IoFile::open(child.id()).unwrap();
        drop(child.stdin.take());
        while crate::process::runs(child.id()) {
            std::thread::yield_now();
        }
        assert!(io.read().is_some(), "it is not reaped yet");
        child.wait().unwrap();
        assert_eq!(io.read(), None);
    }

    #[test]
    fn the_delay_of_a_thread_is_known_until_it_exits() {
        let pid = std::process::id();
        let (tid, this) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            tid.send(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()).unwrap();
            let _ = ended.recv();
        });
        let queued = QueuedTime::open(pid, this.recv().unwrap()).unwrap();
        let first = queued.read_ns().unwrap();
        assert!(queued.read_ns().is_some_and(|later| later >= first));
        drop(end);
        thread.join().unwrap();
        // The kernel wakes whoever joins a thread a moment before the thread is gone.
        while queued.read_ns().is_some() {
            std::thread::yield_now();
        }
        assert!(QueuedTime::open(pid, 0).is_none());
    }

    #[test]
    fn the_machine_has_the_sum_of_its_cpus() {
        let stat = "cpu  100 10 50 9999 5 2 3 0 0 0\ncpu0 1 2 3 4 5 6 7\nintr 5 6\nctxt 4711\n";
        let vmstat = "pgpgin 8\npgpgout 4\npgfault 1000\npgmajfault 10\n";
        let machine = MachineAccount::parse(stat, vmstat, 10).unwrap();
        assert_eq!(
            machine.account,
            Account { user_ns: 1100, system_ns: 550, minor_faults: 990, major_faults: 10 }
        );
        assert_eq!((machine.switches, machine.read_from_disk, machine.written_to_disk), (4711, 8192, 4096));
        assert_eq!(MachineAccount::parse("", vmstat, 10), None);
        assert!(MachineAccount::now().is_some() && Account::of(std::process::id()).is_some());
        assert!(Io::of(std::process::id()).is_some_and(|io| io.read > 0));
    }
}
