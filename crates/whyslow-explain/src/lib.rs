//! Explains a profile in words: which known patterns it shows, how much each costs, which line is responsible, and what to do.
//!
//! ```text
//! rules (a table, one file per family)
//!   by frames: names on CPU stacks, matched once per function, then per stack         stacks.rs
//!   by code:   hints on the machine code of hot loops                                 code.rs
//!   by facts:  small functions over the analyses of waits, heap, system calls, code   rules/*.rs
//!        ▼ drafts
//! order: drops small findings, merges overlapping ones, sorts by share                 order.rs
//!        ▼
//! bounds: what a change can gain, by the functions that it changes                    bound.rs
//!        ▼
//! findings, or the overall shape of the profile if there are none                     shape.rs
//! ```

mod allocator;
mod bound;
mod change;
mod code;
mod experiments;
mod facts;
mod finding;
mod language;
mod order;
mod rule;
mod rules;
mod shape;
mod stacks;
mod topic;
mod waiting;

pub use change::{Change, Outcome};
pub use experiments::Experimented;
use facts::Facts;
pub use finding::{Confidence, Cost, Enclosing, Evidence, Finding, Place};
pub use language::language_of;
pub use order::Allowed;
pub use rule::Rule;
pub use rules::{ALL, NoSuchRule, RuleId};
pub use shape::Shape;
pub use topic::Topic;
pub use waiting::Waiting;
use whyslow_analyze::Selection;
use whyslow_profile::{MetricId, Profile, Subject};

/// What to explain.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The profile.
    pub profile: &'a Profile,
    /// The samples to explain.
    pub selection: &'a Selection,
    /// Whether to run only the rules about the selection's metric.
    pub only_metric: bool,
    /// The findings that the user has allowed.
    pub allowed: &'a Allowed,
    /// The profile's file, quoted for the shell. The command that checks a change names it.
    pub file: &'a str,
}

/// The findings of a profile.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The findings, largest possible gain first.
    pub findings: Vec<Finding>,
    /// How many findings were left out because the user has allowed them.
    pub allowed: usize,
    /// Whether the program waited more than it ran, unless a finding says why.
    pub waiting: Option<Waiting>,
    /// What experiments of causal profiling say, if there are any: effects first, largest first.
    pub experiments: Vec<Experimented>,
    /// The overall shape of the profile.
    pub shape: Shape,
    /// The metric that the shape is about.
    pub metric: MetricId,
}

/// Runs all rules.
pub fn explain(question: &Question<'_>) -> Explanation {
    let Question { profile, selection, only_metric, allowed, .. } = *question;
    let facts = Facts::new(question);
    let waiting = Waiting::of(profile).filter(|_| selection.is_everything());
    let weights = facts.cpu();
    let metric = cpu_metric(profile, selection, only_metric).zip(weights);
    // Matching names on stacks takes about as long as everything else.
    let by_names =
        || metric.map(|(metric, weights)| stacks::find(question, &facts.selection(metric), weights));
    let (mut found, more, shape) = std::thread::scope(|scope| {
        let found = std::thread::Builder::new().spawn_scoped(scope, by_names);
        let shape = Shape::of(&facts, waiting.as_ref());
        let mut more = weights.map(|weights| code::find(&facts, weights)).unwrap_or_default();
        let by_facts = ALL.iter().filter_map(|rule| Some((rule, rule.signal.facts()?)));
        more.extend(by_facts.flat_map(|(rule, find)| find(rule, &facts)));
        let found = match found {
            Ok(found) => found.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // No thread may be started.
            Err(_) => by_names(),
        };
        (found.unwrap_or_default(), more, shape)
    });
    for finding in more {
        let is_explained = |weights| order::is_explained(&finding, &found, weights);
        let is_same = |other: &Finding| other.rule == finding.rule;
        if finding.of != Cost::Cpu || found.iter().any(is_same) || !weights.is_some_and(is_explained) {
            order::unite(&mut found, finding);
        }
    }
    let (mut findings, allowed) = order::order(found, allowed);
    if let Some(weights) = weights {
        bound::add(profile, weights, &mut findings);
    }
    let shape = shape.explained_by(&facts, &findings);
    let is_crowded = findings.iter().any(|finding| finding.rule.id == RuleId::Oversubscription);
    let waiting = waiting.filter(|waiting| !is_crowded || !matches!(waiting, Waiting::Queued { .. }));
    let experiments = if selection.is_everything() { Experimented::of(profile) } else { Vec::new() };
    experiments::add(profile, &experiments, &mut findings);
    Explanation { findings, allowed, waiting, experiments, shape, metric: selection.metric }
}

/// The findings that a view about this shows: the same as [`explain`]'s.
pub fn findings_about(topic: Topic, question: &Question<'_>) -> Vec<Finding> {
    let of_topic = |finding: &Finding| topic.rules().contains(&finding.rule.id);
    if !topic.needs_only_facts() {
        return explain(question).findings.into_iter().filter(of_topic).collect();
    }
    let facts = Facts::new(question);
    let rules = topic.rules().iter().map(|id| id.rule());
    let by_facts = rules.filter_map(|rule| Some((rule, rule.signal.facts()?)));
    let found = by_facts.flat_map(|(rule, find)| find(rule, &facts)).collect();
    let (mut findings, _) = order::order(found, question.allowed);
    if let Some(weights) = facts.cpu() {
        bound::add(question.profile, weights, &mut findings);
    }
    findings
}

/// The CPU time metric. `None` if another metric was requested.
fn cpu_metric(profile: &Profile, selection: &Selection, only_metric: bool) -> Option<MetricId> {
    let is_cpu = |metric: &MetricId| {
        profile.metrics.get(metric.index()).is_some_and(|metric| metric.of == Subject::Cpu)
    };
    if only_metric {
        return Some(selection.metric).filter(is_cpu);
    }
    Some(selection.metric).filter(is_cpu).or_else(|| profile.metric_of(Subject::Cpu))
}
