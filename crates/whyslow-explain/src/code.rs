//! Rules by machine code: the hints of `whyslow asm` for hot loops.

use std::cell::LazyCell;
use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use whyslow_analyze::{CallTree, Label, Nearness, StackFrame, Weights, frames_of};
use whyslow_asm::{Body, Cause, Hint, Kind, LATE, Language, Machine, Names, Processor, hints};
use whyslow_profile::{Code, Frame, LocationId, ModuleId, Profile, StackId};

use crate::cpu_metric;
use crate::facts::{Facts, sampled_value};
use crate::finding::{Confidence, Cost, Evidence, Finding, Measured, Place};
use crate::language::language_of;
use crate::order::{FEWEST_OF_ONE, FEWEST_SAMPLES};
use crate::rule::{Frames, InCode, Rule, Signal};
use crate::rules::ALL;
use crate::stacks::threads_of;

/// The smallest self share of a function whose code is examined.
const HOT: f64 = 0.03;

/// Samples of a return fall on up to this many instructions after the call: on the first one that waits for its
/// result.
const AFTER_CALL: usize = 4;

/// All findings in the machine code of the selected CPU samples.
pub(crate) fn find(facts: &Facts<'_>, weights: &Weights) -> Vec<Finding> {
    let profile = facts.question.profile;
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
            found.extend(function.finding(facts, (weights, seen), &body, &hint));
        }
    }
    // One finding per rule, for the hottest loop. If one loop shows several rules, the first in the table wins.
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

/// A code address with samples in it: their innermost frame is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Sampled {
    module: ModuleId,
    address: u64,
    location: LocationId,
    value: u64,
    samples: u64,
}

/// All sampled addresses, sorted by module and address.
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

/// A function whose code is in the profile, and its sampled addresses.
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
        facts: &Facts<'_>,
        (weights, seen): (&Weights, u64),
        body: &Body,
        hint: &Hint,
    ) -> Option<Finding> {
        let question = facts.question;
        let profile = question.profile;
        let (rule, wanted) = rule_of(hint.kind)?;
        if !can_be_fixed(hint) {
            return None;
        }
        let is_in_loop =
            |address: u64| body.instruction_at(address).is_some_and(|at| body.loop_of(at) == hint.in_loop);
        let of_loop = || self.sampled.iter().filter(|row| is_in_loop(row.address));
        // The functions that a loop calls say nothing about the loop's own code.
        let sum = |rows: &mut dyn Iterator<Item = &Sampled>| {
            rows.fold(0, |sum: u64, row| sum.saturating_add(row.value))
        };
        let own = sum(&mut of_loop());
        let value = match hint.kind {
            _ if wanted.whole_loop => own,
            // The work of the called functions would have to be done anyway.
            Kind::IndirectCall => {
                sum(&mut of_loop().filter(|row| is_near(body, hint, row.address, AFTER_CALL)))
            }
            // Nothing waits for a check, so samples fall elsewhere, but the processor still executes it.
            Kind::BoundsCheck | Kind::OverflowCheck => hint.weight.min(own).max(part_of(body, hint, own)),
            _ => hint.weight.min(own),
        };
        let samples: u64 = of_loop().map(|row| row.samples).sum();
        let measured = Measured::sampled(value, weights.total_value, weights.total_count);
        let share = measured.share;
        if value as f64 / (seen.max(1) as f64) < wanted.least || samples < FEWEST_OF_ONE {
            return None;
        }
        // The line of the instructions that show it, of those after them, or of the loop: the first one that
        // is known.
        let hottest = |late: usize| {
            of_loop().filter(|row| is_near(body, hint, row.address, late)).max_by_key(|row| row.value)
        };
        let location = (hottest(0).map(|row| row.location))
            .or_else(|| calling(profile, self.module, body, hint))
            .or_else(|| hottest(LATE).or_else(|| hottest(usize::MAX)).map(|row| row.location))?;
        if hint.kind == Kind::IndirectCall && !calls_own_code(profile, self.module, body, hint) {
            return None;
        }
        let is_shown = |row: &&Sampled| is_near(body, hint, row.address, LATE);
        if is_of_others(profile, rule, of_loop().filter(is_shown).map(|row| row.location)) {
            return None;
        }
        // Code for one width of vectors stays at it.
        if hint.kind == Kind::NarrowVectors && of_loop().any(|row| has_intrinsics(profile, row.location)) {
            return None;
        }
        let locations = of_loop().map(|row| row.location).collect::<rustc_hash::FxHashSet<_>>();
        let is_there = |stack: &usize| {
            weights.count[*stack] > 0 && locations.contains(&profile.stacks.location(StackId::from(*stack)))
        };
        let stacks = (0..weights.count.len()).filter(is_there).map(StackId::from).collect::<Vec<_>>();
        let metric = cpu_metric(profile, question.selection, question.only_metric)?;
        if needs_threads(rule) && threads_of(profile, &facts.selection(metric), &stacks) < 2 {
            return None;
        }
        let inside = users_frame(profile, location)?;
        // An interpreter without debug info calls its operations through pointers for a reason.
        if hint.kind == Kind::IndirectCall && inside.0.file.is_none() {
            return None;
        }
        // The user cannot change the loops of std and libc, only what they are called for.
        let is_users_choice =
            matches!(hint.kind, Kind::Division | Kind::SquareRoot | Kind::FloatConversion | Kind::SpinWait);
        // The loops of a dependency change by another build alone.
        let is_of_build = matches!(
            hint.kind,
            Kind::NarrowVectors | Kind::NoFusedMultiplyAdd | Kind::SmallCallee | Kind::OverflowCheck
        ) && inside.1 <= Nearness::Unknown;
        if inside.1 > Nearness::Program && !is_users_choice && !is_of_build {
            return None;
        }
        // Helpers of compilers and libraries without source work for their caller, who can only change the call.
        let is_foreign =
            inside.1 > Nearness::Dependency || (inside.1 == Nearness::Dependency && inside.0.file.is_none());
        let caller = if is_foreign { caller_of(profile, weights, &stacks) } else { None };
        let place = caller.unwrap_or(inside.0);
        let finding = Finding::new(rule, question, Cost::Cpu, measured, vec![(place, share)]);
        // A rule by machine code gives the advice of its hint, unless it has its own for C and C++.
        let is_of_hint = matches!(rule.signal, Signal::Code(_));
        let language = language_of(profile, &inside.0);
        let advice = match language {
            Language::Rust | Language::Fortran | Language::Go if is_of_hint => {
                hint.advice.in_language(language)
            }
            Language::Native if is_of_hint && rule.native.is_none() => hint.advice.in_language(language),
            _ => rule.advice(language),
        };
        let advice = advice.to_owned();
        let mut evidence = vec![Evidence::words(hint.sentence.clone())];
        evidence.extend(caller.map(|_| Evidence::at("in", inside.0, share)));
        Some(Finding { confidence: Confidence::Medium, evidence, advice, stacks, ..finding })
    }
}

