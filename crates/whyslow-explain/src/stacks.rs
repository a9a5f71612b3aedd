//! Rules by names on stacks.
//!
//! Each function's name is matched once against all rules, which gives five sets of bits. The patterns of a
//! stack follow from those of its caller by a few bit operations per frame ([`State`]). Stacks that count are
//! then walked from the innermost frame outwards to find the responsible line. A stack counts for one rule
//! only: the first reported one in the table. So overlapping patterns become one finding, and the shares of
//! all findings add up to at most the total.

use std::cmp::Reverse;

use regex::RegexSet;
use rustc_hash::{FxHashMap, FxHashSet};
use whyslow_analyze::{
    CallTree, Label, Nearness, Selection, StackFrame, Weights, frames_at, frames_of, runs_hidden_script,
};
use whyslow_profile::{Function, Profile, StackId};
use whyslow_words::Percent;

use crate::Question;
use crate::facts::sampled_value;
use crate::finding::{Confidence, Cost, Evidence, Finding, Measured, Place};
use crate::order::{FEWEST_OF_ONE, FEWEST_SAMPLES};
use crate::rule::{Beneath, Frames, Rule, Signal};
use crate::rules::{ALL, BY_FRAMES};

/// A bit per rule. With more rules, it has to be a larger type.
type Bits = u64;
const _: () = assert!(BY_FRAMES <= Bits::BITS as usize, "more rules look at names than `Bits` has bits");

/// Sets of names per rule.
const SETS: usize = 5;
/// How many functions and lines are shown as evidence.
const SHOWN: usize = 3;
/// More time than this that was not sampled makes shares of system calls too small.
const HIDDEN: f64 = 0.1;
/// The smallest part of a pattern that comes after its first round, if it is repeated.
const LATER: f64 = 0.25;

/// The smallest part of a pattern that is in the ends of its rounds: giving back what was used takes a while.
const ENDS: f64 = 0.05;

/// A line in the user's code with this part of a pattern comes before larger lines in other code.
const USERS_PART: f64 = 0.01;

/// The rules by frames, in the order of the table.
struct Table {
    rules: Vec<(&'static Rule, &'static Frames)>,
    /// Rules that continue through closures, and through any frame.
    through_closures: Bits,
    through_all: Bits,
    /// Rules that need another frame beneath.
    needing: Bits,
    /// Rules with a condition on the responsible line.
    with_line: Bits,
}

impl Table {
    fn new() -> Self {
        let frames = |rule: &'static Rule| match &rule.signal {
            Signal::Frames(frames) => Some((rule, frames)),
            Signal::Code(_) | Signal::Facts(_) => None,
        };
        let rules = ALL.iter().copied().filter_map(frames).collect::<Vec<_>>();
        let bits = |wanted: fn(&Frames) -> bool| bits_of(rules.iter().map(|(_, frames)| wanted(frames)));
        let through_closures = bits(|frames| frames.beneath != Beneath::Std);
        let through_all = bits(|frames| frames.beneath == Beneath::All);
        let needing = bits(|frames| !frames.needs.is_empty());
        let with_line = bits(|frames| frames.line.is_some());
        Self { rules, through_closures, through_all, needing, with_line }
    }
}

fn bits_of(set: impl Iterator<Item = bool>) -> Bits {
    set.enumerate().filter(|(_, is_set)| *is_set).fold(0, |bits, (place, _)| bits | 1 << place)
}

fn each_bit(bits: Bits) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(bits), |rest| Some(rest & rest.wrapping_sub(1)))
        .take_while(|rest| *rest != 0)
        .map(|rest| rest.trailing_zeros() as usize)
}

/// What a function's name means for each rule.
#[derive(Debug, Clone, Copy)]
struct Mark {
    shows: Bits,
    unless: Bits,
    needed: Bits,
    refutes: Bits,
    ends: Bits,
    nearness: Nearness,
    /// The user's implementation of a std trait, which std calls.
    is_passing: bool,
    is_closure: bool,
}

/// The marks of all names.
struct Marks<'a> {
    profile: &'a Profile,
    table: &'a Table,
    /// [`SETS`] expressions per rule.
    set: RegexSet,
    passing: regex::Regex,
    functions: Vec<Option<Mark>>,
    others: FxHashMap<Label, Mark>,
}

