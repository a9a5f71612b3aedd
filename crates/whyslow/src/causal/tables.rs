//! The tables of experiments while the program runs. Their texts have ids of their own until the rows are added to the
//! profile.

use whyslow_capture::{Outcome, SeenPoint};
use whyslow_numbers::{ClockNs, Start};
use whyslow_profile::{Builder, ExperimentId, PointId, StringId, TargetId};
use whyslow_profile::{Causal, CausalPoint, CausalTarget, Experiment, PointKind, TargetKind, Visits};

use super::points::NamedPoint;
use super::targets::Target;

/// The name of the point of whole runs.
const WHOLE_RUN: &str = "whole run";

/// The tables.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) rows: Causal,
    texts: Vec<String>,
    /// Where points are in the source, by name.
    sources: Vec<(String, (String, u32))>,
}

impl Tables {
    /// Empty tables, which know where these points are in the source.
    pub(crate) fn with_sources(points: &[NamedPoint]) -> Self {
        let source = |point: &NamedPoint| Some((point.name.clone(), point.source.clone()?));
        Self { sources: points.iter().filter_map(source).collect(), ..Self::default() }
    }

    fn text(&mut self, text: &str) -> StringId {
        let known = self.texts.iter().position(|known| known == text);
        StringId::from(known.unwrap_or_else(|| {
            self.texts.push(text.to_owned());
            self.texts.len() - 1
        }))
    }

    /// Adds a target.
    pub(crate) fn target(&mut self, target: &Target) -> TargetId {
        let function = self.text(&target.line.function);
        let file = (!target.line.file.is_empty()).then(|| self.text(&target.line.file));
        let (kind, line, share) = (target.kind, target.line.line, target.share);
        self.rows.targets.push(CausalTarget { kind, function, file, line, share, samples: 0 });
        TargetId::from(self.rows.targets.len() - 1)
    }

    /// Keeps the first targets, before there are experiments.
    pub(crate) fn keep_targets(&mut self, count: usize) {
        self.rows.targets.truncate(count);
    }

    /// Adds a target that is never hit.
    pub(crate) fn placebo(&mut self) {
        let function = self.text("placebo");
        self.rows.targets.push(CausalTarget {
            kind: TargetKind::Placebo,
            function,
            file: None,
            line: 0,
            share: 0.0,
            samples: 0,
        });
    }

    /// Fills in the shares of functions with all that they call: only their experiments have seen them.
    pub(crate) fn count_shares(&mut self) {
        let Causal { targets, experiments, .. } = &mut self.rows;
        for (at, target) in targets.iter_mut().enumerate() {
            if target.kind == TargetKind::WithCallees {
                let own = experiments.iter().filter(|row| row.target == Some(TargetId::from(at)));
                let (hits, all) = own.fold((0, 0), |(hits, all), row| (hits + row.hits, all + row.samples));
                target.share = (hits as f64 / all.max(1) as f64).min(1.0);
            }
        }
    }

    /// The point with this name and kind.
    fn point(&mut self, seen: &SeenPoint) -> PointId {
        let kind = if seen.is_latency { PointKind::Latency } else { PointKind::Throughput };
        self.point_of(kind, &seen.name)
    }

    fn point_of(&mut self, kind: PointKind, text: &str) -> PointId {
        let name = self.text(text);
        let is_it = |point: &CausalPoint| point.name == name && point.kind == kind;
        if let Some(known) = self.rows.points.iter().position(is_it) {
            return PointId::from(known);
        }
        let source = self.sources.iter().find(|(name, _)| name == text).map(|(_, source)| source.clone());
        let (file, line) = source.map_or((None, 0), |(file, line)| (Some(self.text(&file)), line));
        self.rows.points.push(CausalPoint { kind, name, file, line });
        PointId::from(self.rows.points.len() - 1)
    }

