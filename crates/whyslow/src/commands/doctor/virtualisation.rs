//! Recognises virtual machines and containers by their files.

use std::fs;
use std::path::Path;

use whyslow_proc::kernel;
use whyslow_proc::machine::FirstCpu;

/// What is between this system and the hardware.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Virtualisation {
    /// The hypervisor's name; empty if it is not known.
    pub(super) machine: Option<String>,
    /// The container's name, or "a container".
    pub(super) container: Option<String>,
    /// Windows Subsystem for Linux.
    pub(super) wsl: bool,
    /// A kernel in user space that supports only some system calls.
    pub(super) gvisor: bool,
    /// The CI service that runs this job.
    pub(super) runner: Option<&'static str>,
}

/// gVisor's constant build date in /proc/version.
const GVISOR: &str = "#1 SMP Sun Jan 10 15:06:54 PST 2016";
/// Variables that CI services set in each job.
const RUNNERS: [(&str, &str); 2] = [("GITHUB_ACTIONS", "GitHub Actions"), ("GITLAB_CI", "GitLab CI")];

impl Virtualisation {
    /// Reads the files under a root folder, and environment variables.
    pub(super) fn read(root: &Path, has_variable: impl Fn(&str) -> bool) -> Self {
        let text =
            |path: &str| fs::read(root.join(path)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let text = |path: &str| text(path).unwrap_or_default();
        let release = kernel::release_under(root).to_lowercase();
        let wsl = release.contains("microsoft") || release.contains("wsl");
        let machine = match hypervisor(
            &FirstCpu::read(root),
            &text("sys/hypervisor/type"),
            &[
                text("sys/class/dmi/id/sys_vendor"),
                text("sys/class/dmi/id/product_name"),
                text("sys/class/dmi/id/bios_vendor"),
            ],
        ) {
            Some(_) if wsl => Some("Hyper-V".to_owned()),
            machine => machine,
        };
        let container = container(
            root.join(".dockerenv").exists(),
            root.join("run/.containerenv").exists(),
            &text("run/systemd/container"),
            &text("proc/1/cgroup"),
        );
        // In its own cgroup namespace, the control group has no name.
        let in_pod =
            root.join("var/run/secrets/kubernetes.io").exists() || has_variable("KUBERNETES_SERVICE_HOST");
        let container = if in_pod { Some("Kubernetes".to_owned()) } else { container };
        let gvisor = text("proc/version").contains(GVISOR);
        let runner = RUNNERS.iter().find(|(variable, _)| has_variable(variable)).map(|(_, name)| *name);
        Self { machine, container, wsl, gvisor, runner }
    }
}

fn hypervisor(cpu: &FirstCpu, xen: &str, dmi: &[String]) -> Option<String> {
    const KNOWN: [(&str, &str); 14] = [
        ("VMware", "VMware"),
        ("VirtualBox", "VirtualBox"),
        ("innotek", "VirtualBox"),
        ("Amazon EC2", "Amazon EC2"),
        ("Google", "Google Compute Engine"),
        ("Microsoft", "Hyper-V"),
        ("Parallels", "Parallels"),
        ("OpenStack", "OpenStack"),
        ("DigitalOcean", "DigitalOcean"),
        ("Hetzner", "Hetzner Cloud"),
        ("Firecracker", "Firecracker"),
        ("Bochs", "Bochs"),
        ("QEMU", "QEMU/KVM"),
        ("KVM", "QEMU/KVM"),
    ];
    let flagged = cpu.is_virtual();
    if xen.trim() == "xen" {
        return Some("Xen".to_owned());
    }
    let known = KNOWN.iter().find(|(mark, _)| dmi.iter().any(|text| text.contains(mark)));
    // Makers of hypervisors also make real machines: on x86, the CPU flag decides.
    let is_x86 = cpu.get("flags").is_some();
    match known {
        Some((_, name)) if flagged || !is_x86 => Some((*name).to_owned()),
        _ => flagged.then(String::new),
    }
}

fn container(docker: bool, podman: bool, systemd: &str, cgroup: &str) -> Option<String> {
    const MARKS: [(&str, &str); 6] = [
        ("kubepods", "Kubernetes"),
        ("docker", "Docker"),
        ("libpod", "Podman"),
        ("containerd", "containerd"),
        ("/lxc", "LXC"),
        ("garden", "Garden"),
    ];
    let by_cgroup = MARKS.iter().find(|(mark, _)| cgroup.contains(mark)).map(|(_, name)| (*name).to_owned());
    match systemd.trim() {
        "" if podman => Some("Podman".to_owned()),
        "" if docker => by_cgroup.or_else(|| Some("Docker".to_owned())),
        "" => by_cgroup,
        "wsl" => None,
        name => Some(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN_VM: &str = "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu sse2 hypervisor lm\n";
    const METAL: &str = "processor\t: 0\nmodel name\t: Intel\nflags\t\t: fpu sse2 lm\n";

    fn dmi(vendor: &str) -> [String; 1] {
        [vendor.to_owned()]
    }

    #[test]
    fn names_hypervisors() {
        assert_eq!(hypervisor(&FirstCpu::parse(IN_VM), "", &dmi("QEMU\n")).as_deref(), Some("QEMU/KVM"));
        assert_eq!(
            hypervisor(&FirstCpu::parse(IN_VM), "", &dmi("Amazon EC2")).as_deref(),
            Some("Amazon EC2")
        );
        assert_eq!(hypervisor(&FirstCpu::parse(IN_VM), "xen\n", &dmi("")).as_deref(), Some("Xen"));
        assert_eq!(hypervisor(&FirstCpu::parse(IN_VM), "", &[]).as_deref(), Some(""));
    }

    #[test]
    fn a_laptop_by_a_maker_of_hypervisors_is_not_virtual() {
        assert_eq!(hypervisor(&FirstCpu::parse(METAL), "", &dmi("Microsoft Corporation")), None);
    }

    #[test]
    fn names_containers() {
        assert_eq!(container(true, false, "", "0::/").as_deref(), Some("Docker"));
        assert_eq!(container(false, true, "", "").as_deref(), Some("Podman"));
        assert_eq!(container(true, false, "", "0::/kubepods.slice/x").as_deref(), Some("Kubernetes"));
        assert_eq!(container(false, false, "lxc\n", "").as_deref(), Some("lxc"));
        assert_eq!(container(false, false, "", "0::/init.scope"), None);
    }
}
