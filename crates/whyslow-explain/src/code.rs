//! Patterns that machine code shows: the hints of `whyslow asm` for the loops that are hot.

use std::cell::LazyCell;

use rustc_hash::FxHashMap;
use whyslow_analyze::{Label, Nearness, Weights};
use whyslow_asm::{Body, Hint, Kind, LATE, Machine, Names, Processor, hints};
use whyslow_profile::{Code, LocationId, ModuleId, Profile, StackId};

use crate::Question;
use crate::facts::sampled_value;
use crate::finding::{Confidence, Cost, Evidence, Finding, Measured, Place};
use crate::order::{FEWEST_OF_ONE, FEWEST_SAMPLES, speedup};
use crate::rule::{InCode, Language, Rule, Signal};
use crate::rules::ALL;

/// Functions whose code is looked at have at least this share by themselves.
const HOT: f64 = 0.03;

/// Every pattern that is told, of the selected samples of CPU time.
pub(crate) fn find(question: &Question<'_>, weights: &Weights) -> Vec<Finding> {
    let profile = question.profile;
    let Some(processor) = Processor::of(&profile.meta.host.arch) else { return Vec::new() };
    if weights.total_count < FEWEST_SAMPLES || profile.code.rows.is_empty() {
        return Vec::new();
    }
    let sampled = sampled(profile, weights);
    let seen = sampled_value(profile, weights);
    let machine = Machine::of(&profile.meta.host);
    let names = LazyCell::new(|| Names::of(profile));
    let mut found = Vec::new();
    for code in &profile.code.rows {
        let function = Function::new(code, &sampled);
        if (function.value as f64) < HOT * seen.max(1) as f64 {
            continue;
        }
        let body = Body::new(processor, code, |branch| names.target(code.module, branch));
        let of_body = whyslow_asm::Weights::with_misses(&body, code.module, profile, weights.value.clone());
        for hint in hints(&body, &of_body, &machine) {
            found.extend(function.finding(question, (weights, seen), &body, &hint));
        }
    }
    // The same in several loops is one finding, that of the hottest; of several in one loop the first of the table is told.
    found.sort_by(|one, other| other.share.total_cmp(&one.share));
    let place = |finding: &Finding| ALL.iter().position(|rule| *rule == finding.rule);
    let mut once = Vec::<Finding>::new();
    for finding in found {
        if !once.iter().any(|other| other.rule == finding.rule) {
            once.push(finding);
        }
    }
    once.sort_by_key(place);
    once
}

/// A place in the code where the innermost frame of samples is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Sampled {
    module: ModuleId,
    address: u64,
    location: LocationId,
    value: u64,
    samples: u64,
}

/// All of them, by module and address.
fn sampled(profile: &Profile, weights: &Weights) -> Vec<Sampled> {
    let mut values: FxHashMap<LocationId, (u64, u64)> = FxHashMap::default();
    for stack in (0..weights.count.len()).filter(|stack| weights.count[*stack] > 0) {
        let of = values.entry(profile.stacks.location(StackId::from(stack))).or_default();
        *of = (of.0.saturating_add(weights.value[stack]), of.1 + weights.count[stack]);
    }
    let mut rows = Vec::with_capacity(values.len());
    for (location, (value, samples)) in values {
        let address = profile.locations.address[location.index()].0;
        if let Some(module) = profile.locations.module[location.index()] {
            rows.push(Sampled { module, address, location, value, samples });
        }
    }
    rows.sort_unstable();
    rows
}

/// A function whose code is kept, and its sampled locations.
struct Function<'a> {
    module: ModuleId,
    value: u64,
    sampled: &'a [Sampled],
}

impl<'a> Function<'a> {
    fn new(code: &Code, all: &'a [Sampled]) -> Self {
        let end = code.start.0.saturating_add(code.bytes.len() as u64);
        let before = |address| all.partition_point(|row| (row.module, row.address) < (code.module, address));
        let sampled = &all[before(code.start.0)..before(end)];
        let value = sampled.iter().fold(0, |sum: u64, row| sum.saturating_add(row.value));
        Self { module: code.module, value, sampled }
    }

