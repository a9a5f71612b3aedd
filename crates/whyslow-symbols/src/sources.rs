//! Stores the source lines around hot places in the profile.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustc_hash::{FxHashMap, FxHashSet};
use whyslow_profile::{FunctionId, LocationId, ModuleId, Profile, SourceLine, StringId};

use crate::fill::Texts;
use crate::hot::Heat;

/// Lines kept before and after the sampled lines of a function.
const AROUND: u32 = 5;
/// Functions that span more lines keep only windows around the sampled lines.
const LONGEST_FUNCTION: u32 = 400;
const MOST_LINES: usize = 20_000;
const MOST_BYTES: usize = 1 << 20;
const LARGEST_FILE: u64 = 16 << 20;
/// Generated files have lines that are too long to read.
const LONGEST_LINE: usize = 1000;

/// Wanted lines of a file, and how hot they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    value: u64,
    file: StringId,
    from: u32,
    to: u32,
    module: Option<ModuleId>,
}

/// Reads the lines around hot places; returns the files that are newer than the module compiled from them.
pub(crate) fn keep(profile: &mut Profile, texts: &mut Texts, heat: &Heat) -> Vec<String> {
    let windows = windows(profile, heat);
    let mut rows: FxHashMap<(StringId, u32), StringId> =
        profile.sources.rows.iter().map(|row| ((row.file, row.line), row.text)).collect();
    let mut files: FxHashMap<StringId, Option<Text>> = FxHashMap::default();
    let mut newer: FxHashSet<StringId> = FxHashSet::default();
    let mut bytes = 0;
    'all: for window in &windows {
        let path = profile.text(window.file).to_owned();
        let Some(text) = files.entry(window.file).or_insert_with(|| Text::read(&path)) else { continue };
        if let Some(module) = window.module
            && text.changed.zip(changed(profile, module)).is_some_and(|(source, module)| source > module)
        {
            newer.insert(window.file);
        }
        for line in window.from..=window.to {
            if rows.len() >= MOST_LINES || bytes >= MOST_BYTES {
                break 'all;
            }
            let Some(content) = text.line(line) else { break };
            if let std::collections::hash_map::Entry::Vacant(slot) = rows.entry((window.file, line)) {
                bytes += content.len();
                slot.insert(texts.id(&mut profile.strings, content));
            }
        }
    }
    let mut rows: Vec<SourceLine> =
        rows.into_iter().map(|((file, line), text)| SourceLine { file, line, text }).collect();
    rows.sort_by_key(|row| (row.file, row.line));
    profile.sources.rows = rows;
    let mut newer: Vec<String> = newer.into_iter().map(|file| profile.text(file).to_owned()).collect();
    newer.sort();
    newer
}

