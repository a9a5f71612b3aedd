//! Proves stacks of the `churn` program right or wrong.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::run;

/// The path of every leaf of `churn`, innermost frame first.
#[derive(Debug, Clone)]
pub struct ChurnPaths {
    by_leaf: HashMap<String, Vec<String>>,
}

/// The verdict on one stack of `churn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StackVerdict {
    /// Equal to the path of its leaf from the leaf to `round`.
    Right,
    /// Equal as far as it goes, but truncated before `round`.
    Incomplete,
    /// Has a frame that its leaf's path does not have at that position.
    Wrong,
    /// Not in a leaf (descending or returning), so the truth is unknown.
    Unknown,
}

impl ChurnPaths {
    /// Asks the program for its paths. `mode` is `same` or `mix`.
    pub fn read(churn: &Path, mode: &str) -> Result<Self> {
        let output = run(Command::new(churn).args(["paths", mode]), Duration::from_secs(20))?;
        let paths = Self::parse(&String::from_utf8_lossy(&output.stdout));
        ensure!(paths.by_leaf.len() == 64, "{} paths prints no paths", churn.display());
        Ok(paths)
    }

    fn parse(stdout: &str) -> Self {
        let by_leaf = stdout
            .lines()
            .filter_map(|line| {
                let path: Vec<String> =
                    line.strip_prefix("path ")?.split(' ').rev().map(str::to_owned).collect();
                Some((path.first()?.clone(), path))
            })
            .collect();
        Self { by_leaf }
    }

    /// Judges one stack, innermost frame first. Names may have a path before them (`churn::north`). Frames
    /// outside `round` (`main` and the runtime) are ignored.
    pub fn judge<'a>(&self, stack: impl IntoIterator<Item = &'a str>) -> StackVerdict {
        let mut frames = stack.into_iter().map(|name| name.rsplit("::").next().unwrap_or(name));
        let Some(path) = frames.next().and_then(|leaf| self.by_leaf.get(leaf)) else {
            return StackVerdict::Unknown;
        };
        let mut expected = path.iter().skip(1).map(String::as_str).chain(["round"]);
        loop {
            match (frames.next(), expected.next()) {
                (_, None) => return StackVerdict::Right,
                (None, Some(_)) => return StackVerdict::Incomplete,
                (Some(seen), Some(due)) if seen == due => {}
                _ => return StackVerdict::Wrong,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_right_incomplete_wrong_or_unknown() {
        let paths = ChurnPaths::parse("path north east leaf_00\npath west west leaf_01\nrounds 3\n");
        let judge = |stack: &str| paths.judge(stack.split(' '));
        assert_eq!(
            judge("churn::leaf_00 churn::east churn::north churn::round churn::main"),
            StackVerdict::Right
        );
        assert_eq!(judge("leaf_00 east north round"), StackVerdict::Right);
        assert_eq!(judge("leaf_00 east"), StackVerdict::Incomplete);
        assert_eq!(judge("leaf_00 east north"), StackVerdict::Incomplete);
        assert_eq!(judge("leaf_00 east west round"), StackVerdict::Wrong);
        assert_eq!(judge("leaf_01 west round"), StackVerdict::Wrong);
        assert_eq!(judge("east north round main"), StackVerdict::Unknown);
    }
}
