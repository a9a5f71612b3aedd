//! Facts about the machine and this process.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Resource, Rlimit};
use whyslow_proc::accounts::Io;
use whyslow_proc::kernel;
use whyslow_proc::machine::FirstCpu;
use whyslow_profile::Host;

/// The features that code can be compiled for and that hints refer to. The kernel lists about a hundred more.
const FEATURES: [&str; 24] = [
    "sse3", "ssse3", "sse4_1", "sse4_2", "popcnt", "abm", "bmi1", "bmi2", "f16c", "fma", "avx", "avx2",
    "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "erms", "asimd", "asimddp", "atomics",
    "crc32", "sve", "sve2",
];

/// The machine description stored in a recording.
pub(crate) fn describe(cpus: usize) -> Host {
    let cpu = FirstCpu::now();
    Host {
        os: format!("Linux {}", kernel::release()),
        distribution: distribution(&fs::read_to_string("/etc/os-release").unwrap_or_default()),
        arch: std::env::consts::ARCH.to_owned(),
        cpu: cpu.get("model name").unwrap_or_default().to_owned(),
        cpus: cpus as u32,
        virtualisation: cpu.is_virtual().then(|| hypervisor_name(Path::new("/sys"))),
        features: cpu.features(&FEATURES),
    }
}

/// `debian` of a line `ID=debian` or `ID="debian"`.
fn distribution(os_release: &str) -> String {
    let id = os_release.lines().find_map(|line| line.strip_prefix("ID="));
    id.unwrap_or_default().trim().trim_matches(['"', '\'']).to_owned()
}

fn hypervisor_name(sys: &Path) -> String {
    let product = fs::read_to_string(sys.join("class/dmi/id/product_name")).unwrap_or_default();
    if product.trim().is_empty() { "virtual machine".to_owned() } else { product.trim().to_owned() }
}

/// CPU time, memory and the other resources that the kernel accounts to some processes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    pub(crate) max_resident_bytes: u64,
    /// The part of it that the process had before its exec, which is memory of whyslow.
    pub(crate) resident_before_exec_bytes: u64,
    pub(crate) minor_faults: u64,
    pub(crate) major_faults: u64,
    pub(crate) voluntary_switches: u64,
    pub(crate) involuntary_switches: u64,
    /// Bytes read from disks and written to them.
    pub(crate) disk_bytes: (u64, u64),
    /// I/O bytes, if they were read before the process was reaped.
    pub(crate) io: Option<Io>,
}

impl Usage {
    /// The peak of the program itself. A new process starts as a copy of whyslow, and the kernel remembers the
    /// peak of that copy: a smaller program hides behind it.
    pub(crate) fn known_peak_bytes(&self) -> Option<u64> {
        /// The pages that the exec itself touches, and what the kernel's counters lag behind.
        const INEXACT: u64 = 1 << 20;
        let is_known = self.max_resident_bytes > self.resident_before_exec_bytes + INEXACT;
        is_known.then_some(self.max_resident_bytes)
    }
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
            resident_before_exec_bytes: 0,
            minor_faults: usage.ru_minflt.unsigned_abs(),
            major_faults: usage.ru_majflt.unsigned_abs(),
            voluntary_switches: usage.ru_nvcsw.unsigned_abs(),
            involuntary_switches: usage.ru_nivcsw.unsigned_abs(),
            // Always in units of 512 bytes, whatever the disk's block size.
            disk_bytes: (usage.ru_inblock.unsigned_abs() * 512, usage.ru_oublock.unsigned_abs() * 512),
            io: None,
        }
    }
}

/// The resources that this process has used.
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

/// Raises the priority of this thread, where that is permitted, until it is dropped: a recorder that queues
/// for a CPU loses samples. Threads and processes started in the meantime inherit the priority.
#[derive(Debug)]
pub(crate) struct RaisedPriority {
    before: i32,
}

impl RaisedPriority {
    pub(crate) fn new() -> Self {
        const NICE: i32 = -10;
        let before = rustix::process::getpriority_process(None).unwrap_or(0);
        // A refusal leaves the priority unchanged.
        let _ = rustix::process::setpriority_process(None, before.min(NICE));
        Self { before }
    }
}

impl Drop for RaisedPriority {
    fn drop(&mut self) {
        let _ = rustix::process::setpriority_process(None, self.before);
    }
}

/// Runs work on another thread at low priority: it gets a tenth of the CPU time of a competing thread, enough
/// to finish 40 ms of work before most programs end. `None` if no thread may be started; the work is left undone.
pub(crate) fn run_at_low_priority(work: fn()) -> Option<std::thread::JoinHandle<()>> {
    const NICE: i32 = 10;
    let run = move || {
        let _ = rustix::process::setpriority_process(None, NICE);
        work();
    };
    std::thread::Builder::new().spawn(run).ok()
}

/// Raises the limit of open files to the hard limit. Attaching needs one file per thread and CPU.
pub(crate) fn raise_file_limit() {
    let Rlimit { maximum, .. } = rustix::process::getrlimit(Resource::Nofile);
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