impl<'a> Marks<'a> {
    fn new(profile: &'a Profile, table: &'a Table) -> Option<Self> {
        let expressions = table.rules.iter().flat_map(|(_, frames)| {
            [frames.names, frames.unless, frames.needs, frames.refuted_by, frames.ended_by]
        });
        // An empty class matches nothing.
        let one = |names: &[&str]| if names.is_empty() { "[^\\s\\S]".to_owned() } else { names.join("|") };
        let set = RegexSet::new(expressions.map(one)).ok()?;
        let passing = regex::Regex::new(
            r" as core::(?:clone::Clone|cmp::\w+|hash::Hash|fmt::\w+|ops::drop::Drop|default::Default|convert::\w+|borrow::\w+|iter::traits::\w+::\w+)(?:<.*>)?>::",
        );
        let functions = vec![None; profile.functions.len()];
        Some(Self { profile, table, set, passing: passing.ok()?, functions, others: FxHashMap::default() })
    }

    fn of(&mut self, label: Label) -> Mark {
        match label {
            Label::Function(id) => {
                if let Some(Some(mark)) = self.functions.get(id.index()) {
                    return *mark;
                }
                let mark = self.read(label);
                if let Some(known) = self.functions.get_mut(id.index()) {
                    *known = Some(mark);
                }
                mark
            }
            _ => {
                if let Some(mark) = self.others.get(&label) {
                    return *mark;
                }
                let mark = self.read(label);
                self.others.insert(label, mark);
                mark
            }
        }
    }

    fn read(&self, label: Label) -> Mark {
        let name = CallTree::name(self.profile, label);
        let found = self.set.matches(&name);
        let bits = |which: usize| {
            bits_of((0..self.table.rules.len()).map(|rule| found.matched(rule * SETS + which)))
        };
        let nearness = Nearness::of(self.profile, label);
        // A function named `read` in the user's code is not libc's.
        let is_namesake = nearness <= Nearness::Program && !name.contains("::");
        Mark {
            shows: if is_namesake { 0 } else { bits(0) & !bits(4) },
            unless: bits(1),
            needed: bits(2),
            refutes: bits(3),
            ends: bits(4),
            nearness,
            is_passing: nearness < Nearness::Wrapper && self.passing.is_match(&name),
            is_closure: name.contains("{closure"),
        }
    }
}

impl Mark {
    /// The rules that continue through this frame.
    fn keeps(&self, table: &Table) -> Bits {
        let kept = if self.nearness >= Nearness::Wrapper || self.is_passing {
            !0
        } else if self.is_closure {
            table.through_closures
        } else {
            table.through_all
        };
        kept & !self.ends
    }
}

/// The rules that one stack shows.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
struct Shown {
    rules: Bits,
    refuted: Bits,
}

/// Walks a stack from the innermost frame outwards. `matched` receives the rule and the position of each
/// matching frame.
fn walk(marks: &mut Marks<'_>, frames: &[StackFrame], mut matched: impl FnMut(usize, usize)) -> Shown {
    let table = marks.table;
    let mut alive = !0;
    let mut shown = Shown::default();
    let (mut against, mut needed) = (0, !table.needing);
    for (place, frame) in frames.iter().enumerate() {
        let mark = marks.of(frame.label);
        against |= mark.refutes;
        needed |= mark.needed;
        let ended = shown.rules & alive & mark.unless;
        shown.rules &= !ended;
        alive &= !ended;
        let here = mark.shows & alive & needed;
        shown.rules |= here;
        shown.refuted |= here & against;
        each_bit(here).for_each(|rule| matched(rule, place));
        alive &= mark.keeps(table);
    }
    shown.refuted &= shown.rules;
    shown
}

/// What the frames from the root to here show, whatever is beneath.
#[derive(Debug, Default, Clone, Copy)]
struct State {
    /// A frame shows the rule, and the frame that it needs is beneath it.
    matched: Bits,
    /// A frame shows the rule, but the frame that it needs is still missing.
    waiting: Bits,
    /// An outer frame forbids the rule for frames beneath it.
    forbidden: Bits,
    /// A frame shows the rule where it is forbidden. The frame that it needs may be missing.
    doomed: Bits,
    /// The same with the frame that it needs: no outer frame can show the rule any more.
    ended: Bits,
    /// A frame that refutes the rule is beneath the one that shows it.
    refuted: Bits,
}

