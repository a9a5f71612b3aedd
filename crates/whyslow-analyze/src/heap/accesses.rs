//! How the bytes of a site's blocks are accessed, offset by offset.
//!
//! A byte that is written once in each block, and never again or read, has one access per block.

use whyslow_profile::{AccessRun, Profile};

use super::sites::SiteRow;

/// The accesses of blocks of one size.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockAccesses {
    /// The size of each block.
    pub bytes: u64,
    /// How many blocks there were.
    pub blocks: u64,
    /// Stretches of bytes with as many accesses, from the first byte to the last.
    pub runs: Vec<AccessStretch>,
}

/// Bytes that are accessed as often.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AccessStretch {
    /// The offset of the first byte.
    pub start: u64,
    /// How many bytes.
    pub length: u64,
    /// Accesses of each byte, per block.
    pub per_block: f64,
    /// Whether there were more than can be counted.
    pub is_least: bool,
}

/// DHAT counts no further.
const MOST: u64 = 0xffff;
/// At most one access per block: what initialises a byte.
const ONCE: f64 = 1.0;

impl BlockAccesses {
    /// The accesses of the blocks of a line; `None` if they have several sizes, or were not counted.
    pub fn of(profile: &Profile, site: &SiteRow) -> Option<Self> {
        let mut sum: Option<Vec<(u64, u64, u64)>> = None;
        let mut blocks = 0u64;
        for &row in &site.rows {
            let allocations = profile.heap.sites.get(row as usize)?.counts.allocations;
            if allocations == 0 {
                continue;
            }
            let runs = runs_of(profile, row);
            let these: Vec<_> = runs.iter().map(|run| (run.start, run.length, run.count)).collect();
            if these.is_empty() {
                return None;
            }
            blocks = blocks.saturating_add(allocations);
            sum = Some(match sum {
                None => these,
                Some(sum) => added(&sum, &these)?,
            });
        }
        let runs = sum?;
        let stretch = |(start, length, count): (u64, u64, u64)| AccessStretch {
            start,
            length,
            per_block: count as f64 / blocks.max(1) as f64,
            is_least: count >= MOST,
        };
        let bytes = runs.last().map_or(0, |(start, length, _)| start.saturating_add(*length));
        Some(Self { bytes, blocks, runs: runs.into_iter().map(stretch).collect() })
    }

    /// Bytes that are never accessed, bytes that are accessed at most once per block, and the others.
    pub fn parts(&self) -> [u64; 3] {
        let mut parts = [0; 3];
        for run in &self.runs {
            parts[class(run)] += run.length;
        }
        parts
    }

    /// The offsets of the bytes that are accessed more than once per block, as few stretches as possible.
    pub fn hot(&self) -> Vec<(u64, u64)> {
        self.stretches(2)
    }

    /// The offsets of the bytes that are never accessed.
    pub fn dead(&self) -> Vec<(u64, u64)> {
        self.stretches(0)
    }

    fn stretches(&self, wanted: usize) -> Vec<(u64, u64)> {
        let mut found: Vec<(u64, u64)> = Vec::new();
        for run in self.runs.iter().filter(|run| class(run) == wanted) {
            match found.last_mut() {
                Some((start, length)) if *start + *length == run.start => *length += run.length,
                _ => found.push((run.start, run.length)),
            }
        }
        found
    }
}

fn class(run: &AccessStretch) -> usize {
    match run.per_block {
        0.0 => 0,
        once if once <= ONCE && !run.is_least => 1,
        _ => 2,
    }
}

/// The runs of a row: they are sorted by site.
fn runs_of(profile: &Profile, row: u32) -> &[AccessRun] {
    let all = &profile.heap.accesses;
    let start = all.partition_point(|run| run.site < u64::from(row));
    let end = all.partition_point(|run| run.site <= u64::from(row));
    all.get(start..end).unwrap_or_default()
}

/// The sums of two lists of runs over the same bytes.
fn added(a: &[(u64, u64, u64)], b: &[(u64, u64, u64)]) -> Option<Vec<(u64, u64, u64)>> {
    let end = |runs: &[(u64, u64, u64)]| runs.last().map(|(start, length, _)| start.saturating_add(*length));
    if end(a) != end(b) {
        return None;
    }
    let (mut a, mut b) = (a.iter().copied().peekable(), b.iter().copied().peekable());
    let (mut sum, mut at) = (Vec::new(), 0u64);
    while let (Some(&(a_start, a_length, a_count)), Some(&(b_start, b_length, b_count))) =
        (a.peek(), b.peek())
    {
        let (a_end, b_end) = (a_start.saturating_add(a_length), b_start.saturating_add(b_length));
        let next = a_end.min(b_end);
        if next <= at {
            // Damaged runs.
            return None;
        }
        sum.push((at, next - at, a_count.saturating_add(b_count)));
        at = next;
        if a_end <= at {
            a.next();
        }
        if b_end <= at {
            b.next();
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(blocks: u64, runs: &[(u64, u64, u64)]) -> BlockAccesses {
        let runs = runs.iter().map(|&(start, length, count)| AccessStretch {
            start,
            length,
            per_block: count as f64 / blocks as f64,
            is_least: count >= MOST,
        });
        BlockAccesses { bytes: 96, blocks, runs: runs.collect() }
    }

    #[test]
    fn bytes_are_hot_initialised_or_dead() {
        let accesses = of(10, &[(0, 4, 400), (4, 4, 4000), (8, 80, 10), (88, 8, 0)]);
        assert_eq!(accesses.parts(), [8, 80, 8]);
        assert_eq!(accesses.hot(), [(0, 8)]);
        assert_eq!(accesses.dead(), [(88, 8)]);
        assert_eq!(of(100_000, &[(0, 96, MOST)]).parts(), [0, 0, 96], "counted no further");
    }

    #[test]
    fn sites_on_a_line_are_added_up_if_their_blocks_have_one_size() {
        let a = [(0, 8, 5), (8, 8, 1)];
        assert_eq!(added(&a, &[(0, 4, 1), (4, 12, 0)]).unwrap(), [(0, 4, 6), (4, 4, 5), (8, 8, 1)]);
        assert_eq!(added(&a, &[(0, 8, 1)]), None);
        assert_eq!(added(&[(0, 0, 5), (0, 8, 1)], &[(0, 8, 1)]), None);
    }
}
