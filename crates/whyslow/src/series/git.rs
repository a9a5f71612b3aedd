//! Checks out and builds a commit and the working tree, in folders whose paths are equally long.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use super::Runnable;
use crate::cli::Volume;
use crate::failure::{Failure, Result};
use crate::output::note;

/// Two folders with a program built in each. They are removed at the end.
pub(crate) struct Trees {
    root: PathBuf,
    folder: tempfile::TempDir,
    names: [String; 2],
    /// The folder in which the command runs, relative to the root of the repository.
    inside: PathBuf,
}

/// The name of the side that is no commit.
pub(crate) const WORKING_TREE: &str = "working tree";

/// Equally long, so that the length of paths makes no difference.
const FOLDERS: [&str; 2] = ["before", "after-"];

impl Trees {
    /// Checks out both: a commit and the working tree, or the two commits of `A..B`.
    pub(crate) fn check_out(revisions: &str) -> Result<Self> {
        let (before, after) = match revisions.split_once("..") {
            // As for git, an end that is left out is HEAD.
            Some((before, after)) => (or_head(before), Some(or_head(after.trim_start_matches('.')))),
            None => (revisions, None),
        };
        let root = PathBuf::from(text(&git(None, &["rev-parse", "--show-toplevel"])?));
        let here = std::env::current_dir().and_then(|here| here.canonicalize()).unwrap_or_default();
        let inside =
            here.strip_prefix(root.canonicalize().unwrap_or_default()).unwrap_or(Path::new("")).to_owned();
        let commit = |revision: &str| {
            let revision = format!("{revision}^{{commit}}");
            git(Some(&root), &["rev-parse", "--verify", "--end-of-options", &revision])
                .map(|output| text(&output))
        };
        let names = [before, after.unwrap_or(WORKING_TREE)].map(str::to_owned);
        let base = commit(before)?;
        let head = match after {
            Some(after) => commit(after)?,
            // Uncommitted changes as a commit on no branch; empty if there are none.
            None => match text(&git(Some(&root), &["stash", "create"])?) {
                changed if changed.is_empty() => "HEAD".to_owned(),
                changed => changed,
            },
        };
        let folder = tempfile::tempdir()
            .map_err(|error| Failure::new(format!("cannot create a folder for the builds: {error}")))?;
        let trees = Self { root, folder, names, inside };
        for (name, commit) in FOLDERS.iter().zip([&base, &head]) {
            let path = trees.folder.path().join(name);
            git(
                Some(&trees.root),
                &["worktree", "add", "--detach", "--quiet", &path.to_string_lossy(), commit],
            )?;
        }
        Ok(trees)
    }

    /// Checks out and builds both.
    pub(crate) fn build(revision: &str, build: &str, volume: Volume) -> Result<Self> {
        let trees = Self::check_out(revision)?;
        for (side, (folder, what)) in trees.folders().into_iter().zip(trees.names()).enumerate() {
            if side == 1 {
                let [before, after] = trees.roots();
                let inside = trees.folders();
                for [from, to] in [[&before, &after], [&inside[0], &inside[1]]] {
                    trees.share(&from.join("target"), &to.join("target"));
                }
            }
            if volume > Volume::Quiet {
                note(&format!("building {what}: {build}\n"));
            }
            let status = whyslow_capture::restored_command("sh")
                .args(["-c", build])
                .current_dir(folder)
                .env_remove("CARGO_TARGET_DIR")
                .status();
            match status {
                Ok(status) if status.success() => {}
                Ok(status) => {
                    return Err(Failure::new(format!("building {what} failed ({status})"))
                        .next("--build with the right build command"));
                }
                Err(error) => return Err(Failure::new(format!("cannot start the build: {error}"))),
            }
        }
        Ok(trees)
    }

    /// Copies cargo's target folder of the first build for the second one, so that equal dependencies are built once.
    /// Without the copy, everything is built again.
    pub(crate) fn share(&self, from: &Path, to: &Path) {
        if !from.join("CACHEDIR.TAG").is_file() || to.exists() {
            return;
        }
        let copied =
            whyslow_capture::restored_command("cp").arg("-a").args([from, to]).stderr(Stdio::null()).status();
        if !copied.is_ok_and(|status| status.success()) {
            let _ = std::fs::remove_dir_all(to);
            return;
        }
        // Cargo names packages of a workspace by their path within it, and takes sources that are older than the
        // first build for built. Newer ones are built again.
        if !touch(&self.roots()[1], to) {
            let _ = std::fs::remove_dir_all(to);
        }
    }

    /// The current folder in both checkouts: the commit's first.
    pub(crate) fn folders(&self) -> [PathBuf; 2] {
        FOLDERS.map(|name| self.folder.path().join(name).join(&self.inside))
    }

    /// The roots of both checkouts: the commit's first.
    pub(crate) fn roots(&self) -> [PathBuf; 2] {
        FOLDERS.map(|name| self.folder.path().join(name))
    }

    /// The root of the repository itself.
    pub(crate) fn repository(&self) -> &Path {
        &self.root
    }

    /// The names of both: a revision, and another one or the working tree.
    pub(crate) fn names(&self) -> [String; 2] {
        self.names.clone()
    }

    /// A folder next to both checkouts, removed with them.
    pub(crate) fn sibling(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command in both folders.
    pub(crate) fn runnables(&self, one: &Runnable) -> Vec<Runnable> {
        let of = |(folder, name): (PathBuf, String)| {
            let mut runnable = one.clone().inside(&folder);
            runnable.contender.name = name;
            runnable
        };
        self.folders().into_iter().zip(self.names()).map(of).collect()
    }
}

impl Drop for Trees {
    fn drop(&mut self) {
        for name in FOLDERS {
            let path = self.folder.path().join(name);
            // If this fails, git prunes the worktree later.
            let _ = git(Some(&self.root), &["worktree", "remove", "--force", &path.to_string_lossy()]);
        }
    }
}

/// Makes all files below a folder as new as now, except those of `target`. Returns whether it could.
fn touch(folder: &Path, target: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().all(|entry| {
        let path = entry.path();
        match entry.file_type() {
            _ if path == *target || entry.file_name() == ".git" => true,
            Ok(kind) if kind.is_dir() => touch(&path, target),
            Ok(kind) if kind.is_file() => {
                let file = std::fs::File::options().append(true).open(&path);
                file.and_then(|file| file.set_modified(std::time::SystemTime::now())).is_ok()
            }
            _ => true,
        }
    })
}

fn or_head(revision: &str) -> &str {
    if revision.is_empty() { "HEAD" } else { revision }
}

fn git(root: Option<&Path>, args: &[&str]) -> Result<Output> {
    let mut command = whyslow_capture::restored_command("git");
    if let Some(root) = root {
        command.arg("-C").arg(root);
    }
    let output = command.args(args).output().map_err(|error| {
        Failure::new(format!("cannot start git: {error}"))
            .next("installing git, or benching two built programs")
    })?;
    if output.status.success() {
        return Ok(output);
    }
    let printed = String::from_utf8_lossy(&output.stderr);
    let last = printed.trim().lines().last().unwrap_or_default();
    Err(Failure::new(format!("git {}: {}", args[0], whyslow_render::sanitize::clean(last)))
        .next("a commit, branch or tag, inside a git repository"))
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