/// Whether an instruction comes from an intrinsic function for vectors.
fn has_intrinsics(profile: &Profile, location: LocationId) -> bool {
    profile.frames.of(location).iter().any(|frame| {
        let name = CallTree::name(profile, Label::Function(frame.function));
        name.contains("core_arch::") || name.starts_with("_mm")
    })
}

/// Whether the rule's advice fits the cause of a hint.
fn can_be_fixed(hint: &Hint) -> bool {
    match (hint.kind, hint.cause) {
        // Scalar loops have many causes. Only a known one can be fixed.
        (Kind::ScalarLoop, cause) => cause.is_some(),
        // Several accumulators change a hash, an automaton follows its input, memory sets the pace, an index from
        // data is checked for a reason, and checks cost nothing while the loop waits for something else.
        (_, cause) => !matches!(
            cause,
            Some(
                Cause::Recurrence
                    | Cause::StateTable
                    | Cause::FewOperations
                    | Cause::IndexFromData
                    | Cause::HiddenByChain
            )
        ),
    }
}

/// A location on the stacks that is a call instruction of a hint. Its samples are in the callee.
fn calling(profile: &Profile, module: ModuleId, body: &Body, hint: &Hint) -> Option<LocationId> {
    let is_there = |location: &LocationId| {
        let row = location.index();
        profile.locations.module[row] == Some(module)
            && is_near(body, hint, profile.locations.address[row].0, 0)
    };
    (0..profile.locations.len()).map(LocationId::from).find(is_there)
}

/// Whether samples show code of the program beneath a call of a hint. A function of libc that is called through a
/// pointer, such as a comparison of bytes, has no other form.
fn calls_own_code(profile: &Profile, module: ModuleId, body: &Body, hint: &Hint) -> bool {
    let is_call = |stack: StackId| {
        let row = profile.stacks.location(stack).index();
        profile.locations.module[row] == Some(module)
            && is_near(body, hint, profile.locations.address[row].0, 0)
    };
    let is_own = |stack: StackId| {
        let frames = profile.frames.of(profile.stacks.location(stack));
        frames
            .iter()
            .any(|frame| Nearness::of(profile, Label::Function(frame.function)) <= Nearness::Dependency)
    };
    let stacks = (0..profile.stacks.len()).map(StackId::from);
    stacks.filter(|stack| is_own(*stack)).filter_map(|stack| profile.stacks.parent(stack)).any(is_call)
}

/// Whether an address is at most `late` instructions after one that shows a hint.
fn is_near(body: &Body, hint: &Hint, address: u64, late: usize) -> bool {
    let Some(at) = body.instruction_at(address) else { return false };
    let before = &body.instructions[at.saturating_sub(late)..=at];
    before.iter().any(|row| hint.addresses.contains(&row.address))
}

/// The part of a loop's samples that a hint's instructions would have if all instructions took the same time.
fn part_of(body: &Body, hint: &Hint, own: u64) -> u64 {
    let blocks = hint.in_loop.map_or(&[][..], |index| &body.loops[index].blocks);
    let all: usize = blocks.iter().map(|&block| body.blocks[block].instructions.len()).sum();
    (own as f64 * hint.addresses.len() as f64 / all.max(1) as f64) as u64
}

