//! Chooses the function to show: by its number in the list, its address, or a part of its name.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::Path;

use whyslow_analyze::{Candidate, FunctionTable, candidates, meant};
use whyslow_profile::{ModuleId, ModuleKind, Profile, RelativeAddress};
use whyslow_symbols::{Fit, FunctionSymbol, Wanted};
use whyslow_words::{Percent, number_of};

use super::lookup::Inlined;
use super::source::{Binary, Kept, inlined_rows, kept};
use super::{Subject, lookup};
use crate::failure::{Failure, Result};
use crate::output::{note, note_others};
use crate::shell;

/// What the user asked about, for messages.
pub(super) struct Asked {
    /// The file as the user named it.
    pub(super) file: String,
    /// The command for this file; the name of a function follows it.
    pub(super) command: String,
}

impl Asked {
    /// A file that `whyslow asm` was given.
    pub(super) fn file(path: &Path) -> Self {
        Self { file: path.display().to_string(), command: format!("whyslow asm {}", shell::file(path)) }
    }

    /// A target that `cargo whyslow asm` built.
    pub(super) fn built(name: &str) -> Self {
        Self { file: name.to_owned(), command: "cargo whyslow asm".to_owned() }
    }
}

/// The chosen function.
pub(super) enum Chosen {
    /// Its code is in the profile.
    Kept { name: String, row: usize },
    /// It is inlined into others; the code of the host in which it has most samples is in the profile.
    Inlined { name: String, host: String, row: usize, note: String },
    /// Its code is in the file of a module, not in the profile.
    InFile { binary: Box<Binary>, module: ModuleId, function: FunctionSymbol },
    /// Its code is in the given file.
    InSubject(FunctionSymbol),
    /// None: the list is the answer.
    Nothing,
}

/// Finds the function.
pub(super) fn choose(
    asked: &Asked,
    subject: &Subject,
    function: Option<&str>,
    index: Option<usize>,
) -> Result<Chosen> {
    let answered;
    let wanted = match function {
        Some(function) => function,
        None => match ask(subject)? {
            Some(answer) => {
                answered = answer;
                &answered
            }
            None => return Ok(Chosen::Nothing),
        },
    };
    match subject {
        Subject::Profile { profile, functions, values, .. } => {
            in_profile(asked, profile, (functions, values), wanted, index)
        }
        Subject::Binary(binary) => in_binary(asked, binary, wanted, index).map(Chosen::InSubject),
    }
}

/// Asks the user, if both stdin and stdout are a terminal.
fn ask(subject: &Subject) -> Result<Option<String>> {
    let is_person = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if !is_person || matches!(subject, Subject::Binary(_)) {
        return Ok(None);
    }
    note(&lookup::hottest(subject, crate::cli::Format::Text)?);
    note("\nnumber, or a part of the name: ");
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    let answer = answer.trim();
    Ok((read.is_ok() && !answer.is_empty()).then(|| answer.to_owned()))
}

fn in_profile(
    asked: &Asked,
    profile: &Profile,
    (functions, values): (&FunctionTable, &[u64]),
    wanted: &str,
    index: Option<usize>,
) -> Result<Chosen> {
    let kept = kept(profile, values);
    if let Ok(number) = wanted.parse::<usize>() {
        let row = number.checked_sub(1).and_then(|at| kept.get(at));
        return row.map(|row| Chosen::Kept { name: row.name.clone(), row: row.row }).ok_or_else(|| {
            Failure::new(format!(
                "{}: the list has {}",
                asked.file,
                number_of(kept.len() as u64, "function", "functions")
            ))
            .next(asked.command.clone())
        });
    }
    if let Some(address) = address(wanted) {
        let around = |row: &&Kept| {
            let code = &profile.code.rows[row.row];
            address.checked_sub(code.start.0).is_some_and(|into| into < code.bytes.len() as u64)
        };
        if let Some(row) = kept.iter().find(around) {
            return Ok(Chosen::Kept { name: row.name.clone(), row: row.row });
        }
    }
    let found = candidates(profile, functions, wanted);
    let chosen = match index {
        Some(index) => index.checked_sub(1).and_then(|at| found.get(at)),
        None => meant(&found),
    };
    let Some(chosen) = chosen else {
        return match found.as_slice() {
            [] => in_modules(asked, profile, wanted, index),
            _ => Err(several(asked, wanted, &names(&found))),
        };
    };
    // `sum` is rather an inlined `sum` than `_Unwind_Resume`.
    if index.is_none()
        && is_only_text(&chosen.name, wanted)
        && let Some(better) = named(asked, profile, wanted)
    {
        return better;
    }
    if found.len() > 1 && index.is_none() {
        note_others(wanted, &chosen.name, &names(&found[1..]));
    }
    if let Some(row) = kept.iter().find(|row| row.name == chosen.name) {
        return Ok(Chosen::Kept { name: row.name.clone(), row: row.row });
    }
    match inlined(profile, values, &kept, &chosen.name) {
        Some(inlined) => Ok(inlined),
        None => in_modules(asked, profile, &chosen.name, None),
    }
}

