//! Single allocations and frees that add up to the timeline, for formats that are a list of events.
//!
//! The profile has sums per site and period, not events. Within a period a site's frees meet its own allocations
//! first, as far as it never had more bytes than it is known to have had; those blocks come and go within the period.
//! What is freed beyond that are older blocks, what is made beyond that stays. Blocks that stay are cut so that later
//! frees take whole blocks, and sizes are averages.

use super::timeline::{Step, Timeline};

/// Blocks of (nearly) one size.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) blocks: u64,
    pub(crate) bytes: u64,
}

impl Run {
    /// Sizes and how many blocks have each: they add up to the bytes, and differ by one at most.
    pub(crate) fn sizes(self) -> impl Iterator<Item = (u64, u64)> {
        let size = self.bytes.checked_div(self.blocks).unwrap_or(0);
        let larger = self.bytes.checked_rem(self.blocks).unwrap_or(0);
        [(size, self.blocks - larger), (size + 1, larger)].into_iter().filter(|&(_, blocks)| blocks > 0)
    }
}

/// What a site does in a period.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Deeds {
    pub(crate) site: usize,
    /// Older blocks that are freed, before anything is made.
    pub(crate) freed: Vec<Run>,
    /// Blocks that are freed before the next one is made.
    pub(crate) temporary: Run,
    /// Other blocks that come and go.
    pub(crate) passing: Run,
    /// Blocks that stay.
    pub(crate) kept: Vec<Run>,
}

/// The events of a whole recording.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// By period.
    pub(crate) periods: Vec<Vec<Deeds>>,
    /// One of this many short-lived blocks is there; 1: all.
    pub(crate) one_in: u64,
    /// Blocks that had to be added because sums cannot be divided into the recorded number.
    pub(crate) added: u64,
    /// A temporary block that is made last before the peak and freed first after it: often the one that makes it.
    pub(crate) over_peak: Option<OverPeak>,
    /// Temporary blocks that outlived their period and are written as others.
    pub(crate) not_temporary: u64,
}

/// A single block that lives over the peak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OverPeak {
    pub(crate) site: usize,
    pub(crate) size: u64,
}

impl Events {
    /// Makes events of a timeline, about as many allocations as the limit at most.
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
            let deeds = Deeds { site, freed, temporary: plan.temporary, passing: plan.passing, kept };
            self.periods[plan.period].push(deeds);
        }
    }

    /// Makes blocks temporary that are freed after their period, up to so many: they are freed in their own period
    /// already, except one that lives over the peak. Gives back how many.
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

/// A part of what stays that is freed as one, in the step of this row, or never.
#[derive(Debug, Clone, Copy)]
struct Piece {
    run: Run,
    freed_in: Option<usize>,
}

/// A step on its way to become deeds.
#[derive(Debug, Default)]
struct Plan {
    period: usize,
    /// How many blocks the step should have.
    blocks: u64,
    /// Bytes that come and go, that stay, and that are taken from older blocks.
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
        // Older blocks go first where there would be too much at once; and one block either stays or goes.
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

/// Keeps one of every so many, over all steps of a site.
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

/// Temporary blocks belong to steps that have blocks which go: one that is freed just after a period's end is
/// counted in the next period. Gives back how many have no place.
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

/// Cuts what stays into pieces, as few as can be found, and puts pieces together when there are more of them than blocks.
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
    // A piece may be freed earlier than it was, but not on the other side of the peak.
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

/// The pieces of each step's bytes that stay.
fn pieces(plans: &[Plan], takes: Takes) -> Vec<Vec<Piece>> {
    let mut pieces: Vec<Vec<Piece>> = plans.iter().map(|_| Vec::new()).collect();
    // Steps that have bytes left, oldest first, and how many.
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
    /// The fewest blocks this can be: bytes need a block, and every piece is one.
    fn least(&self) -> u64 {
        let for_passing = u64::from(self.passing_bytes > 0 && self.temporary.blocks == 0);
        self.temporary.blocks + for_passing + self.pieces.len() as u64
    }
}

/// Gives every piece its blocks; a site's blocks are all used. Gives back how many more were needed.
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

    fn sum(events: &Events, runs: impl Fn(&Deeds) -> Vec<Run>) -> Run {
        let all = events.periods.iter().flatten().flat_map(runs);
        all.fold(Run::default(), |sum, run| Run {
            blocks: sum.blocks + run.blocks,
            bytes: sum.bytes + run.bytes,
        })
    }

    fn made(deeds: &Deeds) -> Vec<Run> {
        deeds.kept.iter().copied().chain([deeds.temporary, deeds.passing]).collect()
    }

    #[test]
    fn every_block_and_byte_is_there() {
        let events = Events::new(&timeline(&[(10, 1003, 400, 3), (5, 50, 600, 0), (0, 0, 53, 0)]), 1000);
        assert_eq!(sum(&events, made), Run { blocks: 15, bytes: 1053 });
        assert_eq!(sum(&events, |deeds| vec![deeds.temporary]).blocks, 3);
        assert_eq!(sum(&events, |deeds| deeds.freed.clone()).bytes, 600 - 50 + 53);
        assert_eq!((events.one_in, events.added, events.not_temporary), (1, 0, 0));
    }

    #[test]
    fn too_many_blocks_are_thinned_but_what_stays_is_whole() {
        let events = Events::new(&timeline(&[(1_000_000, 64_000_000, 60_000_000, 400_000)]), 1000);
        assert_eq!(events.one_in, 1000);
        let kept = sum(&events, |deeds| deeds.kept.clone());
        assert_eq!(kept.bytes, 4_000_000);
        let all = sum(&events, made);
        assert_eq!(all, Run { blocks: 1000, bytes: 4_000_000 + 60_000 });
        assert_eq!(sum(&events, |deeds| vec![deeds.temporary]).blocks, 400);
    }

    #[test]
    fn a_block_that_replaces_another_comes_after_it() {
        let mut timeline = timeline(&[(1, 100, 0, 0), (1, 100, 100, 0), (1, 100, 100, 0)]);
        timeline.most = vec![100];
        let events = Events::new(&timeline, 1000);
        let one = Run { blocks: 1, bytes: 100 };
        for period in 1..3 {
            let deeds = &events.periods[period][0];
            assert_eq!((&deeds.freed[..], &deeds.kept[..]), (&[one][..], &[one][..]));
        }
    }

    #[test]
    fn a_temporary_block_may_make_the_peak() {
        // One of fifty is live at the peak, which is the end of the first period.
        let events = Events::new(&timeline(&[(1, 77, 0, 0), (49, 49 * 77, 50 * 77, 50)]), 1000);
        assert_eq!(events.over_peak, Some(OverPeak { site: 0, size: 77 }));
        assert_eq!(sum(&events, |deeds| vec![deeds.temporary]), Run { blocks: 49, bytes: 49 * 77 });
        assert_eq!(sum(&events, |deeds| deeds.freed.clone()), Run::default());
        assert_eq!(events.not_temporary, 0);
    }

    #[test]
    fn temporary_blocks_that_outlive_their_period_are_freed_in_it() {
        let steps = [(1, 5, 5, 0), (3, 30, 10, 1), (2, 20, 40, 4)];
        let events = Events::new(&timeline(&steps), 1000);
        assert_eq!(sum(&events, made), Run { blocks: 6, bytes: 55 });
        assert_eq!(sum(&events, |deeds| vec![deeds.temporary]).blocks, 5);
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
