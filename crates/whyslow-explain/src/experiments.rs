//! What experiments of causal profiling say about the code that a profile points to.

use whyslow_analyze::CallTree;
use whyslow_causal::words::sentence;
use whyslow_causal::{Row, Verdict, estimate};
use whyslow_profile::{CausalTarget, PointId, Profile, TargetKind};

use crate::finding::{Evidence, Finding, Place};

/// A target whose experiments decided.
#[derive(Debug, Clone, PartialEq)]
pub struct Experimented {
    /// The progress point.
    pub point: PointId,
    /// What the experiments say.
    pub row: Row,
}

impl Experimented {
    /// A target without an effect is worth a line from this share of the CPU time on.
    const LEAST_SHARE: f64 = 0.05;

    /// Those that are worth a line: every effect, and large shares without one.
    pub(crate) fn of(profile: &Profile) -> Vec<Self> {
        let causal = &profile.causal;
        let points = estimate(causal, profile.meta.host.cpus).points;
        let rows = points.into_iter().flat_map(|found| {
            let point = found.point;
            // Where code that never runs has an effect, others prove nothing.
            let trusted = found.placebo.is_none_or(|row| row.verdict != Verdict::Effect);
            let rows = found.rows.into_iter().filter(move |_| trusted);
            rows.map(move |row| Self { point, row })
        });
        let is_worth = |of: &Self| match of.row.verdict {
            Verdict::Effect => true,
            Verdict::None { .. } => of.target(profile).share >= Self::LEAST_SHARE,
            Verdict::Undecided { .. } => false,
        };
        rows.filter(is_worth).collect()
    }

    /// The target.
    pub fn target<'a>(&self, profile: &'a Profile) -> &'a CausalTarget {
        &profile.causal.targets[self.row.target.index()]
    }

    /// What it says, in one sentence.
    pub fn sentence(&self, profile: &Profile) -> String {
        sentence(&self.row, self.target(profile))
    }

    /// Whether it is about the line of a finding, or the function that the line is in.
    fn is_about(&self, profile: &Profile, place: &Place) -> bool {
        let target = self.target(profile);
        match target.kind {
            TargetKind::Line => {
                let text = |id: Option<whyslow_profile::StringId>| id.map(|id| profile.text(id));
                place.line > 0 && place.line == target.line && text(place.file) == text(target.file)
            }
            TargetKind::Function | TargetKind::WithCallees => {
                CallTree::name(profile, place.label) == profile.text(target.function)
            }
            TargetKind::Placebo => false,
        }
    }
}

/// Adds what experiments say to the evidence of findings at the same line.
pub(crate) fn add(profile: &Profile, experimented: &[Experimented], findings: &mut [Finding]) {
    for finding in findings {
        let Some(place) = finding.place else { continue };
        let about = experimented.iter().filter(|of| of.is_about(profile, &place));
        finding.evidence.extend(about.map(|of| {
            let what = match of.target(profile).kind {
                TargetKind::Function | TargetKind::WithCallees => "this function",
                TargetKind::Line | TargetKind::Placebo => "this line",
            };
            Evidence::words(format!("experiments with {what}: {}", of.sentence(profile)))
        }));
    }
}

#[cfg(test)]
mod tests {
    use whyslow_analyze::{Selection, testing};
    use whyslow_causal::testing::{Line, add_experiments};

    use crate::{Allowed, Question, explain};

    #[test]
    fn effects_and_large_shares_without_one_are_named() {
        let folded = "app::run@src/app.rs:10;app::find@src/app.rs:44;<std::fs::File as std::io::Read>::read;read 70\n\
                      app::run@src/app.rs:10;app::fill@src/app.rs:50 30";
        let mut profile = testing::profile(folded);
        let lines: [Line<'_>; 3] = [
            ("app::find", "src/app.rs", 44, 0.7, |_| 0.0),
            ("app::fill", "src/app.rs", 50, 0.3, |speedup| 0.4 * speedup),
            ("app::rare", "src/app.rs", 60, 0.01, |_| 0.0),
        ];
        add_experiments(&mut profile, "app::run", &lines, 10);
        let (selection, allowed) = (Selection::default(), Allowed::default());
        let question = Question {
            profile: &profile,
            selection: &selection,
            only_metric: false,
            allowed: &allowed,
            file: "app.whyslow",
        };
        let explanation = explain(&question);
        let said = explanation.experiments.iter().map(|of| of.sentence(&profile)).collect::<Vec<_>>();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].starts_with("25 % faster → 10 % faster"), "{said:?}");
        assert!(said[1].ends_with("it has 70 % of the CPU time, and nothing waits for it"), "{said:?}");
    }
}
