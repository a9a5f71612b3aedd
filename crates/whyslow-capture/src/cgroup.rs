//! A control group for the program, below the recorder's own: the kernel can limit CPU-wide events to it.
//!
//! The group has no controllers, so the program keeps the limits and weights of the group it would run in.

use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use whyslow_proc::process;

/// How the names of groups begin; the recorder's process number follows.
const PREFIX: &str = "whyslow-";
/// The file that lists the processes of a group, and moves those that are written to it.
const PROCESSES: &str = "cgroup.procs";
/// How often to move processes back: those that fork at the same time are only found the next time.
const ATTEMPTS: usize = 20;

/// The group of a recorded program. It is removed on drop; what still runs in it moves back to the parent.
#[derive(Debug)]
pub(crate) struct ProgramGroup {
    folder: PathBuf,
    handle: Arc<File>,
}

impl ProgramGroup {
    /// Makes a group for the program of this recorder, and removes what killed recorders left behind. `None`
    /// where that is not possible, or where a group would change how the program runs.
    pub(crate) fn new() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        Self::below(&own_folder(&mounts, &groups)?)
    }

    fn below(parent: &Path) -> Option<Self> {
        // With controllers for its children, the program would get weights and limits of its own.
        let given = fs::read_to_string(parent.join("cgroup.subtree_control")).unwrap_or_default();
        if shares_resources(&given) {
            return None;
        }
        remove_stale(parent, process::exists);
        // A process can record several programs.
        let own = format!("{PREFIX}{}", std::process::id());
        let folder = (0..8).find_map(|attempt| {
            let folder = parent.join(format!("{own}.{attempt}"));
            fs::create_dir(&folder).ok().map(|()| folder)
        })?;
        match File::open(&folder) {
            Ok(handle) => Some(Self { folder, handle: Arc::new(handle) }),
            Err(_) => {
                let _ = fs::remove_dir(&folder);
                None
            }
        }
    }

    /// The folder of the group, as the kernel's calls take it.
    pub(crate) fn handle(&self) -> Arc<File> {
        Arc::clone(&self.handle)
    }

    /// The group, if a new child is in it or can be moved into it.
    pub(crate) fn holding(self, child: u32) -> Option<Self> {
        let file = self.folder.join(PROCESSES);
        let is_in = |text: String| text.lines().any(|line| line.parse() == Ok(child));
        let holds = fs::read_to_string(&file).is_ok_and(is_in) || fs::write(&file, child.to_string()).is_ok();
        holds.then_some(self)
    }
}

impl AsFd for ProgramGroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl Drop for ProgramGroup {
    fn drop(&mut self) {
        let Some(parent) = self.folder.parent() else { return };
        for _ in 0..ATTEMPTS {
            if remove(&self.folder) {
                return;
            }
            move_processes(&self.folder, parent);
        }
    }
}

/// Removes a group and those below it. The kernel refuses while a process is in one of them.
fn remove(folder: &Path) -> bool {
    for child in children(folder) {
        remove(&child);
    }
    fs::remove_dir(folder).is_ok()
}

