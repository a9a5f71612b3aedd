//! The machine: what the kernel's files say and what it granted, judged. Pure once the files are read.

use std::fs;
use std::path::Path;

use super::checkup::Item;
use super::probe::{Errno, Probe};
use super::virtualisation::Virtualisation;

/// The rate a recording asks for when nobody says otherwise.
const USUAL_RATE: u64 = 997;
/// A ring per CPU that holds enough for a busy machine.
const GOOD_RING_KIB: u64 = 512;
/// Below this much free space the cache of symbols may not fit.
const ENOUGH_DISK: u64 = 200 << 20;

const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_PTRACE: u32 = 19;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;

/// Everything the checks look at.
#[derive(Debug)]
pub(super) struct Machine {
    probe: Probe,
    paranoid: Option<i64>,
    kptr_restrict: Option<i64>,
    mlock_kib: Option<u64>,
    max_rate: Option<u64>,
    ptrace_scope: Option<i64>,
    cpus: u64,
    kernel_addresses: bool,
    seccomp: bool,
    capabilities: u64,
    virtualisation: Virtualisation,
}

impl Machine {
    /// Reads the files under a root folder.
    pub(super) fn read(root: &Path, probe: Probe) -> Self {
        let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        let number = |path: &str| text(path).trim().parse::<i64>().ok();
        let positive = |path: &str| number(path).and_then(|number| u64::try_from(number).ok());
        let status = text("proc/self/status");
        let field = |name: &str| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
                .map(str::trim)
                .unwrap_or_default()
        };
        Self {
            probe,
            paranoid: number("proc/sys/kernel/perf_event_paranoid"),
            kptr_restrict: number("proc/sys/kernel/kptr_restrict"),
            mlock_kib: positive("proc/sys/kernel/perf_event_mlock_kb"),
            max_rate: positive("proc/sys/kernel/perf_event_max_sample_rate"),
            ptrace_scope: number("proc/sys/kernel/yama/ptrace_scope"),
            cpus: cpu_count(&text("sys/devices/system/cpu/online")),
            kernel_addresses: kernel_addresses(&root.join("proc/kallsyms")),
            seccomp: field("Seccomp") == "2",
            capabilities: u64::from_str_radix(field("CapEff"), 16).unwrap_or(0),
            virtualisation: Virtualisation::read(root),
        }
    }

    /// All checks.
    pub(super) fn check(&self) -> Vec<Item> {
        let mut items = vec![self.perf_events()];
        if self.probe.user_clock.is_ok() {
            items.push(self.kernel_time());
            if self.probe.kernel_clock.is_ok() {
                items.push(self.kernel_names());
            }
            items.extend([self.hardware(), self.sample_rate(), self.buffers()]);
        }
        items.push(self.live_stacks());
        items.extend(self.surroundings());
        items.extend(self.disk());
        items
    }

    fn can(&self, capability: u32) -> bool {
        self.capabilities >> capability & 1 == 1
    }

    fn paranoid_text(&self) -> String {
        self.paranoid.map_or_else(
            || "no perf_event_paranoid".to_owned(),
            |level| format!("perf_event_paranoid {level}"),
        )
    }

    fn perf_events(&self) -> Item {
        const CHECK: &str = "perf events";
        let Err(errno) = self.probe.user_clock else {
            return Item::ok(CHECK, format!("granted ({})", self.paranoid_text()));
        };
        let item = Item::problem(CHECK, format!("refused: {} ({})", error_name(errno), self.paranoid_text()))
            .so("nothing can be recorded");
        let level = self.paranoid.unwrap_or(i64::MAX);
        if self.paranoid.is_none() || errno == libc::ENOSYS {
            item.fix("a kernel with CONFIG_PERF_EVENTS; some sandboxes (gVisor) have none")
        } else if level > 2 && !self.can(CAP_PERFMON) && !self.can(CAP_SYS_ADMIN) {
            item.sysctl("kernel.perf_event_paranoid=1").or_group()
        } else if let Some(container) = &self.virtualisation.container {
            let command = if container == "Kubernetes" {
                "securityContext: {capabilities: {add: [PERFMON]}, seccompProfile: {type: Unconfined}}"
                    .to_owned()
            } else {
                "start the container with --cap-add PERFMON --security-opt seccomp=unconfined".to_owned()
            };
            item.fix(command)
        } else if self.seccomp {
            item.fix("start without the seccomp filter that forbids perf_event_open")
        } else {
            item.sysctl("kernel.perf_event_paranoid=1")
        }
    }

    fn kernel_time(&self) -> Item {
        const CHECK: &str = "kernel time";
        match self.probe.kernel_clock {
            Ok(()) => Item::ok(CHECK, "is recorded"),
            Err(_) => Item::note(CHECK, format!("is not recorded ({})", self.paranoid_text()))
                .so("profiles hold user code only; time in system calls is missing from them")
                .sysctl("kernel.perf_event_paranoid=1")
                .or_group(),
        }
    }

    fn kernel_names(&self) -> Item {
        const CHECK: &str = "kernel names";
        if self.kernel_addresses {
            return Item::ok(CHECK, "are readable");
        }
        let setting =
            self.kptr_restrict.map_or_else(String::new, |level| format!(" (kptr_restrict {level})"));
        Item::note(CHECK, format!("are hidden{setting}"))
            .so("kernel functions appear without names")
            .sysctl("kernel.kptr_restrict=0 kernel.perf_event_paranoid=1")
    }

    fn hardware(&self) -> Item {
        const CHECK: &str = "cycle counter";
        if self.probe.cycles.is_ok() {
            return Item::ok(CHECK, "is there: samples come from the hardware");
        }
        let item = Item::note(CHECK, "is not there: samples come from the kernel's CPU clock")
            .so("shares are as true; kernel code that runs with interrupts off is blamed on its end");
        match &self.virtualisation.machine {
            Some(_) => item.fix("let the host pass its PMU on to this virtual machine, if it can"),
            None => item,
        }
    }

    fn sample_rate(&self) -> Item {
        const CHECK: &str = "sample rate";
        match self.max_rate {
            Some(rate) if rate < USUAL_RATE => Item::note(CHECK, format!("at most {rate} per second"))
                .so(format!("the usual {USUAL_RATE} per second is refused; use -F {rate} or less"))
                .sysctl("kernel.perf_event_max_sample_rate=100000"),
            Some(rate) => Item::ok(CHECK, format!("up to {rate} per second")),
            None => Item::ok(CHECK, "no limit known"),
        }
    }

    /// `ring = largest power of two ≤ (mlock_kb × CPUs + RLIMIT_MEMLOCK) / CPUs − one page of control data`
    fn buffers(&self) -> Item {
        const CHECK: &str = "buffers";
        if self.can(CAP_IPC_LOCK)
            || self.paranoid.is_some_and(|level| level < 0)
            || self.probe.locked_memory.is_none()
        {
            return Item::ok(CHECK, "no limit on locked memory");
        }
        let shared = self.mlock_kib.unwrap_or(516) * self.cpus;
        let own = self.probe.locked_memory.unwrap_or(0) >> 10;
        let each = ((shared + own) / self.cpus).saturating_sub(4);
        let ring = if each < 4 { 0 } else { 1 << each.ilog2() };
        let found = format!("{ring} KiB per CPU, {} CPUs", self.cpus);
        if ring >= GOOD_RING_KIB {
            return Item::ok(CHECK, found);
        }
        Item::note(CHECK, found)
            .so("less stack is copied per sample, and samples may be lost when the machine is busy")
            .sysctl("kernel.perf_event_mlock_kb=2052")
    }

    fn live_stacks(&self) -> Item {
        const CHECK: &str = "live stacks";
        match self.ptrace_scope {
            _ if self.can(CAP_SYS_PTRACE) => Item::ok(CHECK, "memory of recorded programs is readable"),
            None | Some(0) => Item::ok(CHECK, "memory of your own programs is readable"),
            Some(1) => Item::ok(CHECK, "memory of programs that whyslow starts is readable (ptrace_scope 1)"),
            Some(scope) => {
                let item =
                    Item::note(CHECK, format!("memory of programs is not readable (ptrace_scope {scope})"))
                        .so("very deep stacks stay truncated more often");
                if scope >= 3 {
                    item.fix("boot with another setting: 3 cannot be changed")
                } else {
                    item.sysctl("kernel.yama.ptrace_scope=1")
                }
            }
        }
    }

    fn surroundings(&self) -> Vec<Item> {
        let mut items = Vec::new();
        if self.virtualisation.wsl {
            let item = Item::note("system", "Windows Subsystem for Linux");
            items.push(item.so("recording works; timings include Windows' own scheduling"));
        } else if let Some(machine) = &self.virtualisation.machine {
            let item = Item::note("system", format!("a virtual machine{}", named(machine)));
            items.push(item.so(
                "other guests take time that no profile can see: repeat measurements before you believe them",
            ));
        }
        if let Some(container) = &self.virtualisation.container {
            items.push(Item::ok("container", container.clone()));
        }
        if self.seccomp && self.probe.user_clock.is_ok() {
            items.push(Item::ok("seccomp", "a filter is on; it lets perf events through"));
        }
        items
    }

    fn disk(&self) -> Option<Item> {
        let (folder, free) = self.probe.cache.as_ref()?;
        let Some(free) = free else {
            let item = Item::note("symbol cache", format!("{} cannot be written", folder.display()));
            return Some(
                item.so("symbols are read afresh each time").fix("set XDG_CACHE_HOME to a folder of yours"),
            );
        };
        let found = format!("{} MB free in {}", free / 1_000_000, folder.display());
        Some(if *free < ENOUGH_DISK {
            Item::note("symbol cache", found)
                .so("symbols may be read afresh each time")
                .fix("free some space, or set XDG_CACHE_HOME to a folder with more")
        } else {
            Item::ok("symbol cache", found)
        })
    }
}

