//! Facts about the machine and this process.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Resource, Rlimit};
use whyslow_proc::accounts::Io;
use whyslow_proc::kernel;
use whyslow_proc::machine::FirstCpu;
use whyslow_profile::Host;

/// What code can be compiled for and what hints about code ask for; the kernel lists a hundred more.
const FEATURES: [&str; 24] = [
    "sse3", "ssse3", "sse4_1", "sse4_2", "popcnt", "abm", "bmi1", "bmi2", "f16c", "fma", "avx", "avx2",
    "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "erms", "asimd", "asimddp", "atomics",
    "crc32", "sve", "sve2",
];

/// What a recording says about its machine.
pub(crate) fn describe(cpus: usize) -> Host {
    let cpu = FirstCpu::now();
    Host {
        os: format!("Linux {}", kernel::release()),
        arch: std::env::consts::ARCH.to_owned(),
        cpu: cpu.get("model name").unwrap_or_default().to_owned(),
        cpus: cpus as u32,
        virtualisation: cpu.is_virtual().then(|| hypervisor_name(Path::new("/sys"))),
        features: cpu.features(&FEATURES),
    }
}

fn hypervisor_name(sys: &Path) -> String {
    let product = fs::read_to_string(sys.join("class/dmi/id/product_name")).unwrap_or_default();
    if product.trim().is_empty() { "virtual machine".to_owned() } else { product.trim().to_owned() }
}

/// CPU time, memory and what else the kernel accounts of some processes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    pub(crate) max_resident_bytes: u64,
    pub(crate) minor_faults: u64,
    pub(crate) major_faults: u64,
    pub(crate) voluntary_switches: u64,
    pub(crate) involuntary_switches: u64,
    /// Read from disks and written to them.
    pub(crate) disk_bytes: (u64, u64),
    /// Bytes, where a process was asked before it was waited for.
    pub(crate) io: Option<Io>,
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
            minor_faults: usage.ru_minflt.unsigned_abs(),
            major_faults: usage.ru_majflt.unsigned_abs(),
            voluntary_switches: usage.ru_nvcsw.unsigned_abs(),
            involuntary_switches: usage.ru_nivcsw.unsigned_abs(),
            // In units of 512 bytes, whatever the disk's own are.
            disk_bytes: (usage.ru_inblock.unsigned_abs() * 512, usage.ru_oublock.unsigned_abs() * 512),
            io: None,
        }
    }
}

/// What this process has used.
#[expect(unsafe_code, reason = "rustix has no getrusage")]
pub(crate) fn own_usage() -> Usage {
    // SAFETY: all-zero is a valid `rusage`, and the call fills it.
    let usage = unsafe {
        let mut usage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    Usage::from(usage)
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
        let before = rustix::process::getpriority_process(None).unwrap_or(0);
        // A refusal changes nothing.
        let _ = rustix::process::setpriority_process(None, before.min(NICE));
        Self { before }
    }
}

impl Drop for GoFirst {
    fn drop(&mut self) {
        let _ = rustix::process::setpriority_process(None, self.before);
    }
}

/// Works on another thread, which gets a tenth of what others get where all want the same CPU: enough to be done with 40 ms of work
/// before most programs are.
pub(crate) fn work_last(work: fn()) -> std::thread::JoinHandle<()> {
    const NICE: i32 = 10;
    std::thread::spawn(move || {
        let _ = rustix::process::setpriority_process(None, NICE);
        work();
    })
}

/// Lifts the limit of open files to what is allowed; attaching needs one per thread and CPU.
pub(crate) fn raise_file_limit() {
    let Rlimit { maximum, .. } = rustix::process::getrlimit(Resource::Nofile);
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
