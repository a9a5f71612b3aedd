//! The machine: its CPUs.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use whyslow_words::cpu_list;

/// All online CPUs.
pub fn online_cpus() -> Vec<u32> {
    online_cpus_under(Path::new("/"))
}

/// The online CPUs of the system under a root folder. A sandbox may have no `/sys`, or no `/proc/stat` either; then
/// they are those that this process may use.
pub fn online_cpus_under(root: &Path) -> Vec<u32> {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let some = |cpus: Vec<u32>| Some(cpus).filter(|cpus| !cpus.is_empty());
    let cpus = some(cpu_list(&read("sys/devices/system/cpu/online")))
        .or_else(|| some(cpus_with_times(&read("proc/stat"))))
        .or_else(|| some(own_cpus()));
    cpus.unwrap_or_else(|| vec![0])
}

/// The CPUs that `/proc/stat` has a line for.
fn cpus_with_times(stat: &str) -> Vec<u32> {
    let cpu = |line: &str| line.strip_prefix("cpu")?.split(' ').next()?.parse().ok();
    stat.lines().filter_map(cpu).collect()
}

/// The CPUs that this process may use.
fn own_cpus() -> Vec<u32> {
    let allowed = rustix::thread::sched_getaffinity(None).ok();
    let is_allowed = |cpu: &usize| allowed.as_ref().is_some_and(|allowed| allowed.is_set(*cpu));
    (0..rustix::thread::CpuSet::MAX_CPU).filter(is_allowed).map(|cpu| cpu as u32).collect()
}

/// The CPUs that a process may use.
pub fn allowed_cpus(pid: u32) -> Vec<u32> {
    let allowed = crate::process::Status::of(pid).unwrap_or_default().allowed_cpus();
    let online = online_cpus();
    let usable: Vec<u32> = online.iter().copied().filter(|cpu| allowed.contains(cpu)).collect();
    if usable.is_empty() { online } else { usable }
}

/// The kernel's description of the first CPU.
#[derive(Debug, Clone, Default)]
pub struct FirstCpu(String);

impl FirstCpu {
    /// Reads it. Only the first CPU: on large machines the kernel takes long to describe all of them.
    pub fn now() -> Self {
        Self::read(Path::new("/"))
    }

    /// The same for the system under a root folder.
    pub fn read(root: &Path) -> Self {
        let mut text = Vec::new();
        if let Ok(file) = fs::File::open(root.join("proc/cpuinfo")) {
            // The text up to an error is enough.
            let _ = file.take(4096).read_to_end(&mut text);
        }
        Self::parse(&String::from_utf8_lossy(&text))
    }

    /// Parses the text of `/proc/cpuinfo`.
    pub fn parse(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The value of a name, such as `model name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| {
            let (known, value) = line.split_once(':')?;
            (known.trim() == name).then_some(value.trim())
        })
    }

    /// Those of the wanted features that the CPU has, by the kernel's names.
    pub fn features(&self, wanted: &[&str]) -> Vec<String> {
        let has = self.get("flags").or_else(|| self.get("Features")).unwrap_or_default();
        let has: Vec<&str> = has.split_ascii_whitespace().collect();
        wanted.iter().filter(|name| has.contains(name)).map(|name| (*name).to_owned()).collect()
    }

    /// Whether the CPU reports a hypervisor.
    pub fn is_virtual(&self) -> bool {
        self.get("flags").is_some_and(|flags| flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cpu_is_read_by_name() {
        let cpu = FirstCpu::parse("processor\t: 0\nmodel name\t: A: B\nflags\t\t: fpu hypervisor lm\n");
        assert_eq!((cpu.get("model name"), cpu.is_virtual()), (Some("A: B"), true));
        assert!(!FirstCpu::parse("flags : nohypervisor\n").is_virtual());
        assert_eq!(cpu.features(&["avx2", "lm"]), ["lm"]);
        assert_eq!(FirstCpu::parse("Features\t: fp asimd\n").features(&["asimd"]), ["asimd"]);
        assert!(!allowed_cpus(std::process::id()).is_empty());
    }

    #[test]
    fn without_sys_the_cpus_are_found_elsewhere() {
        let stat = "cpu  1 2 3\ncpu0 1 2 3\ncpu3 1 2 3\nintr 5\n";
        assert_eq!(cpus_with_times(stat), [0, 3]);
        let root = tempfile::tempdir().unwrap();
        assert_eq!(online_cpus_under(root.path()), own_cpus());
        fs::create_dir(root.path().join("proc")).unwrap();
        fs::write(root.path().join("proc/stat"), stat).unwrap();
        assert_eq!(online_cpus_under(root.path()), [0, 3]);
        let own = crate::process::Status::of(std::process::id()).unwrap().allowed_cpus();
        assert_eq!(own_cpus(), own);
    }
}