    /// Adds an experiment that has ended. Its start is a time of the clock until [`Tables::write`].
    pub(crate) fn experiment(&mut self, target: Option<TargetId>, speedup: f64, run: u32, outcome: &Outcome) {
        let id = ExperimentId::from(self.rows.experiments.len());
        self.rows.experiments.push(Experiment {
            start_ns: outcome.start.raw(),
            length_ns: outcome.length_ns,
            target,
            speedup,
            delay_ns: outcome.delay_ns,
            hits: outcome.hits,
            samples: outcome.samples,
            queued: outcome.queued,
            busy_threads: outcome.busy_threads,
            waits: outcome.waits,
            run,
        });
        if let Some(target) = target {
            self.rows.targets[target.index()].samples += outcome.hits;
        }
        let first = self.rows.visits.len();
        for seen in &outcome.visits {
            let point = self.point(&seen.point);
            // A generic function has an instance for each type, all with one name.
            if let Some(row) = self.rows.visits[first..].iter_mut().find(|row| row.point == point) {
                row.count += seen.count;
                row.first_ns = row.first_ns.min(seen.first_ns);
                row.last_ns = row.last_ns.max(seen.last_ns);
                row.arrivals += seen.arrivals;
                row.in_flight_ns += seen.in_flight_ns;
                continue;
            }
            self.rows.visits.push(Visits {
                experiment: id,
                point,
                count: seen.count,
                first_ns: seen.first_ns,
                last_ns: seen.last_ns,
                arrivals: seen.arrivals,
                in_flight_ns: seen.in_flight_ns,
            });
        }
    }

    /// Adds a whole run as an experiment.
    pub(crate) fn whole_run(&mut self, target: Option<TargetId>, speedup: f64, run: u32, outcome: &Outcome) {
        let point = self.point_of(PointKind::WholeRun, WHOLE_RUN);
        self.experiment(target, speedup, run, outcome);
        let experiment = ExperimentId::from(self.rows.experiments.len() - 1);
        let (count, arrivals) = (1, 1);
        self.rows.visits.push(Visits {
            experiment,
            point,
            count,
            first_ns: 0,
            last_ns: 0,
            arrivals,
            in_flight_ns: 0,
        });
    }

    /// The name of a point.
    pub(crate) fn point_name(&self, point: PointId) -> &str {
        &self.texts[self.rows.points[point.index()].name.index()]
    }

    /// Adds all rows to a profile. Experiments of earlier runs happened before it.
    pub(crate) fn write(&self, start: Start, to: &mut Builder) {
        let ids: Vec<StringId> = self.texts.iter().map(|text| to.string(text)).collect();
        let new = |id: StringId| ids[id.index()];
        let points: Vec<PointId> = self
            .rows
            .points
            .iter()
            .map(|point| {
                to.progress_point(CausalPoint { name: new(point.name), file: point.file.map(new), ..*point })
            })
            .collect();
        let targets: Vec<TargetId> = self
            .rows
            .targets
            .iter()
            .map(|target| {
                let (function, file) = (new(target.function), target.file.map(new));
                to.causal_target(CausalTarget { function, file, ..*target })
            })
            .collect();
        let experiments: Vec<ExperimentId> = self
            .rows
            .experiments
            .iter()
            .map(|row| {
                let target = row.target.map(|id| targets[id.index()]);
                to.experiment(Experiment {
                    start_ns: start.since(ClockNs::new(row.start_ns)).0,
                    target,
                    ..*row
                })
            })
            .collect();
        for row in &self.rows.visits {
            let (experiment, point) = (experiments[row.experiment.index()], points[row.point.index()]);
            to.visits(Visits { experiment, point, ..*row });
        }
    }
}

#[cfg(test)]
mod tests {
    use whyslow_capture::PointVisits;

    use super::*;

    #[test]
    fn instances_of_a_generic_function_are_one_point() {
        let visits = |name: &str, count: u64, first_ns: u64, last_ns: u64| PointVisits {
            point: SeenPoint { name: name.to_owned(), is_latency: false },
            count,
            first_ns,
            last_ns,
            ..PointVisits::default()
        };
        let all = vec![visits("parse", 7, 30, 90), visits("render", 2, 40, 50), visits("parse", 3, 10, 60)];
        let outcome = Outcome { length_ns: 100, visits: all, ..Outcome::default() };
        let mut tables = Tables::default();
        tables.experiment(None, 0.0, 0, &outcome);
        tables.experiment(None, 0.0, 0, &outcome);
        let found: Vec<_> =
            tables.rows.visits.iter().map(|row| (row.count, row.first_ns, row.last_ns)).collect();
        assert_eq!(found, [(10, 10, 90), (2, 40, 50), (10, 10, 90), (2, 40, 50)]);
        assert_eq!(tables.rows.points.len(), 2);
    }
}
