//! Facts about the machine and this process.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use whyslow_profile::Host;

/// What a recording says about its machine.
pub(crate) fn describe(cpus: usize) -> Host {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpuinfo = first_cpu();
    Host {
        os: format!("Linux {}", release.trim()),
        arch: std::env::consts::ARCH.to_owned(),
        cpu: cpuinfo_value(&cpuinfo, "model name").unwrap_or_default().to_owned(),
        cpus: cpus as u32,
        virtualisation: cpuinfo_value(&cpuinfo, "flags")
            .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"))
            .then(|| hypervisor_name(Path::new("/sys"))),
    }
}

/// The entry of the first CPU in `/proc/cpuinfo`; the kernel takes its time for all of them on large machines.
fn first_cpu() -> String {
    use io::Read as _;
    let mut text = Vec::new();
    if let Ok(file) = fs::File::open("/proc/cpuinfo") {
        // What could be read until an error is enough.
        let _ = file.take(4096).read_to_end(&mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn cpuinfo_value<'a>(cpuinfo: &'a str, key: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then_some(value.trim())
    })
}

fn hypervisor_name(sys: &Path) -> String {
    let product = fs::read_to_string(sys.join("class/dmi/id/product_name")).unwrap_or_default();
    if product.trim().is_empty() { "virtual machine".to_owned() } else { product.trim().to_owned() }
}

/// Reads a list such as `0-3,8`.
pub(crate) fn cpu_list(text: &str) -> Vec<u32> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
            cpus.extend(first..=last.min(first.saturating_add(1 << 16)));
        }
    }
    cpus
}

/// Writes a list such as `0-3,8`.
pub(crate) fn cpu_words(cpus: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let word = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(word).collect::<Vec<_>>().join(",")
}

/// All CPUs that are on.
pub(crate) fn online_cpus() -> Vec<u32> {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let cpus = cpu_list(&online);
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// The CPUs that a process may use.
pub(crate) fn allowed_cpus(pid: u32) -> Vec<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let allowed = allowed.map(cpu_list).unwrap_or_default();
    let online = online_cpus();
    let usable = online.iter().copied().filter(|cpu| allowed.contains(cpu)).collect::<Vec<_>>();
    if usable.is_empty() { online } else { usable }
}

