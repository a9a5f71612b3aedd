//! Checks the machine: its settings, and what the kernel grants. Reads files once; the checks are pure.

use std::path::Path;

use rustix::io::Errno;
use whyslow_analyze::PerfLevel;
use whyslow_capture::{Granted, Options, Refused};
use whyslow_proc::kernel::{self, Settings};
use whyslow_proc::process::Status;

use super::checkup::{Check, Item};
use super::probe::Probe;
use super::virtualisation::Virtualisation;
use crate::failure::without_error_numbers;

/// A ring buffer per CPU that is large enough for a busy machine.
const GOOD_RING_KIB: u64 = 512;
/// With less free space, the symbol cache may not fit.
const ENOUGH_DISK: u64 = 200 << 20;

const CAP_SYS_PTRACE: u32 = 19;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;

/// The input of all checks.
#[derive(Debug)]
pub(super) struct Machine {
    probe: Probe,
    settings: Settings,
    kernel_addresses: bool,
    status: Status,
    virtualisation: Virtualisation,
}

impl Machine {
    /// Reads the files under a root folder, and environment variables.
    pub(super) fn read(root: &Path, has_variable: impl Fn(&str) -> bool, probe: Probe) -> Self {
        Self {
            probe,
            settings: Settings::read(root),
            kernel_addresses: kernel::text_address_under(root).is_some(),
            status: Status::read(&root.join("proc/self/status")).unwrap_or_default(),
            virtualisation: Virtualisation::read(root, has_variable),
        }
    }

    /// All checks.
    pub(super) fn check(&self) -> Vec<Item> {
        let mut items = vec![self.perf_events()];
        match &self.probe.events {
            Ok(granted) => {
                items.push(self.kernel_time(granted));
                if granted.kernel {
                    items.push(self.kernel_names());
                }
                items.extend([self.hardware(granted), self.sample_rate(), buffers(granted)]);
            }
            Err(Refused::Rings(number)) => items.extend([self.sample_rate(), no_buffers(*number)]),
            Err(Refused::Events(_)) => {}
        }
        if self.probe.events.is_err() {
            items.extend([self.own_timers(), self.running_programs()]);
        }
        items.push(self.live_stacks());
        items.extend(self.surroundings());
        items.extend(self.disk());
        items
    }

    fn can(&self, capability: u32) -> bool {
        self.status.capabilities() >> capability & 1 == 1
    }

    fn paranoid_text(&self) -> String {
        self.settings.perf_event_paranoid.map_or_else(
            || "no perf_event_paranoid".to_owned(),
            |level| format!("perf_event_paranoid {level}"),
        )
    }

    fn perf_events(&self) -> Item {
        const CHECK: Check = Check::PerfEvents;
        let Err(Refused::Events(number)) = self.probe.events else {
            return Item::ok(CHECK, format!("permitted ({})", self.paranoid_text()));
        };
        let found = format!("not permitted: {} ({})", error_name(number), self.paranoid_text());
        let item = match self.probe.timers {
            Ok(_) => Item::loss(CHECK, found).so(
                "programs that whyslow starts sample themselves with timers: fewer samples, no kernel functions; \
                 the whole machine cannot be recorded",
            ),
            Err(_) => Item::problem(CHECK, found).so("programs that whyslow starts cannot be recorded"),
        };
        let Virtualisation { container, gvisor, runner, .. } = &self.virtualisation;
        let level = self.settings.perf_event_paranoid.unwrap_or(i64::MAX);
        if *gvisor {
            item.fix("gVisor has no perf events: use the host, or a container with another runtime (docker run --runtime runc)")
        } else if self.settings.perf_event_paranoid.is_none() || number == Errno::NOSYS.raw_os_error() {
            item.fix("a kernel with CONFIG_PERF_EVENTS")
        } else if let Some(container) = container {
            let command = match container.as_str() {
                "Kubernetes" => {
                    "in the pod's container: securityContext: {capabilities: {add: [PERFMON, SYS_PTRACE]}, seccompProfile: \
                                 {type: Unconfined}}"
                }
                "Podman" => "podman run --cap-add PERFMON --security-opt seccomp=unconfined …",
                "Docker" => "docker run --cap-add PERFMON --security-opt seccomp=unconfined …",
                _ => "start the container with the capability PERFMON and without its seccomp filter",
            };
            item.fix(command)
        } else if level > 2 && !self.can(CAP_PERFMON) && !self.can(CAP_SYS_ADMIN) {
            match runner {
                Some(_) => item.fix(format!("a step before: run: {}", PerfLevel::Kernel.command())),
                None => item.sysctl(PerfLevel::Kernel.setting()).or_group(),
            }
        } else if self.status.is_filtered() {
            item.fix("start without the seccomp filter that forbids perf_event_open")
        } else {
            item.sysctl(PerfLevel::Kernel.setting())
        }
    }

