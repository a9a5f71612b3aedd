//! Which function is meant: by its number in the list, by its address, or by a part of its name.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::Path;

use whyslow_profile::{ModuleId, ModuleKind, Profile};
use whyslow_symbols::{Fit, FunctionSymbol, Wanted};

use super::lookup::Inlined;
use super::source::{Binary, Kept, kept};
use super::{Subject, lookup};
use crate::failure::{Failure, Result};
use crate::output::note;

/// What somebody asked about, for messages.
pub(super) struct Asked {
    /// What they call the file.
    pub(super) file: String,
    /// The command that asks about it; a function's name goes behind it.
    pub(super) command: String,
}

impl Asked {
    /// A file that `whyslow asm` was given.
    pub(super) fn file(path: &Path) -> Self {
        Self { file: path.display().to_string(), command: format!("whyslow asm {}", path.display()) }
    }

    /// A target that `cargo whyslow asm` has built.
    pub(super) fn built(name: &str) -> Self {
        Self { file: name.to_owned(), command: "cargo whyslow asm".to_owned() }
    }
}

/// What was chosen.
pub(super) enum Chosen {
    /// Code that the profile keeps.
    Kept { name: String, row: usize },
    /// Code of a module's file, which the profile does not keep.
    InFile { binary: Box<Binary>, module: ModuleId, function: FunctionSymbol },
    /// Code of the file that was given.
    InSubject(FunctionSymbol),
    /// Nothing: the list is the answer.
    Nothing,
}

/// Finds the function that is meant.
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
        Subject::Profile { profile, values, .. } => in_profile(asked, profile, values, wanted, index),
        Subject::Binary(binary) => in_binary(asked, binary, wanted, index).map(Chosen::InSubject),
    }
}