impl State {
    /// The state with one more frame beneath.
    fn with(self, mark: &Mark, table: &Table) -> Self {
        let keeps = mark.keeps(table);
        let mut next = Self {
            matched: self.matched & keeps,
            waiting: self.waiting & keeps,
            forbidden: self.forbidden & keeps,
            doomed: self.doomed & keeps,
            ended: self.ended & keeps,
            refuted: self.refuted & keeps,
        };
        let complete = !table.needing | mark.needed;
        next.waiting |= mark.shows;
        next.matched |= next.waiting & complete;
        next.doomed |= next.forbidden & mark.shows;
        next.ended |= next.doomed & complete;
        next.forbidden |= mark.unless;
        next.refuted |= (next.matched | next.waiting) & mark.refutes;
        next
    }

    fn shown(self) -> Shown {
        let rules = self.matched & !self.ended;
        Shown { rules, refuted: self.refuted & rules }
    }
}

/// The state of each stack. Callers come before callees.
fn states(marks: &mut Marks<'_>) -> Vec<State> {
    let (profile, table) = (marks.profile, marks.table);
    let mut states: Vec<State> = Vec::with_capacity(profile.stacks.len());
    for stack in (0..profile.stacks.len()).map(StackId::from) {
        let outside = profile.stacks.parent(stack).map_or(State::default(), |parent| states[parent.index()]);
        let frames = frames_at(profile, profile.stacks.location(stack), true);
        states.push(frames.fold(outside, |state, frame| state.with(&marks.of(frame.label), table)));
    }
    states
}

/// Which stacks belong to a script: patterns in its interpreter, virtual machine and their libraries are nothing
/// that its author can change. Native code of the user that the script calls is the user's again.
fn of_script(marks: &mut Marks<'_>) -> Vec<bool> {
    let profile = marks.profile;
    let mut of_script = runs_hidden_script(profile);
    if !of_script.contains(&true) {
        return of_script;
    }
    let mut has_users = vec![false; of_script.len()];
    for stack in (0..of_script.len()).map(StackId::from) {
        let outside = profile.stacks.parent(stack).is_some_and(|parent| has_users[parent.index()]);
        let mut frames = frames_at(profile, profile.stacks.location(stack), true);
        let is_users = |frame: StackFrame| {
            matches!(frame.label, Label::Function(_)) && marks.of(frame.label).nearness <= Nearness::Program
        };
        has_users[stack.index()] = outside || frames.any(is_users);
        of_script[stack.index()] &= !has_users[stack.index()];
    }
    of_script
}

/// The position of the outermost frame that shows a rule.
fn last_match(marks: &mut Marks<'_>, frames: &[StackFrame], rule: usize) -> Option<usize> {
    let mut last = None;
    walk(marks, frames, |matched, place| {
        if matched == rule {
            last = Some(place);
        }
    });
    last
}

/// Caches whether responsible lines meet the rules' conditions.
#[derive(Default)]
struct LineChecks {
    known: FxHashMap<(usize, Place), bool>,
}

impl LineChecks {
    fn passes(&mut self, marks: &mut Marks<'_>, frames: &[StackFrame], rule: usize) -> bool {
        let Some(check) = marks.table.rules[rule].1.line else { return true };
        let Some(last) = last_match(marks, frames, rule) else { return false };
        let place = responsible(marks, frames, last);
        *self.known.entry((rule, place)).or_insert_with(|| check(marks.profile, &place))
    }
}

/// A stack that counts for a rule.
#[derive(Debug, Clone, Copy)]
struct Row {
    stack: StackId,
    /// The responsible line.
    place: Place,
    /// The function that shows the rule.
    function: Label,
    value: u64,
    samples: u64,
}

