//! A module in memory: its segments, and the bytes of its unwind tables.

#![expect(unsafe_code, reason = "the tables lie in the process's own memory")]

use core::slice;

const PT_LOAD: u32 = 1;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
const READABLE: u32 = 4;
const PAGE: u64 = 4096;

/// A program header of a 64-bit ELF file.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    file_size: u64,
    size: u64,
    alignment: u64,
}

impl Segment {
    /// Its kind (`PT_LOAD`…).
    pub fn kind(&self) -> u32 {
        self.kind
    }

    /// Its address, before the module's bias is added.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its size in memory.
    pub fn size(&self) -> u64 {
        self.size
    }
}

/// An ELF image in the memory of this process.
#[derive(Debug, Clone, Copy)]
pub struct Module<'a> {
    bias: u64,
    segments: &'a [Segment],
    start: u64,
    end: u64,
    eh_frame_hdr: Option<u64>,
    /// A search table in the format of `.eh_frame_hdr` from elsewhere.
    table: Option<&'a [u8]>,
}

impl<'a> Module<'a> {
    /// The module with these program headers. `bias` is added to their addresses.
    ///
    /// # Safety
    /// An image with these headers is mapped there, and its readable segments are mapped and unchanged during
    /// `'a`.
    pub unsafe fn new(bias: u64, segments: &'a [Segment]) -> Self {
        let mut module = Self { bias, segments, start: u64::MAX, end: 0, eh_frame_hdr: None, table: None };
        for segment in segments {
            let start = bias.wrapping_add(segment.address);
            match segment.kind {
                PT_LOAD => {
                    module.start = module.start.min(start);
                    module.end = module.end.max(start.wrapping_add(segment.size));
                }
                PT_GNU_EH_FRAME => module.eh_frame_hdr = Some(start),
                _ => {}
            }
        }
        module
    }

    /// The same with a separately built search table for its unwind information, if it has none itself.
    #[must_use]
    pub fn or_with_table(self, table: Option<&'a [u8]>) -> Self {
        if self.eh_frame_hdr.is_some() { self } else { Self { table, ..self } }
    }

    /// Where relative address 0 is mapped: the page of the first segment.
    pub fn base(&self) -> u64 {
        self.start / PAGE * PAGE
    }

    /// Where its first segment starts.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Where its last segment ends.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Whether an address, or a return address at the very end, is in one of its segments. Gaps between
    /// segments may contain code of other modules.
    pub fn holds(&self, address: u64) -> bool {
        self.loaded().any(|(start, segment)| address.wrapping_sub(start) <= segment.size)
    }

    /// The search table of its unwind information, and its address.
    pub(crate) fn search_table(&self) -> Option<(u64, &'a [u8])> {
        match (self.eh_frame_hdr, self.table) {
            (Some(at), _) => Some((at, self.bytes(at)?)),
            (None, Some(table)) => Some((table.as_ptr() as u64, table)),
            (None, None) => None,
        }
    }

    /// The bytes from an address to the end of its segment.
    pub(crate) fn bytes(&self, from: u64) -> Option<&'a [u8]> {
        let (start, segment) = self.loaded().find(|(start, segment)| {
            from.wrapping_sub(*start) < segment.size && segment.flags & READABLE != 0
        })?;
        let len = segment.size - from.wrapping_sub(start);
        // SAFETY: a readable segment is mapped from its start to its end, as the caller of `new` guarantees
        // for `'a`, and contains the range.
        Some(unsafe { slice::from_raw_parts(from as *const u8, usize::try_from(len).ok()?) })
    }

    fn loaded(&self) -> impl Iterator<Item = (u64, &'a Segment)> + use<'a> {
        let bias = self.bias;
        let loaded = self.segments.iter().filter(|segment| segment.kind == PT_LOAD);
        loaded.map(move |segment| (bias.wrapping_add(segment.address), segment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(kind: u32, flags: u32, address: u64, size: u64) -> Segment {
        Segment { kind, flags, offset: 0, address, physical: 0, file_size: size, size, alignment: 0 }
    }

    /// Three segments of an artificial image. The second is unreadable and separate.
    fn image(bytes: &[u8; 64]) -> (u64, [Segment; 4]) {
        let segments = [
            segment(PT_LOAD, READABLE, 0, 16),
            segment(PT_LOAD, 1, 24, 8),
            segment(PT_LOAD, READABLE | 1, 40, 24),
            segment(PT_GNU_EH_FRAME, READABLE, 44, 8),
        ];
        (bytes.as_ptr() as u64, segments)
    }

    #[test]
    fn bytes_end_where_their_segment_ends() {
        let bytes = core::array::from_fn(|at| at as u8);
        let (bias, segments) = image(&bytes);
        // SAFETY: all of it is in `bytes`.
        let module = unsafe { Module::new(bias, &segments) };
        assert_eq!((module.start(), module.end()), (bias, bias + 64));
        assert_eq!(module.bytes(bias + 4), Some(&bytes[4..16]));
        assert_eq!(module.search_table(), Some((bias + 44, &bytes[44..])));
        for nowhere in [16, 20, 24, 39, 64] {
            assert_eq!(module.bytes(bias + nowhere), None, "{nowhere}");
        }
        assert!(module.holds(bias + 30) && module.holds(bias + 16) && !module.holds(bias + 20));
    }

    #[test]
    fn external_table_is_used_only_if_the_module_has_none() {
        let bytes = [0; 64];
        let (bias, segments) = image(&bytes);
        let table = [1u8; 4];
        // SAFETY: all of it is in `bytes`.
        let [with, without] = unsafe { [Module::new(bias, &segments), Module::new(bias, &segments[..3])] };
        assert_eq!(with.or_with_table(Some(&table)).search_table().unwrap().0, bias + 44);
        assert_eq!(without.search_table(), None);
        assert_eq!(without.or_with_table(Some(&table)).search_table().unwrap().1, table);
    }
}
