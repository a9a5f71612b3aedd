//! Code generated at run time: perf maps (`/tmp/perf-PID.map`) and jitdump files (`jit-PID.dump`).

use std::path::{Path, PathBuf};
use whyslow_numbers::RelativeAddress;
use whyslow_profile::pid_of_jit_module;

use crate::answers::{Answers, RawFrame, RawFunction};

/// Address, line, file.
type LineRow<'a> = (u64, u32, &'a str);

/// A piece of code that a JIT compiler announced.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece<'a> {
    start: u64,
    end: u64,
    name: &'a str,
    code: &'a [u8],
    /// Sorted by address.
    lines: Vec<LineRow<'a>>,
}

/// The perf map of the process whose code a module is.
pub(crate) fn perf_map_path(module: &str) -> Option<PathBuf> {
    let pid = pid_of_jit_module(module)?;
    Some(PathBuf::from(format!("/tmp/perf-{pid}.map")))
}

/// Resolves addresses with the file of a JIT module: those of the process, since such a module has no image.
pub(crate) fn resolve(module: &str, addresses: &[RelativeAddress]) -> Option<Answers> {
    with_pieces(module, |pieces| answers(pieces, addresses))
}

/// The machine code at an address, if the file holds it.
pub(crate) fn code(module: &str, start: RelativeAddress, size: usize) -> Option<Vec<u8>> {
    with_pieces(module, |pieces| {
        let piece = find(pieces, start.0)?;
        let offset = usize::try_from(start.0 - piece.start).ok()?;
        let bytes = piece.code.get(offset..)?;
        (!bytes.is_empty()).then(|| bytes[..bytes.len().min(size)].to_vec())
    })
    .flatten()
}

fn with_pieces<T>(module: &str, then: impl FnOnce(&[Piece<'_>]) -> T) -> Option<T> {
    if let Some(path) = perf_map_path(module) {
        let text = std::fs::read(path).ok()?;
        return Some(then(&perf_map(&String::from_utf8_lossy(&text))));
    }
    let file = whyslow_elf::FileBytes::open(Path::new(module)).ok()?;
    Some(then(&jitdump(&file)?))
}

/// Lines of `START SIZE NAME`, numbers in hexadecimal.
fn perf_map(text: &str) -> Vec<Piece<'_>> {
    let piece = |line: &'_ str| -> Option<(u64, u64, usize)> {
        let (start, rest) = line.split_once(' ')?;
        let (size, name) = rest.split_once(' ')?;
        let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
        Some((number(start)?, number(size)?, line.len() - name.len()))
    };
    let rows = text.lines().filter_map(|line| {
        let (start, size, name) = piece(line)?;
        let end = start.checked_add(size)?;
        Some(Piece { start, end, name: line[name..].trim(), code: &[], lines: Vec::new() })
    });
    latest_first(rows.collect())
}

/// Sorts by address. Of several pieces at one address, the last announced comes first, because it replaced
/// the others.
fn latest_first(mut pieces: Vec<Piece<'_>>) -> Vec<Piece<'_>> {
    pieces.reverse();
    pieces.sort_by_key(|piece| piece.start);
    pieces.dedup_by_key(|piece| piece.start);
    pieces
}

fn find<'p, 'a>(pieces: &'p [Piece<'a>], address: u64) -> Option<&'p Piece<'a>> {
    let after = pieces.partition_point(|piece| piece.start <= address);
    pieces[..after].last().filter(|piece| address < piece.end)
}