/// The process of a thread: its own number when it is the first one of it, another for the others; `None` when it is gone.
pub(crate) fn process_of(tid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// All processes and their parents.
pub(crate) fn parents() -> Vec<(u32, u32)> {
    let pids = crate::numbers_in(Path::new("/proc")).into_iter();
    pids.filter_map(|pid| Some((pid, state_and_parent(pid)?.1))).collect()
}

/// Whether a process is there and has not ended.
pub(crate) fn runs(pid: u32) -> bool {
    state_and_parent(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

/// `PID (NAME) STATE PARENT …`, where the name can hold anything.
fn state_and_parent(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat).into_owned();
    let mut words = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

/// Whether `/proc/kallsyms` shows real addresses, and the address of the kernel's `_text` if so.
pub(crate) fn kernel_base() -> Option<u64> {
    use io::{BufRead as _, BufReader};
    let symbols = BufReader::new(fs::File::open("/proc/kallsyms").ok()?);
    for line in symbols.lines() {
        let line = line.ok()?;
        let mut words = line.split_ascii_whitespace();
        let (address, _, name) = (words.next()?, words.next()?, words.next()?);
        if name == "_text" {
            return u64::from_str_radix(address, 16).ok().filter(|address| *address != 0);
        }
    }
    None
}

/// The kernel's own build id.
pub(crate) fn kernel_build_id() -> Option<String> {
    let notes = fs::read("/sys/kernel/notes").ok()?;
    let mut rest = &notes[..];
    // note = name length, description length, type, name, description; both padded to 4 bytes
    while rest.len() >= 12 {
        let number = |at: usize| u32::from_ne_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
        let (name_len, desc_len, kind) = (number(0) as usize, number(4) as usize, number(8));
        let desc_at = 12 + name_len.next_multiple_of(4);
        let desc = rest.get(desc_at..desc_at.checked_add(desc_len)?)?;
        if kind == 3 && rest.get(12..16) == Some(b"GNU\0") {
            return Some(desc.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        rest = rest.get(desc_at + desc_len.next_multiple_of(4)..)?;
    }
    None
}

/// CPU time and memory of some processes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    pub(crate) max_resident_bytes: u64,
}

impl From<libc::rusage> for Usage {
    fn from(usage: libc::rusage) -> Self {
        let time = |time: libc::timeval| {
            Duration::new(time.tv_sec.unsigned_abs(), time.tv_usec.unsigned_abs() as u32 * 1000)
        };
        Self {
            user: time(usage.ru_utime),
            system: time(usage.ru_stime),
            max_resident_bytes: usage.ru_maxrss.unsigned_abs() * 1024,
        }
    }
}

#[expect(unsafe_code, reason = "libc calls without a safe wrapper")]
mod calls {
    use super::{Usage, io};

    /// The page size.
    pub(crate) fn page_size() -> usize {
        // SAFETY: no arguments in memory.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(size).unwrap_or(4096)
    }

    /// What this process has used.
    pub(crate) fn own_usage() -> Usage {
        // SAFETY: all-zero is a valid `rusage`, and the call fills it.
        let usage = unsafe {
            let mut usage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
            usage
        };
        Usage::from(usage)
    }

    /// Nanoseconds of the clock that samples carry.
    pub(crate) fn monotonic_ns() -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is ours to fill.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
        time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
    }

    /// Reads memory of another process; how much of `buffer` was filled.
    pub(crate) fn read_memory(pid: u32, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: buffer.len() };
        // SAFETY: the kernel writes at most `buffer.len()` bytes into `buffer`, which we hold exclusively; the other
        // address is only meaningful in the other process.
        let read = unsafe {
            libc::process_vm_readv(pid.cast_signed(), &raw const local, 1, &raw const remote, 1, 0)
        };
        usize::try_from(read).map_err(|_| io::Error::last_os_error())
    }

    /// While it lives, this thread goes before others where that is allowed: a recorder that waits for its turn loses
    /// samples. Threads and processes that are started meanwhile go before others, too.
    #[derive(Debug)]
    pub(crate) struct GoFirst {
        before: i32,
    }

    impl GoFirst {
        pub(crate) fn new() -> Self {
            const NICE: i32 = -10;
            // SAFETY: no memory is involved. A refusal changes nothing.
            unsafe {
                let before = libc::getpriority(libc::PRIO_PROCESS, 0);
                libc::setpriority(libc::PRIO_PROCESS, 0, before.min(NICE));
                Self { before }
            }
        }
    }

    impl Drop for GoFirst {
        fn drop(&mut self) {
            // SAFETY: no memory is involved.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, self.before) };
        }
    }

    /// Lifts the limit of open files to what is allowed; attaching needs one per thread and CPU.
    pub(crate) fn raise_file_limit() {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` is ours to fill and to pass.
        unsafe {
            if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
                limit.rlim_cur = limit.rlim_max;
                libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
            }
        }
    }
}
pub(crate) use calls::{GoFirst, monotonic_ns, own_usage, page_size, raise_file_limit, read_memory};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_have_ranges_and_single_numbers() {
        assert_eq!(cpu_list("0-2,5,7-8\n"), [0, 1, 2, 5, 7, 8]);
        assert_eq!(cpu_list(""), [] as [u32; 0]);
        assert_eq!(cpu_list("x,3"), [3]);
        assert_eq!(cpu_words(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
    }

    #[test]
    fn own_memory_can_be_read_like_another_process() {
        let secret = [7u8; 16];
        let mut copy = [0; 16];
        let read = read_memory(std::process::id(), secret.as_ptr() as u64, &mut copy).unwrap();
        assert_eq!((read, copy), (16, secret));
        assert!(read_memory(std::process::id(), 8, &mut copy).is_err());
    }
}
