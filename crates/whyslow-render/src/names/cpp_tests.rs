//! Short names of real C++ functions, compared with the structure that the demangler parses.

use std::fmt;

use cpp_demangle::{DemangleNodeType, DemangleOptions, DemangleWrite, Symbol};

use super::{short_name, shorten};

/// Mangled names of functions in libstdc++, LLVM and boost.
const MANGLED: &str = include_str!("cpp_names.txt");

/// The path of a function, without template arguments, as the demangler walks through its parse tree.
#[derive(Debug, Default)]
struct Walk {
    parts: Vec<String>,
    open: Vec<DemangleNodeType>,
}

impl Walk {
    fn is_in(&self, node: DemangleNodeType) -> bool {
        self.open.contains(&node)
    }
}

impl DemangleWrite for Walk {
    fn push_demangle_node(&mut self, node: DemangleNodeType) {
        self.open.push(node);
    }

    fn pop_demangle_node(&mut self) {
        self.open.pop();
    }

    fn write_string(&mut self, text: &str) -> fmt::Result {
        if self.is_in(DemangleNodeType::TemplateArgs) {
            return Ok(());
        }
        let is_name = self.is_in(DemangleNodeType::UnqualifiedName);
        // Types with an abbreviation of their own are written at once, with their arguments.
        let abbreviated = text.split_once('<').filter(|(path, _)| path.contains("::")).map(|(path, _)| path);
        let text = if is_name { text } else { abbreviated.unwrap_or(text) };
        let mut pieces = if is_name { vec![text] } else { text.split("::").collect() };
        let first = pieces.remove(0);
        match self.parts.last_mut() {
            Some(last) => last.push_str(first),
            None => self.parts.push(first.to_owned()),
        }
        self.parts.extend(pieces.into_iter().map(str::to_owned));
        Ok(())
    }
}

/// The last two parts of the path, and the last one.
fn expected(symbol: &Symbol<&str>) -> (String, String) {
    let mut walk = Walk::default();
    let options = DemangleOptions::new().no_params().no_return_type();
    symbol.structured_demangle(&mut walk, &options).unwrap();
    let without = |part: &str, from: char, to: char| match (part.find(from), part.rfind(to)) {
        (Some(start), Some(end)) if start < end => format!("{}{}", &part[..start], &part[end + 1..]),
        _ => part.to_owned(),
    };
    // Tags of the library's version, and parameters of lambdas, are left out.
    let plain = |part: &String| match part.starts_with('{') {
        true => without(part, '(', ')'),
        false => match part.find("[abi:") {
            Some(at) => part[..at].to_owned(),
            // The brackets of arguments are not part of their node.
            None => part.strip_suffix("<>").unwrap_or(part).trim().to_owned(),
        },
    };
    let parts: Vec<String> = walk.parts.iter().map(plain).filter(|part| part != "__cxx11").collect();
    let nested = matches!(&parts[..], [.., before, last] if before.starts_with('{') && last.starts_with('{'));
    let short = parts[parts.len().saturating_sub(if nested { 3 } else { 2 })..].join("::");
    (short, parts.last().cloned().unwrap_or_default())
}

/// `std::string` is short for `std::basic_string<char>`, and the type of a conversion may have arguments.
fn comparable(name: &str) -> String {
    let name = name.strip_prefix("string::").map_or(name.to_owned(), |rest| format!("basic_string::{rest}"));
    match name.find("operator ") {
        Some(at) => {
            name[..name[at..].find(['<', '(']).map_or(name.len(), |end| at + end)].trim_end().to_owned()
        }
        None => name,
    }
}

#[test]
fn short_names_are_the_last_two_parts_of_the_parse_tree() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for mangled in MANGLED.lines() {
        let symbol = Symbol::new(mangled).unwrap();
        let (short, last) = expected(&symbol);
        let name = symbol.demangle().unwrap();
        let is_shortened = shorten(&name, short.len()).contains(&comparable(&last));
        if comparable(&short_name(&name)) != comparable(&short) || !is_shortened {
            wrong.push(format!("{name}\n    is    {}\n    tree  {short}\n", short_name(&name)));
        }
        seen += 1;
    }
    assert!(seen >= 1000, "{seen}");
    assert!(wrong.is_empty(), "{} of {seen}:\n{}", wrong.len(), wrong.concat());
}
