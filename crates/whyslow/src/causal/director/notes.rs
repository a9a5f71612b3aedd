//! What the reader of the profile is told about the experiments.

use whyslow_profile::{CausalNote, Note};

use super::{
    COSTLY_PERMILLE, Experimenter, FEW_SAMPLES, MOST_CUT, NamedPoint, Progress, SAMPLES_PER_WAIT,
    SHORTEST_PERIOD,
};

impl Experimenter {
    /// The notes of all experiments so far.
    pub(super) fn notes(&self) -> Vec<Note> {
        let rows = &self.tables.rows;
        let mut notes: Vec<Note> = Vec::new();
        let (samples, of) = self.in_scope;
        let few = of > 0 && samples * 10 < of;
        if few || (self.targets.is_empty() && samples < FEW_SAMPLES) {
            let scope = self.wish.wanted.scope_name();
            let note = CausalNote::CausalFewInScope { samples, of, scope };
            notes.push(note.into());
        }
        if let Some(schedule) = &self.schedule {
            let progress = schedule.progress();
            let undecided = (progress.targets - progress.decided) as u64;
            if undecided > 0 {
                notes.push(CausalNote::CausalBudgetEnded { undecided }.into());
            }
        }
        if self.progress == Progress::WholeRuns && !rows.experiments.is_empty() {
            notes.push(CausalNote::CausalWholeRuns { runs: rows.experiments.len() as u64 }.into());
        }
        let busy: Vec<f64> = rows.experiments.iter().map(|row| f64::from(row.busy_threads)).collect();
        let threads = if busy.is_empty() { 0.0 } else { whyslow_stats::median(&busy) } as u64;
        let cpus = u64::from(self.wish.cpus);
        if threads > cpus {
            notes.push(CausalNote::CausalThreadsBeyondCpus { threads, cpus }.into());
        }
        let finest = SHORTEST_PERIOD.min(self.wish.period).as_secs_f64();
        if self.waits_per_second * finest * SAMPLES_PER_WAIT > 1.0 {
            notes.push(
                CausalNote::CausalFineGrained {
                    per_second: self.waits_per_second as u64,
                    period_ns: self.period.as_nanos() as u64,
                }
                .into(),
            );
        }
        let (of, cut) = self.conditions.looks;
        if cut as f64 > of as f64 * MOST_CUT {
            notes.push(CausalNote::CausalStacksCut { cut, of }.into());
        }
        let visited = |name: &str| {
            let is_it =
                |row: &whyslow_profile::Visits| row.count > 0 && self.tables.point_name(row.point) == name;
            rows.visits.iter().any(is_it)
        };
        let names = self.wish.points.iter().map(|point| &point.name);
        let unvisited: Vec<String> = names.filter(|name| !visited(name)).cloned().collect();
        if !unvisited.is_empty() {
            notes.push(CausalNote::CausalUnvisited { points: unvisited }.into());
        }
        notes.extend(self.wish.points.iter().filter_map(|point| self.cost(point)).map(Note::from));
        let (length, delay) = rows
            .experiments
            .iter()
            .fold((0, 0), |(length, delay), row| (length + row.length_ns, delay + row.delay_ns));
        if let Some(delayed_permille) = (delay * 1000).checked_div(length) {
            notes.push(CausalNote::CausalDelays { delayed_permille }.into());
        }
        notes
    }

    /// The note that visits of a point slow the program down.
    fn cost(&self, point: &NamedPoint) -> Option<CausalNote> {
        let rows = &self.tables.rows;
        let visits = rows.visits.iter().filter(|row| self.tables.point_name(row.point) == point.name);
        let visits: u64 = visits.map(|row| row.count).sum();
        let length_ns: u64 = rows.experiments.iter().map(|row| row.length_ns).sum();
        let cost_permille = (visits * point.cost_ns * 1000).checked_div(length_ns)?;
        (cost_permille > COSTLY_PERMILLE).then(|| CausalNote::CausalCostlyPoint {
            point: point.name.clone(),
            per_second: visits * 1_000_000_000 / length_ns,
            visit_ns: point.cost_ns,
            cost_permille,
        })
    }
}