    /// Whether running programs can be recorded with ptrace.
    fn running_programs(&self) -> Item {
        const CHECK: Check = Check::RunningPrograms;
        let all = self.can(CAP_SYS_PTRACE);
        match self.settings.ptrace_scope {
            _ if !self.probe.memory_is_readable => Item::loss(CHECK, "cannot be recorded (-p)")
                .so("recording them needs perf events or permission for ptrace"),
            Some(scope @ 1..) if !all => {
                let item = Item::loss(CHECK, format!("cannot be recorded (-p): ptrace_scope {scope}"))
                    .so("recording them needs perf events or permission for ptrace");
                if scope < 3 {
                    item.sysctl("kernel.yama.ptrace_scope=0")
                } else {
                    item.fix("run whyslow with sudo")
                }
            }
            _ => Item::ok(
                CHECK,
                if all {
                    "can be recorded with ptrace (-p)"
                } else {
                    "of yours can be recorded with ptrace (-p)"
                },
            ),
        }
    }

    /// Whether timer sampling works, which replaces perf events.
    fn own_timers(&self) -> Item {
        const CHECK: Check = Check::OwnTimers;
        match &self.probe.timers {
            Ok(rate) => {
                Item::ok(CHECK, format!("work: {rate} samples per second of CPU time, at clock ticks"))
            }
            Err(why) => {
                Item::problem(CHECK, format!("do not work: {why}")).so("programs cannot sample themselves")
            }
        }
    }

    fn kernel_time(&self, granted: &Granted) -> Item {
        const CHECK: Check = Check::KernelTime;
        match granted.kernel {
            true => Item::ok(CHECK, "is recorded"),
            false => Item::loss(CHECK, format!("is not recorded ({})", self.paranoid_text()))
                .so("profiles have user code only; time in system calls is missing")
                .sysctl(PerfLevel::Kernel.setting())
                .or_group(),
        }
    }

    fn kernel_names(&self) -> Item {
        const CHECK: Check = Check::KernelNames;
        if self.kernel_addresses {
            return Item::ok(CHECK, "are readable");
        }
        let setting =
            self.settings.kptr_restrict.map_or_else(String::new, |level| format!(" (kptr_restrict {level})"));
        Item::loss(CHECK, format!("are hidden{setting}"))
            .so("kernel functions have no names")
            .sysctl("kernel.kptr_restrict=0 kernel.perf_event_paranoid=1")
    }

    fn hardware(&self, granted: &Granted) -> Item {
        const CHECK: Check = Check::CycleCounter;
        if granted.cycles {
            return Item::ok(CHECK, "available: samples come from the hardware");
        }
        let item = Item::loss(CHECK, "not available: samples come from the kernel's CPU clock")
            .so("shares are still right; kernel code with interrupts off is charged to the code that enables them");
        match &self.virtualisation.machine {
            Some(_) => item.fix("give this virtual machine a PMU, in the settings of the host"),
            None => item,
        }
    }

    fn sample_rate(&self) -> Item {
        const CHECK: Check = Check::SampleRate;
        let default = u64::from(Options::default().frequency_hz);
        match self.settings.perf_event_max_sample_rate {
            Some(rate) if rate < default => Item::loss(CHECK, format!("at most {rate} per second"))
                .so(format!("the default of {default} per second is not permitted; use -F {rate} or less"))
                .sysctl("kernel.perf_event_max_sample_rate=100000"),
            Some(rate) => Item::ok(CHECK, format!("up to {rate} per second")),
            None => Item::ok(CHECK, "no known limit"),
        }
    }

