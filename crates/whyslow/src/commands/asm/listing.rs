//! Builds the listing of a function.

use std::collections::HashMap;
use std::path::Path;

use whyslow_asm::{Body, Language, Listing, Machine, Measure, SourceFrame, Weights, hints};
use whyslow_profile::{Host, LocationId, MetricId, ModuleId, Profile};

use super::source::{Binary, kept_body, source_file};
use crate::failure::{Failure, Result};

/// A profile and the selected samples.
pub(super) struct Sampled<'p> {
    pub(super) profile: &'p Profile,
    /// The value of each stack.
    pub(super) values: &'p [u64],
    /// The row of the metric.
    pub(super) metric: MetricId,
}

impl Sampled<'_> {
    fn measure(&self) -> Measure {
        let metric = &self.profile.metrics[self.metric.index()];
        Measure {
            metric: self.profile.text(metric.name).to_owned(),
            unit: metric.unit,
            trigger: metric.origin.sampler().trigger,
            whole: self.values.iter().fold(0, |sum, value| sum.saturating_add(*value)),
        }
    }

    fn weigh(&self, body: &Body, module: ModuleId) -> Weights {
        Weights::with_misses(body, module, self.profile, self.values.to_vec())
    }
}

/// The listing of a function whose code is in the profile.
pub(super) fn of_kept(sampled: &Sampled<'_>, name: &str, row: usize) -> Result<Listing> {
    let profile = sampled.profile;
    let code = &profile.code.rows[row];
    let arch = &profile.meta.host.arch;
    let processor = whyslow_asm::Processor::of(arch)
        .ok_or_else(|| Failure::new(format!("whyslow cannot disassemble code for {arch} yet")))?;
    let body = kept_body(profile, code, processor);
    let weights = sampled.weigh(&body, code.module);
    let module = &profile.modules[code.module.index()];
    let mut notes = Vec::new();
    let binary = Binary::of_module(profile, code.module);
    let frames = match &binary {
        Some(binary) => frames_of(binary, &body),
        None => {
            notes.push(format!(
                "{} is not on this machine as it was recorded: source lines are known only where samples are.",
                profile.text(module.path)
            ));
            sampled_frames(profile, code.module, &body)
        }
    };
    let machine = Machine::of(&profile.meta.host);
    let hints = hints(&body, &weights, &machine);
    notes.extend(other_machine(&profile.meta.host, &whyslow_capture::this_host()));
    let sources = source_texts(&frames, Some(profile));
    Ok(Listing {
        function: name.to_owned(),
        module: profile.text(module.path).to_owned(),
        body,
        weights,
        measure: Some(sampled.measure()),
        language: language_in(profile, code.module, name),
        machine,
        frames,
        sources,
        hints,
        notes,
    })
}

