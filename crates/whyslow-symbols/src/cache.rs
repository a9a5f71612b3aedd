//! The cache on disk: symbols of a file's addresses, so that the next recording of the file does not need its
//! debug info.
//!
//! One file per module, named by its build id, or by path, size and modification time if it has none:
//!
//! ```text
//! file    = magic, checksum of the rest, zstd( source evidence texts functions sites )
//! numbers = LEB128; optional ids are stored plus one, 0 for none
//! ```
//!
//! Files are written under a temporary name and renamed, so readers and other writers never see half a file.
//! If two processes write at once, the later file wins, and the earlier one's new symbols are looked up again
//! next time. A damaged file, or one of another version, is ignored and replaced.

use std::fs;
use std::hash::Hasher;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use rustc_hash::{FxHashSet, FxHasher};
use whyslow_numbers::RelativeAddress;
use whyslow_profile::{AsyncForm, ModuleKind};

use crate::Options;
use crate::answers::{Answers, RawFrame, RawFunction, TextId};
use crate::module::{self, Answer, Question, Source};
use crate::optimised::Evidence;

const MAGIC: &[u8; 16] = b"whyslow-symbols3";
/// Maximum size of all cache files together; the least recently used are removed first.
const LARGEST_CACHE: u64 = 256 << 20;
/// Maximum size of one file, decompressed.
const LARGEST_FILE: usize = 64 << 20;
/// A used file gets a new modification time, but not more often than this.
const TOUCH_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// Answers a question from the cache where possible, then from the module's files. Also returns how many
/// addresses the cache had.
pub(crate) fn resolve(question: &Question, options: &Options) -> (Answer, usize) {
    let Some(path) = options.cache.as_ref().and_then(|folder| file_for(folder, question)) else {
        return (module::resolve(question, options), 0);
    };
    let Some(cached) = load(&path) else {
        let answer = module::resolve(question, options);
        store(&path, &answer, &Answers::default());
        return (answer, 0);
    };
    let wanted: FxHashSet<RelativeAddress> = question.addresses.iter().copied().collect();
    let mut known = Answers::default();
    known.absorb(&cached.answers, |site| wanted.contains(&site.address));
    let hits = known.sites().len();
    let found: FxHashSet<RelativeAddress> = known.sites().iter().map(|site| site.address).collect();
    let addresses: Vec<RelativeAddress> =
        question.addresses.iter().copied().filter(|address| !found.contains(address)).collect();
    let mut answer = Answer { answers: known, complete: true, ..cached.clone() };
    if addresses.is_empty() {
        touch(&path);
        return (answer, hits);
    }
    let fresh = module::resolve(&Question { addresses, ..question.clone() }, options);
    answer.answers.absorb(&fresh.answers, |_| true);
    answer.problem = fresh.problem;
    answer.complete = fresh.complete;
    if fresh.source != Source::Missing {
        answer.source = fresh.source;
        answer.evidence.add(&fresh.evidence);
        store(&path, &answer, &cached.answers);
    }
    (answer, hits)
}

/// The cache file of a module; `None` for modules that are not worth caching.
fn file_for(folder: &Path, question: &Question) -> Option<PathBuf> {
    let folder = folder.join("symbols");
    match question.kind {
        ModuleKind::Program | ModuleKind::Library | ModuleKind::Unknown => {}
        // The kernel has its own table; the others are fast to read.
        ModuleKind::Kernel
        | ModuleKind::Vdso
        | ModuleKind::Jit
        | ModuleKind::NotSampled
        | ModuleKind::Waiting(_)
        | ModuleKind::SystemCall
        | ModuleKind::LeftOut => return None,
    }
    if let Some(id) = &question.build_id {
        let plain = (8..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        return plain.then(|| folder.join(format!("id-{id}")));
    }
    let (size, (seconds, nanoseconds)) = match &question.file {
        Some(file) => (file.len() as u64, file.modified()),
        None => {
            let metadata = fs::metadata(question.path()).ok().filter(fs::Metadata::is_file)?;
            (metadata.len(), (metadata.mtime(), metadata.mtime_nsec()))
        }
    };
    let mut hasher = FxHasher::default();
    hasher.write(question.path.as_bytes());
    let path = hasher.finish();
    Some(folder.join(format!("file-{path:016x}-{size:x}-{seconds:x}.{nanoseconds:x}")))
}

fn load(path: &Path) -> Option<Answer> {
    let bytes = fs::read(path).ok()?;
    let answer = decode(&bytes);
    if answer.is_none() {
        // Damaged or of another version: the next store writes a good one.
        let _ = fs::remove_file(path);
    }
    answer
}

/// Stores an answer, together with what the cache had before.
fn store(path: &Path, answer: &Answer, before: &Answers) {
    // Symbol tables are fast to read, and debug info may be installed later.
    if !answer.complete || answer.source != Source::Lines {
        return;
    }
    let mut all = Answers::default();
    let mut seen = FxHashSet::default();
    for part in [&answer.answers, before] {
        all.absorb(part, |site| seen.insert(site.address));
    }
    let bytes = encode(answer.source, &answer.evidence, &all);
    if bytes.is_some_and(|bytes| write(path, &bytes).is_ok())
        && let Some(folder) = path.parent()
    {
        shrink(folder, LARGEST_CACHE);
    }
}

/// Writes a whole file, under a temporary name first.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let unique = COUNTER.fetch_add(1, Ordering::Relaxed);
    let temporary = folder.join(format!("tmp-{}-{unique}", std::process::id()));
    let written = fs::File::create(&temporary).and_then(|mut file| file.write_all(bytes));
    let result = written.and_then(|()| fs::rename(&temporary, path));
    if result.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    result
}

