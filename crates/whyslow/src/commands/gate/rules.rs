//! The rules that judge head: of two limits, the stricter one of base and head, so that a change cannot loosen its own.

use std::fmt::Display;

use whyslow_bench::gate::{Applies, RuleChange};
use whyslow_render::units::{bytes, duration};

use super::config::{Bench, Bytes, Gate, Policy, Share, Time};
use super::{DEFAULT_MARGIN, DEFAULT_RUNS};

/// The rules of head where base does not have stricter ones, and what head changes.
pub(super) fn stricter(base: &Gate, mut head: Gate) -> (Gate, Vec<RuleChange>) {
    let mut changes = Changes { bench: None, all: Vec::new() };
    let margin = |gate: &Gate| gate.margin.unwrap_or(Share(DEFAULT_MARGIN));
    head.margin = changes.most("margin", Some(margin(base)), Some(margin(&head)));
    let runs = |gate: &Gate| gate.runs.unwrap_or(DEFAULT_RUNS);
    if runs(&head) < runs(base) {
        changes.push("runs", Some(&runs(base)), Some(&runs(&head)), Applies::Base);
        head.runs = Some(runs(base));
    }
    if head.undecided == Policy::Pass && base.undecided != Policy::Pass {
        changes.push("undecided", Some(&base.undecided), Some(&head.undecided), Applies::Base);
        head.undecided = base.undecided;
    }
    changes.ran("build", base.build.as_ref(), head.build.as_ref());
    for (name, bench) in &mut head.bench {
        let Some(before) = base.bench.get(name) else { continue };
        changes.bench = Some(name.clone());
        let before_margin = before.margin.unwrap_or(margin(base));
        bench.margin = changes.most("margin", Some(before_margin), bench.margin.or(head.margin));
        changes.budgets(before, bench);
        changes.ran("command", Some(&before.command), Some(&bench.command));
        changes.ran("prepare", before.prepare.as_ref(), bench.prepare.as_ref());
        changes.ran("setup", before.setup.as_ref(), bench.setup.as_ref());
        changes.ran("input", before.input.as_ref(), bench.input.as_ref());
    }
    (head, changes.all)
}

/// The changes so far, of one bench after the other.
struct Changes {
    bench: Option<String>,
    all: Vec<RuleChange>,
}

impl Changes {
    fn push(
        &mut self,
        rule: &'static str,
        base: Option<&dyn Display>,
        head: Option<&dyn Display>,
        applies: Applies,
    ) {
        let [base, head] = [base, head].map(|value| value.map(ToString::to_string));
        self.all.push(RuleChange { bench: self.bench.clone(), rule, base, head, applies });
    }

    /// The smaller of two limits; no limit is the largest.
    fn most<T: Display + PartialOrd>(
        &mut self,
        rule: &'static str,
        base: Option<T>,
        head: Option<T>,
    ) -> Option<T> {
        match (base, head) {
            (None, head) => head,
            (Some(base), Some(head)) if head <= base => Some(head),
            (Some(base), head) => {
                self.push(rule, Some(&base), head.as_ref().map(|head| head as &dyn Display), Applies::Base);
                Some(base)
            }
        }
    }

    /// The limits of a bench, and what is counted.
    fn budgets(&mut self, base: &Bench, head: &mut Bench) {
        head.max_time = self.most("max-time", base.max_time, head.max_time);
        head.max_instructions = self.most("max-instructions", base.max_instructions, head.max_instructions);
        head.max_peak = self.most("max-peak", base.max_peak, head.max_peak);
        head.max_allocations = self.most("max-allocations", base.max_allocations, head.max_allocations);
        head.max_binary = self.most("max-binary", base.max_binary, head.max_binary);
        for (name, before) in &base.max_crates {
            let after = head.max_crates.get(name).copied();
            if let Some(most) = self.most("max-crates", Some(*before), after) {
                head.max_crates.insert(name.clone(), most);
            }
        }
        for (rule, before, after) in
            [("heap", base.heap, &mut head.heap), ("instructions", base.instructions, &mut head.instructions)]
        {
            if before && !*after {
                self.push(rule, Some(&before), Some(&false), Applies::Base);
                *after = true;
            }
        }
    }