fn answers(pieces: &[Piece<'_>], addresses: &[RelativeAddress]) -> Answers {
    let mut answers = Answers::default();
    for &address in addresses {
        let Some(piece) = find(pieces, address.0) else {
            answers.add(address, Default::default(), &[]);
            continue;
        };
        let at = piece.lines.partition_point(|&(start, ..)| start <= address.0);
        let place = at.checked_sub(1).map(|at| piece.lines[at]);
        let (line, file) = place.map_or((0, None), |(_, line, file)| (line, Some(answers.text_id(file))));
        let defined =
            piece.lines.first().map_or((0, None), |&(_, line, file)| (line, Some(answers.text_id(file))));
        let name = answers.text_id(piece.name);
        let function =
            answers.function_id(RawFunction { name, file: defined.1, line: defined.0, form: None });
        let extent = (RelativeAddress(piece.start), RelativeAddress(piece.end));
        answers.add(address, extent, &[RawFrame { function, file, line }]);
    }
    answers
}

/// Reads a jitdump file up to its first damaged record; `None` if it is not a jitdump file.
///
/// ```text
/// file   = "DTiJ" version total_size …                      header
///          { kind:u32 size:u32 time:u64 body }              records; size counts the 16 bytes of its head
/// load   = pid tid vma:u64 address:u64 size:u64 index:u64 name\0 code
/// move   = pid tid vma:u64 old:u64 new:u64 size:u64 index:u64
/// debug  = address:u64 count:u64 { address:u64 line:u32 discriminator:u32 file\0 }
/// ```
fn jitdump(bytes: &[u8]) -> Option<Vec<Piece<'_>>> {
    let mut header = Reader(bytes);
    if header.take(4)? != b"DTiJ" {
        return None;
    }
    let _version = header.u32()?;
    let header_size = header.u32()? as usize;
    let mut records = Reader(bytes.get(header_size..)?);
    let mut pieces: Vec<Piece<'_>> = Vec::new();
    let mut indices: rustc_hash::FxHashMap<u64, usize> = rustc_hash::FxHashMap::default();
    let mut pending_lines: Vec<(u64, Vec<LineRow<'_>>)> = Vec::new();
    while let Some((kind, body)) = records.record() {
        let mut body = Reader(body);
        match kind {
            0 => {
                let Some((index, mut piece)) = body.code_load() else { break };
                // Debug info precedes the code that it belongs to.
                if let Some(at) = pending_lines.iter().rposition(|(address, _)| *address == piece.start) {
                    piece.lines = pending_lines.swap_remove(at).1;
                }
                indices.insert(index, pieces.len());
                pieces.push(piece);
            }
            1 => {
                let Some((index, start, size)) = body.code_move() else { break };
                if let Some(old) = indices.get(&index).and_then(|&at| pieces.get(at)) {
                    let mut moved = old.clone();
                    for (address, ..) in &mut moved.lines {
                        *address = address.wrapping_sub(old.start).wrapping_add(start);
                    }
                    moved.start = start;
                    moved.end = start.saturating_add(size);
                    pieces.push(moved);
                }
            }
            2 => {
                let Some((address, lines)) = body.debug_info() else { break };
                pending_lines.push((address, lines));
            }
            _ => {}
        }
    }
    Some(latest_first(pieces))
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<&'a str> {
        let end = self.0.iter().position(|&byte| byte == 0)?;
        let text = self.take(end)?;
        self.take(1)?;
        Some(std::str::from_utf8(text).unwrap_or("?"))
    }

    fn record(&mut self) -> Option<(u32, &'a [u8])> {
        let kind = self.u32()?;
        let size = self.u32()? as usize;
        let _time = self.u64()?;
        Some((kind, self.take(size.checked_sub(16)?)?))
    }

    fn code_load(&mut self) -> Option<(u64, Piece<'a>)> {
        self.take(8)?;
        let _vma = self.u64()?;
        let start = self.u64()?;
        let size = self.u64()?;
        let index = self.u64()?;
        let name = self.text()?;
        let code = self.take(usize::try_from(size).ok()?.min(self.0.len()))?;
        Some((index, Piece { start, end: start.checked_add(size)?, name, code, lines: Vec::new() }))
    }

    fn code_move(&mut self) -> Option<(u64, u64, u64)> {
        self.take(8)?;
        let _vma = self.u64()?;
        let _old = self.u64()?;
        let start = self.u64()?;
        let size = self.u64()?;
        Some((self.u64()?, start, size))
    }

    fn debug_info(&mut self) -> Option<(u64, Vec<LineRow<'a>>)> {
        let code = self.u64()?;
        let count = self.u64()?;
        let mut lines: Vec<LineRow<'_>> = Vec::new();
        for _ in 0..count {
            let address = self.u64()?;
            let line = self.u32()?;
            let _discriminator = self.u32()?;
            let file = match self.text()? {
                // Same file as the entry before.
                "\u{fffd}" | "?" => lines.last().map_or("?", |last| last.2),
                file => file,
            };
            lines.push((address, line, file));
        }
        lines.sort_by_key(|line| line.0);
        Some((code, lines))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(answers: &Answers, index: usize) -> Option<(&str, Option<&str>, u32)> {
        let frame = answers.frames_of(&answers.sites()[index]).first()?;
        let name = answers.text(answers.functions()[frame.function as usize].name);
        Some((name, frame.file.map(|file| answers.text(file)), frame.line))
    }

    #[test]
    fn perf_maps_name_code_and_the_last_line_wins() {
        let map = "1000 20 old\n1000 20 LazyCompile:*f /x/y.js:3\nbad\n2000 10 g\n";
        let found = answers(&perf_map(map), &[0xfff, 0x1000, 0x101f, 0x1020, 0x2005].map(RelativeAddress));
        assert_eq!(frame(&found, 0), None);
        assert_eq!(frame(&found, 1).unwrap().0, "LazyCompile:*f /x/y.js:3");
        assert_eq!(frame(&found, 2).unwrap().0, "LazyCompile:*f /x/y.js:3");
        assert_eq!(frame(&found, 3), None);
        assert_eq!(frame(&found, 4).unwrap().0, "g");
        assert_eq!(perf_map_path("[jit:12]").unwrap(), Path::new("/tmp/perf-12.map"));
        assert_eq!(perf_map_path("[jit:../x]"), None);
    }

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend((body.len() as u32 + 16).to_le_bytes());
        bytes.extend(0_u64.to_le_bytes());
        bytes.extend(body);
        bytes
    }

    fn numbers(head: &[u32], rest: &[u64]) -> Vec<u8> {
        let mut bytes: Vec<u8> = head.iter().flat_map(|number| number.to_le_bytes()).collect();
        bytes.extend(rest.iter().flat_map(|number| number.to_le_bytes()));
        bytes
    }

    pub(super) fn sample() -> Vec<u8> {
        let mut file = b"DTiJ".to_vec();
        file.extend(numbers(&[1, 40, 62, 0, 7], &[0, 0]));
        let mut debug = numbers(&[], &[0x1000, 2]);
        debug.extend(numbers(&[], &[0x1000]));
        debug.extend(numbers(&[5, 0], &[]));
        debug.extend(b"a.js\0");
        debug.extend(numbers(&[], &[0x1004]));
        debug.extend(numbers(&[6, 0], &[]));
        debug.extend(b"a.js\0");
        file.extend(record(2, &debug));
        let mut load = numbers(&[7, 7], &[0x1000, 0x1000, 8, 1]);
        load.extend(b"hot\0");
        load.extend([0x90; 8]);
        file.extend(record(0, &load));
        file.extend(record(1, &numbers(&[7, 7], &[0x3000, 0x1000, 0x3000, 8, 1])));
        file.extend(record(3, &[]));
        file
    }

    #[test]
    fn jitdump_names_lines_moves_and_code() {
        let bytes = sample();
        let pieces = jitdump(&bytes).unwrap();
        let found = answers(&pieces, &[0x1001, 0x1006, 0x1008, 0x3005].map(RelativeAddress));
        assert_eq!(frame(&found, 0), Some(("hot", Some("a.js"), 5)));
        assert_eq!(frame(&found, 1), Some(("hot", Some("a.js"), 6)));
        assert_eq!(frame(&found, 2), None);
        assert_eq!(frame(&found, 3), Some(("hot", Some("a.js"), 6)));
        assert_eq!(find(&pieces, 0x1001).unwrap().code, [0x90; 8]);
    }

    #[test]
    fn a_truncated_jitdump_gives_its_complete_records() {
        let bytes = sample();
        for cut in 0..bytes.len() {
            let _ = jitdump(&bytes[..cut]);
        }
        assert!(jitdump(b"ELF").is_none());
    }
}