/// The listing of a function in a file; with samples, if the file is a module of a profile.
pub(super) fn of_binary(
    binary: &Binary,
    function: &whyslow_symbols::FunctionSymbol,
    sampled: Option<(&Sampled<'_>, ModuleId)>,
) -> Result<Listing> {
    let path = binary.path().display().to_string();
    let processor = binary.processor().ok_or_else(|| {
        Failure::new(format!("{path}: whyslow cannot disassemble code for this processor yet"))
    })?;
    let module = sampled.map_or(ModuleId(0), |(_, module)| module);
    let code = binary
        .code(module, function)
        .ok_or_else(|| Failure::new(format!("{path}: the code of {} is not in the file", function.name)))?;
    let body = binary.body(processor, &code);
    let weights = sampled.map_or_else(Weights::unknown, |(sampled, module)| sampled.weigh(&body, module));
    let machine = match sampled {
        Some((sampled, _)) => Machine::of(&sampled.profile.meta.host),
        None => Machine::of(&whyslow_capture::this_host()),
    };
    let hints = hints(&body, &weights, &machine);
    let mut notes = Vec::new();
    if !weights.are_known() && !hints.is_empty() {
        notes.push(
            "There are no samples: hints cover every loop, hot or not. Record the program to rank them."
                .to_owned(),
        );
    }
    if let Some((sampled, _)) = sampled {
        notes.extend(other_machine(&sampled.profile.meta.host, &whyslow_capture::this_host()));
    }
    let frames = frames_of(binary, &body);
    let sources = source_texts(&frames, sampled.map(|(sampled, _)| sampled.profile));
    Ok(Listing {
        function: function.name.clone(),
        module: path,
        body,
        weights,
        measure: sampled.map(|(sampled, _)| sampled.measure()),
        language: binary.language_of(&function.name),
        machine,
        frames,
        sources,
        hints,
        notes,
    })
}

/// The language of a function of a recorded module.
fn language_in(profile: &Profile, module: ModuleId, name: &str) -> Language {
    let names = profile.functions.iter().filter(|function| function.module == Some(module));
    let names = || names.clone().map(|row| (profile.text(row.raw_name), profile.text(row.name)));
    let own = names().find(|(_, other)| *other == name);
    own.and_then(|(symbol, name)| Language::of_name(symbol, name))
        .unwrap_or_else(|| Language::of_neighbours(names()))
}

/// A note if the code ran on another processor than this one: hints are for that.
fn other_machine(recorded: &Host, here: &Host) -> Option<String> {
    let is_other = recorded.features != here.features && !recorded.features.is_empty();
    is_other.then(|| {
        let name = if recorded.cpu.is_empty() { "another processor" } else { &recorded.cpu };
        format!("Recorded on another machine ({name}): vector sizes and hints are for that processor.")
    })
}

/// The frames of every instruction, from the file's debug info.
fn frames_of(binary: &Binary, body: &Body) -> Vec<Vec<SourceFrame>> {
    let places = binary.places(body.instructions.iter().map(|row| row.address));
    (1..places.locations.len()).map(|index| frames_at(&places, index.into())).collect()
}

/// The frames of the instructions that have samples.
fn sampled_frames(profile: &Profile, module: ModuleId, body: &Body) -> Vec<Vec<SourceFrame>> {
    let mut frames = vec![Vec::new(); body.instructions.len()];
    for location in (1..profile.locations.len()).map(LocationId::from) {
        if profile.locations.module[location.index()] == Some(module)
            && let Some(at) = body.instruction_at(profile.locations.address[location.index()].0)
        {
            frames[at] = frames_at(profile, location);
        }
    }
    frames
}

fn frames_at(profile: &Profile, location: LocationId) -> Vec<SourceFrame> {
    let frame = |frame: &whyslow_profile::Frame| SourceFrame {
        function: profile.text(profile.functions[frame.function.index()].name).to_owned(),
        file: frame.file.map(|file| profile.text(file).to_owned()),
        line: frame.line,
    };
    profile.frames.of(location).iter().map(frame).collect()
}

/// The text of all source lines that the frames name: from the profile, else from files on this machine.
fn source_texts(frames: &[Vec<SourceFrame>], profile: Option<&Profile>) -> HashMap<(String, u32), String> {
    let mut texts = HashMap::new();
    if let Some(profile) = profile {
        for row in &profile.sources.rows {
            texts.insert((profile.text(row.file).to_owned(), row.line), profile.text(row.text).to_owned());
        }
    }
    let mut files: HashMap<&str, Vec<String>> = HashMap::new();
    for frame in frames.iter().flatten() {
        let Some(file) = frame.file.as_deref().filter(|_| frame.line > 0) else { continue };
        let place = (file.to_owned(), frame.line);
        if texts.contains_key(&place) {
            continue;
        }
        let lines = files.entry(file).or_insert_with(|| read_lines(file));
        if let Some(text) = lines.get(frame.line as usize - 1) {
            texts.insert(place, text.clone());
        }
    }
    texts
}

fn read_lines(file: &str) -> Vec<String> {
    /// Larger files are generated.
    const LARGEST: u64 = 16 << 20;
    let is_small = |path: &Path| std::fs::metadata(path).is_ok_and(|meta| meta.len() <= LARGEST);
    let text = source_file(file).filter(|path| is_small(path)).and_then(|path| std::fs::read(path).ok());
    String::from_utf8_lossy(&text.unwrap_or_default()).lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_of_another_processor_says_so() {
        let host = |cpu: &str, features: &[&str]| Host {
            cpu: cpu.to_owned(),
            features: features.iter().map(|feature| (*feature).to_owned()).collect(),
            ..Host::default()
        };
        let here = host("Small", &["sse3"]);
        let note = other_machine(&host("Large", &["sse3", "avx2"]), &here).unwrap();
        assert!(note.starts_with("Recorded on another machine (Large): "), "{note}");
        assert_eq!(other_machine(&here, &here), None);
        assert_eq!(other_machine(&host("", &[]), &here), None, "an import knows no features");
    }
}
