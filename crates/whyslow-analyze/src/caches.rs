//! The table of a simulated machine: references and misses of each cache, and mispredicted branches.
//!
//! ```text
//! I1   references Ir                    misses I1mr          LLi  the same instructions, misses ILmr
//! D1   references Dr + Dw               misses D1mr + D1mw   LLd  the same data, misses DLmr + DLmw
//! LL   references I1mr + D1mr + D1mw    misses ILmr + DLmr + DLmw
//! rate = misses / references; that of LL is of all references of the program, as Valgrind prints it
//! ```

use whyslow_profile::simulation::{Cache, D1_MISSES, INSTRUCTIONS};
use whyslow_profile::{MetricId, Origin, Profile};

use crate::own::{Charges, HotLines, OwnRow, OwnTable};
use crate::selection::Selection;
use crate::{By, Label};

/// The caches and branches of a simulated program.
#[derive(Debug, Clone, PartialEq)]
pub struct Caches {
    /// I1, LLi, D1, LLd, LL: those that were simulated.
    pub levels: Vec<CacheLevel>,
    /// Conditional and indirect branches, if they were simulated.
    pub branches: Option<[Misses; 2]>,
    /// Instructions.
    pub instructions: u64,
}

/// References and misses.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Misses {
    /// How many there were.
    pub references: u64,
    /// How many missed.
    pub misses: u64,
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct CacheLevel {
    /// `D1`
    pub name: &'static str,
    /// Everything.
    pub all: Misses,
    /// What the rate is of.
    pub of: u64,
    /// Reads of data, or of instructions and data.
    pub reads: Option<Misses>,
    /// Writes of data.
    pub writes: Option<Misses>,
    /// The simulated cache.
    pub cache: Option<Cache>,
}

/// The functions and lines with the most misses.
#[derive(Debug, Clone, PartialEq)]
pub struct CacheAnswer {
    /// The table.
    pub caches: Caches,
    /// What functions and lines are ranked by.
    pub metric: MetricId,
    /// The metrics beside it in the table of functions.
    pub beside: Vec<MetricId>,
    /// Functions of your code with the libraries they call.
    pub functions: OwnTable,
    /// The shares of each function in the metrics beside it.
    pub shares: Vec<Vec<f64>>,
    /// Lines.
    pub lines: HotLines,
}

impl Misses {
    /// Misses per reference; 0 without references.
    pub fn rate(self) -> f64 {
        if self.references == 0 { 0.0 } else { self.misses as f64 / self.references as f64 }
    }
}

impl CacheLevel {
    /// Misses per reference of the program.
    pub fn rate(&self) -> f64 {
        Misses { references: self.of, misses: self.all.misses }.rate()
    }
}

/// Whether the profile is of a simulated machine.
pub fn is_simulated(profile: &Profile) -> bool {
    profile.metrics.iter().any(|row| row.origin == Origin::Simulated)
}

impl Caches {
    /// The table of the selected samples; `None` if nothing was simulated.
    pub fn of(profile: &Profile, selection: &Selection) -> Option<Self> {
        let total = |name: &str| -> Option<u64> {
            let metric = simulated(profile, name)?;
            Some(Selection { metric, ..selection.clone() }.weigh(profile).total_value)
        };
        let instructions = total(INSTRUCTIONS).or_else(|| total("Ir"))?;
        // An event that never happened has no metric.
        let of = |name: &str| total(name).unwrap_or(0);
        let has = |names: &[&str]| names.iter().any(|name| simulated(profile, name).is_some());
        let mut levels = Vec::new();
        if has(&["Dr", "Dw", "I1mr", "D1mr", "D1mw"]) {
            let pair = |references, misses| Misses { references, misses };
            let [reads, writes] = [of("Dr"), of("Dw")];
            let data = reads.saturating_add(writes);
            let [i1, d1r, d1w, li, ldr, ldw] = ["I1mr", "D1mr", "D1mw", "ILmr", "DLmr", "DLmw"].map(of);
            let caches = profile.meta.simulation.as_ref().map_or(&[][..], |facts| &facts.caches);
            let level = |name, cache: &str, all: Misses, of, reads, writes| CacheLevel {
                name,
                all,
                of,
                reads,
                writes,
                cache: caches.iter().find(|row| row.name == cache).cloned(),
            };
            levels = vec![
                level("I1", "I1", pair(instructions, i1), instructions, None, None),
                level("LLi", "LL", pair(instructions, li), instructions, None, None),
                level(
                    "D1",
                    "D1",
                    pair(data, d1r.saturating_add(d1w)),
                    data,
                    Some(pair(reads, d1r)),
                    Some(pair(writes, d1w)),
                ),
                level(
                    "LLd",
                    "LL",
                    pair(data, ldr.saturating_add(ldw)),
                    data,
                    Some(pair(reads, ldr)),
                    Some(pair(writes, ldw)),
                ),
                level(
                    "LL",
                    "LL",
                    pair(
                        i1.saturating_add(d1r).saturating_add(d1w),
                        li.saturating_add(ldr).saturating_add(ldw),
                    ),
                    instructions.saturating_add(data),
                    Some(pair(i1.saturating_add(d1r), li.saturating_add(ldr))),
                    Some(pair(d1w, ldw)),
                ),
            ];
        }
        let branches = has(&["Bc", "Bi"]).then(|| {
            [("Bc", "Bcm"), ("Bi", "Bim")]
                .map(|(all, missed)| Misses { references: of(all), misses: of(missed) })
        });
        Some(Self { levels, branches, instructions })
    }
}