fn names(candidates: &[Candidate]) -> Vec<String> {
    candidates.iter().map(|candidate| candidate.name.clone()).collect()
}

/// A function without code of its own: the host in which it has most samples.
fn inlined(profile: &Profile, values: &[u64], kept: &[Kept], name: &str) -> Option<Chosen> {
    let hosts = inlined_rows(profile, values, kept, name);
    let (host, own) = *hosts.first()?;
    let all = values.iter().fold(0, |sum: u64, value| sum.saturating_add(*value)).max(1);
    let share = |value: u64| Percent(value as f64 / all as f64);
    let mut note = format!(
        "{name} has no code of its own: it is inlined. These are its instructions in {}, with {} of all samples.",
        host.name,
        share(own)
    );
    if let [_, others @ ..] = hosts.as_slice()
        && !others.is_empty()
    {
        const MAX: usize = 3;
        let mut shown: Vec<String> =
            others.iter().take(MAX).map(|(host, own)| format!("{} ({})", host.name, share(*own))).collect();
        if others.len() > MAX {
            shown.push(format!("{} more", others.len() - MAX));
        }
        note.push_str(&format!(" It is also inlined into {}.", shown.join(", ")));
    }
    Some(Chosen::Inlined { name: name.to_owned(), host: host.name.clone(), row: host.row, note })
}

/// Whether the text is only somewhere in the name, not a part of its path.
fn is_only_text(name: &str, wanted: &str) -> bool {
    Wanted::new(wanted).fit(name) == Some(Fit::Text)
}

/// The function of a recorded file that has this name or a part of its path, or the error that it is inlined.
fn named(asked: &Asked, profile: &Profile, wanted: &str) -> Option<Result<Chosen>> {
    in_files(asked, profile, wanted, None, |name| !is_only_text(name, wanted)).or_else(|| {
        let inlined = lookup::inlined_into(profile, wanted);
        inlined_away(asked, wanted, by_name(inlined, wanted)).map(Err)
    })
}

/// The inlined functions that the text names.
fn by_name(inlined: Vec<Inlined>, wanted: &str) -> Vec<Inlined> {
    let wanted = Wanted::new(wanted);
    inlined.into_iter().filter(|(name, _)| wanted.fit(name).is_some_and(Fit::is_name)).collect()
}

/// Functions of the recorded files that were not hot, so that the profile does not keep their code.
fn in_modules(asked: &Asked, profile: &Profile, wanted: &str, index: Option<usize>) -> Result<Chosen> {
    if let Some(found) = named(asked, profile, wanted).filter(|_| index.is_none()) {
        return found;
    }
    if let Some(found) = in_files(asked, profile, wanted, index, |_| true) {
        return found;
    }
    if let Some(failure) = inlined_away(asked, wanted, lookup::inlined_into(profile, wanted)) {
        return Err(failure);
    }
    let names = profile.functions.iter().map(|function| profile.text(function.name).to_owned());
    Err(absent(asked, wanted, &whyslow_words::nearest(wanted, names)))
}

/// The function of the first recorded file that has one.
fn in_files(
    asked: &Asked,
    profile: &Profile,
    wanted: &str,
    index: Option<usize>,
    is_good: impl Fn(&str) -> bool,
) -> Option<Result<Chosen>> {
    for (row, module) in profile.modules.iter().enumerate() {
        if module.kind != ModuleKind::Program && module.kind != ModuleKind::Library {
            continue;
        }
        let Some(binary) = Binary::of_module(profile, ModuleId::from(row)) else { continue };
        let mut found = binary.functions(wanted);
        found.retain(|function| is_good(&function.name));
        if found.is_empty() {
            continue;
        }
        let names: Vec<&str> = found.iter().map(|function| function.name.as_str()).collect();
        return Some(match pick(&names, wanted, index) {
            Picked::One(at) => Ok(Chosen::InFile {
                binary: Box::new(binary),
                module: ModuleId::from(row),
                function: found[at].clone(),
            }),
            Picked::Several(found) => Err(several(asked, wanted, &found)),
            Picked::None => continue,
        });
    }
    None
}

fn in_binary(asked: &Asked, binary: &Binary, wanted: &str, index: Option<usize>) -> Result<FunctionSymbol> {
    if let Some(address) = address(wanted) {
        return binary.function_at(RelativeAddress(address)).ok_or_else(|| {
            Failure::new(format!("{}: no function at {wanted}", asked.file))
                .next("an address relative to the start of the file's image")
        });
    }
    let found = binary.functions(wanted);
    let names: Vec<&str> = found.iter().map(|function| function.name.as_str()).collect();
    if index.is_none()
        && names.iter().all(|name| is_only_text(name, wanted))
        && let Some(failure) = inlined_away(asked, wanted, by_name(binary.inlined(wanted), wanted))
    {
        return Err(failure);
    }
    match pick(&names, wanted, index) {
        Picked::One(at) => Ok(found[at].clone()),
        Picked::Several(found) => Err(several(asked, wanted, &found)),
        Picked::None => Err(inlined_away(asked, wanted, binary.inlined(wanted))
            .unwrap_or_else(|| absent(asked, wanted, &binary.nearest(wanted)))),
    }
}

