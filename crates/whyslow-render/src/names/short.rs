//! The most informative part of a function's name, for frames in which the whole name does not fit.

use whyslow_profile::AsyncForm;

/// `<alloc::vec::Vec<T> as Drop>::drop` → `Vec::drop`: the last two parts of the path, without generic
/// arguments and parameter lists. The name itself if there is nothing to leave out or it has another form.
///
/// ```text
/// core::iter::adapters::map::Map<I,F>::fold   →  Map::fold
/// app::run::{{closure}}                       →  run::{{closure}}
/// std::vector<int>::push_back(int const&)     →  vector::push_back
/// async fn app::net::fetch::<u8>              →  async fn net::fetch
/// ```
pub(crate) fn short_name(name: &str) -> String {
    if let (Some(form), path) = AsyncForm::split(name) {
        return format!("{}{}", form.prefix(), short_name(path));
    }
    try_short(name).filter(|short| !short.is_empty()).unwrap_or_else(|| name.to_owned())
}

fn try_short(name: &str) -> Option<String> {
    // Methods of Go, and C++ functions that return a function pointer, have their name in brackets.
    if name.contains("(*") {
        return None;
    }
    let mut parts = split_path(name)?;
    let mut index = 0;
    // What follows `::<` are arguments, not a name.
    parts.retain(|part| {
        index += 1;
        index == 1 || !part.starts_with('<')
    });
    let mut kept = 2;
    if parts.last()?.starts_with('{') && parts.len() > 2 && parts[parts.len() - 2].starts_with('{') {
        kept = 3;
    }
    let mut short = String::new();
    for part in &parts[parts.len().saturating_sub(kept)..] {
        let plain = plain_part(part)?;
        if !short.is_empty() && !plain.is_empty() {
            short.push_str("::");
        }
        short.push_str(&plain);
    }
    Some(short)
}

/// A part of a path without its generic arguments; the type's last name for `<Type as Trait>` and `<Type>`.
fn plain_part(part: &str) -> Option<String> {
    let Some(inside) = part.strip_prefix('<') else {
        return Some(without_brackets(part));
    };
    let inside = inside.strip_suffix('>')?;
    let of_type = match inside.strip_prefix("impl ") {
        Some(inside) => split_at_top(inside, " for ")?.pop()?,
        None => split_at_top(inside, " as ")?.into_iter().next()?,
    };
    let own = split_path(of_type.trim_start_matches(['&', '*']))?.pop()?;
    Some(without_brackets(own.trim_start_matches("mut ").trim_start_matches("dyn ")))
}

/// The text outside `<…>` and `(…)`, without what follows parameters: `get(int) const` → `get`.
fn without_brackets(part: &str) -> String {
    const CALL: &str = "operator()";
    if part.starts_with(CALL) {
        return CALL.to_owned();
    }
    let mut plain = String::new();
    let mut depth = 0u32;
    let mut before = ' ';
    for c in part.chars() {
        match c {
            '<' | '(' => depth += 1,
            '>' if before == '-' && depth > 0 => {}
            '>' if before == '-' => plain.push('>'),
            '>' | ')' => depth = depth.saturating_sub(1),
            ' ' if before == ')' && depth == 0 && !plain.is_empty() => break,
            c if depth == 0 => plain.push(c),
            _ => {}
        }
        before = c;
    }
    plain.truncate(plain.trim_end().len());
    plain
}

fn split_path(name: &str) -> Option<Vec<&str>> {
    split_at_top(name, "::")
}

/// Splits at each `separator` outside all brackets; `None` if brackets do not match, as in `operator<`.
pub(super) fn split_at_top<'a>(text: &'a str, separator: &str) -> Option<Vec<&'a str>> {
    let bytes = text.as_bytes();
    let mut parts = Vec::new();
    let mut depth = 0u32;
    let mut start = 0;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b'>' | b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
            _ if depth == 0 && bytes[at..].starts_with(separator.as_bytes()) => {
                parts.push(&text[start..at]);
                at += separator.len();
                start = at;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    (depth == 0).then(|| {
        parts.push(&text[start..]);
        parts
    })
}

#[cfg(test)]
mod tests {
    use super::short_name;

    #[test]
    fn long_paths_and_generics_are_left_out() {
        for (name, short) in [
            ("core::iter::adapters::map::Map<I,F>::fold", "Map::fold"),
            ("<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop", "Vec::drop"),
            ("<&mut app::Reader as std::io::Read>::read", "Reader::read"),
            ("<app::Lines as Iterator>::next::<fn() -> u8>", "Lines::next"),
            ("app::run::{{closure}}", "run::{{closure}}"),
            ("app::run::{closure#0}::{closure#1}", "run::{closure#0}::{closure#1}"),
            ("std::vector<int, std::allocator<int>>::push_back(int const&)", "vector::push_back"),
            ("main", "main"),
            ("[unknown] in libfoo.so", "[unknown] in libfoo.so"),
            ("app::Set::get(std::string const&) const", "Set::get"),
            ("app::run(int)::{lambda(int)#1}::operator()(int) const", "{lambda#1}::operator()"),
            ("bool operator<(A const&, B const&)", "bool operator<(A const&, B const&)"),
            ("<", "<"),
            ("", ""),
            ("<impl core::fmt::Debug for app::X>::fmt", "X::fmt"),
        ] {
            assert_eq!(short_name(name), short, "{name}");
        }
    }

    #[test]
    fn hostile_names_do_no_harm() {
        for name in ["<<<<", ">>>", "::::", "a::<b", "<a as b", "\u{202e}::é::名", "<>::<>"] {
            let _ = short_name(name);
        }
        let deep = format!("{}x{}", "<".repeat(50_000), ">".repeat(50_000));
        let _ = short_name(&deep);
    }
}
