//! Single allocations and frees that add up to the timeline, for formats that are lists of events.
//!
//! The profile has sums per site and period, not events. Within a period, a site's frees first consume its
//! own new allocations, as long as the site never exceeds its known maximum of bytes. Those blocks live only
//! within the period. Frees beyond that take older blocks, and allocations beyond that remain. Remaining
//! blocks are split so that later frees take whole blocks. Sizes are averages.

use whyslow_analyze::heap::{Step, Timeline};

/// Blocks of (nearly) one size.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) blocks: u64,
    pub(crate) bytes: u64,
}

impl Run {
    /// Sizes and the number of blocks of each. They add up to the bytes and differ by at most one.
    pub(crate) fn sizes(self) -> impl Iterator<Item = (u64, u64)> {
        let size = self.bytes.checked_div(self.blocks).unwrap_or(0);
        let larger = self.bytes.checked_rem(self.blocks).unwrap_or(0);
        [(size, self.blocks - larger), (size + 1, larger)].into_iter().filter(|&(_, blocks)| blocks > 0)
    }
}

/// The events of a site in a period.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct SiteEvents {
    pub(crate) site: usize,
    /// Older blocks that are freed before any allocation.
    pub(crate) freed: Vec<Run>,
    /// Blocks that are freed before the next allocation.
    pub(crate) temporary: Run,
    /// Other blocks that are allocated and freed within the period.
    pub(crate) passing: Run,
    /// Blocks that remain live.
    pub(crate) kept: Vec<Run>,
}

/// The events of a whole recording.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// By period.
    pub(crate) periods: Vec<Vec<SiteEvents>>,
    /// One of this many short-lived blocks is included; 1 means all.
    pub(crate) one_in: u64,
    /// Blocks that had to be added because the sums do not divide into the recorded number.
    pub(crate) added: u64,
    /// A temporary block that is allocated last before the peak and freed first after it. Often this block
    /// causes the peak.
    pub(crate) over_peak: Option<OverPeak>,
    /// Temporary blocks that outlived their period and are written as not temporary.
    pub(crate) not_temporary: u64,
}

/// A single block that is live across the peak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OverPeak {
    pub(crate) site: usize,
    pub(crate) size: u64,
}

impl Events {
    /// Builds the events of a timeline, with at most about `limit` allocations.
    pub(crate) fn new(timeline: &Timeline, limit: u64) -> Self {
        let steps = || timeline.steps.iter().flatten();
        let total = steps().fold(0u64, |sum, step| sum.saturating_add(step.allocations));
        let one_in = total.div_ceil(limit).max(1);
        let periods = timeline.starts.iter().map(|_| Vec::new()).collect();
        let mut events = Self { periods, one_in, ..Self::default() };
        for (site, steps) in timeline.steps.iter().enumerate() {
            events.add(site, steps, timeline);
        }
        events
    }

    fn add(&mut self, site: usize, steps: &[Step], timeline: &Timeline) {
        let mut plans = plans(steps, timeline.most[site], self.one_in);
        let over = place_temporary(&mut plans);
        cut(&mut plans, timeline.peak);
        let added = hand_out(&mut plans);
        if self.one_in == 1 {
            self.added += added;
        }
        self.not_temporary += over - self.settle(site, &mut plans, over, timeline.peak);
        let mut freed: Vec<Vec<Run>> = plans.iter().map(|_| Vec::new()).collect();
        for plan in &plans {
            for piece in &plan.pieces {
                if let Some(row) = piece.freed_in {
                    freed[row].push(piece.run);
                }
            }
        }
        for (plan, freed) in plans.into_iter().zip(freed) {
            let kept = plan.pieces.iter().map(|piece| piece.run).collect();
            let of_site = SiteEvents { site, freed, temporary: plan.temporary, passing: plan.passing, kept };
            self.periods[plan.period].push(of_site);
        }
    }

