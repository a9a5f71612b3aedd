//! Searching, sorting and recursion.

use std::cmp::Reverse;
use std::sync::LazyLock;

use regex::Regex;
use rustc_hash::FxHashMap;
use whyslow_analyze::{Label, Nearness, frames_of};
use whyslow_asm::{Body, Call, Memory, Names, Processor, Target, never_returns};
use whyslow_profile::{Code, Profile, StackId, StringId};

use crate::facts::Facts;
use crate::finding::{Confidence, Cost, Evidence, Finding, Measured, Place};
use crate::order::{FEWEST_OF_ONE, FEWEST_SAMPLES};
use crate::rule::{Beneath, Frames, Rule, Signal};
use crate::rules::RuleId;

pub(super) static LINEAR_SEARCH: Rule = Rule {
    id: RuleId::LinearSearch,
    title: "repeated linear searches through a list",
    rust: "if the list grows with the input (`whyslow scale` shows it), keep the items in a HashMap or HashSet by the key you search for, or sort them and use \
           binary_search_by_key; if it is short, first check what rules most items out (a length, a first byte), or search for all strings at once (aho-corasick, memchr)",
    native: Some(
        "if the list grows with the input (`whyslow scale` shows it), keep the items in a hash table (std::unordered_map) by the key you search for, or sort them and search by halves \
         (bsearch, std::lower_bound); if it is short, first check what rules most items out (a length, a first byte)",
    ),
    signal: Signal::Frames(
        Frames::new(&[
            r"^<core::slice::iter::\w+<.*> as core::iter::traits::iterator::Iterator>::(?:find|position|any|all|rposition|find_map)(?:::<.*>)?$",
            r"core::slice::(?:cmp::)?<impl \[T\]>::contains$|<\[.*\]>::contains$|SliceContains>::slice_contains$",
            r"^std::(?:__)?find(?:_if)?\b",
        ])
        .with(Beneath::Closures)
        // Searches of the standard library itself.
        .unless(&[r"core::iter::adapters::|std::sync::|std::thread::|core::str::|std::sys::"])
        .on_line(|profile, place| !is_of_constants(profile, place))
        .least(0.15)
        .at_most(Confidence::Medium),
    ),
};

pub(super) static SORT_BY_COSTLY_KEY: Rule = Rule {
    id: RuleId::SortByCostlyKey,
    title: "sorting recomputes an expensive key for every comparison",
    rust: "compute each key once with sort_by_cached_key, or compare existing fields: sort_by(|a, b| a.name.cmp(&b.name))",
    native: Some("compute each key once before sorting, and compare the stored keys"),
    signal: Signal::Frames(
        Frames::new(&[
            r"::sort(?:_unstable)?_by_key\b.*\{\{?closure",
            r"^(?:__|__GI_+)?qsort(?:_r)?$|^msort_with_tmp|^(?:void )?std::__(?:introsort_loop|(?:unguarded_)?(?:linear_)?insert(?:ion_sort)?|adjust_heap|merge_sort_\w+)<",
        ])
        .with(Beneath::All)
        .needs(&[
            r"^alloc::alloc::|^__rust_alloc|malloc|alloc::fmt::format|to_(?:string|lowercase|uppercase|owned|vec)|Clone>::clone",
            r"^(?:__|___)?(?:s|sn|vs|vsn)printf(?:_chk|_internal)?$|^(?:__)?str(?:n?dup|ftime|ptime)|^operator new|^std::(?:__cxx11::)?to_string|^(?:local|gm|mk)time",
        ]),
    ),
};

pub(super) static RECURSION: Rule = Rule {
    id: RuleId::Recursion,
    title: "recursion without a cache: a function of a few numbers calls itself for the same numbers again",
    rust: "keep the results that are needed again in a HashMap or a table, or compute them from the smallest one up in a loop",
    native: Some(
        "keep the results that are needed again in a table, or compute them from the smallest one up in a loop",
    ),
    signal: Signal::Facts(recursion),
};

pub(super) static SEARCH_LOOP: Rule = Rule {
    id: RuleId::SearchLoop,
    title: "linear search in a loop: quadratic when it runs once per item",
    rust: "build a HashMap by the key you search for, once, before the loop, or sort the items and use binary_search_by_key; \
           `whyslow scale` shows how it grows",
    native: Some(
        "build a hash table (std::unordered_map) by the key you search for, once, before the loop, or sort the items and search by halves (bsearch, std::lower_bound); \
         `whyslow scale` shows how it grows",
    ),
    signal: Signal::Facts(search_loop),
};

