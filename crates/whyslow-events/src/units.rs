//! The PMUs of a machine: `/sys/bus/event_source/devices/NAME/{type,format,events,cpus,cpumask}`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::grammar::{Term, number};

/// A PMU.
#[derive(Debug, Clone)]
pub(crate) struct MeasuringUnit {
    pub(crate) name: String,
    /// The kernel's type number for its events.
    pub(crate) kind: u32,
    folder: PathBuf,
}

/// The three config words of an event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Configs(pub(crate) [u64; 3]);

/// What is wrong with terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TermError {
    /// The PMU has neither such a field nor such an event.
    Unknown(String),
    /// The value has more bits than its field.
    TooLarge(String),
    /// The event's own file leaves a value open, or cannot be parsed.
    Incomplete(String),
}

/// A field of a PMU: its config word and its bits, lowest first.
struct Field {
    word: usize,
    bits: Vec<u32>,
}

fn folder(root: &Path) -> PathBuf {
    root.join("sys/bus/event_source/devices")
}

fn text(path: PathBuf) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The names in a folder, sorted.
pub(crate) fn names(folder: &Path) -> std::io::Result<Vec<String>> {
    let entries = fs::read_dir(folder)?;
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

impl MeasuringUnit {
    /// All PMUs under a root folder.
    pub(crate) fn all(root: &Path) -> Vec<Self> {
        let names = names(&folder(root)).unwrap_or_default();
        names.into_iter().filter_map(|name| Self::read(root, &name)).collect()
    }

    fn read(root: &Path, name: &str) -> Option<Self> {
        let folder = folder(root).join(name);
        let kind = text(folder.join("type"))?.parse().ok()?;
        Some(Self { name: name.to_owned(), kind, folder })
    }

    /// Whether it counts what the CPUs execute, so that the general names apply to it.
    pub(crate) fn is_of_cpus(&self) -> bool {
        self.name == "cpu" || self.is_of_some_cpus() || self.name.starts_with("armv")
    }

    /// Whether it belongs to one of several kinds of CPUs.
    pub(crate) fn is_of_some_cpus(&self) -> bool {
        matches!(self.name.as_str(), "cpu_core" | "cpu_atom" | "cpu_lowpower")
    }

    /// The CPUs through which it is read, if it counts for all of them together.
    pub(crate) fn shared_by(&self) -> Option<Vec<u32>> {
        text(self.folder.join("cpumask")).map(|list| whyslow_words::cpu_list(&list))
    }

    /// The named events.
    pub(crate) fn events(&self) -> Vec<String> {
        let names = names(&self.folder.join("events")).unwrap_or_default();
        names.into_iter().filter(|name| !name.contains('.')).collect()
    }

    pub(crate) fn has_event(&self, name: &str) -> bool {
        is_plain(name) && self.folder.join("events").join(name).is_file()
    }

    /// The names of its fields.
    pub(crate) fn fields(&self) -> Vec<String> {
        names(&self.folder.join("format")).unwrap_or_default()
    }

    /// The scale of an event's count, and its unit.
    pub(crate) fn scale(&self, event: &str) -> (f64, Option<String>) {
        if !is_plain(event) {
            return (1.0, None);
        }
        let file = |suffix: &str| text(self.folder.join("events").join(format!("{event}.{suffix}")));
        let scale = file("scale").and_then(|scale| scale.parse().ok()).filter(|scale: &f64| *scale > 0.0);
        (scale.unwrap_or(1.0), file("unit").filter(|unit| !unit.is_empty()))
    }

    /// The config words for some terms; later terms override earlier ones.
    pub(crate) fn configs(&self, terms: &[Term]) -> Result<Configs, TermError> {
        let mut configs = Configs::default();
        for term in terms {
            self.set(&mut configs, term)?;
        }
        Ok(configs)
    }

    fn set(&self, configs: &mut Configs, term: &Term) -> Result<(), TermError> {
        if let (Some(word), Some(value)) = (word_named(&term.name), term.value) {
            configs.0[word] = value;
            return Ok(());
        }
        if let Some(field) = self.field(&term.name) {
            return field
                .set(configs, term.value.unwrap_or(1))
                .ok_or_else(|| TermError::TooLarge(term.name.clone()));
        }
        if term.value.is_none() && self.has_event(&term.name) {
            let incomplete = || TermError::Incomplete(term.name.clone());
            let event = text(self.folder.join("events").join(&term.name)).ok_or_else(incomplete)?;
            for part in event.split(',') {
                let (name, value) = part.split_once('=').unwrap_or((part, "1"));
                let value = number(value.trim()).ok_or_else(incomplete)?;
                let name = name.trim();
                match (word_named(name), self.field(name)) {
                    (Some(word), _) => configs.0[word] = value,
                    (None, Some(field)) => field.set(configs, value).ok_or_else(incomplete)?,
                    (None, None) => return Err(incomplete()),
                }
            }
            return Ok(());
        }
        Err(TermError::Unknown(term.name.clone()))
    }

    fn field(&self, name: &str) -> Option<Field> {
        if !is_plain(name) {
            return None;
        }
        Field::parse(&text(self.folder.join("format").join(name))?)
    }
}

/// Whether a name cannot lead to another folder.
pub(crate) fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.contains('/') && !name.starts_with('.')
}

fn word_named(name: &str) -> Option<usize> {
    ["config", "config1", "config2"].iter().position(|word| *word == name)
}

impl Field {
    /// `config:0-7,21`
    fn parse(format: &str) -> Option<Self> {
        let (word, ranges) = format.split_once(':')?;
        let word = word_named(word.trim())?;
        let mut bits = Vec::new();
        for range in ranges.split(',') {
            let (first, last) = range.trim().split_once('-').unwrap_or((range.trim(), range.trim()));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            if first > last || last > 63 {
                return None;
            }
            bits.extend(first..=last);
        }
        Some(Self { word, bits })
    }

    fn set(&self, configs: &mut Configs, value: u64) -> Option<()> {
        let fits = self.bits.len() >= 64 || value >> self.bits.len() == 0;
        for (from, to) in self.bits.iter().enumerate().take(64) {
            configs.0[self.word] &= !(1 << to);
            configs.0[self.word] |= (value >> from & 1) << to;
        }
        fits.then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bits_of_a_value_go_where_the_format_says() {
        let field = Field::parse("config:0-7,32-35").unwrap();
        let mut configs = Configs([u64::MAX, 0, 0]);
        field.set(&mut configs, 0x5c2).unwrap();
        assert_eq!(configs.0[0], 0xffff_fff5_ffff_ffc2);
        assert!(field.set(&mut configs, 0x1000).is_none(), "it has 12 bits");
        let whole = Field::parse("config1:0-63").unwrap();
        whole.set(&mut configs, u64::MAX).unwrap();
        assert_eq!(configs.0[1], u64::MAX);
        for wrong in ["", "config", "config:", "config:9-3", "config:0-64", "config9:0-7", "config:x"] {
            assert!(Field::parse(wrong).is_none(), "{wrong}");
        }
    }
}