fn touch(path: &Path) {
    let is_old = |time: SystemTime| time.elapsed().is_ok_and(|age| age > TOUCH_AFTER);
    if fs::metadata(path).and_then(|metadata| metadata.modified()).is_ok_and(is_old)
        && let Ok(file) = fs::File::options().append(true).open(path)
    {
        let _ = file.set_modified(SystemTime::now());
    }
}

/// Removes the least recently used files until the rest is small enough.
fn shrink(folder: &Path, largest: u64) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let metadata = entry.metadata().ok()?;
            Some((metadata.modified().ok()?, metadata.len(), entry.path()))
        })
        .collect();
    files.sort();
    let mut total: u64 = files.iter().map(|(_, size, _)| size).sum();
    for (_, size, path) in files {
        if total <= largest {
            break;
        }
        if fs::remove_file(path).is_ok() {
            total -= size;
        }
    }
}

/// CRC-32.
pub(crate) fn checksum(bytes: &[u8]) -> [u8; 4] {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum().to_le_bytes()
}

fn encode(source: Source, evidence: &Evidence, answers: &Answers) -> Option<Vec<u8>> {
    let mut out = Numbers(Vec::new());
    out.put(match source {
        Source::Missing => 0,
        Source::Stripped => 1,
        Source::Names => 2,
        Source::Lines => 3,
    });
    for count in [evidence.rust_functions, evidence.rust_inlined, evidence.flagged_yes, evidence.flagged_no] {
        out.put(count.into());
    }
    out.put(answers.texts().len() as u64);
    for text in answers.texts() {
        out.put(text.len() as u64);
        out.0.extend_from_slice(text.as_bytes());
    }
    let optional = |id: Option<TextId>| id.map_or(0, |id| u64::from(id.0) + 1);
    out.put(answers.functions().len() as u64);
    for function in answers.functions() {
        out.put(function.name.0.into());
        out.put(optional(function.file));
        out.put(function.line.into());
        out.put(function.form.map_or(0, |form| form as u64 + 1));
    }
    out.put(answers.sites().len() as u64);
    for site in answers.sites() {
        let frames = answers.frames_of(site);
        out.put(site.address.0);
        out.put(site.extent.0.0);
        out.put(site.extent.1.0);
        out.put(frames.len() as u64);
        for frame in frames {
            out.put(frame.function.into());
            out.put(optional(frame.file));
            out.put(frame.line.into());
        }
    }
    if out.0.len() > LARGEST_FILE {
        return None;
    }
    let body = zstd::bulk::compress(&out.0, 1).ok()?;
    Some([MAGIC.as_slice(), &checksum(&body), &body].concat())
}