/// All findings by names on the stacks of the selected samples.
pub(crate) fn find(question: &Question<'_>, selection: &Selection, weights: &Weights) -> Vec<Finding> {
    let profile = question.profile;
    let table = Table::new();
    let Some(mut marks) = Marks::new(profile, &table) else { return Vec::new() };
    if weights.total_count < FEWEST_SAMPLES {
        return Vec::new();
    }
    let mut frames = Vec::new();
    let mut of_stack = Vec::new();
    let mut line_checks = LineChecks::default();
    let mut groups: FxHashMap<Shown, (u64, u64)> = FxHashMap::default();
    let states = states(&mut marks);
    let of_script = of_script(&mut marks);
    let counts = |stack: &usize| weights.count[*stack] > 0 && !of_script[*stack];
    for stack in (0..weights.count.len()).filter(counts) {
        let mut shown = states[stack].shown();
        if shown.rules & table.with_line != 0 {
            frames.clear();
            frames.extend(frames_of(profile, stack.into()));
        }
        for rule in each_bit(shown.rules & table.with_line) {
            if !line_checks.passes(&mut marks, &frames, rule) {
                shown.rules &= !(1 << rule);
            }
        }
        if shown.rules != 0 {
            let group = groups.entry(shown).or_default();
            group.0 = group.0.saturating_add(weights.value[stack]);
            group.1 += weights.count[stack];
            of_stack.push((StackId::from(stack), shown));
        }
    }
    let sampled = sampled_value(profile, weights);
    let reported = reported(&table, &groups, sampled);
    let mut rows = vec![Vec::new(); table.rules.len()];
    for (stack, shown) in of_stack {
        let Some(rule) = each_bit(shown.rules & reported).next() else { continue };
        frames.clear();
        frames.extend(frames_of(profile, stack));
        let Some(last) = last_match(&mut marks, &frames, rule) else { continue };
        rows[rule].push(Row {
            stack,
            place: responsible(&mut marks, &frames, last),
            function: frames[last].label,
            value: weights.value[stack.index()],
            samples: weights.count[stack.index()],
        });
    }
    absorb(&table, &mut rows);
    let rules = table.rules.iter().zip(rows).filter(|(_, rows)| !rows.is_empty());
    rules
        .filter_map(|((rule, frames), rows)| {
            finding(question, selection, (weights, sampled), rule, frames, &rows)
        })
        .collect()
}

/// Moves rows to the rule that absorbs them in the same function.
fn absorb(table: &Table, rows: &mut [Vec<Row>]) {
    for (place, (_, frames)) in table.rules.iter().enumerate() {
        let functions = rows[place].iter().map(|row| row.place.label).collect::<FxHashSet<_>>();
        for (other, _) in
            table.rules.iter().enumerate().filter(|(_, (rule, _))| frames.absorbs.contains(&rule.id))
        {
            let is_taken = |row: &Row| functions.contains(&row.place.label);
            let (taken, kept) = std::mem::take(&mut rows[other]).into_iter().partition(is_taken);
            rows[other] = kept;
            rows[place].extend::<Vec<_>>(taken);
        }
    }
}

/// The rules that are reported. Samples of a rule that is not reported count for the next one.
fn reported(table: &Table, groups: &FxHashMap<Shown, (u64, u64)>, sampled: u64) -> Bits {
    let mut reported = 0;
    for (place, (_, frames)) in table.rules.iter().enumerate() {
        let bit: Bits = 1 << place;
        let (mut value, mut samples, mut refuted) = (0u64, 0, 0u64);
        for (shown, group) in
            groups.iter().filter(|(shown, _)| shown.rules & bit != 0 && shown.rules & reported == 0)
        {
            value = value.saturating_add(group.0);
            samples += group.1;
            if shown.refuted & bit != 0 {
                refuted = refuted.saturating_add(group.0);
            }
        }
        let share = value as f64 / sampled.max(1) as f64;
        if share >= frames.least
            && samples >= FEWEST_OF_ONE
            && (refuted as f64) < frames.refuted_at * value as f64
        {
            reported |= bit;
        }
    }
    reported
}

/// The outer frame of a match that is nearest to the user's code; of several, the innermost.
fn responsible(marks: &mut Marks<'_>, frames: &[StackFrame], matched: usize) -> Place {
    let mut best: Option<(Nearness, &StackFrame)> = None;
    for frame in &frames[matched + 1..] {
        let mark = marks.of(frame.label);
        if !mark.is_passing && best.is_none_or(|(nearness, _)| mark.nearness < nearness) {
            best = Some((mark.nearness, frame));
        }
    }
    let frame = match best {
        Some((nearness, frame)) if nearness <= Nearness::Program => frame,
        // No outer frame is in the user's code. An inner one may be, as in pool threads, or the match itself.
        other => {
            let is_users = |frame: &&StackFrame| marks.of(frame.label).nearness <= Nearness::Program;
            let inside = frames[..=matched].iter().rev().find(is_users);
            let outside = other.filter(|(nearness, _)| *nearness < Nearness::Wrapper).map(|(_, frame)| frame);
            inside.or(outside).unwrap_or(&frames[matched])
        }
    };
    Place { label: frame.label, file: frame.file, line: frame.line }
}