impl CacheAnswer {
    /// The table, and the functions and lines with the most misses; those of the first level if the selection is of
    /// instructions.
    pub fn of(profile: &Profile, selection: &Selection, inline: bool, by: By) -> Option<Self> {
        let caches = Caches::of(profile, selection)?;
        let misses = simulated(profile, D1_MISSES).or_else(|| simulated(profile, "D1mr"));
        let metric = match misses {
            Some(misses) if selection.metric == profile.main_metric() => misses,
            _ => selection.metric,
        };
        let table = |metric| {
            let weights = Selection { metric, ..selection.clone() }.weigh(profile);
            let charges = Charges::of_metric(profile, inline, metric);
            let lines = HotLines::build(profile, &weights, &charges, by);
            (OwnTable::build(profile, &weights, &charges), lines)
        };
        let (functions, lines) = table(metric);
        let beside: Vec<MetricId> = [D1_MISSES, "LL-misses", INSTRUCTIONS, "Ir"]
            .into_iter()
            .filter_map(|name| simulated(profile, name))
            .filter(|other| *other != metric)
            .collect();
        let others: Vec<OwnTable> = beside.iter().map(|metric| table(*metric).0).collect();
        let share = |table: &OwnTable, label: Label| {
            let row = table.rows.iter().find(|row: &&OwnRow| row.label == label);
            row.map_or(0.0, |row| table.own_share(row).value)
        };
        // A table shows few rows.
        const MOST: usize = 1000;
        let rows = functions.rows.iter().take(MOST);
        let shares = rows.map(|row| others.iter().map(|table| share(table, row.label)).collect()).collect();
        Some(Self { caches, metric, beside, functions, shares, lines })
    }
}

/// The simulated metric of this name.
fn simulated(profile: &Profile, name: &str) -> Option<MetricId> {
    profile.metric_where(|row| row.origin == Origin::Simulated && profile.text(row.name) == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn simulated() -> Profile {
        let mut profile = testing::profile("main;fast 1\nmain;slow 1");
        let by = |fast, slow| move |name: &str| if name == "fast" { fast } else { slow };
        for (name, fast, slow) in [
            ("instructions", 1000, 500),
            ("D1-misses", 10, 60),
            ("Dr", 300, 100),
            ("Dw", 100, 100),
            ("D1mr", 10, 50),
            ("D1mw", 0, 10),
            ("I1mr", 3, 0),
            ("DLmr", 2, 8),
            ("Bc", 90, 10),
            ("Bcm", 1, 4),
        ] {
            testing::add_event(&mut profile, name, Origin::Simulated, by(fast, slow));
        }
        profile
    }

    #[test]
    fn the_table_has_references_misses_and_rates() {
        let profile = simulated();
        let caches = Caches::of(&profile, &Selection::default()).unwrap();
        let rows: Vec<_> =
            caches.levels.iter().map(|row| (row.name, row.all.references, row.all.misses)).collect();
        let expected = [("I1", 1500, 3), ("LLi", 1500, 0), ("D1", 600, 70), ("LLd", 600, 10), ("LL", 73, 10)];
        assert_eq!(rows, expected);
        let d1 = &caches.levels[2];
        assert_eq!(d1.reads, Some(Misses { references: 400, misses: 60 }));
        assert_eq!((d1.rate() * 1000.0).round(), 117.0);
        assert_eq!((caches.levels[4].rate() * 1e6).round(), 4762.0, "of all 2,100 references");
        let [conditional, indirect] = caches.branches.unwrap();
        assert_eq!((conditional.misses, conditional.references, indirect.rate()), (5, 100, 0.0));
    }

    #[test]
    fn functions_are_ranked_by_misses_with_their_instructions_beside() {
        let profile = simulated();
        let selection = Selection { metric: profile.main_metric(), ..Selection::default() };
        let answer = CacheAnswer::of(&profile, &selection, true, By::Own).unwrap();
        assert_eq!(profile.text(profile.metrics[answer.metric.index()].name), "D1-misses");
        let names: Vec<_> =
            answer.functions.rows.iter().map(|row| crate::labels::name(&profile, row.label)).collect();
        assert_eq!(names, ["slow", "fast"]);
        assert_eq!(answer.shares[0], [1.0 / 3.0]);
    }

    #[test]
    fn counted_events_are_no_simulation() {
        let mut profile = testing::profile("main;fast 100");
        testing::add_event(&mut profile, "instructions", Origin::Counted, |_| 5);
        assert_eq!(Caches::of(&profile, &Selection::default()), None);
    }
}