    fn live_stacks(&self) -> Item {
        const CHECK: Check = Check::LiveStacks;
        match self.settings.ptrace_scope {
            _ if self.probe.memory_is_readable && self.can(CAP_SYS_PTRACE) => {
                Item::ok(CHECK, "memory of recorded programs is readable")
            }
            None | Some(0) if self.probe.memory_is_readable => {
                Item::ok(CHECK, "memory of your own programs is readable")
            }
            Some(scope) if self.probe.memory_is_readable => {
                let found =
                    format!("memory of programs that whyslow starts is readable (ptrace_scope {scope})");
                Item::ok(CHECK, found)
            }
            scope => {
                let setting = scope.map_or_else(String::new, |scope| format!(" (ptrace_scope {scope})"));
                let item = Item::loss(CHECK, format!("memory of programs is not readable{setting}"))
                    .so("very deep stacks are truncated more often");
                match scope {
                    Some(3..) => item.fix("boot with another setting: 3 cannot be changed at run time"),
                    Some(2) => item.sysctl("kernel.yama.ptrace_scope=1"),
                    _ => item.fix(
                        "start the container with --cap-add SYS_PTRACE --security-opt seccomp=unconfined",
                    ),
                }
            }
        }
    }

    fn surroundings(&self) -> Vec<Item> {
        let mut items = Vec::new();
        if self.virtualisation.wsl {
            let item = Item::note(Check::System, "Windows Subsystem for Linux");
            items.push(item.so("recording works; times include Windows' own scheduling"));
        } else if let Some(machine) = &self.virtualisation.machine {
            let item = Item::note(Check::System, format!("a virtual machine{}", named(machine)));
            items.push(item.so(
                "other virtual machines on the host take time that profiles do not show: repeat measurements",
            ));
        }
        if self.virtualisation.gvisor {
            items.push(
                Item::note(Check::Container, "gVisor")
                    .so("times include gVisor's own kernel, which profiles do not show"),
            );
        } else if let Some(container) = &self.virtualisation.container {
            items.push(Item::ok(Check::Container, container.clone()));
        }
        if let Some(runner) = self.virtualisation.runner {
            let item = Item::note(Check::Runner, runner);
            items.push(item.so("each job may get another machine: compare only measurements of one job"));
        }
        if self.status.is_filtered() && self.probe.events.is_ok() {
            items.push(Item::ok(Check::Seccomp, "a filter is active and permits perf events"));
        }
        items
    }

    fn disk(&self) -> Option<Item> {
        let (folder, free) = self.probe.cache.as_ref()?;
        let Some(free) = free else {
            let item = Item::loss(Check::SymbolCache, format!("{} is not writable", folder.display()));
            return Some(
                item.so("symbols are read again for each profile")
                    .fix("set XDG_CACHE_HOME to a folder you can write to"),
            );
        };
        let found = format!("{} MB free in {}", free / 1_000_000, folder.display());
        Some(if *free < ENOUGH_DISK {
            Item::loss(Check::SymbolCache, found)
                .so("symbols may be read again for each profile")
                .fix("free some space, or set XDG_CACHE_HOME to a folder with more")
        } else {
            Item::ok(Check::SymbolCache, found)
        })
    }
}

fn named(machine: &str) -> String {
    if machine.is_empty() { String::new() } else { format!(" ({machine})") }
}

/// Checks the ring buffers that the recorder got.
fn buffers(granted: &Granted) -> Item {
    const CHECK: Check = Check::Buffers;
    let ring = granted.ring_bytes as u64 >> 10;
    let found = format!("{ring} KiB per CPU, {} CPUs", granted.cpus);
    if ring >= GOOD_RING_KIB {
        return Item::ok(CHECK, found);
    }
    Item::loss(CHECK, found)
        .so("less stack is copied per sample, and a busy machine may lose samples")
        .sysctl("kernel.perf_event_mlock_kb=2052")
}