fn move_processes(folder: &Path, parent: &Path) {
    for child in children(folder) {
        move_processes(&child, parent);
    }
    for pid in fs::read_to_string(folder.join(PROCESSES)).unwrap_or_default().lines() {
        // It may have exited by now.
        let _ = fs::write(parent.join(PROCESSES), pid);
    }
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// Removes the groups of recorders that have ended without doing so, once nothing runs in them.
fn remove_stale(parent: &Path, exists: impl Fn(u32) -> bool) {
    for folder in children(parent) {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if recorder_of(&name).is_some_and(|recorder| !exists(recorder)) {
            remove(&folder);
        }
    }
}

/// The recorder that made a group, by the name of the group.
fn recorder_of(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split_once('.')?.0.parse().ok()
}

/// Whether a list of enabled controllers has one that divides or limits resources between groups.
fn shares_resources(controllers: &str) -> bool {
    controllers.split_whitespace().any(|controller| controller != "perf_event")
}

/// The folder of the recorder's own group in the hierarchy that perf events use: the one with the controller
/// `perf_event` (version 1), otherwise the unified one, where it is always on.
fn own_folder(mounts: &str, groups: &str) -> Option<PathBuf> {
    let controllers = |line: &str| line.split(':').nth(1).map(str::to_owned).unwrap_or_default();
    let has_perf = |list: &str| list.split(',').any(|controller| controller == "perf_event");
    let version_1 = groups.lines().find(|line| has_perf(&controllers(line)));
    let line = version_1.or_else(|| groups.lines().find(|line| line.starts_with("0::")))?;
    let own = line.splitn(3, ':').nth(2)?;
    mounts.lines().find_map(|mount| {
        let (place, system) = mount.split_once(" - ")?;
        let mut system = system.split(' ');
        let is_it = match (system.next()?, version_1) {
            ("cgroup2", None) => true,
            ("cgroup", Some(_)) => has_perf(system.nth(1)?),
            _ => false,
        };
        let mut place = place.split(' ').skip(3);
        let (root, folder) = (place.next()?, place.next()?);
        let below = Path::new(own).strip_prefix(root).ok().filter(|_| is_it)?;
        // A path with `..` is outside of what this process sees.
        below.components().all(|part| matches!(part, std::path::Component::Normal(_))).then_some(())?;
        Some(Path::new(folder).join(below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIFIED: &str = "24 1 0:20 / /proc rw - proc proc rw\n\
                           30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const HYBRID: &str = "31 24 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                          32 24 0:28 / /sys/fs/cgroup/perf_event rw - cgroup cgroup rw,perf_event\n\
                          33 24 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn finds_the_own_group_in_the_hierarchy_that_events_use() {
        let found = |mounts, groups| own_folder(mounts, groups).map(|path| path.display().to_string());
        let is = |path: &str| Some(path.to_owned());
        assert_eq!(found(UNIFIED, "0::/user.slice/a\n"), is("/sys/fs/cgroup/user.slice/a"));
        assert_eq!(found(HYBRID, "1:cpu:/x\n0::/\n"), is("/sys/fs/cgroup/unified/"));
        assert_eq!(found(HYBRID, "1:cpu:/x\n2:perf_event:/y\n0::/\n"), is("/sys/fs/cgroup/perf_event/y"));
        let part = UNIFIED.replace("0:26 /", "0:26 /docker/1");
        assert_eq!(found(&part, "0::/docker/1/app\n"), is("/sys/fs/cgroup/app"));
        assert_eq!(found(&part, "0::/elsewhere\n"), None);
        assert_eq!(found(UNIFIED, "0::/../other\n"), None);
        assert_eq!(found("", "0::/\n"), None);
    }

    #[test]
    fn a_group_with_controllers_of_its_own_would_change_the_program() {
        assert!(!shares_resources("\n") && !shares_resources("perf_event\n"));
        assert!(shares_resources("cpu memory\n"));
    }

    #[test]
    fn removes_groups_of_dead_recorders_only() {
        let parent = tempfile::tempdir().unwrap();
        for name in ["whyslow-7.0", "whyslow-8.0", "whyslow-x.0", "other-7.0"] {
            fs::create_dir(parent.path().join(name)).unwrap();
        }
        fs::create_dir(parent.path().join("whyslow-7.0/below")).unwrap();
        remove_stale(parent.path(), |pid| pid == 8);
        let mut left = children(parent.path());
        left.sort();
        let names: Vec<_> = left.iter().filter_map(|path| path.file_name()?.to_str()).collect();
        assert_eq!(names, ["other-7.0", "whyslow-8.0", "whyslow-x.0"]);
    }

    #[test]
    fn a_group_disappears_when_its_recording_ends() {
        let parent = tempfile::tempdir().unwrap();
        let group = ProgramGroup::below(parent.path()).unwrap();
        let second = ProgramGroup::below(parent.path()).unwrap();
        assert_eq!(children(parent.path()).len(), 2);
        drop((group, second));
        assert_eq!(children(parent.path()), Vec::<PathBuf>::new());
    }
}