    fn finding(
        &self,
        question: &Question<'_>,
        (weights, seen): (&Weights, u64),
        body: &Body,
        hint: &Hint,
    ) -> Option<Finding> {
        let profile = question.profile;
        let (rule, wanted) = rule_of(hint.kind)?;
        // Integers that are computed one by one have many reasons; only those that are known can be helped.
        if hint.kind == Kind::ScalarLoop && hint.cause.is_none() {
            return None;
        }
        let is_in_loop =
            |address: u64| body.instruction_at(address).is_some_and(|at| body.loop_of(at) == hint.in_loop);
        let of_loop = || self.sampled.iter().filter(|row| is_in_loop(row.address));
        // What a loop calls is not what its code is like.
        let sum = |rows: &mut dyn Iterator<Item = &Sampled>| {
            rows.fold(0, |sum: u64, row| sum.saturating_add(row.value))
        };
        let own = sum(&mut of_loop());
        let value = match hint.kind {
            _ if wanted.whole_loop => own,
            // What pointers lead to would have to be done anyway.
            Kind::IndirectCall => sum(&mut of_loop().filter(|row| is_near(body, hint, row.address, LATE))),
            // Nothing waits for a check, so samples fall elsewhere; but the processor has to do it.
            Kind::BoundsCheck | Kind::OverflowCheck => hint.weight.min(own).max(part_of(body, hint, own)),
            _ => hint.weight.min(own),
        };
        let samples: u64 = of_loop().map(|row| row.samples).sum();
        let measured = Measured::sampled(value, weights.total_value, weights.total_count);
        let share = measured.share;
        if value as f64 / (seen.max(1) as f64) < wanted.least || samples < FEWEST_OF_ONE {
            return None;
        }
        // The line of the instructions that show it, of those behind them, or of the loop: the first of these that is known.
        let hottest = |late: usize| {
            of_loop().filter(|row| is_near(body, hint, row.address, late)).max_by_key(|row| row.value)
        };
        let location = (hottest(0).map(|row| row.location))
            .or_else(|| calling(profile, self.module, body, hint))
            .or_else(|| hottest(LATE).or_else(|| hottest(usize::MAX)).map(|row| row.location))?;
        let place = users_frame(profile, location)?;
        let locations = of_loop().map(|row| row.location).collect::<rustc_hash::FxHashSet<_>>();
        let is_there = |stack: &usize| {
            weights.count[*stack] > 0 && locations.contains(&profile.stacks.location(StackId::from(*stack)))
        };
        let gain = if wanted.whole_loop { share * wanted.gain } else { share };
        let finding = Finding::new(rule, question, Cost::Cpu, measured, vec![(place, share)]);
        let language = place.file.map_or(Language::Rust, |file| Language::of(profile.text(file)));
        // Hints speak of Rust; the rule knows what to do elsewhere.
        let advice = match language {
            Language::Rust if !hint.advice.is_empty() => hint.advice.clone(),
            _ => finding.advice,
        };
        Some(Finding {
            confidence: Confidence::Medium,
            evidence: vec![Evidence::words(hint.sentence.clone())],
            advice,
            max_speedup: Some(speedup(gain)),
            stacks: (0..weights.count.len()).filter(is_there).map(StackId::from).collect(),
            ..finding
        })
    }
}

/// A place on stacks from which one of a hint's instructions calls: samples are in what it calls.
fn calling(profile: &Profile, module: ModuleId, body: &Body, hint: &Hint) -> Option<LocationId> {
    let is_there = |location: &LocationId| {
        let row = location.index();
        profile.locations.module[row] == Some(module)
            && is_near(body, hint, profile.locations.address[row].0, 0)
    };
    (0..profile.locations.len()).map(LocationId::from).find(is_there)
}

/// Whether an address is at most so many instructions behind one that shows a hint.
fn is_near(body: &Body, hint: &Hint, address: u64, late: usize) -> bool {
    let Some(at) = body.instruction_at(address) else { return false };
    let before = &body.instructions[at.saturating_sub(late)..=at];
    before.iter().any(|row| hint.addresses.contains(&row.address))
}

/// The part of a loop's samples that the instructions of a hint have if all of them take the same time.
fn part_of(body: &Body, hint: &Hint, own: u64) -> u64 {
    let blocks = hint.in_loop.map_or(&[][..], |index| &body.loops[index].blocks);
    let all: usize = blocks.iter().map(|&block| body.blocks[block].instructions.len()).sum();
    (own as f64 * hint.addresses.len() as f64 / all.max(1) as f64) as u64
}

fn rule_of(kind: Kind) -> Option<(&'static Rule, &'static InCode)> {
    ALL.iter().copied().find_map(|rule| match &rule.signal {
        Signal::Code(code) if code.kinds.contains(&kind) => Some((rule, code)),
        _ => None,
    })
}

/// The innermost frame of a location that is nearest to the user's code.
fn users_frame(profile: &Profile, location: LocationId) -> Option<Place> {
    let frames = profile.frames.of(location).iter().rev();
    let nearness = |function| Nearness::of(profile, Label::Function(function));
    let frame = frames.min_by_key(|frame| nearness(frame.function))?;
    // Nobody builds a library anew whose functions have no names and lines.
    let is_known = frame.file.is_some() || nearness(frame.function) <= Nearness::Dependency;
    is_known.then_some(Place { label: Label::Function(frame.function), file: frame.file, line: frame.line })
}
