//! The rows of a comparison: functions by their time, or allocating lines.

use rustc_hash::FxHashMap;
use whyslow_profile::{CodeKind, Profile, StackId, StringId, Unit};

use super::matching::{Item, path_of};
use super::runs::Runs;
use super::statistics::Estimate;
use crate::functions::Cost;
use crate::heap::Wrappers;
use crate::labels::{self, Label, Labels};
use crate::own::Charges;

/// A function or a line in one profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The function.
    pub label: Label,
    /// For a line: its file. For a function: where it is defined.
    pub file: Option<StringId>,
    /// The line; 0 if unknown.
    pub line: u32,
}

impl Place {
    fn of_function(profile: &Profile, label: Label) -> Self {
        let function = match label {
            Label::Function(id) => profile.functions.get(id.index()),
            _ => None,
        };
        Self {
            label,
            file: function.and_then(|function| function.file),
            line: function.map_or(0, |function| function.line),
        }
    }
}

/// A row of one side, with an estimate per run.
#[derive(Debug)]
pub(super) struct Row<'p> {
    pub place: Place,
    pub item: Item<'p>,
    /// The self value of a function, or everything at a line.
    pub own: Vec<Estimate>,
    /// The total value of a function.
    pub total: Option<Vec<Estimate>>,
    /// The value of a function with the library code that works for it.
    pub charged: Option<Vec<Estimate>>,
}

/// Functions with their self and total values.
pub(super) fn functions<'p>(runs: &'p Runs<'_>, inline: bool) -> Vec<Row<'p>> {
    let profile = &*runs.profile;
    let labels = Labels::new(profile);
    let cost = |weights| Cost::of_groups(profile, weights, &labels, inline, labels.len(), |code| code);
    let costs = runs.weights.iter().map(cost).collect::<Vec<_>>();
    let grains = runs.chances.iter().map(|chance| chance.grain(StackId(0), Unit::Nanoseconds));
    let grains = grains.collect::<Vec<_>>();
    let charges = Charges::new(profile, inline);
    let charged = runs.weights.iter().map(|weights| {
        let mut charged = vec![0u64; labels.len()];
        for (stack, value) in weights.value.iter().enumerate().filter(|(_, value)| **value > 0) {
            let sum = &mut charged[labels.code(charges.of(StackId::from(stack)).frame.label) as usize];
            *sum = sum.saturating_add(*value);
        }
        charged
    });
    let charged = charged.collect::<Vec<_>>();
    let row = |code: u32| {
        let of_runs = |value: fn(&Cost) -> u64| {
            let runs = costs.iter().zip(&grains);
            runs.map(|(costs, &grain)| Estimate { value: value(&costs[code as usize]), grain }).collect()
        };
        let place = Place::of_function(profile, labels.label(code));
        Row {
            place,
            item: item(profile, place, place.line, None),
            own: of_runs(|cost| cost.self_value),
            total: Some(of_runs(|cost| cost.total_value)),
            charged: Some(
                charged
                    .iter()
                    .zip(&grains)
                    .map(|(values, &grain)| Estimate { value: values[code as usize], grain })
                    .collect(),
            ),
        }
    };
    let seen = |code: &u32| costs.iter().any(|costs| costs[*code as usize].total_samples > 0);
    (0..labels.len() as u32).filter(seen).map(row).collect()
}

/// Lines of your code with what was allocated for them.
pub(super) fn sites<'p>(runs: &'p Runs<'_>, unit: Unit) -> Vec<Row<'p>> {
    let profile = &*runs.profile;
    let labels = Labels::new(profile);
    // Wrappers that are evident in one profile may not be in the other; names are the same in both.
    let charges = Charges::of_heap(profile, true, &Wrappers::known(profile));
    let mut stacks_of: FxHashMap<(u32, Option<StringId>, u32), Vec<StackId>> = FxHashMap::default();
    let has_value = |stack: &usize| runs.weights.iter().any(|weights| weights.value[*stack] > 0);
    for stack in (0..profile.stacks.len()).filter(has_value) {
        let place = charges.of(StackId::from(stack)).frame;
        // Functions that look the same to a reader share one label.
        let key = (labels.code(place.label), place.file, place.line);
        stacks_of.entry(key).or_default().push(StackId::from(stack));
    }
    let row = |((code, file, line), stacks): (_, Vec<StackId>)| {
        let place = Place { label: labels.label(code), file, line };
        let definition = Place::of_function(profile, place.label);
        let from_start = match line.checked_sub(definition.line) {
            Some(distance) if definition.file == file && definition.line > 0 => distance,
            _ => line,
        };
        let text =
            file.and_then(|file| profile.sources.get(file, line)).map(|text| profile.text(text).trim());
        let own = runs.weights.iter().zip(&runs.chances).map(|(weights, chance)| {
            let values = stacks.iter().map(|&stack| (stack, weights.value[stack.index()]));
            chance.sum(values, unit)
        });
        Row {
            place,
            item: item(profile, place, from_start, text),
            own: own.collect(),
            total: None,
            charged: None,
        }
    };
    stacks_of.into_iter().map(row).collect()
}

fn item<'p>(profile: &'p Profile, place: Place, line: u32, text: Option<&'p str>) -> Item<'p> {
    let module = match place.label {
        Label::Function(id) => profile.functions.get(id.index()).and_then(|function| function.module),
        _ => None,
    };
    let mut name = labels::name(profile, place.label);
    // An address identifies a function only within one build.
    if let Label::Function(id) = place.label
        && labels::is_nameless(profile, id)
        && let Some(build_id) = module.and_then(|module| profile.modules.get(module.index())?.build_id)
    {
        name = format!("{name} of {}", profile.text(build_id)).into();
    }
    let own_crate = match place.label {
        Label::Function(id) => {
            profile.functions.get(id.index()).filter(|function| function.kind == CodeKind::Yours)
        }
        _ => None,
    };
    let own_crate = own_crate.and_then(|function| function.crate_name).map(|id| profile.text(id));
    Item {
        path: own_crate.and_then(|crate_name| path_of(&name, crate_name)),
        name,
        file: place.file.map(|file| profile.text(file)),
        module: module.map(|module| labels::module_file_name(profile, module)),
        line,
        text: text.filter(|text| !text.is_empty()),
    }
}
