//! Reports that are known to be harmless, each with the reason why it is suppressed: `known.supp`.

/// The suppressions in Valgrind's format.
pub const SUPPRESSIONS: &str = include_str!("../known.supp");

/// A suppression of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its name, as Valgrind repeats it.
    pub name: &'static str,
    /// Why it is harmless.
    pub why: String,
}

/// All of the list.
pub fn all() -> Vec<Known> {
    let mut all = Vec::new();
    let mut why: Vec<&str> = Vec::new();
    let mut lines = SUPPRESSIONS.lines().map(str::trim);
    while let Some(line) = lines.next() {
        match line {
            "" => why.clear(),
            "{" => {
                let name = lines.next().unwrap_or_default();
                all.push(Known { name, why: why.join(" ") });
            }
            _ => why.extend(line.strip_prefix('#').map(str::trim)),
        }
    }
    all
}

/// Why the suppression of this name is in the list; `None` if it is not.
pub fn why(name: &str) -> Option<String> {
    all().into_iter().find(|known| known.name == name).map(|known| known.why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_says_why_and_has_a_name_of_its_own() {
        let all = all();
        assert!(all.len() >= 4);
        for (at, known) in all.iter().enumerate() {
            assert!(known.name.starts_with("whyslow: "), "{known:?}");
            assert!(known.why.len() > 40 && known.why.ends_with('.'), "{known:?}");
            assert!(all[..at].iter().all(|other| other.name != known.name), "{known:?}");
        }
        assert_eq!(SUPPRESSIONS.matches("\n{\n").count(), all.len());
        assert_eq!(why("of somebody else"), None);
    }
}