fn named(machine: &str) -> String {
    if machine.is_empty() { String::new() } else { format!(" ({machine})") }
}

fn error_name(errno: Errno) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Counts a list such as `0-3,8`; at least 1.
fn cpu_count(list: &str) -> u64 {
    let count = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse::<u64>().ok()?, last.trim().parse::<u64>().ok()?);
        (last >= first).then(|| last - first + 1)
    };
    list.split(',').filter_map(count).sum::<u64>().max(1)
}

/// Whether the list of kernel symbols shows addresses: hidden ones are zeros.
fn kernel_addresses(kallsyms: &Path) -> bool {
    use std::io::{BufRead, BufReader};
    let Ok(file) = fs::File::open(kallsyms) else { return false };
    let mut lines = BufReader::new(file).lines().map_while(Result::ok).take(64);
    lines.any(|line| line.split(' ').next().is_some_and(|address| address.bytes().any(|digit| digit != b'0')))
}

#[cfg(test)]
mod tests {
    use super::super::checkup::State;
    use super::*;

    const GRANTED: Probe =
        Probe { user_clock: Ok(()), kernel_clock: Ok(()), cycles: Ok(()), locked_memory: None, cache: None };

    /// A root folder with these files.
    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn check(files: &[(&str, &str)], probe: Probe) -> Vec<Item> {
        Machine::read(root(files).path(), probe).check()
    }