/// Asks at a terminal. Only where the answer goes to a person is one asked.
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
    values: &[u64],
    wanted: &str,
    index: Option<usize>,
) -> Result<Chosen> {
    let kept = kept(profile, values);
    if let Ok(number) = wanted.parse::<usize>() {
        let row = number.checked_sub(1).and_then(|at| kept.get(at));
        return row.map(|row| Chosen::Kept { name: row.name.clone(), row: row.row }).ok_or_else(|| {
            Failure::new(format!("{}: the list has {} functions", asked.file, kept.len()))
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
    let names: Vec<&str> = kept.iter().map(|row| row.name.as_str()).collect();
    match pick(&names, wanted, index) {
        Picked::One(at) => Ok(Chosen::Kept { name: kept[at].name.clone(), row: kept[at].row }),
        Picked::Several(found) => Err(several(asked, wanted, &found)),
        Picked::None => in_modules(asked, profile, wanted, index),
    }
}

/// Functions of the files that were recorded, whose code the profile does not keep because they were not hot.
fn in_modules(asked: &Asked, profile: &Profile, wanted: &str, index: Option<usize>) -> Result<Chosen> {
    for (row, module) in profile.modules.iter().enumerate() {
        if module.kind != ModuleKind::Program && module.kind != ModuleKind::Library {
            continue;
        }
        let Some(binary) = Binary::of_module(profile, ModuleId::from(row)) else { continue };
        let found = binary.functions(wanted);
        if found.is_empty() {
            continue;
        }
        let names: Vec<&str> = found.iter().map(|function| function.name.as_str()).collect();
        return match pick(&names, wanted, index) {
            Picked::One(at) => Ok(Chosen::InFile {
                binary: Box::new(binary),
                module: ModuleId::from(row),
                function: found[at].clone(),
            }),
            Picked::Several(found) => Err(several(asked, wanted, &found)),
            Picked::None => continue,
        };
    }
    if let Some(failure) = inlined_away(asked, wanted, lookup::inlined_into(profile, wanted)) {
        return Err(failure);
    }
    let names = profile.functions.iter().map(|function| profile.text(function.name).to_owned());
    Err(absent(asked, wanted, &whyslow_analyze::nearest(wanted, names)))
}

fn in_binary(asked: &Asked, binary: &Binary, wanted: &str, index: Option<usize>) -> Result<FunctionSymbol> {
    if let Some(address) = address(wanted) {
        return binary.function_at(address).ok_or_else(|| {
            Failure::new(format!("{}: no function is at {wanted}", asked.file))
                .next("an address relative to the start of the file's image")
        });
    }
    let found = binary.functions(wanted);
    let names: Vec<&str> = found.iter().map(|function| function.name.as_str()).collect();
    match pick(&names, wanted, index) {
        Picked::One(at) => Ok(found[at].clone()),
        Picked::Several(found) => Err(several(asked, wanted, &found)),
        Picked::None => Err(inlined_away(asked, wanted, binary.inlined(wanted))
            .unwrap_or_else(|| absent(asked, wanted, &binary.nearest(wanted)))),
    }
}

/// What is wanted was inlined: the functions that fit best, and where their code is.
fn inlined_away(asked: &Asked, wanted: &str, mut found: Vec<Inlined>) -> Option<Failure> {
    const MOST: usize = 3;
    let wanted = Wanted::new(wanted);
    found.sort_by_cached_key(|(name, _)| (wanted.fit(name).is_none(), wanted.fit(name), name.clone()));
    let (name, hosts) = found.first()?;
    let (host, _) = hosts.first()?;
    let mut shown: Vec<String> = hosts
        .iter()
        .take(MOST)
        .map(|(host, place)| place.as_ref().map_or(host.clone(), |place| format!("{host} at {place}")))
        .collect();
    if hosts.len() > MOST {
        shown.push(format!("{} more", hosts.len() - MOST));
    }
    let what = format!("{name} has no code of its own here: it is inlined into {}", shown.join(", "));
    Some(Failure::new(what).next(format!("{} '{host}'", asked.command)))
}

/// Nothing has that name: names that look like it, if there are any, or how to look for it.
fn absent(asked: &Asked, wanted: &str, nearest: &[String]) -> Failure {
    let failure =
        |more: &str| Failure::new(format!("{}: no function has {wanted:?} in its name{more}", asked.file));
    match nearest {
        [] => failure("").next("another part of the name"),
        [first, ..] => failure(&format!("; the nearest are {}", nearest.join(", ")))
            .next(format!("{} '{first}'", asked.command)),
    }
}

fn address(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

fn several(asked: &Asked, wanted: &str, found: &[String]) -> Failure {
    const MOST: usize = 12;
    let mut lines: Vec<String> =
        found.iter().take(MOST).enumerate().map(|(at, name)| format!("\n  {} {name}", at + 1)).collect();
    if found.len() > MOST {
        lines.push(format!("\n  and {} more", found.len() - MOST));
    }
    Failure::new(format!("{}: several functions have {wanted:?} in their name:{}\n", asked.file, lines.concat()))
        .next(format!("{} '{wanted}' 1", asked.command))
}

#[derive(Debug, PartialEq, Eq)]
enum Picked {
    One(usize),
    Several(Vec<String>),
    None,
}

/// The names that fit best, else those with the wanted letters in this order. Equal names are one function in several instances; the first
/// of them is taken.
fn pick(names: &[&str], wanted: &str, index: Option<usize>) -> Picked {
    let lower = wanted.to_lowercase();
    let wanted = Wanted::new(wanted);
    let fits: Vec<Option<Fit>> = names.iter().map(|name| wanted.fit(name)).collect();
    let best = fits.iter().flatten().min();
    let is_meant = |at: &usize| match best {
        Some(best) => fits[*at].as_ref() == Some(best),
        None => has_letters_in_order(&names[*at].to_lowercase(), &lower),
    };
    let found: Vec<usize> = (0..names.len()).filter(is_meant).collect();
    let Some(&first) = found.first() else { return Picked::None };
    if let Some(index) = index {
        return index.checked_sub(1).and_then(|at| found.get(at)).map_or(Picked::None, |&at| Picked::One(at));
    }
    if found.iter().all(|&at| names[at] == names[first]) {
        return Picked::One(first);
    }
    Picked::Several(found.iter().map(|&at| names[at].to_owned()).collect())
}

fn has_letters_in_order(name: &str, wanted: &str) -> bool {
    let mut letters = name.chars();
    wanted.chars().all(|wanted| letters.any(|letter| letter == wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_name_is_meant() {
        let names = ["app::parse", "app::parse_line", "app::Reader::read", "other::parse", "app::run"];
        assert_eq!(pick(&names, "app::parse", None), Picked::One(0));
        assert_eq!(pick(&names, "parse_line", None), Picked::One(1));
        assert_eq!(pick(&names, "reader", None), Picked::One(2));
        assert_eq!(pick(&names, "rdrread", None), Picked::One(2), "letters in this order");
        assert_eq!(pick(&names, "parse", None), Picked::Several(vec!["app::parse".into(), "other::parse".into()]));
        assert_eq!(pick(&names, "parse", Some(2)), Picked::One(3));
        assert_eq!(pick(&names, "parse", Some(3)), Picked::None);
        assert_eq!(pick(&["a::f", "a::f"], "f", None), Picked::One(0), "instances of one function");
        assert_eq!(pick(&["<a::R>::read", "b::read"], "R::read", None), Picked::One(0));
        assert_eq!(pick(&["a::x::f", "<a::R>::f::{closure#0}", "a::fast"], "a::f", None), Picked::One(2));
        assert_eq!(pick(&["<a::R>::f::{closure#0}", "<a::R>::f"], "a::f", None), Picked::One(1), "the parts of the path");
        assert_eq!(pick(&names, "xyz", None), Picked::None);
        assert_eq!((address("0x1a"), address("1a")), (Some(26), None));
    }
}