/// The modification time of the module's file.
fn changed(profile: &Profile, module: ModuleId) -> Option<SystemTime> {
    let path = profile.text(profile.modules.get(module.index())?.path);
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

/// The wanted lines, hottest first.
fn windows(profile: &Profile, heat: &Heat) -> Vec<Window> {
    // Each function's own value, its sampled lines, and the value of each place.
    let mut own: FxHashMap<FunctionId, u64> = FxHashMap::default();
    for (&location, &value) in &heat.own {
        if let Some(innermost) = profile.frames.of(location).last() {
            *own.entry(innermost.function).or_default() += value;
        }
    }
    let mut lines: FxHashMap<(FunctionId, StringId), Vec<u32>> = FxHashMap::default();
    let mut places: FxHashMap<(StringId, u32), (u64, Option<ModuleId>)> = FxHashMap::default();
    for index in 1..profile.locations.len() {
        let location = LocationId::from(index);
        let inclusive = heat.inclusive.get(&location).copied().unwrap_or(0);
        for frame in profile.frames.of(location) {
            let Some(file) = frame.file.filter(|_| frame.line > 0) else { continue };
            lines.entry((frame.function, file)).or_default().push(frame.line);
            let place = places.entry((file, frame.line)).or_insert((0, profile.locations.module[index]));
            place.0 = place.0.saturating_add(inclusive);
        }
    }
    let mut windows = Vec::new();
    let around = |value, file, from: u32, to: u32, module| Window {
        value,
        file,
        from: from.saturating_sub(AROUND).max(1),
        to: to.saturating_add(AROUND),
        module,
    };
    for ((function, file), seen) in &lines {
        let value = own.get(function).copied().unwrap_or(0);
        let Some(row) = profile.functions.get(function.index()) else { continue };
        if !heat.is_notable(value) {
            continue;
        }
        let (Some(&first), Some(&last)) = (seen.iter().min(), seen.iter().max()) else { continue };
        let defined = (row.file == Some(*file) && row.line > 0 && row.line <= first).then_some(row.line);
        let start = defined.filter(|line| last - line <= LONGEST_FUNCTION).unwrap_or(first);
        if last - start <= LONGEST_FUNCTION {
            windows.push(around(value, *file, start, last, row.module));
        } else {
            windows.extend(seen.iter().map(|&line| around(value, *file, line, line, row.module)));
        }
    }
    for (&(file, line), &(value, module)) in &places {
        if heat.is_notable(value) {
            windows.push(around(value, file, line, line, module));
        }
    }
    windows.sort_by_key(|window| (std::cmp::Reverse(window.value), window.file, window.from, window.to));
    windows
}

/// A source file.
pub(crate) struct Text {
    content: String,
    starts: Vec<usize>,
    changed: Option<SystemTime>,
}

impl Text {
    pub(crate) fn read(path: &str) -> Option<Self> {
        let path = on_disk(path).filter(|_| is_source(path))?;
        let metadata = fs::metadata(&path).ok()?;
        if !metadata.is_file() || metadata.len() > LARGEST_FILE {
            return None;
        }
        let content = String::from_utf8_lossy(&fs::read(&path).ok()?).into_owned();
        Some(Self::of(content, metadata.modified().ok()))
    }

    pub(crate) fn of(content: String, changed: Option<SystemTime>) -> Self {
        let ends = content.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let starts = std::iter::once(0).chain(ends).filter(|&at| at < content.len()).collect();
        Self { starts, changed, content }
    }

    /// A line by its number from 1, without its line end.
    pub(crate) fn line(&self, number: u32) -> Option<&str> {
        let at = (number as usize).checked_sub(1)?;
        let start = *self.starts.get(at)?;
        let end = self.starts.get(at + 1).copied().unwrap_or(self.content.len());
        let line = self.content[start..end].trim_end_matches(['\n', '\r']);
        Some(line.char_indices().nth(LONGEST_LINE).map_or(line, |(cut, _)| &line[..cut]))
    }
}

/// Whether a file's name is that of a source file. Names can come from another tool's file, and the profile
/// that keeps the contents may be shared: it must not hold a key or a list of passwords.
fn is_source(path: &str) -> bool {
    const EXTENSIONS: [&str; 36] = [
        "rs", "c", "h", "cc", "cpp", "cxx", "c++", "hh", "hpp", "hxx", "h++", "inc", "inl", "ipp", "tcc",
        "s", "S", "asm", "go", "zig", "d", "f", "f90", "swift", "m", "mm", "cu", "py", "js", "mjs", "ts",
        "java", "kt", "cs", "rb", "php",
    ];
    match Path::new(path).extension() {
        Some(extension) => EXTENSIONS.iter().any(|known| extension == *known),
        // Headers of the C++ library have no extension.
        None => path.starts_with("/usr/include/") && !path.contains(".."),
    }
}

/// The path of a source file on this machine. Sources of the standard library are in the toolchain with the
/// same commit.
fn on_disk(path: &str) -> Option<PathBuf> {
    let Some(rest) = path.strip_prefix("/rustc/") else {
        return path.starts_with('/').then(|| PathBuf::from(path));
    };
    let (commit, inside) = rest.split_once('/')?;
    let home = std::env::var_os("RUSTUP_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".rustup")))?;
    toolchain_sources(&home.join("toolchains"), commit).map(|sources| sources.join(inside))
}

fn toolchain_sources(toolchains: &Path, commit: &str) -> Option<PathBuf> {
    fs::read_dir(toolchains).ok()?.flatten().find_map(|entry| {
        let rustlib = entry.path().join("lib/rustlib");
        let sources = rustlib.join("src/rust");
        if !sources.join("library").is_dir() {
            return None;
        }
        let manifest = fs::read_to_string(rustlib.join("multirust-channel-manifest.toml")).ok()?;
        (commit.len() >= 8 && manifest.contains(commit)).then_some(sources)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_profile::{CodeKind, Frame, Function, RelativeAddress, Samples, ThreadId};

    /// A profile with one function sampled at `lines`, once each.
    fn profile_of(file: &str, defined: u32, lines: &[u32]) -> Profile {
        let mut profile = Profile::default();
        let name = profile.strings.push("f");
        let file = Some(profile.strings.push(file));
        profile.functions.push(Function {
            name,
            raw_name: name,
            crate_name: None,
            kind: CodeKind::Yours,
            file,
            line: defined,
            module: None,
        });
        let mut samples = Samples::default();
        for (index, &line) in lines.iter().enumerate() {
            let location = profile.locations.push(None, RelativeAddress(index as u64));
            profile.frames.set(location, &[Frame { function: FunctionId(0), file, line }]);
            let stack = profile.stacks.push(None, location);
            samples.push(0, ThreadId(0), stack, 1);
        }
        let name = profile.strings.push(whyslow_profile::Metric::CPU_TIME);
        profile.metrics.push(whyslow_profile::Metric::cpu_time(Default::default()).renamed(name));
        profile.samples.push(samples);
        profile
    }

    fn kept(defined: u32, lines: &[u32]) -> Vec<(u32, String)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.rs");
        let content: String = (1..=1000).map(|line| format!("line {line}\r\n")).collect();
        fs::write(&path, content).unwrap();
        let mut profile = profile_of(path.to_str().unwrap(), defined, lines);
        let heat = Heat::of(&profile);
        let mut texts = Texts::of(&profile.strings);
        assert!(keep(&mut profile, &mut texts, &heat).is_empty());
        let rows = &profile.sources.rows;
        assert!(rows.windows(2).all(|pair| (pair[0].file, pair[0].line) < (pair[1].file, pair[1].line)));
        rows.iter().map(|row| (row.line, profile.text(row.text).to_owned())).collect()
    }

    #[test]
    fn a_function_is_kept_from_its_definition_to_its_last_sampled_line() {
        let rows = kept(20, &[25, 40]);
        let numbers: Vec<u32> = rows.iter().map(|row| row.0).collect();
        assert_eq!(numbers, (15..=45).collect::<Vec<_>>());
        assert_eq!(rows[0].1, "line 15");
    }

    #[test]
    fn a_very_long_function_is_kept_around_its_sampled_lines() {
        let numbers: Vec<u32> = kept(3, &[10, 900]).iter().map(|row| row.0).collect();
        assert_eq!(numbers, (5..=15).chain(895..=905).collect::<Vec<_>>());
    }

    #[test]
    fn windows_end_with_the_file() {
        let numbers: Vec<u32> = kept(0, &[2, 999]).iter().map(|row| row.0).collect();
        assert_eq!(numbers, (1..=7).chain(994..=1000).collect::<Vec<_>>());
    }

    #[test]
    fn only_source_files_are_kept() {
        for path in ["/a/b.rs", "/x.S", "/usr/include/c++/12/vector", "/a.b/c.hpp"] {
            assert!(is_source(path), "{path}");
        }
        for path in [
            "/etc/shadow",
            "/root/.ssh/id_rsa",
            "/a.rs/key",
            "/root/.rs",
            "/x.pem",
            "/usr/include/../../etc/x",
        ] {
            assert!(!is_source(path), "{path}");
        }
    }

    #[test]
    fn a_missing_file_keeps_nothing() {
        let mut profile = profile_of("/no/such/file.rs", 1, &[2]);
        let heat = Heat::of(&profile);
        let mut texts = Texts::of(&profile.strings);
        keep(&mut profile, &mut texts, &heat);
        assert!(profile.sources.rows.is_empty());
    }

    #[test]
    fn sources_of_the_standard_library_come_from_the_toolchain_with_its_commit() {
        let folder = tempfile::tempdir().unwrap();
        let rustlib = folder.path().join("stable/lib/rustlib");
        fs::create_dir_all(rustlib.join("src/rust/library")).unwrap();
        fs::write(rustlib.join("multirust-channel-manifest.toml"), "git_commit_hash = \"0123456789\"")
            .unwrap();
        assert_eq!(toolchain_sources(folder.path(), "0123456789"), Some(rustlib.join("src/rust")));
        assert_eq!(toolchain_sources(folder.path(), "9999999999"), None);
    }
}