    fn item<'a>(items: &'a [Item], check: &str) -> &'a Item {
        items.iter().find(|item| item.check == check).unwrap()
    }

    const BARE_METAL: [(&str, &str); 7] = [
        ("proc/sys/kernel/perf_event_paranoid", "1\n"),
        ("proc/sys/kernel/kptr_restrict", "0\n"),
        ("proc/sys/kernel/perf_event_mlock_kb", "516\n"),
        ("proc/sys/kernel/perf_event_max_sample_rate", "100000\n"),
        ("sys/devices/system/cpu/online", "0-15\n"),
        ("proc/kallsyms", "ffffffff81000000 T _text\n"),
        ("proc/self/status", "Name:\twhyslow\nCapEff:\t0000000000000000\nSeccomp:\t0\n"),
    ];

    #[test]
    fn a_good_machine_has_nothing_but_ok() {
        let items = check(&BARE_METAL, GRANTED);
        assert!(items.iter().all(|item| item.state == State::Ok), "{items:?}");
    }

    #[test]
    fn paranoid_two_loses_the_kernel_and_says_how_to_get_it() {
        let files = [
            ("proc/sys/kernel/perf_event_paranoid", "2\n"),
            ("proc/sys/kernel/kptr_restrict", "1\n"),
            ("proc/kallsyms", "0000000000000000 T _text\n0000000000000000 T _stext\n"),
        ];
        let items = check(&files, Probe { kernel_clock: Err(libc::EACCES), ..GRANTED });
        assert_eq!(item(&items, "perf events").state, State::Ok);
        assert_eq!(item(&items, "kernel time").state, State::Note);
        assert_eq!(
            item(&items, "kernel time").fix.as_deref(),
            Some("sudo sysctl kernel.perf_event_paranoid=1")
        );
        assert!(!items.iter().any(|item| item.check == "kernel names"), "they do not matter then");
    }

    #[test]
    fn a_setting_is_given_for_now_for_good_and_for_a_group() {
        let files = [("proc/sys/kernel/perf_event_paranoid", "2\n")];
        let items = check(&files, Probe { kernel_clock: Err(libc::EACCES), ..GRANTED });
        let kernel_time = item(&items, "kernel time");
        assert_eq!(
            kernel_time.permanent.as_deref(),
            Some("printf '%s\\n' kernel.perf_event_paranoid=1 | sudo tee -a /etc/sysctl.d/99-whyslow.conf")
        );
        assert!(kernel_time.for_group.as_deref().unwrap().contains("setcap cap_perfmon"));
        let text = super::super::checkup::table("Machine", &items);
        assert!(text.contains("for good:") && text.contains("for a group:"), "{text}");
    }

    #[test]
    fn hidden_kernel_addresses_are_noted() {
        let files = [
            ("proc/sys/kernel/kptr_restrict", "1\n"),
            ("proc/kallsyms", "0000000000000000 T _text\n0000000000000000 T _stext\n"),
        ];
        assert_eq!(item(&check(&files, GRANTED), "kernel names").found, "are hidden (kptr_restrict 1)");
    }

    #[test]
    fn debians_paranoid_three_prevents_recording() {
        let files = [("proc/sys/kernel/perf_event_paranoid", "3\n"), ("proc/self/status", "CapEff:\t0\n")];
        let items = check(&files, Probe { user_clock: Err(libc::EACCES), ..GRANTED });
        let perf = item(&items, "perf events");
        assert_eq!(perf.state, State::Problem);
        assert_eq!(perf.found, "refused: Permission denied (perf_event_paranoid 3)");
        assert_eq!(perf.fix.as_deref(), Some("sudo sysctl kernel.perf_event_paranoid=1"));
        assert!(!items.iter().any(|item| item.check == "kernel time"));
    }

    #[test]
    fn dockers_filter_is_named() {
        let files = [
            ("proc/sys/kernel/perf_event_paranoid", "2\n"),
            ("proc/self/status", "CapEff:\t00000000a80425fb\nSeccomp:\t2\n"),
            (".dockerenv", ""),
        ];
        let items = check(&files, Probe { user_clock: Err(libc::EPERM), ..GRANTED });
        assert!(
            item(&items, "perf events").fix.as_deref().unwrap().contains("--security-opt seccomp=unconfined")
        );
        assert_eq!(item(&items, "container").found, "Docker");
    }

    #[test]
    fn a_kernel_without_perf_events() {
        let items = check(&[], Probe { user_clock: Err(libc::ENOSYS), ..GRANTED });
        assert!(item(&items, "perf events").fix.as_deref().unwrap().contains("CONFIG_PERF_EVENTS"));
    }

    #[test]
    fn a_virtual_machine_without_counters() {
        let files = [
            ("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor\n"),
            ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
        ];
        let items = check(&files, Probe { cycles: Err(libc::ENOENT), ..GRANTED });
        assert_eq!(item(&items, "cycle counter").state, State::Note);
        assert_eq!(item(&items, "system").found, "a virtual machine (QEMU/KVM)");
    }

    #[test]
    fn windows_is_recognised() {
        let files = [("proc/sys/kernel/osrelease", "5.15.153.1-microsoft-standard-WSL2\n")];
        assert_eq!(item(&check(&files, GRANTED), "system").found, "Windows Subsystem for Linux");
    }

    #[test]
    fn rings_follow_from_the_limits() {
        let online = ("sys/devices/system/cpu/online", "0-3\n");
        let usual = [online, ("proc/sys/kernel/perf_event_mlock_kb", "516\n")];
        let items = check(&usual, Probe { locked_memory: Some(64 << 10), ..GRANTED });
        assert_eq!(item(&items, "buffers").found, "512 KiB per CPU, 4 CPUs");
        let small = [online, ("proc/sys/kernel/perf_event_mlock_kb", "68\n")];
        let items = check(&small, Probe { locked_memory: Some(0), ..GRANTED });
        assert_eq!(item(&items, "buffers").found, "64 KiB per CPU, 4 CPUs");
        assert_eq!(item(&items, "buffers").state, State::Note);
    }

    #[test]
    fn strict_yama_is_noted() {
        let items = check(&[("proc/sys/kernel/yama/ptrace_scope", "2\n")], GRANTED);
        assert_eq!(
            item(&items, "live stacks").fix.as_deref(),
            Some("sudo sysctl kernel.yama.ptrace_scope=1")
        );
    }
}
