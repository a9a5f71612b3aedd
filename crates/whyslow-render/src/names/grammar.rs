//! Parses names of Rust and C++ functions: paths, arguments, parameters, operators.

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
        // The name of a function that returns a function pointer is in the middle: `int
        // (*app::pick(long))(char)`.
        if let Some(at) = top_level(&mask, b'(').filter(|&at| name[at..].starts_with("(*")) {
            let end = top_level(&mask[at + 2..], b')')?;
            return Self::of_path(&name[at + 2..at + 2 + end]);
        }
        Self::of_path(&name)
    }

    fn of_path(name: &str) -> Option<Self> {
        let mask = mask(name);
        let ranges = split_at_top(&mask, b"::")?;
        let plain = &name[..name.find(['(', '<']).unwrap_or(name.len())];
        let is_other_language = plain.len() == name.len() || plain.contains(['/', '.']);
        if name.starts_with('[') || (ranges.len() == 1 && is_other_language) {
            return None;
        }
        let is_call = ranges.last().is_some_and(|range| top_level(&mask[range.clone()], b'(').is_some());
        let mut parts: Vec<String> = Vec::new();
        for range in ranges {
            let (text, mask) = (&name[range.clone()], &mask[range]);
            let before_parameters = parameters_start(text, mask).map_or(text, |at| &text[..at]).trim_end();
            // A space outside brackets ends a return type.
            let start = if is_call { return_type_end(before_parameters, mask) } else { None };
            if start.is_some() {
                parts.clear();
            }
            let own = &before_parameters[start.unwrap_or(0)..];
            parts.push(own.trim_start_matches(['*', '&']).to_owned());
        }
        parts.retain(|part| !part.is_empty());
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

    /// The last two parts without any brackets.
    pub(super) fn last_two(&self) -> String {
        super::short_name(&self.with_arguments())
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

/// The name with `x` in place of characters that look like brackets but are not: `operator<`, `->`, `=>`.
/// Positions are unchanged.
fn mask(name: &str) -> Vec<u8> {
    const OPERATOR: &[u8] = b"operator";
    const ANONYMOUS: &[u8] = b"(anonymous namespace)";
    let mut mask = name.as_bytes().to_vec();
    let mut at = 0;
    while at < mask.len() {
        let rest = &name.as_bytes()[at..];
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if rest.starts_with(OPERATOR) && (at == 0 || !is_word(name.as_bytes()[at - 1])) {
            let symbol = operator_length(&rest[OPERATOR.len()..]);
            let mut end = at + OPERATOR.len() + symbol;
            // A space separates the arguments of `operator<<` from it.
            end += usize::from(name.as_bytes()[end..].starts_with(b" <"));
            mask[at..end].fill(b'x');
            at = end;
        } else if rest.starts_with(ANONYMOUS) {
            mask[at..at + ANONYMOUS.len()].fill(b'x');
            at += ANONYMOUS.len();
        } else {
            if rest.starts_with(b"->") || rest.starts_with(b"=>") {
                mask[at + 1] = b'x';
                at += 1;
            }
            at += 1;
        }
    }
    mask
}

/// The length of the symbol after `operator`; for a word (`new`, `bool`), the length up to its parameters.
fn operator_length(rest: &[u8]) -> usize {
    const SYMBOLS: [&[u8]; 20] = [
        b"()", b"[]", b"<=>", b"<<=", b">>=", b"->*", b"<<", b">>", b"->", b"<=", b">=", b"&&", b"||", b"++",
        b"--", b"==", b"!=", b"<", b">", b",",
    ];
    if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(symbol)) {
        return symbol.len();
    }
    if rest.first() == Some(&b' ') {
        return rest.iter().position(|&byte| matches!(byte, b'(' | b'<' | b':')).unwrap_or(rest.len());
    }
    0
}

/// Splits at each `separator` outside all brackets; `None` if brackets do not match.
fn split_at_top(mask: &[u8], separator: &[u8]) -> Option<Vec<std::ops::Range<usize>>> {
    let mut parts = Vec::new();
    let mut depth = 0usize;
    let (mut start, mut at) = (0, 0);
    while at < mask.len() {
        match mask[at] {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' | b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
            _ if depth == 0 && mask[at..].starts_with(separator) => {
                parts.push(start..at);
                at += separator.len();
                start = at;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    (depth == 0).then(|| {
        parts.push(start..mask.len());
        parts
    })
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

/// The start of the name after a return type: after the last space outside brackets.
fn return_type_end(text: &str, mask: &[u8]) -> Option<usize> {
    let mut depth = 0usize;
    let mut end = None;
    for (at, &byte) in mask[..text.len()].iter().enumerate() {
        match byte {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' | b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b' ' if depth == 0 => end = Some(at + 1),
            _ => {}
        }
    }
    end
}

/// A C++ name without details of the standard library's implementation.
fn without_noise(name: &str) -> String {
    const STRING: &str = "std::basic_string<char, std::char_traits<char>, std::allocator<char>>";
    if !name.contains("std::") && !name.contains("[abi:") {
        return name.to_owned();
    }
    let mut name = name.replace("std::__cxx11::", "std::").replace("std::__1::", "std::");
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