/// Functions by value, largest first. Functions with the same name, such as instances of a generic one, are
/// merged.
fn by_name(profile: &Profile, values: &FxHashMap<Label, u64>) -> Vec<(Label, u64)> {
    let mut rows = values
        .iter()
        .map(|(label, value)| (CallTree::name(profile, *label), *label, *value))
        .collect::<Vec<_>>();
    rows.sort_by(|one, other| one.0.cmp(&other.0));
    rows.dedup_by(|next, kept| {
        let is_same = next.0 == kept.0;
        kept.2 = if is_same { kept.2.saturating_add(next.2) } else { kept.2 };
        is_same
    });
    rows.sort_by_key(|(_, _, value)| Reverse(*value));
    rows.into_iter().map(|(_, label, value)| (label, value)).collect()
}

fn finding(
    question: &Question<'_>,
    selection: &Selection,
    (weights, sampled): (&Weights, u64),
    rule: &'static Rule,
    frames: &Frames,
    rows: &[Row],
) -> Option<Finding> {
    let profile = question.profile;
    let stacks = rows.iter().map(|row| row.stack).collect::<Vec<_>>();
    if frames.needs_threads && threads_of(profile, selection, &stacks) < 2 {
        return None;
    }
    let value = rows.iter().fold(0, |sum: u64, row| sum.saturating_add(row.value));
    let samples: u64 = rows.iter().map(|row| row.samples).sum();
    let mut by_place: FxHashMap<Place, (u64, u64)> = FxHashMap::default();
    let mut by_function: FxHashMap<Label, u64> = FxHashMap::default();
    for row in rows {
        let of_place = by_place.entry(row.place).or_default();
        *of_place = (of_place.0.saturating_add(row.value), of_place.1 + row.samples);
        let of_function = by_function.entry(row.function).or_default();
        *of_function = of_function.saturating_add(row.value);
    }
    let of_all = |value: u64| value as f64 / weights.total_value.max(1) as f64;
    if value as f64 / (sampled.max(1) as f64) < frames.least || samples < FEWEST_OF_ONE {
        return None;
    }
    if is_needed(profile, weights, frames) || !is_repeated(profile, selection, frames, rows) {
        return None;
    }
    let mut of_functions: FxHashMap<Label, u64> = FxHashMap::default();
    for (place, (value, _)) in &by_place {
        *of_functions.entry(place.label).or_default() += value;
    }
    let most = of_functions.values().max().copied().unwrap_or(0);
    if (most as f64) < frames.least_of_function * value as f64 {
        return None;
    }
    let mut places = by_place.iter().collect::<Vec<_>>();
    // Pool threads have no outer frames in the user's code: the responsible line is on another thread.
    let is_users = |place: &Place, of_place: u64| {
        of_place as f64 >= USERS_PART * value as f64
            && Nearness::of(profile, place.label) <= Nearness::Program
    };
    places.sort_by_key(|(place, (value, _))| {
        (!is_users(place, *value), Reverse(*value), place.file, place.line)
    });
    let (first, (_, of_place)) = *places.first()?;
    let entry = frames.entry.filter(|_| Nearness::of(profile, first.label) > Nearness::Program);
    let place = &entry.and_then(|entry| entered_from(profile, weights, entry)).unwrap_or(*first);
    let functions = by_name(profile, &by_function);
    let functions = functions.iter().take(SHOWN).map(|(label, value)| {
        Evidence::at("in", Place { label: *label, file: None, line: 0 }, of_all(*value))
    });
    let lines = places.iter().filter(|(_, (_, samples))| *samples >= FEWEST_OF_ONE.min(*of_place));
    let lines = lines.take(SHOWN).map(|(place, (value, _))| Evidence::at("from", **place, of_all(*value)));
    // Where the kernel may not be sampled, only the user's side of system calls is seen.
    let hidden = of_all(weights.total_value.saturating_sub(sampled));
    let is_hidden = frames.is_in_kernel && hidden >= HIDDEN;
    let hidden = is_hidden.then(|| {
        let hidden = Percent(hidden);
        Evidence::words(format!(
            "{hidden} of the CPU time was not sampled, mostly in the kernel: such calls spend it"
        ))
    });
    let evidence = lines.chain(functions).chain(hidden).collect();
    let by_samples = match samples {
        ..50 => Confidence::Low,
        50..200 => Confidence::Medium,
        _ => Confidence::High,
    };
    let measured = Measured::sampled(value, weights.total_value, weights.total_count);
    let lines = places.iter().map(|(place, (value, _))| (**place, of_all(*value))).collect();
    let finding = Finding::new(rule, question, Cost::Cpu, measured, lines).placed(question, Some(*place));
    Some(Finding {
        confidence: by_samples.min(frames.most),
        evidence,
        stacks,
        // The share is too small, so no number follows from it.
        speedup: finding.speedup.filter(|_| !is_hidden),
        max_speedup: finding.max_speedup.filter(|_| !is_hidden),
        ..finding
    })
}

