//! Lists of functions: those with the most samples, those that match a name, those that call another.

use std::collections::BTreeMap;

use serde::Serialize;
use whyslow_profile::{LocationId, Profile};
use whyslow_render::json;
use whyslow_render::sanitize::clean;
use whyslow_render::units::Percent;
use whyslow_symbols::{Fit, Wanted};

use super::Subject;
use super::source::{kept, kept_body};
use crate::cli::Format;
use crate::failure::{Failure, Result};

/// A function in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Row {
    name: String,
    /// Its number, to choose it by.
    index: Option<usize>,
    /// Samples in its own code.
    own: Option<u64>,
    share: Option<f64>,
    bytes: Option<u64>,
    /// Where it is inlined, with the recorded call sites, if it has no code of its own.
    inlined_into: Vec<String>,
}

impl Row {
    fn of_inlined((name, hosts): Inlined) -> Self {
        let places = hosts.into_iter().map(|(host, place)| match place {
            Some(place) => format!("{host} at {place}"),
            None => host,
        });
        Self { name, index: None, own: None, share: None, bytes: None, inlined_into: places.collect() }
    }
}

#[derive(Serialize)]
struct List {
    schema: &'static str,
    functions: Vec<Row>,
}

fn written(rows: Vec<Row>, format: Format) -> Result<String> {
    if format == Format::Json {
        return json::to_string(&List { schema: "whyslow-asm-list/1", functions: rows })
            .map_err(|error| Failure::new(error.to_string()));
    }
    let mut out = String::new();
    for row in rows {
        let index = row.index.map_or(String::new(), |index| index.to_string());
        let share = row.share.map_or(String::new(), |share| Percent(share).to_string());
        let bytes = row.bytes.map_or(String::new(), |bytes| format!("{bytes} B"));
        let mut line = format!("{index:>4} {share:>7} {bytes:>9}  {}", clean(&row.name));
        if !row.inlined_into.is_empty() {
            line = format!("{line}\n{:>24}inlined into {}", "", clean(&row.inlined_into.join(", ")));
        }
        out.push_str(&line);
        out.push('\n');
    }
    Ok(out)
}

/// The functions in the profile, those with the most samples first.
pub(super) fn hottest(subject: &Subject, format: Format) -> Result<String> {
    const MAX: usize = 40;
    let Subject::Profile { profile, values, .. } = subject else {
        return Err(Failure::new("no function given").next("a part of its name, or --list PART"));
    };
    let all = values.iter().fold(0, |sum: u64, value| sum.saturating_add(*value));
    let kept = kept(profile, values);
    if kept.is_empty() {
        return Err(Failure::new(
            "the profile has no code: no function was hot, or another tool recorded it",
        )
        .next("whyslow asm PROGRAM FUNCTION, to read the program's file"));
    }
    let rows = kept.iter().take(MAX).enumerate().map(|(at, row)| Row {
        name: row.name.clone(),
        index: Some(at + 1),
        own: Some(row.own),
        share: Some(row.own as f64 / all.max(1) as f64),
        bytes: Some(profile.code.rows[row.row].bytes.len() as u64),
        inlined_into: Vec::new(),
    });
    written(rows.collect(), format)
}

/// The functions that match a name: those with code, and inlined ones.
pub(super) fn list(subject: &Subject, part: &str, format: Format) -> Result<String> {
    let mut rows = Vec::new();
    match subject {
        Subject::Profile { profile, values, .. } => {
            let all = values.iter().fold(0, |sum: u64, value| sum.saturating_add(*value));
            let wanted = Wanted::new(part);
            for (at, row) in kept(profile, values).into_iter().enumerate() {
                if wanted.fit(&row.name).is_some() {
                    rows.push(Row {
                        index: Some(at + 1),
                        own: Some(row.own),
                        share: Some(row.own as f64 / all.max(1) as f64),
                        bytes: Some(profile.code.rows[row.row].bytes.len() as u64),
                        name: row.name,
                        inlined_into: Vec::new(),
                    });
                }
            }
            rows.extend(inlined_into(profile, part).into_iter().map(Row::of_inlined));
        }
        Subject::Binary(binary) => {
            rows.extend(binary.functions(part).into_iter().map(|function| Row {
                name: function.name,
                index: None,
                own: None,
                share: None,
                bytes: Some(function.size),
                inlined_into: Vec::new(),
            }));
            rows.extend(binary.inlined(part).into_iter().map(Row::of_inlined));
        }
    }
    if rows.is_empty() {
        return Err(Failure::new(format!("no function has {part:?} in its name"))
            .next("another part of the name, or --list '' for all"));
    }
    written(rows, format)
}