    /// Turns up to this many blocks that are freed after their period into temporary ones: they are freed in
    /// their own period, except one that is live across the peak. Returns how many.
    fn settle(&mut self, site: usize, plans: &mut [Plan], wanted: u64, peak: usize) -> u64 {
        let periods: Vec<usize> = plans.iter().map(|plan| plan.period).collect();
        let mut settled = 0;
        for Plan { period, temporary, pieces, .. } in plans {
            for piece in pieces {
                let Some(freed) = piece.freed_in.map(|row| periods[row]) else { continue };
                let over_peak = *period <= peak && freed > peak;
                let most = match over_peak {
                    false => u64::MAX,
                    true => u64::from(self.over_peak.is_none() && *period == peak && freed == peak + 1),
                };
                let blocks = piece.run.blocks.min(wanted - settled).min(most);
                let bytes = share(piece.run.bytes, blocks, piece.run.blocks);
                piece.run = Run { blocks: piece.run.blocks - blocks, bytes: piece.run.bytes - bytes };
                settled += blocks;
                if !over_peak {
                    *temporary = Run { blocks: temporary.blocks + blocks, bytes: temporary.bytes + bytes };
                } else if blocks > 0 {
                    self.over_peak = Some(OverPeak { site, size: bytes });
                }
            }
        }
        settled
    }
}

/// A part of the remaining blocks that is freed together, in the step of this row, or never.
#[derive(Debug, Clone, Copy)]
struct Piece {
    run: Run,
    freed_in: Option<usize>,
}

/// A step while its events are planned.
#[derive(Debug, Default)]
struct Plan {
    period: usize,
    /// The number of blocks that the step should have.
    blocks: u64,
    /// Bytes allocated and freed within the step, bytes that remain, and bytes freed from older blocks.
    passing_bytes: u64,
    kept_bytes: u64,
    lost_bytes: u64,
    temporary: Run,
    passing: Run,
    pieces: Vec<Piece>,
}

fn plans(steps: &[Step], most: u64, one_in: u64) -> Vec<Plan> {
    let mut live = 0;
    let (mut blocks, mut temporary) = (Thinned::default(), Thinned::default());
    let plan = |step: &Step| {
        let Step { allocations, bytes_allocated: made, bytes_freed: freed, .. } = *step;
        // Older blocks are freed first if too much would be live at once. A single block is either kept or
        // freed.
        let too_much = (live + made / allocations.max(1)).saturating_sub(most);
        let one_stays = allocations == 1 && made > freed && freed <= live;
        let passing = if one_stays { 0 } else { made.min(freed - freed.min(live).min(too_much)) };
        live = live + made - freed;
        Plan {
            period: step.period,
            blocks: blocks.next(allocations, one_in),
            passing_bytes: passing / one_in,
            kept_bytes: made - passing,
            lost_bytes: freed - passing,
            temporary: Run { blocks: temporary.next(step.temporary, one_in), bytes: 0 },
            ..Plan::default()
        }
    };
    steps.iter().map(plan).collect()
}

/// Keeps one of every N blocks, counted over all steps of a site.
#[derive(Default)]
struct Thinned {
    left: u64,
}

impl Thinned {
    fn next(&mut self, count: u64, one_in: u64) -> u64 {
        let count = count.saturating_add(self.left);
        self.left = count % one_in;
        count / one_in
    }
}

/// Assigns temporary blocks to steps with short-lived blocks. A block that is freed just after the end of a
/// period counts in the next period. Returns how many blocks no step could take.
fn place_temporary(plans: &mut [Plan]) -> u64 {
    let mut over = 0;
    let room = |plan: &Plan| plan.blocks.saturating_sub(u64::from(plan.kept_bytes > 0));
    for plan in plans.iter_mut() {
        let fits = plan.temporary.blocks.min(room(plan));
        over += plan.temporary.blocks - fits;
        plan.temporary.blocks = fits;
    }
    for plan in plans {
        let more = over.min(room(plan) - plan.temporary.blocks);
        plan.temporary.blocks += more;
        over -= more;
    }
    over
}

/// Which of the older blocks a free takes.
#[derive(Clone, Copy)]
enum Takes {
    Newest,
    Oldest,
}