fn decode(bytes: &[u8]) -> Option<Answer> {
    let rest = bytes.strip_prefix(MAGIC.as_slice())?;
    let (sum, body) = rest.split_at_checked(4)?;
    if sum != checksum(body) {
        return None;
    }
    let body = zstd::bulk::decompress(body, LARGEST_FILE).ok()?;
    let mut input = Input(&body);
    let source = match input.number()? {
        1 => Source::Stripped,
        2 => Source::Names,
        3 => Source::Lines,
        _ => return None,
    };
    let evidence = Evidence {
        rust_functions: input.small()?,
        rust_inlined: input.small()?,
        flagged_yes: input.small()?,
        flagged_no: input.small()?,
    };
    let mut answers = Answers::default();
    let mut texts = Vec::new();
    for _ in 0..input.number()? {
        let length = usize::try_from(input.number()?).ok()?;
        texts.push(answers.text_id(std::str::from_utf8(input.take(length)?).ok()?));
    }
    let text = |id: u64| texts.get(usize::try_from(id).ok()?).copied();
    let optional = |id: u64| match id {
        0 => Some(None),
        id => text(id - 1).map(Some),
    };
    let mut functions = Vec::new();
    for _ in 0..input.number()? {
        let name = text(input.number()?)?;
        let file = optional(input.number()?)?;
        let line = input.small()?;
        let form = match input.number()? {
            0 => None,
            code => Some(*AsyncForm::ALL.get(usize::try_from(code - 1).ok()?)?),
        };
        functions.push(answers.function_id(RawFunction { name, file, line, form }));
    }
    let mut frames = Vec::new();
    for _ in 0..input.number()? {
        let address = RelativeAddress(input.number()?);
        let extent = (RelativeAddress(input.number()?), RelativeAddress(input.number()?));
        frames.clear();
        for _ in 0..input.number()? {
            let function = *functions.get(input.small()? as usize)?;
            let file = optional(input.number()?)?;
            frames.push(RawFrame { function, file, line: input.small()? });
        }
        answers.add(address, extent, &frames);
    }
    Some(Answer { answers, source, evidence, complete: true, ..Answer::default() })
}

struct Numbers(Vec<u8>);

impl Numbers {
    fn put(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Answers {
        let mut answers = Answers::default();
        let name = answers.text_id("f");
        let file = Some(answers.text_id("/src/f.rs"));
        let function = answers.function_id(RawFunction { name, file, line: 3, form: Some(AsyncForm::Block) });
        answers.add(
            RelativeAddress(10),
            (RelativeAddress(8), RelativeAddress(20)),
            &[RawFrame { function, file, line: 4 }, RawFrame { function, file: None, line: 0 }],
        );
        answers.add(RelativeAddress(u64::MAX), Default::default(), &[]);
        answers
    }

    #[test]
    fn cache_files_round_trip() {
        let evidence = Evidence { rust_functions: 300, rust_inlined: 2, flagged_yes: 0, flagged_no: 1 };
        let answers = sample();
        let read = decode(&encode(Source::Lines, &evidence, &answers).unwrap()).unwrap();
        assert_eq!(read.source, Source::Lines);
        assert_eq!(read.evidence, evidence);
        assert_eq!(read.answers.texts(), answers.texts());
        assert_eq!(read.answers.functions(), answers.functions());
        assert_eq!(read.answers.sites(), answers.sites());
        assert_eq!(read.answers.frames_of(&read.answers.sites()[0]), answers.frames_of(&answers.sites()[0]));
    }

    #[test]
    fn damaged_and_foreign_files_are_ignored_and_removed() {
        let good = encode(Source::Lines, &Evidence::default(), &sample()).unwrap();
        for cut in 0..good.len() {
            assert!(decode(&good[..cut]).is_none());
        }
        let mut other_version = good.clone();
        other_version[15] = b'0';
        assert!(decode(&other_version).is_none());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("id-00");
        fs::write(&path, &other_version).unwrap();
        assert!(load(&path).is_none());
        assert!(!path.exists());
    }

    #[test]
    fn the_least_recently_used_files_are_removed_first() {
        let folder = tempfile::tempdir().unwrap();
        for (age, name) in [(30, "old"), (20, "middle"), (10, "new")] {
            let path = folder.path().join(name);
            fs::write(&path, [0; 100]).unwrap();
            let time = SystemTime::now() - Duration::from_secs(age);
            fs::File::options().append(true).open(&path).unwrap().set_modified(time).unwrap();
        }
        shrink(folder.path(), 250);
        let exists = |name| folder.path().join(name).exists();
        assert!(!exists("old") && exists("middle") && exists("new"));
    }

    proptest! {
        #[test]
        fn any_body_decodes_or_is_refused(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let packed = zstd::bulk::compress(&body, 1).unwrap();
            let file = [MAGIC.as_slice(), &checksum(&packed), &packed].concat();
            let _ = decode(&file);
        }
    }
}