/// An inlined function, the functions that contain its code, and the lines that call it.
pub(super) type Inlined = (String, Vec<(String, Option<String>)>);

/// Matching functions that were recorded as inlined into others.
pub(super) fn inlined_into(profile: &Profile, part: &str) -> Vec<Inlined> {
    let wanted = Wanted::new(part);
    let mut found: BTreeMap<String, BTreeMap<String, Option<String>>> = BTreeMap::new();
    let matches: Vec<bool> =
        profile.functions.iter().map(|function| wanted.fit(profile.text(function.name)).is_some()).collect();
    for location in (1..profile.locations.len()).map(LocationId::from) {
        let frames = profile.frames.of(location);
        for (at, frame) in frames.iter().enumerate().skip(1) {
            if !matches[frame.function.index()] {
                continue;
            }
            let name = |frame: &whyslow_profile::Frame| {
                profile.text(profile.functions[frame.function.index()].name).to_owned()
            };
            // The line of the frame around it is the call site.
            let caller = &frames[at - 1];
            let place = caller.file.filter(|_| caller.line > 0).map(|file| {
                let file = profile.text(file);
                format!("{}:{}", file.rsplit('/').next().unwrap_or(file), caller.line)
            });
            found.entry(name(frame)).or_default().entry(name(&frames[0])).or_insert(place);
        }
    }
    found.into_iter().map(|(name, hosts)| (name, hosts.into_iter().collect())).collect()
}

/// The functions whose code calls another function.
pub(super) fn callers_of(subject: &Subject, wanted: &str, format: Format) -> Result<String> {
    let is_wanted = Wanted::new(wanted);
    let calls = |body: &whyslow_asm::Body| {
        let is_it = |name: &str| {
            let plain = name.strip_suffix("@plt").unwrap_or(name);
            is_wanted.fit(plain).is_some_and(Fit::is_name)
        };
        body.calls.iter().any(|call| call.name().is_some_and(is_it))
    };
    let row = |name: String, bytes: u64| Row {
        name,
        index: None,
        own: None,
        share: None,
        bytes: Some(bytes),
        inlined_into: Vec::new(),
    };
    let mut rows = Vec::new();
    match subject {
        Subject::Profile { profile, values, .. } => {
            let processor = whyslow_asm::Processor::of(&profile.meta.host.arch);
            let all = values.iter().fold(0, |sum: u64, value| sum.saturating_add(*value));
            for (at, kept) in kept(profile, values).into_iter().enumerate() {
                let code = &profile.code.rows[kept.row];
                let Some(processor) = processor else { break };
                if calls(&kept_body(profile, code, processor)) {
                    rows.push(Row {
                        index: Some(at + 1),
                        own: Some(kept.own),
                        share: Some(kept.own as f64 / all.max(1) as f64),
                        ..row(kept.name, code.bytes.len() as u64)
                    });
                }
            }
        }
        Subject::Binary(binary) => {
            let processor = binary
                .processor()
                .ok_or_else(|| Failure::new("whyslow cannot disassemble code for this processor yet"))?;
            let functions = binary.functions("");
            let codes: Vec<_> = functions
                .iter()
                .filter_map(|function| Some((function, binary.code(whyslow_profile::ModuleId(0), function)?)))
                .collect();
            for ((function, _), body) in codes.iter().zip(binary.bodies(processor, &codes)) {
                if calls(&body) {
                    rows.push(row(function.name.clone(), function.size));
                }
            }
        }
    }
    if rows.is_empty() {
        return Err(Failure::new(format!("no available code calls {wanted}"))
            .next("the last part of the function's path, or its full name; a profile has the code of hot functions only"));
    }
    written(rows, format)
}
