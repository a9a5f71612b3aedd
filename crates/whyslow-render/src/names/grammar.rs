//! Parses names of Rust and C++ functions: paths, arguments, parameters, operators.

use whyslow_names::{mask, split_at_top};

/// The parts of a path: `app`, `Map<int>`, `insert` for `void app::Map<int>::insert(int)`. Return type,
/// parameters and C++ noise are left out.
#[derive(Debug)]
pub(super) struct Parts(Vec<String>);

/// Replaces non-empty brackets.
const ARGUMENTS: &str = "<…>";

impl Parts {
    /// `None` if brackets do not match, or if the name has only one part and nothing to leave out.
    pub(super) fn of(name: &str) -> Option<Self> {
        let name = without_noise(name);
        let mask = mask(&name);
        // The name of a function that returns a pointer to a function, or a reference to an array, is in the
        // middle: `int (*app::pick(long))(char)`.
        let in_middle = |at: &usize| name[*at..].starts_with("(*") || name[*at..].starts_with("(&");
        if let Some(at) = top_level(&mask, b'(').filter(in_middle) {
            let end = top_level(&mask[at + 2..], b')')?;
            return Self::of_path(&name[at + 2..at + 2 + end]);
        }
        Self::of_path(&name)
    }

    fn of_path(name: &str) -> Option<Self> {
        let whole = mask(name);
        let start = return_type_end(&whole);
        let (name, mask) = (&name[start..], &whole[start..]);
        let ranges = split_at_top(mask, b"::")?;
        let plain = &mask[..mask.iter().position(|byte| b"(<".contains(byte)).unwrap_or(mask.len())];
        let is_other_language = plain.len() == mask.len() || plain.iter().any(|byte| b"/.".contains(byte));
        if name.starts_with('[') || (start == 0 && ranges.len() == 1 && is_other_language) {
            return None;
        }
        let part = |range: std::ops::Range<usize>| {
            let (text, mask) = (&name[range.clone()], &mask[range]);
            let before_parameters = parameters_start(text, mask).map_or(text, |at| &text[..at]).trim_end();
            before_parameters.trim_start_matches(['*', '&']).to_owned()
        };
        let parts: Vec<String> = ranges.into_iter().map(part).filter(|part| !part.is_empty()).collect();
        (!parts.is_empty()).then_some(Self(parts))
    }

    /// The path with all arguments.
    pub(super) fn with_arguments(&self) -> String {
        self.0.join("::")
    }

    /// The path without the contents of brackets; `<T as Trait>` keeps the trait's last name.
    pub(super) fn without_arguments(&self) -> String {
        self.plain().join("::")
    }

    /// The first part and as many of the last ones as fit, at least the function and its parent.
    pub(super) fn without_middle(&self, fits: impl Fn(&String) -> bool) -> Option<String> {
        let parts = self.plain();
        let last = parts.len().saturating_sub(self.own_parts() + 1);
        (2..=last).map(|from| format!("{}::…::{}", parts[0], parts[from..].join("::"))).find(fits)
    }

    /// The last two parts without any brackets; for a closure in a closure, the last three.
    pub(super) fn last_two(&self) -> String {
        // What follows `::<` are arguments, not a name.
        let parts: Vec<&String> = self
            .0
            .iter()
            .enumerate()
            .filter(|(at, part)| *at == 0 || !part.starts_with('<'))
            .map(|(_, part)| part)
            .collect();
        let is_nested = matches!(parts.as_slice(), [.., before, last] if before.starts_with('{') && last.starts_with('{'));
        let kept = if is_nested { 3 } else { 2 };
        let last = parts[parts.len().saturating_sub(kept)..].iter().map(|part| bare(part));
        last.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("::")
    }

    /// The last part without its arguments; for a closure, with the function around it.
    pub(super) fn last(&self) -> String {
        let parts = self.plain();
        let joined = parts[parts.len().saturating_sub(self.own_parts())..].join("::");
        joined.strip_suffix(ARGUMENTS).map_or(joined.clone(), str::to_owned)
    }

    /// The number of trailing parts that name the function: a closure's number alone says nothing.
    fn own_parts(&self) -> usize {
        let anonymous = self.0.iter().rev().take_while(|part| part.starts_with(['{', '<'])).count();
        (anonymous + 1).min(self.0.len())
    }

    fn plain(&self) -> Vec<String> {
        let parts = self.0.iter().enumerate();
        // What follows `::<` are arguments, not a type.
        let part = |(index, part): (usize, &String)| match part.starts_with('<') && index > 0 {
            true => ARGUMENTS.to_owned(),
            false => plain(part),
        };
        parts.map(part).collect()
    }
}

/// A part with `<…>` for its arguments; `<a::T<X> as b::Trait<Y>>` becomes `<a::T<…> as Trait>`.
fn plain(part: &str) -> String {
    let mask = mask(part);
    if let Some(inside) = part.strip_prefix('<').and_then(|inside| inside.strip_suffix('>')) {
        let inside_mask = &mask[1..mask.len() - 1];
        let halves = split_at_top(inside_mask, b" as ").unwrap_or_default();
        let [of_type, of_trait] = halves.as_slice() else { return collapsed(part, &mask, true) };
        let of_trait = collapsed(&inside[of_trait.clone()], &inside_mask[of_trait.clone()], false);
        let of_trait = of_trait.rsplit("::").next().unwrap_or_default();
        let of_type = collapsed(&inside[of_type.clone()], &inside_mask[of_type.clone()], true);
        return format!("<{of_type} as {of_trait}>");
    }
    if part.starts_with('{') {
        // These are the parameters of a lambda.
        return collapsed(part, &mask, false);
    }
    collapsed(part, &mask, true)
}