fn rule_of(kind: Kind) -> Option<(&'static Rule, &'static InCode)> {
    ALL.iter().copied().find_map(|rule| match &rule.signal {
        Signal::Code(code) | Signal::Frames(Frames { code: Some(code), .. })
            if code.kinds.contains(&kind) =>
        {
            Some((rule, code))
        }
        _ => None,
    })
}

fn needs_threads(rule: &Rule) -> bool {
    matches!(&rule.signal, Signal::Frames(frames) if frames.needs_threads)
}

/// Whether the instructions that show a rule belong to code that the rule does not count, by the names of the
/// functions that are inlined there: the count of an `Arc` is not a shared counter.
fn is_of_others(profile: &Profile, rule: &Rule, mut locations: impl Iterator<Item = LocationId>) -> bool {
    let Signal::Frames(Frames { unless, .. }) = &rule.signal else { return false };
    let Ok(unless) = regex::Regex::new(&unless.join("|")) else { return false };
    let is_other = |frame: &Frame| unless.is_match(&CallTree::name(profile, Label::Function(frame.function)));
    locations.any(|location| profile.frames.of(location).iter().any(is_other))
}

/// The line in the user's code that calls the functions on these stacks most often.
fn caller_of(profile: &Profile, weights: &Weights, stacks: &[StackId]) -> Option<Place> {
    let mut values: FxHashMap<Place, u64> = FxHashMap::default();
    for stack in stacks {
        let is_users = |frame: &StackFrame| Nearness::of(profile, frame.label) <= Nearness::Program;
        if let Some(frame) = frames_of(profile, *stack).find(is_users) {
            let value = values.entry(frame.into()).or_default();
            *value = value.saturating_add(weights.value[stack.index()]);
        }
    }
    values
        .into_iter()
        .max_by_key(|(place, value)| (*value, Reverse((place.file, place.line))))
        .map(|(place, _)| place)
}

/// The innermost frame of a location that is nearest to the user's code, and how near it is.
fn users_frame(profile: &Profile, location: LocationId) -> Option<(Place, Nearness)> {
    let frames = profile.frames.of(location).iter().rev();
    let nearness = |function| Nearness::of(profile, Label::Function(function));
    let frame = frames.min_by_key(|frame| nearness(frame.function))?;
    // Users do not rebuild libraries without debug info, and an address names no code that anyone could change.
    let has_name = || {
        let function = profile.functions.get(frame.function.index());
        function.is_some_and(|function| !profile.text(function.raw_name).is_empty())
    };
    let is_known = frame.file.is_some() || nearness(frame.function) <= Nearness::Dependency && has_name();
    let place = Place { label: Label::Function(frame.function), file: frame.file, line: frame.line };
    is_known.then_some((place, nearness(frame.function)))
}

#[cfg(test)]
mod tests {
    use whyslow_analyze::{Selection, testing};
    use whyslow_profile::RelativeAddress;

    use super::*;
    use crate::rules::RuleId;
    use crate::{Allowed, Question, explain};

    /// A loop of a program that divides: all samples are at its division.
    fn divides(folded: &str) -> Profile {
        const LOOP: [u8; 14] =
            [0x31, 0xd2, 0x48, 0x89, 0xf8, 0x48, 0xf7, 0xf1, 0x48, 0xff, 0xcf, 0x75, 0xf3, 0xc3];
        const DIVISION: RelativeAddress = RelativeAddress(5);
        let mut profile = testing::profile(folded);
        profile.meta.host.arch = "x86_64".to_owned();
        let module = ModuleId(0);
        profile.code.rows.push(Code { module, start: RelativeAddress(0), bytes: LOOP.to_vec() });
        let location = profile.stacks.location(profile.samples[0].stack[0]).index();
        profile.locations.module[location] = Some(module);
        profile.locations.address[location] = DIVISION;
        profile
    }

    fn found(profile: &Profile) -> Vec<RuleId> {
        let (selection, allowed) = (Selection::default(), Allowed::default());
        let question =
            Question { profile, selection: &selection, only_metric: false, allowed: &allowed, file: "" };
        explain(&question).findings.iter().map(|finding| finding.rule.id).collect()
    }

    #[test]
    fn code_with_neither_name_nor_line_is_no_finding() {
        assert_eq!(found(&divides("main::mean@m.rs:7 300")), [RuleId::Division]);
        let mut plain = divides("main::mean 300");
        assert_eq!(found(&plain), [RuleId::Division], "its name says where to look");
        let function = profile_function(&plain);
        plain.functions[function].raw_name = plain.strings.push("");
        assert_eq!(found(&plain), []);
    }

    fn profile_function(profile: &Profile) -> usize {
        let location = profile.stacks.location(profile.samples[0].stack[0]);
        profile.frames.of(location)[0].function.index()
    }
}