/// Splits the remaining bytes into as few pieces as possible, and merges pieces if there are more of them
/// than blocks.
fn cut(plans: &mut [Plan], peak: usize) {
    let newest = pieces(plans, Takes::Newest);
    let oldest = pieces(plans, Takes::Oldest);
    let count = |pieces: &[Vec<Piece>]| pieces.iter().map(Vec::len).sum::<usize>();
    let best = if count(&newest) <= count(&oldest) { newest } else { oldest };
    for (plan, pieces) in plans.iter_mut().zip(best) {
        plan.pieces = pieces;
    }
    let least: u64 = plans.iter().map(Plan::least).sum();
    let blocks: u64 = plans.iter().map(|plan| plan.blocks).sum();
    let mut over = least.saturating_sub(blocks);
    let periods: Vec<usize> = plans.iter().map(|plan| plan.period).collect();
    // A piece may be freed too early, but not on the other side of the peak.
    let side = |piece: &Piece| piece.freed_in.map(|row| periods[row] > peak);
    for plan in plans {
        plan.pieces.sort_by_key(|piece| piece.freed_in.unwrap_or(usize::MAX));
        plan.pieces.dedup_by(|later, earlier| {
            let together = over > 0 && side(later) == side(earlier);
            if together {
                earlier.run.bytes += later.run.bytes;
                over -= 1;
            }
            together
        });
    }
}

/// The pieces of each step's remaining bytes.
fn pieces(plans: &[Plan], takes: Takes) -> Vec<Vec<Piece>> {
    let mut pieces: Vec<Vec<Piece>> = plans.iter().map(|_| Vec::new()).collect();
    // Steps with bytes left, oldest first, and how many.
    let mut live: Vec<(usize, u64)> = Vec::new();
    for (row, plan) in plans.iter().enumerate() {
        let mut lost = plan.lost_bytes;
        while lost > 0 {
            let whole = live.iter().rposition(|&(_, left)| left == lost);
            let usual = match takes {
                Takes::Newest => live.len().checked_sub(1),
                Takes::Oldest => (!live.is_empty()).then_some(0),
            };
            let Some(at) = whole.or(usual) else { break };
            let (from, left) = &mut live[at];
            let bytes = lost.min(*left);
            pieces[*from].push(Piece { run: Run { blocks: 1, bytes }, freed_in: Some(row) });
            lost -= bytes;
            *left -= bytes;
            if *left == 0 {
                live.remove(at);
            }
        }
        if plan.kept_bytes > 0 {
            live.push((row, plan.kept_bytes));
        }
    }
    for (from, bytes) in live {
        pieces[from].push(Piece { run: Run { blocks: 1, bytes }, freed_in: None });
    }
    pieces
}

impl Plan {
    /// The minimum number of blocks: bytes need a block, and every piece is one.
    fn least(&self) -> u64 {
        let for_passing = u64::from(self.passing_bytes > 0 && self.temporary.blocks == 0);
        self.temporary.blocks + for_passing + self.pieces.len() as u64
    }
}

/// Assigns blocks to every piece, using all blocks of a site. Returns how many more were needed.
fn hand_out(plans: &mut [Plan]) -> u64 {
    let blocks: u64 = plans.iter().map(|plan| plan.blocks).sum();
    let least: u64 = plans.iter().map(Plan::least).sum();
    let mut spare = blocks.saturating_sub(least);
    for plan in plans {
        let more = plan.blocks.saturating_sub(plan.least()).min(spare);
        spare -= more;
        let made = plan.passing_bytes + plan.kept_bytes;
        let mut passing = match made {
            0 => more,
            _ if plan.pieces.is_empty() => more,
            _ => share(more, plan.passing_bytes, made),
        };
        let mut to_pieces = more - passing;
        passing += u64::from(plan.passing_bytes > 0 && plan.temporary.blocks == 0);
        let all = plan.temporary.blocks + passing;
        plan.temporary.bytes = if passing == 0 {
            plan.passing_bytes
        } else {
            share(plan.passing_bytes, plan.temporary.blocks, all)
        };
        plan.passing = Run { blocks: passing, bytes: plan.passing_bytes - plan.temporary.bytes };
        let mut bytes = plan.kept_bytes;
        for piece in &mut plan.pieces {
            let part = share(to_pieces, piece.run.bytes, bytes);
            bytes -= piece.run.bytes;
            to_pieces -= part;
            piece.run.blocks += part;
        }
    }
    least.saturating_sub(blocks)
}