/// Whether the program has functions that need what the pattern costs, with enough of its time beneath them.
fn is_needed(profile: &Profile, weights: &Weights, frames: &Frames) -> bool {
    let Ok(set) = RegexSet::new(frames.needed_for) else { return false };
    let is_one = |function: &Function| set.is_match(profile.text(function.name));
    let needs: Vec<bool> = profile.functions.iter().map(is_one).collect();
    if frames.needed_at == 0.0 || !needs.contains(&true) {
        return needs.contains(&true);
    }
    // Callers come before callees.
    let mut beneath: Vec<bool> = Vec::with_capacity(profile.stacks.len());
    let mut value = 0_u64;
    for stack in (0..profile.stacks.len()).map(StackId::from) {
        let here = profile.frames.of(profile.stacks.location(stack));
        let is_here = here.iter().any(|frame| needs.get(frame.function.index()) == Some(&true));
        let is_outside = profile.stacks.parent(stack).is_some_and(|parent| beneath[parent.index()]);
        beneath.push(is_here || is_outside);
        let own = weights.value.get(stack.index()).copied().unwrap_or(0);
        value = value.saturating_add(if is_here || is_outside { own } else { 0 });
    }
    value as f64 >= frames.needed_at * weights.total_value as f64
}

/// Whether the pattern has more than one round in a process.
fn is_repeated(profile: &Profile, selection: &Selection, frames: &Frames, rows: &[Row]) -> bool {
    let (Ok(ends), Some(samples)) =
        (RegexSet::new(frames.rounds_end_in), profile.samples.get(selection.metric.index()))
    else {
        return true;
    };
    let is_end = |row: &Row| ends.is_match(&CallTree::name(profile, row.function));
    let is_end: FxHashMap<StackId, bool> = rows.iter().map(|row| (row.stack, is_end(row))).collect();
    let process = |row: usize| profile.threads.get(samples.thread[row].index()).map(|thread| thread.process);
    let all = (0..samples.len())
        .filter_map(|row| Some((process(row)?, samples.time_ns[row], *is_end.get(&samples.stack[row])?)));
    let all = all.collect::<Vec<_>>();
    let ends = || all.iter().filter(|(_, _, is_end)| *is_end);
    let mut first: FxHashMap<_, u64> = FxHashMap::default();
    for (process, time, _) in ends() {
        first.entry(*process).and_modify(|first| *first = (*first).min(*time)).or_insert(*time);
    }
    let is_later = |row: &&(_, u64, bool)| first.get(&row.0).is_some_and(|first| row.1 > *first);
    let part = |count: usize| count as f64 / all.len().max(1) as f64;
    frames.rounds_end_in.is_empty()
        || (part(all.iter().filter(is_later).count()) >= LATER && part(ends().count()) >= ENDS)
}

/// The line in the user's code that calls the pool in most samples.
pub(crate) fn entered_from(profile: &Profile, weights: &Weights, entry: &str) -> Option<Place> {
    let entry = regex::Regex::new(entry).ok()?;
    let mut is_entry: FxHashMap<Label, bool> = FxHashMap::default();
    let mut found: FxHashMap<Place, u64> = FxHashMap::default();
    for stack in (0..weights.count.len()).filter(|stack| weights.count[*stack] > 0) {
        let mut inner = None;
        for frame in frames_of(profile, stack.into()) {
            let enters = inner.is_some_and(|inner| {
                *is_entry.entry(inner).or_insert_with(|| entry.is_match(&CallTree::name(profile, inner)))
            });
            if enters && Nearness::of(profile, frame.label) <= Nearness::Program {
                let place = Place { label: frame.label, file: frame.file, line: frame.line };
                *found.entry(place).or_default() += weights.count[stack];
                break;
            }
            inner = Some(frame.label);
        }
    }
    found
        .into_iter()
        .max_by_key(|(place, count)| (*count, Reverse((place.file, place.line))))
        .map(|(place, _)| place)
}

