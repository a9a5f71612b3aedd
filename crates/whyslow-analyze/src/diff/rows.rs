//! What is compared: functions by their time, or the lines that allocate.

use rustc_hash::FxHashMap;
use whyslow_profile::{Profile, StackId, StringId, Unit};

use super::Side;
use super::chance::Chance;
use super::matching::Item;
use super::statistics::Estimate;
use crate::functions::{FunctionTable, SortBy};
use crate::heap::Wrappers;
use crate::labels::{self, Label, Labels};
use crate::own::Charges;
use crate::selection::Weights;

/// A function or a line in one profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The function.
    pub label: Label,
    /// Of a line: its file. Of a function: where it is defined.
    pub file: Option<StringId>,
    /// The line; 0 when not known.
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

/// A row of one side.
#[derive(Debug)]
pub(super) struct Row<'p> {
    pub place: Place,
    pub item: Item<'p>,
    /// A function by itself, or everything of a line.
    pub own: Estimate,
    /// A function with what it calls.
    pub total: Option<Estimate>,
}

/// Functions with their own and total values.
pub(super) fn functions<'p>(
    side: Side<'p>,
    weights: &Weights,
    chance: &Chance,
    inline: bool,
) -> Vec<Row<'p>> {
    let profile = side.profile;
    let grain = chance.grain(StackId(0), Unit::Nanoseconds);
    let table = FunctionTable::from_weights(profile, weights, inline, SortBy::SelfValue);
    let row = |row: &crate::functions::FunctionRow| {
        let place = Place::of_function(profile, row.label);
        Row {
            place,
            item: item(profile, place, place.line, None),
            own: Estimate { value: row.self_value, grain },
            total: Some(Estimate { value: row.total_value, grain }),
        }
    };
    table.rows.iter().map(row).collect()
}

/// Lines of the user's code with what was allocated for them.
pub(super) fn sites<'p>(side: Side<'p>, weights: &Weights, chance: &Chance, unit: Unit) -> Vec<Row<'p>> {
    let profile = side.profile;
    let labels = Labels::new(profile);
    // What is evident in one profile need not be in the other; names are the same in both.
    let charges = Charges::of_heap(profile, true, &Wrappers::known(profile));
    let mut stacks_of: FxHashMap<(u32, Option<StringId>, u32), Vec<StackId>> = FxHashMap::default();
    for stack in (0..weights.value.len()).filter(|&stack| weights.value[stack] > 0) {
        let place = charges.of(StackId::from(stack)).frame;
        // Functions that a reader cannot tell apart have one label.
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
        let values = stacks.into_iter().map(|stack| (stack, weights.value[stack.index()]));
        Row {
            place,
            item: item(profile, place, from_start, text),
            own: chance.sum(values, unit),
            total: None,
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
    // An address says which function is meant only within one build.
    if let Label::Function(id) = place.label
        && labels::is_nameless(profile, id)
        && let Some(build_id) = module.and_then(|module| profile.modules.get(module.index())?.build_id)
    {
        name = format!("{name} of {}", profile.text(build_id)).into();
    }
    Item {
        name,
        file: place.file.map(|file| profile.text(file)),
        module: module.map(|module| labels::module_file_name(profile, module)),
        line,
        text: text.filter(|text| !text.is_empty()),
    }
}