/// `amount * part / whole`, rounded down.
fn share(amount: u64, part: u64, whole: u64) -> u64 {
    let share = (u128::from(amount) * u128::from(part)).checked_div(u128::from(whole)).unwrap_or(0);
    share as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(steps: &[(u64, u64, u64, u64)]) -> Timeline {
        let steps: Vec<Step> = steps
            .iter()
            .enumerate()
            .map(|(period, &(allocations, bytes_allocated, bytes_freed, temporary))| Step {
                period,
                allocations,
                bytes_allocated,
                bytes_freed,
                temporary,
            })
            .collect();
        Timeline {
            starts: vec![0; steps.len()],
            steps: vec![steps],
            most: vec![u64::MAX],
            ..Timeline::default()
        }
    }

    fn sum(events: &Events, runs: impl Fn(&SiteEvents) -> Vec<Run>) -> Run {
        let all = events.periods.iter().flatten().flat_map(runs);
        all.fold(Run::default(), |sum, run| Run {
            blocks: sum.blocks + run.blocks,
            bytes: sum.bytes + run.bytes,
        })
    }

    fn made(of_site: &SiteEvents) -> Vec<Run> {
        of_site.kept.iter().copied().chain([of_site.temporary, of_site.passing]).collect()
    }

    #[test]
    fn every_block_and_byte_is_written() {
        let events = Events::new(&timeline(&[(10, 1003, 400, 3), (5, 50, 600, 0), (0, 0, 53, 0)]), 1000);
        assert_eq!(sum(&events, made), Run { blocks: 15, bytes: 1053 });
        assert_eq!(sum(&events, |of_site| vec![of_site.temporary]).blocks, 3);
        assert_eq!(sum(&events, |of_site| of_site.freed.clone()).bytes, 600 - 50 + 53);
        assert_eq!((events.one_in, events.added, events.not_temporary), (1, 0, 0));
    }

    #[test]
    fn too_many_short_lived_blocks_are_thinned_but_kept_ones_are_not() {
        let events = Events::new(&timeline(&[(1_000_000, 64_000_000, 60_000_000, 400_000)]), 1000);
        assert_eq!(events.one_in, 1000);
        let kept = sum(&events, |of_site| of_site.kept.clone());
        assert_eq!(kept.bytes, 4_000_000);
        let all = sum(&events, made);
        assert_eq!(all, Run { blocks: 1000, bytes: 4_000_000 + 60_000 });
        assert_eq!(sum(&events, |of_site| vec![of_site.temporary]).blocks, 400);
    }

    #[test]
    fn a_block_that_replaces_another_is_allocated_after_the_free() {
        let mut timeline = timeline(&[(1, 100, 0, 0), (1, 100, 100, 0), (1, 100, 100, 0)]);
        timeline.most = vec![100];
        let events = Events::new(&timeline, 1000);
        let one = Run { blocks: 1, bytes: 100 };
        for period in 1..3 {
            let of_site = &events.periods[period][0];
            assert_eq!((&of_site.freed[..], &of_site.kept[..]), (&[one][..], &[one][..]));
        }
    }

    #[test]
    fn a_temporary_block_may_cause_the_peak() {
        // One of fifty is live at the peak, which is the end of the first period.
        let events = Events::new(&timeline(&[(1, 77, 0, 0), (49, 49 * 77, 50 * 77, 50)]), 1000);
        assert_eq!(events.over_peak, Some(OverPeak { site: 0, size: 77 }));
        assert_eq!(sum(&events, |of_site| vec![of_site.temporary]), Run { blocks: 49, bytes: 49 * 77 });
        assert_eq!(sum(&events, |of_site| of_site.freed.clone()), Run::default());
        assert_eq!(events.not_temporary, 0);
    }

    #[test]
    fn temporary_blocks_that_outlive_their_period_are_freed_in_it() {
        let steps = [(1, 5, 5, 0), (3, 30, 10, 1), (2, 20, 40, 4)];
        let events = Events::new(&timeline(&steps), 1000);
        assert_eq!(sum(&events, made), Run { blocks: 6, bytes: 55 });
        assert_eq!(sum(&events, |of_site| vec![of_site.temporary]).blocks, 5);
        assert_eq!(events.not_temporary, 0);
    }

    #[test]
    fn sizes_add_up() {
        let sizes: Vec<(u64, u64)> = Run { blocks: 3, bytes: 11 }.sizes().collect();
        assert_eq!(sizes, [(3, 1), (4, 2)]);
        assert_eq!(Run { blocks: 2, bytes: 0 }.sizes().collect::<Vec<_>>(), [(0, 2)]);
        assert_eq!(Run::default().sizes().count(), 0);
    }
}