/// Whether the searched list is a constant: it has few items, which a map does not find faster.
fn is_of_constants(profile: &Profile, place: &Place) -> bool {
    /// A chain of calls starts at most this many lines before its last one.
    const BEFORE: u32 = 4;
    static CONSTANT: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r#"(?:^|[^\w.])(?:\w+::)*(?:[A-Z][A-Z0-9_]+|b?"[^"]*"|\[[^\]]*\])\s*\.(?:(?:iter|into_iter|as_slice)\(\)\s*\.)?(?:contains|find|position|any|all|find_map)\("#).ok()
    });
    let Some(file) = place.file else { return false };
    let text = |line: u32| profile.sources.get(file, line).map(|text| profile.text(text).trim());
    let mut chain = String::new();
    for line in (place.line.saturating_sub(BEFORE)..=place.line).rev() {
        let Some(text) = text(line) else { break };
        chain.insert_str(0, text);
        if !text.starts_with('.') {
            break;
        }
    }
    CONSTANT.as_ref().is_some_and(|constant| constant.is_match(&chain))
}

/// Whether a line compares two values. A search for a constant, such as the end of a line, has no key.
fn compares_values(text: &str) -> bool {
    let constant = |rest: &str| {
        let rest = rest.trim_start().trim_start_matches(['&', 'b', '-']);
        rest.starts_with(['\'', '"', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
            || ["NULL", "None", "nullptr", "true", "false"].iter().any(|word| rest.starts_with(word))
    };
    // strcmp(one, other) == 0
    text.contains("cmp(") || text.split("==").skip(1).any(|rest| !constant(rest))
}

/// The loop around `line` if it looks like a search: its first line, and the last line that was examined.
fn searching_loop(profile: &Profile, file: StringId, line: u32) -> Option<[u32; 2]> {
    /// The body of a search is short.
    const BODY: u32 = 6;
    let text = |line: u32| profile.sources.get(file, line).map(|text| profile.text(text).trim());
    let is_head =
        |text: &str| text.starts_with("for ") || text.starts_with("for(") || text.starts_with("while ");
    let head = (line.saturating_sub(BODY)..=line).rev().find(|line| text(*line).is_some_and(is_head))?;
    let body = || (head..=head + BODY).filter_map(text);
    let compares =
        body().any(|text| text.contains("if ") || text.contains("if(")) && body().any(compares_values);
    let leaves = body().any(|text| text.contains("return") || text.contains("break"));
    // A loop that sums or collects is not a search.
    let works =
        body().skip(1).any(|text| text.contains("+=") || text.contains(" = ") || text.contains(".push"));
    let is_nested = (head + 1..=head + BODY).filter_map(text).any(is_head);
    (compares && leaves && !is_nested && !works).then_some([head, head + BODY])
}

/// A loop: its function, file and first line.
type Loop = (Label, StringId, u32);

/// The value of a loop, its number of samples, and their stacks.
type Searched = (u64, u64, Vec<StackId>);

/// Hot loops in the user's code that stop when they find something.
fn search_loop(rule: &'static Rule, facts: &Facts<'_>) -> Vec<Finding> {
    const LEAST_SHARE: f64 = 0.10;
    let profile = facts.question.profile;
    let Some(weights) = facts.cpu().filter(|weights| weights.total_count >= FEWEST_SAMPLES) else {
        return Vec::new();
    };
    let mut loops: FxHashMap<(StringId, u32), Option<[u32; 2]>> = FxHashMap::default();
    let mut found: FxHashMap<Loop, Searched> = FxHashMap::default();
    for stack in (0..weights.count.len()).filter(|stack| weights.count[*stack] > 0) {
        let charge = facts.charges().of(stack.into());
        let Some(file) = charge.frame.file.filter(|_| charge.nearness <= Nearness::Dependency) else {
            continue;
        };
        let line = charge.frame.line;
        let Some([head, _]) =
            *loops.entry((file, line)).or_insert_with(|| searching_loop(profile, file, line))
        else {
            continue;
        };
        let row = found.entry((charge.frame.label, file, head)).or_default();
        row.0 = row.0.saturating_add(weights.value[stack]);
        row.1 += weights.count[stack];
        row.2.push(stack.into());
    }
    let of_all = |value: u64| value as f64 / weights.total_value.max(1) as f64;
    let reported = found
        .into_iter()
        .filter(|(_, (value, samples, _))| of_all(*value) >= LEAST_SHARE && *samples >= FEWEST_OF_ONE);
    let finding = |((label, file, line), (value, _, stacks)): (Loop, Searched)| {
        let place = Place { label, file: Some(file), line };
        let measured = Measured::sampled(value, weights.total_value, weights.total_count);
        Finding {
            confidence: Confidence::Medium,
            stacks,
            ..Finding::new(rule, facts.question, Cost::Cpu, measured, vec![(place, measured.share)])
        }
    };
    reported.map(finding).collect()
}

/// Whether code depends on nothing but its arguments and calls itself more than once: its results depend on a
/// few numbers, and the number of calls grows exponentially with them.
fn is_of_numbers(body: &Body) -> bool {
    let is_stack = |memory: &Memory| {
        let is_stack = |register: &u8| body.is_stack_register(*register);
        // Constants are in memory, too; what is written there is the program's state.
        let is_constant = memory.base.is_none() && memory.index.is_none() && !memory.is_written;
        memory.base.as_ref().is_some_and(is_stack) || is_constant
    };
    let only_stack = body.instructions.iter().filter_map(|row| row.memory.as_ref()).all(is_stack);
    let is_itself = |call: &&Call| call.target == Some(Target::Code(body.start));
    let is_in_loop = |call: &Call| body.loop_of(call.instruction).is_some();
    let (own, others): (Vec<&Call>, Vec<&Call>) = body.calls.iter().partition(is_itself);
    let only_itself = others.iter().all(|call| call.name().is_some_and(never_returns));
    // Compilers turn the last of several calls into a loop.
    only_stack && only_itself && (own.len() > 1 || own.iter().any(|call| is_in_loop(call)))
}

/// Whether a call passes on smaller numbers, and the called code depends on nothing else.
fn computes_again(profile: &Profile, call: &Place, inside: StackId) -> bool {
    let text = call.file.and_then(|file| profile.sources.get(file, call.line));
    let is_smaller = text.is_some_and(|text| profile.text(text).contains(['-', '/']));
    let row = profile.stacks.location(inside).index();
    let (Some(module), address) = (profile.locations.module[row], profile.locations.address[row].0) else {
        return false;
    };
    let is_here = |code: &&Code| {
        code.module == module && (code.start.0..code.start.0 + code.bytes.len() as u64).contains(&address)
    };
    let processor = Processor::of(&profile.meta.host.arch);
    let (Some(processor), Some(code)) = (processor, profile.code.rows.iter().find(is_here)) else {
        return false;
    };
    let names = Names::of(profile);
    is_smaller && is_of_numbers(&Body::new(processor, code, |branch| names.target(code.module, branch)))
}

/// Hot functions in the user's code that appear many times on their own stacks.
fn recursion(rule: &'static Rule, facts: &Facts<'_>) -> Vec<Finding> {
    const LEAST_SHARE: f64 = 0.30;
    const LEAST_DEPTH: u64 = 6;
    let profile = facts.question.profile;
    let Some(weights) = facts.cpu().filter(|weights| weights.total_count >= FEWEST_SAMPLES) else {
        return Vec::new();
    };
    #[derive(Default)]
    struct Deep {
        value: u64,
        samples: u64,
        depth: u64,
        line: FxHashMap<Place, u64>,
        stacks: Vec<StackId>,
    }
    // Few functions have this much self time, which keeps the rest cheap.
    let innermost = |stack: usize| frames_of(profile, StackId::from(stack)).next().map(|frame| frame.label);
    let mut by_itself: FxHashMap<Label, u64> = FxHashMap::default();
    for stack in (0..weights.count.len()).filter(|stack| weights.count[*stack] > 0) {
        if let Some(label) = innermost(stack) {
            let value = by_itself.entry(label).or_default();
            *value = value.saturating_add(weights.value[stack]);
        }
    }
    by_itself.retain(|_, value| *value as f64 >= LEAST_SHARE * weights.total_value as f64);
    let mut deep: FxHashMap<Label, Deep> = FxHashMap::default();
    if by_itself.is_empty() {
        return Vec::new();
    }
    for stack in (0..weights.count.len()).filter(|stack| weights.count[*stack] > 0) {
        let id = StackId::from(stack);
        let Some(innermost) = frames_of(profile, id).next() else { continue };
        if !by_itself.contains_key(&innermost.label)
            || Nearness::of(profile, innermost.label) > Nearness::Dependency
        {
            continue;
        }
        let mut calls = frames_of(profile, id).skip(1).filter(|frame| frame.label == innermost.label);
        let Some(caller) = calls.next() else { continue };
        let depth = 2 + calls.count() as u64;
        let row = deep.entry(innermost.label).or_default();
        row.value += weights.value[stack];
        row.samples += weights.count[stack];
        row.depth += depth * weights.count[stack];
        *row.line.entry(caller.into()).or_default() += weights.value[stack];
        row.stacks.push(id);
    }
    let of_all = |value: u64| value as f64 / weights.total_value.max(1) as f64;
    let again = |row: &Deep| {
        let line = row.line.iter().max_by_key(|(place, value)| (**value, Reverse(place.line)));
        line.zip(row.stacks.first()).is_some_and(|((call, _), inside)| computes_again(profile, call, *inside))
    };
    let reported = deep.into_iter().filter(|(_, row)| {
        let is_deep = of_all(row.value) >= LEAST_SHARE && row.depth / row.samples.max(1) >= LEAST_DEPTH;
        is_deep && again(row)
    });
    let finding = |(label, row): (Label, Deep)| {
        let mut places = row.line.into_iter().collect::<Vec<_>>();
        places.sort_by_key(|(place, value)| (Reverse(*value), place.line));
        let places = places.iter().map(|(place, value)| (*place, of_all(*value))).collect();
        let measured = Measured::sampled(row.value, weights.total_value, weights.total_count);
        let often = format!("on the stack {} times on average:", row.depth / row.samples.max(1));
        Finding {
            confidence: Confidence::Medium,
            evidence: vec![Evidence::at(often, Place { label, file: None, line: 0 }, measured.share)],
            stacks: row.stacks,
            ..Finding::new(rule, facts.question, Cost::Cpu, measured, places)
        }
    };
    reported.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use whyslow_profile::{ModuleId, RelativeAddress};

    use super::*;

    fn is_of_numbers_in(bytes: &[u8]) -> bool {
        let code = Code { module: ModuleId(0), start: RelativeAddress(0x1000), bytes: bytes.to_vec() };
        is_of_numbers(&Body::new(Processor::X86_64, &code, |_| None))
    }

    #[test]
    fn a_search_for_a_constant_has_no_key() {
        for key in ["if row.id == id {", "if (strcmp(name, text) == 0)", "if names[at] == *name"] {
            assert!(compares_values(key), "{key}");
        }
        for constant in [
            "if *byte == b'\\n' {",
            "if (line[at] == '#')",
            "if (next == NULL)",
            "if at == 0 {",
            "if at != end",
        ] {
            assert!(!compares_values(constant), "{constant}");
        }
    }

    #[test]
    fn recursion_over_numbers_is_no_walk_through_a_tree() {
        // fib(n) = n < 2 ? n : fib(n - 1) + fib(n - 2)
        let fibonacci = [
            0x55, 0x53, 0x48, 0x83, 0xec, 0x08, 0x48, 0x89, 0xfb, 0x48, 0x83, 0xff, 0x01, 0x77, 0x0a, 0x48,
            0x89, 0xd8, 0x48, 0x83, 0xc4, 0x08, 0x5b, 0x5d, 0xc3, 0x48, 0x8d, 0x7f, 0xff, 0xe8, 0xde, 0xff,
            0xff, 0xff, 0x48, 0x89, 0xc5, 0x48, 0x8d, 0x7b, 0xfe, 0xe8, 0xd2, 0xff, 0xff, 0xff, 0x48, 0x8d,
            0x5c, 0x05, 0x00, 0xeb, 0xda,
        ];
        // sum(node) = node ? node->value + sum(node->left) + sum(node->right) : 0
        let tree = [
            0xb8, 0, 0, 0, 0, 0x48, 0x85, 0xff, 0x74, 0x2b, 0x55, 0x53, 0x48, 0x83, 0xec, 0x08, 0x48, 0x89,
            0xfb, 0x48, 0x8b, 0x6f, 0x10, 0x48, 0x8b, 0x3f, 0xe8, 0xe1, 0xff, 0xff, 0xff, 0x48, 0x01, 0xc5,
            0x48, 0x8b, 0x7b, 0x08, 0xe8, 0xd5, 0xff, 0xff, 0xff, 0x48, 0x01, 0xe8, 0x48, 0x83, 0xc4, 0x08,
            0x5b, 0x5d, 0xc3, 0xc3,
        ];
        // The same, and first it counts its calls in a variable of the program: the calls are 6 bytes farther.
        let mut counting = [&[0xff, 0x05, 0, 0x10, 0, 0], &fibonacci[..]].concat();
        (counting[36], counting[48]) = (0xd8, 0xcc);
        assert!(is_of_numbers_in(&fibonacci));
        assert!(!is_of_numbers_in(&counting));
        assert!(!is_of_numbers_in(&tree));
    }
}