    /// What runs is always that of head.
    fn ran(&mut self, rule: &'static str, base: Option<&String>, head: Option<&String>) {
        if base != head {
            let [base, head] = [base, head].map(|value| value.map(|value| value as &dyn Display));
            self.push(rule, base, head, Applies::Head);
        }
    }
}

impl Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}%", (self.0 * 1e6).round() / 1e4)
    }
}

impl Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&duration(self.0.as_nanos() as u64))
    }
}

impl Display for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&bytes(self.0))
    }
}

impl Display for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Extend => "extend",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::parse;
    use super::*;

    fn merged(base: &str, head: &str) -> (Gate, Vec<String>) {
        let of = |text: &str| parse(&format!("[gate]\n{text}")).unwrap();
        let (gate, changes) = stricter(&of(base), of(head));
        let shown = |change: &RuleChange| {
            let of = |value: &Option<String>| value.clone().unwrap_or_default();
            let bench = change.bench.as_deref().unwrap_or("all");
            format!(
                "{bench} {} {} -> {} {:?}",
                change.rule,
                of(&change.base),
                of(&change.head),
                change.applies
            )
        };
        (gate, changes.iter().map(shown).collect())
    }

    const BENCH: &str = "[gate.bench.a]\ncommand = \"./a\"\n";

    #[test]
    fn a_change_cannot_loosen_its_own_limits() {
        let (gate, changes) = merged(
            &format!(
                "margin = \"2%\"\nruns = 40\nundecided = \"fail\"\n{BENCH}max-time = \"1s\"\nheap = true\n"
            ),
            &format!("margin = \"50%\"\nruns = 8\nundecided = \"pass\"\n{BENCH}max-time = \"9s\"\n"),
        );
        assert_eq!((gate.margin, gate.runs, gate.undecided), (Some(Share(0.02)), Some(40), Policy::Fail));
        let bench = &gate.bench["a"];
        assert_eq!((bench.margin, bench.heap), (Some(Share(0.02)), true));
        assert_eq!(bench.max_time.map(|time| time.0.as_secs()), Some(1));
        assert_eq!(
            changes,
            [
                "all margin 2% -> 50% Base",
                "all runs 40 -> 8 Base",
                "all undecided fail -> pass Base",
                "a max-time 1.00 s -> 9.00 s Base",
                "a heap true -> false Base"
            ]
        );
        // The budget of a crate.
        let (gate, changes) = merged(
            &format!("{BENCH}max-crates = {{ serde = \"1M\" }}\n"),
            &format!("{BENCH}max-crates = {{ serde = \"2M\", regex = \"3M\" }}\n"),
        );
        let crates = &gate.bench["a"].max_crates;
        assert_eq!((crates["serde"].0, crates["regex"].0), (1 << 20, 3 << 20));
        assert_eq!(changes, ["a max-crates 1.00 MiB -> 2.00 MiB Base"]);
        // A margin of one bench, beside the default of 2 %; a budget that is gone.
        let (gate, changes) =
            merged(&format!("{BENCH}max-binary = \"1M\"\n"), &format!("{BENCH}margin = \"30%\"\n"));
        assert_eq!(gate.bench["a"].margin, Some(Share(0.02)));
        assert_eq!(changes, ["a margin 2% -> 30% Base", "a max-binary 1.00 MiB ->  Base"]);
    }

    #[test]
    fn a_change_may_tighten_its_limits_and_add_benches() {
        let base = format!("margin = \"5%\"\n{BENCH}");
        let head = format!(
            "margin = \"1%\"\nruns = 60\n{BENCH}max-time = \"1s\"\n[gate.bench.b]\ncommand = \"./b\"\nmargin = \"90%\"\n"
        );
        let (gate, changes) = merged(&base, &head);
        assert_eq!(gate.bench["a"].margin, Some(Share(0.01)));
        assert!(gate.bench["a"].max_time.is_some() && gate.runs == Some(60));
        assert_eq!(gate.bench["b"].margin, Some(Share(0.9)));
        assert!(changes.is_empty(), "{changes:?}");
    }

    #[test]
    fn another_command_is_reported() {
        let (gate, changes) = merged(BENCH, &BENCH.replace("./a", "./a --version"));
        assert_eq!(gate.bench["a"].command, "./a --version");
        assert_eq!(changes, ["a command ./a -> ./a --version Head"]);
    }
}