/// The error for a function that is inlined everywhere: names the best match and where its code is.
fn inlined_away(asked: &Asked, wanted: &str, mut found: Vec<Inlined>) -> Option<Failure> {
    const MAX: usize = 3;
    let wanted = Wanted::new(wanted);
    found.sort_by_cached_key(|(name, _)| (wanted.fit(name).is_none(), wanted.fit(name), name.clone()));
    let (name, hosts) = found.first()?;
    let (host, _) = hosts.first()?;
    let mut shown: Vec<String> = hosts
        .iter()
        .take(MAX)
        .map(|(host, place)| place.as_ref().map_or(host.clone(), |place| format!("{host} at {place}")))
        .collect();
    if hosts.len() > MAX {
        shown.push(format!("{} more", hosts.len() - MAX));
    }
    let what = format!("{name} has no code of its own here: it is inlined into {}", shown.join(", "));
    Some(Failure::new(what).next(format!("{} {}", asked.command, shell::quoted(host))))
}

/// The error for an unknown name, with similar names if there are any.
fn absent(asked: &Asked, wanted: &str, nearest: &[String]) -> Failure {
    let failure =
        |more: &str| Failure::new(format!("{}: no function has {wanted:?} in its name{more}", asked.file));
    match nearest {
        [] => failure("").next("another part of the name"),
        [first, ..] => failure(&format!("; the nearest are {}", nearest.join(", "))).next(format!(
            "{} {}",
            asked.command,
            shell::quoted(first)
        )),
    }
}

fn address(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

fn several(asked: &Asked, wanted: &str, found: &[String]) -> Failure {
    const MAX: usize = 12;
    let mut lines: Vec<String> =
        found.iter().take(MAX).enumerate().map(|(at, name)| format!("\n  {} {name}", at + 1)).collect();
    if found.len() > MAX {
        lines.push(format!("\n  and {} more", found.len() - MAX));
    }
    Failure::new(format!(
        "{}: several functions have {wanted:?} in their name:{}\n",
        asked.file,
        lines.concat()
    ))
    .next(format!("{} {} 1", asked.command, shell::quoted(wanted)))
}

#[derive(Debug, PartialEq, Eq)]
enum Picked {
    One(usize),
    Several(Vec<String>),
    None,
}

/// The names that match best. Equal names are instances of one function; the first of them is taken.
fn pick(names: &[&str], wanted: &str, index: Option<usize>) -> Picked {
    let wanted = Wanted::new(wanted);
    let fits: Vec<Option<Fit>> = names.iter().map(|name| wanted.fit(name)).collect();
    let Some(best) = fits.iter().flatten().min() else { return Picked::None };
    let found: Vec<usize> = (0..names.len()).filter(|&at| fits[at].as_ref() == Some(best)).collect();
    let Some(&first) = found.first() else { return Picked::None };
    if let Some(index) = index {
        return index.checked_sub(1).and_then(|at| found.get(at)).map_or(Picked::None, |&at| Picked::One(at));
    }
    if found.iter().all(|&at| names[at] == names[first]) {
        return Picked::One(first);
    }
    Picked::Several(found.iter().map(|&at| names[at].to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks_the_closest_name() {
        let names = ["app::parse", "app::parse_line", "app::Reader::read", "other::parse", "app::run"];
        assert_eq!(pick(&names, "app::parse", None), Picked::One(0));
        assert_eq!(pick(&names, "parse_line", None), Picked::One(1));
        assert_eq!(pick(&names, "reader", None), Picked::One(2));
        assert_eq!(pick(&names, "rdrread", None), Picked::None, "scattered letters");
        assert_eq!(
            pick(&names, "parse", None),
            Picked::Several(vec!["app::parse".into(), "other::parse".into()])
        );
        assert_eq!(pick(&names, "parse", Some(2)), Picked::One(3));
        assert_eq!(pick(&names, "parse", Some(3)), Picked::None);
        assert_eq!(pick(&["a::f", "a::f"], "f", None), Picked::One(0), "instances of one function");
        assert_eq!(pick(&["<a::R>::read", "b::read"], "R::read", None), Picked::One(0));
        assert_eq!(
            pick(&["a::x::f", "<a::R>::f::{closure#0}", "a::fast"], "a::f", None),
            Picked::One(0),
            "whole parts"
        );
        assert_eq!(
            pick(&["<a::R>::f::{closure#0}", "<a::R>::f"], "a::f", None),
            Picked::One(1),
            "the parts of the path"
        );
        assert_eq!(pick(&names, "xyz", None), Picked::None);
        assert_eq!(
            pick(&["_Unwind_Resume", "app::sum"], "sum", None),
            Picked::One(1),
            "a part of the path first"
        );
        assert!(is_only_text("_Unwind_Resume", "sum") && !is_only_text("app::sum", "sum"));
        let inlined = vec![("_Unwind_Resume".to_owned(), Vec::new()), ("app::sum".to_owned(), Vec::new())];
        let named = by_name(inlined, "sum").into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(named, ["app::sum"]);
        assert_eq!((address("0x1a"), address("1a")), (Some(26), None));
    }
}