/// A part without its arguments; the last name of the type for `<Type as Trait>`, `<impl Trait for Type>` and
/// `<Type>`.
fn bare(part: &str) -> String {
    let mask = mask(part);
    let inside = part.strip_prefix('<').and_then(|inside| inside.strip_suffix('>'));
    let Some(inside) = inside else { return collapsed(part, &mask, false) };
    let inside_mask = &mask[1..mask.len() - 1];
    let (separator, which) = if inside.starts_with("impl ") { (&b" for "[..], 1) } else { (&b" as "[..], 0) };
    let halves = split_at_top(inside_mask, separator).unwrap_or_default();
    let own = halves.get(which).cloned().unwrap_or(0..inside.len());
    let (own, own_mask) = (&inside[own.clone()], &inside_mask[own]);
    let last = split_at_top(own_mask, b"::").and_then(|parts| parts.last().cloned()).unwrap_or(0..own.len());
    let (last, last_mask) = (&own[last.clone()], &own_mask[last]);
    let name = collapsed(last, last_mask, false);
    let name = name.trim_start_matches(['&', '*']);
    name.trim_start_matches("mut ").trim_start_matches("dyn ").to_owned()
}

/// The text without the contents of `<…>` and `(…)`. With `marked`, `<…>` remains as a placeholder.
fn collapsed(text: &str, mask: &[u8], marked: bool) -> String {
    let mut plain = String::new();
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match mask[at] {
            b'<' | b'(' => {
                if depth == 0 && mask[at] == b'<' && marked {
                    plain.push_str(if at == 0 { "<" } else { ARGUMENTS });
                }
                depth += usize::from(at > 0 || !marked);
            }
            b'>' | b')' if depth > 0 => depth -= 1,
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    plain.trim_end().to_owned()
}

/// The first position of a byte outside other brackets.
fn top_level(mask: &[u8], wanted: u8) -> Option<usize> {
    let mut depth = 0usize;
    for (at, &byte) in mask.iter().enumerate() {
        if depth == 0 && byte == wanted {
            return Some(at);
        }
        match byte {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' | b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// The start of a part's parameters, unless that is the start of the part.
fn parameters_start(text: &str, mask: &[u8]) -> Option<usize> {
    top_level(mask, b'(').filter(|&at| at > 0 && !text.starts_with('{'))
}

/// The start of the name after a return type: after the last space outside brackets, if parameters follow.
fn return_type_end(mask: &[u8]) -> usize {
    const QUALIFIERS: [&[u8]; 5] = [b" const", b" volatile", b" &", b" noexcept", b" [clone"];
    let (mut depth, mut end, mut has_parameters) = (0usize, 0, false);
    for (at, &byte) in mask.iter().enumerate() {
        match byte {
            b'<' | b'(' | b'[' | b'{' => {
                has_parameters |= depth == 0 && byte == b'(' && at > end;
                depth += 1;
            }
            b'>' | b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b' ' if depth == 0 => {
                let rest = &mask[at..];
                let is_qualifier = at > 0 && mask[at - 1] == b')' || has_parameters;
                let is_qualifier =
                    is_qualifier && QUALIFIERS.iter().any(|qualifier| rest.starts_with(qualifier));
                // `decltype (x)`, and the clone in `f(int) (.cold)`.
                if !is_qualifier && !rest.starts_with(b" (") {
                    (end, has_parameters) = (at + 1, false);
                }
            }
            _ => {}
        }
    }
    if has_parameters { end } else { 0 }
}

/// A C++ name without details of the standard library's implementation.
fn without_noise(name: &str) -> String {
    const STRING: &str = "std::basic_string<char, std::char_traits<char>, std::allocator<char>>";
    if !name.contains("std::") && !name.contains("[abi:") {
        return name.to_owned();
    }
    let mut name = name.replace("::__cxx11::", "::").replace("::__1::", "::");
    while name.contains("> >") {
        name = name.replace("> >", ">>");
    }
    name = name.replace(STRING, "std::string");
    for usual in [", std::allocator<", ", std::char_traits<", ", std::default_delete<", ", std::less<"] {
        name = without_argument(&name, usual);
    }
    while let Some(at) = name.find("[abi:") {
        let Some(end) = name[at..].find(']') else { break };
        name.replace_range(at..=at + end, "");
    }
    name
}

/// Removes template arguments with this prefix, brackets included.
fn without_argument(name: &str, start: &str) -> String {
    let mut kept = String::new();
    let mut rest = name;
    while let Some(at) = rest.find(start) {
        let inside = &rest[at + start.len()..];
        let mut depth = 1usize;
        let end = inside.bytes().position(|byte| {
            depth = match byte {
                b'<' => depth + 1,
                b'>' => depth - 1,
                _ => depth,
            };
            depth == 0
        });
        let Some(end) = end else { break };
        kept.push_str(&rest[..at]);
        rest = &inside[end + 1..];
    }
    kept + rest
}