/// How many threads have samples on these stacks.
pub(crate) fn threads_of(profile: &Profile, selection: &Selection, stacks: &[StackId]) -> usize {
    let stacks = stacks.iter().copied().collect::<FxHashSet<_>>();
    let Some(samples) = profile.samples.get(selection.metric.index()) else { return 0 };
    let rows = samples.stack.iter().zip(&samples.thread).filter(|(stack, _)| stacks.contains(stack));
    rows.map(|(_, thread)| *thread).collect::<FxHashSet<_>>().len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use whyslow_analyze::testing;

    use super::*;
    use crate::RuleId;

    const FRAMES: [&str; 18] = [
        "main",
        "dep::work",
        "main::{{closure}}",
        "<app::Key as core::clone::Clone>::clone",
        "malloc",
        "sys_copy_from_iter",
        "alloc::raw_vec::RawVec<T,A>::grow_one",
        "alloc::raw_vec::finish_grow",
        "<std::io::BufWriter<W> as std::io::Write>::write",
        "<std::fs::File as std::io::Write>::write",
        "core::fmt::write",
        "core::ptr::drop_in_place<[T]>",
        "core::ptr::drop_in_place<T>",
        "<core::slice::iter::Iter<T> as core::iter::traits::iterator::Iterator>::find",
        "core::iter::adapters::filter::next",
        "alloc::slice::<impl [T]>::sort_by_key::{{closure}}",
        "<alloc::sync::Arc<T,A> as core::ops::drop::Drop>::drop",
        "alloc::sync::Arc<T,A>::drop_slow",
    ];

    #[test]
    fn patterns_in_an_interpreter_are_no_findings_but_those_in_native_code_that_it_calls_are() {
        let ids = |folded: &str| {
            let profile = testing::profile(folded);
            let (selection, allowed) = (Selection::default(), crate::Allowed::default());
            let question = Question {
                profile: &profile,
                selection: &selection,
                only_metric: false,
                allowed: &allowed,
                file: "",
            };
            crate::explain(&question).findings.iter().map(|one| one.rule.id).collect::<Vec<_>>()
        };
        let in_interpreter = "_start;[python3.11];malloc 900";
        assert_eq!(ids(in_interpreter), []);
        let extension = format!("{in_interpreter}\n_start;[python3.11];app::work@m.rs:3;malloc 900");
        assert_eq!(ids(&extension), [RuleId::AllocatorHeavy]);
        assert_eq!(ids("app::main@m.rs:3;malloc 900"), [RuleId::AllocatorHeavy]);
    }

    #[test]
    fn dropping_the_last_arc_is_not_reference_counting() {
        let rules = |folded: &str| {
            let profile = testing::profile(folded);
            let (table, innermost) = (Table::new(), StackId::from(profile.stacks.len() - 1));
            let mut marks = Marks::new(&profile, &table).unwrap();
            let shown = states(&mut marks)[innermost.index()].shown().rules;
            each_bit(shown).map(|place| table.rules[place].0.id).collect::<Vec<_>>()
        };
        let dropped = "main;<alloc::sync::Arc<T,A> as core::ops::drop::Drop>::drop";
        assert!(rules(&format!("{dropped} 1")).contains(&RuleId::ArcTraffic));
        let slowly = format!("{dropped};alloc::sync::Arc<T,A>::drop_slow;sys_close 1");
        assert!(!rules(&slowly).contains(&RuleId::ArcTraffic));
    }

    proptest! {
        #[test]
        fn incremental_states_agree_with_a_full_walk(
            stacks in prop::collection::vec(prop::collection::vec(0..FRAMES.len(), 1..9), 1..6),
        ) {
            let line = |frames: &Vec<usize>| {
                format!("{} 1\n", frames.iter().map(|frame| FRAMES[*frame]).collect::<Vec<_>>().join(";"))
            };
            let profile = testing::profile(&stacks.iter().map(line).collect::<String>());
            let table = Table::new();
            let mut marks = Marks::new(&profile, &table).unwrap();
            let states = states(&mut marks);
            for stack in (0..profile.stacks.len()).map(StackId::from) {
                let frames = frames_of(&profile, stack).collect::<Vec<_>>();
                let walked = walk(&mut marks, &frames, |_, _| {});
                prop_assert_eq!(states[stack.index()].shown(), walked);
            }
        }
    }
}