fn no_buffers(number: i32) -> Item {
    Item::problem(Check::Buffers, format!("cannot lock memory for them: {}", error_name(number)))
        .so("nothing can be recorded while other recordings use this user's limit")
        .sysctl("kernel.perf_event_mlock_kb=2052")
}

fn error_name(number: i32) -> String {
    without_error_numbers(std::io::Error::from_raw_os_error(number).to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use whyslow_profile::Sampling;

    use super::*;
    use whyslow_words::Severity;

    const EVENTS: Granted = Granted {
        sampling: Sampling::Threads,
        cycles: true,
        kernel: true,
        ring_bytes: 4 << 20,
        stack_bytes: 32 << 10,
        cpus: 4,
    };
    const GRANTED: Probe =
        Probe { events: Ok(EVENTS), timers: Ok(250), memory_is_readable: true, cache: None };

    fn refused(error: Errno) -> Probe {
        Probe { events: Err(Refused::Events(error.raw_os_error())), ..GRANTED }
    }

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
        Machine::read(root(files).path(), |_| false, probe).check()
    }

    fn item(items: &[Item], check: Check) -> &Item {
        items.iter().find(|item| item.check == check).unwrap()
    }

    const BARE_METAL: [(&str, &str); 5] = [
        ("proc/sys/kernel/perf_event_paranoid", "1\n"),
        ("proc/sys/kernel/kptr_restrict", "0\n"),
        ("proc/sys/kernel/perf_event_max_sample_rate", "100000\n"),
        ("proc/kallsyms", "ffffffff81000000 T _text\n"),
        ("proc/self/status", "Name:\twhyslow\nCapEff:\t0000000000000000\nSeccomp:\t0\n"),
    ];

    #[test]
    fn a_good_machine_has_no_remarks() {
        let items = check(&BARE_METAL, GRANTED);
        assert!(items.iter().all(|item| item.severity == Severity::Fine), "{items:?}");
    }

    #[test]
    fn paranoid_two_hides_the_kernel_and_has_a_fix() {
        let files = [
            ("proc/sys/kernel/perf_event_paranoid", "2\n"),
            ("proc/sys/kernel/kptr_restrict", "1\n"),
            ("proc/kallsyms", "0000000000000000 T _text\n0000000000000000 T _stext\n"),
        ];
        let items = check(&files, Probe { events: Ok(Granted { kernel: false, ..EVENTS }), ..GRANTED });
        assert_eq!(item(&items, Check::PerfEvents).severity, Severity::Fine);
        assert_eq!(item(&items, Check::KernelTime).severity, Severity::Warning);
        assert_eq!(
            item(&items, Check::KernelTime).fix.as_deref(),
            Some("sudo sysctl kernel.perf_event_paranoid=1")
        );
        assert!(!items.iter().any(|item| item.check == Check::KernelNames), "irrelevant without kernel time");
    }

    #[test]
    fn a_setting_has_a_temporary_a_permanent_and_a_group_fix() {
        let files = [("proc/sys/kernel/perf_event_paranoid", "2\n")];
        let items = check(&files, Probe { events: Ok(Granted { kernel: false, ..EVENTS }), ..GRANTED });
        let kernel_time = item(&items, Check::KernelTime);
        assert_eq!(
            kernel_time.permanent.as_deref(),
            Some("printf '%s\\n' kernel.perf_event_paranoid=1 | sudo tee -a /etc/sysctl.d/99-whyslow.conf")
        );
        assert!(kernel_time.for_group.as_deref().unwrap().contains("setcap cap_perfmon"));
        let text = super::super::checkup::table("Machine", &items);
        assert!(text.contains("permanent fix:") && text.contains("for a group:"), "{text}");
    }

    #[test]
    fn reports_hidden_kernel_addresses() {
        let files = [
            ("proc/sys/kernel/kptr_restrict", "1\n"),
            ("proc/kallsyms", "0000000000000000 T _text\n0000000000000000 T _stext\n"),
        ];
        assert_eq!(item(&check(&files, GRANTED), Check::KernelNames).found, "are hidden (kptr_restrict 1)");
    }

    #[test]
    fn with_debians_paranoid_three_programs_sample_themselves() {
        let files = [("proc/sys/kernel/perf_event_paranoid", "3\n"), ("proc/self/status", "CapEff:\t0\n")];
        let none = check(&files, Probe { timers: Err("noexec".to_owned()), ..refused(Errno::ACCESS) });
        assert_eq!(item(&none, Check::PerfEvents).severity, Severity::Serious);
        assert_eq!(item(&none, Check::OwnTimers).found, "do not work: noexec");
        let items = check(&files, refused(Errno::ACCESS));
        assert_eq!(item(&items, Check::OwnTimers).severity, Severity::Fine);
        let perf = item(&items, Check::PerfEvents);
        assert_eq!(perf.severity, Severity::Warning);
        assert_eq!(perf.found, "not permitted: Permission denied (perf_event_paranoid 3)");
        assert_eq!(perf.fix.as_deref(), Some("sudo sysctl kernel.perf_event_paranoid=1"));
        assert!(!items.iter().any(|item| item.check == Check::KernelTime));
    }

    /// Without permission for perf events, doctor gives the right fix in each usual environment: its files
    /// and variables, the kernel's error, and a part of the fix.
    #[test]
    fn each_environment_has_its_own_fix() {
        const DEBIAN: (&str, &str) = ("proc/sys/kernel/perf_event_paranoid", "3\n");
        const UBUNTU: (&str, &str) = ("proc/sys/kernel/perf_event_paranoid", "4\n");
        const USUAL: (&str, &str) = ("proc/sys/kernel/perf_event_paranoid", "2\n");
        const FILTER: (&str, &str) = ("proc/self/status", "CapEff:\t00000000a80425fb\nSeccomp:\t2\n");
        const USER: (&str, &str) = ("proc/self/status", "CapEff:\t0\nSeccomp:\t0\n");
        const VM: [(&str, &str); 2] = [
            ("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor\n"),
            ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
        ];
        type Case<'a> =
            (&'a str, &'a [(&'a str, &'a str)], &'a str, Errno, Option<(Check, &'a str)>, &'a str);
        let cases: [Case<'_>; 8] = [
            ("bare", &[DEBIAN, USER], "", Errno::ACCESS, None, "sudo sysctl kernel.perf_event_paranoid=1"),
            (
                "virtual machine",
                &[UBUNTU, USER, VM[0], VM[1]],
                "",
                Errno::ACCESS,
                Some((Check::System, "a virtual machine (QEMU/KVM)")),
                "sudo sysctl kernel.perf_event_paranoid=1",
            ),
            (
                "Docker",
                &[USUAL, FILTER, (".dockerenv", "")],
                "",
                Errno::PERM,
                Some((Check::Container, "Docker")),
                "docker run --cap-add PERFMON --security-opt seccomp=unconfined",
            ),
            (
                "Podman",
                &[DEBIAN, FILTER, ("run/.containerenv", "")],
                "",
                Errno::PERM,
                Some((Check::Container, "Podman")),
                "podman run --cap-add PERFMON",
            ),
            (
                "Kubernetes",
                &[USUAL, FILTER, ("proc/1/cgroup", "0::/\n")],
                "KUBERNETES_SERVICE_HOST",
                Errno::PERM,
                Some((Check::Container, "Kubernetes")),
                "securityContext: {capabilities: {add: [PERFMON",
            ),
            (
                "GitHub",
                &[UBUNTU, USER, VM[0]],
                "GITHUB_ACTIONS",
                Errno::ACCESS,
                Some((Check::Runner, "GitHub Actions")),
                "run: sudo sysctl kernel.perf_event_paranoid=1",
            ),
            (
                "WSL2",
                &[UBUNTU, USER, ("proc/sys/kernel/osrelease", "5.15.153.1-microsoft-standard-WSL2\n")],
                "",
                Errno::ACCESS,
                Some((Check::System, "Windows Subsystem for Linux")),
                "sudo sysctl kernel.perf_event_paranoid=1",
            ),
            (
                "gVisor",
                &[FILTER, ("proc/version", "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016\n")],
                "",
                Errno::NOSYS,
                Some((Check::Container, "gVisor")),
                "gVisor has no perf events",
            ),
        ];
        for (name, files, variable, errno, surrounding, fix) in cases {
            let root = root(files);
            let items = Machine::read(root.path(), |asked| asked == variable, refused(errno)).check();
            let perf = item(&items, Check::PerfEvents);
            assert_eq!(perf.severity, Severity::Warning, "{name}");
            assert!(perf.fix.as_deref().is_some_and(|given| given.contains(fix)), "{name}: {:?}", perf.fix);
            if let Some((check, found)) = surrounding {
                assert_eq!(item(&items, check).found, found, "{name}");
            }
            assert_eq!(item(&items, Check::OwnTimers).severity, Severity::Fine, "{name}");
        }
    }

    #[test]
    fn reports_who_may_record_running_programs() {
        let with = |scope, capabilities: &str| {
            let files = [("proc/sys/kernel/yama/ptrace_scope", scope), ("proc/self/status", capabilities)];
            let items = check(&files, refused(Errno::PERM));
            let item = item(&items, Check::RunningPrograms);
            (item.severity, item.fix.clone())
        };
        assert_eq!(with("0\n", "CapEff:\t0\n").0, Severity::Fine);
        assert_eq!(with("1\n", "CapEff:\t0000000000080000\n").0, Severity::Fine);
        let (severity, fix) = with("1\n", "CapEff:\t0\n");
        assert_eq!(
            (severity, fix.as_deref()),
            (Severity::Warning, Some("sudo sysctl kernel.yama.ptrace_scope=0"))
        );
    }

    #[test]
    fn a_kernel_without_perf_events() {
        let items = check(&[], refused(Errno::NOSYS));
        assert!(item(&items, Check::PerfEvents).fix.as_deref().unwrap().contains("CONFIG_PERF_EVENTS"));
    }

    #[test]
    fn a_virtual_machine_without_counters() {
        let files = [
            ("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor\n"),
            ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
        ];
        let items = check(&files, Probe { events: Ok(Granted { cycles: false, ..EVENTS }), ..GRANTED });
        assert_eq!(item(&items, Check::CycleCounter).severity, Severity::Warning);
        assert_eq!(item(&items, Check::System).found, "a virtual machine (QEMU/KVM)");
    }

    #[test]
    fn recognises_windows() {
        let files = [("proc/sys/kernel/osrelease", "5.15.153.1-microsoft-standard-WSL2\n")];
        assert_eq!(item(&check(&files, GRANTED), Check::System).found, "Windows Subsystem for Linux");
    }

    #[test]
    fn reports_the_ring_buffers_that_the_recorder_got() {
        let with = |ring_bytes| Probe { events: Ok(Granted { ring_bytes, ..EVENTS }), ..GRANTED };
        let items = check(&BARE_METAL, with(512 << 10));
        assert_eq!(item(&items, Check::Buffers).found, "512 KiB per CPU, 4 CPUs");
        assert_eq!(item(&items, Check::Buffers).severity, Severity::Fine);
        let items = check(&BARE_METAL, with(64 << 10));
        assert_eq!(item(&items, Check::Buffers).found, "64 KiB per CPU, 4 CPUs");
        assert_eq!(item(&items, Check::Buffers).severity, Severity::Warning);
        let none = Probe { events: Err(Refused::Rings(Errno::PERM.raw_os_error())), ..GRANTED };
        let items = check(&BARE_METAL, none);
        assert_eq!(item(&items, Check::Buffers).severity, Severity::Serious);
        assert_eq!(item(&items, Check::PerfEvents).severity, Severity::Fine);
    }

    #[test]
    fn reports_strict_yama() {
        let strict = [("proc/sys/kernel/yama/ptrace_scope", "2\n")];
        assert_eq!(
            item(&check(&strict, GRANTED), Check::LiveStacks).severity,
            Severity::Fine,
            "reading memory was tried and works"
        );
        let items = check(&strict, Probe { memory_is_readable: false, ..GRANTED });
        assert_eq!(
            item(&items, Check::LiveStacks).fix.as_deref(),
            Some("sudo sysctl kernel.yama.ptrace_scope=1")
        );
    }
}
