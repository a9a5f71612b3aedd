//! Names and paths in a limited width.

/// The name in at most `width` columns, shortened in the middle. The function's own last segment is never cut, so the
/// result is wider when that alone does not fit.
pub(super) fn shorten(name: &str, width: usize) -> String {
    let length = name.chars().count();
    if length <= width {
        return name.to_owned();
    }
    let (before, own) = split_own(name);
    let (own, arguments) = split_arguments(own);
    let own_length = own.chars().count();
    // `…` stands for what is left out, and for the arguments when there are any.
    let tail = if arguments.is_empty() { String::new() } else { "<…>".to_owned() };
    let room = width.saturating_sub(own_length + tail.chars().count());
    let before_length = before.chars().count();
    if before_length <= room {
        let left = width.saturating_sub(before_length + own_length);
        let kept = arguments.chars().take(left.saturating_sub(2)).collect::<String>();
        let tail = if left >= 4 { format!("{kept}…>") } else { tail };
        return format!("{before}{own}{tail}");
    }
    let kept = room.saturating_sub(1);
    // The start tells whose code it is, the end which part of it.
    let first = kept.div_ceil(2);
    let last = kept - first;
    let start = before.chars().take(first).collect::<String>();
    let end = before.chars().skip(before_length - last).collect::<String>();
    format!("{start}…{end}{own}{tail}")
}

/// The name up to its last segment, and the segment; a closure's segment includes the function it is in.
fn split_own(name: &str) -> (&str, &str) {
    let mut depth = 0usize;
    let mut cuts = Vec::new();
    let bytes = name.as_bytes();
    for (index, byte) in bytes.iter().enumerate() {
        match byte {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            // The `>` of `->` closes nothing.
            b'>' if index > 0 && bytes[index - 1] == b'-' => {}
            b'>' | b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && index > 0 && bytes[index - 1] == b':' => cuts.push(index + 1),
            _ => {}
        }
    }
    while let Some(cut) = cuts.pop() {
        if !name[cut..].starts_with(['{', '<']) {
            return name.split_at(cut);
        }
    }
    ("", name)
}

/// A segment and its generic arguments.
fn split_arguments(own: &str) -> (&str, &str) {
    match own.find('<') {
        Some(at) if at > 0 && own.ends_with('>') => own.split_at(at),
        _ => (own, ""),
    }
}

/// `file:line` in at most `width` columns: as many of the last parts of the path as fit.
pub(super) fn place(file: &str, line: u32, width: usize) -> String {
    let line = if line > 0 { format!(":{line}") } else { String::new() };
    let whole = format!("{file}{line}");
    if whole.chars().count() <= width {
        return whole;
    }
    let starts = file.match_indices('/').map(|(at, _)| at);
    for start in starts {
        let shorter = format!("…{}{line}", &file[start..]);
        if shorter.chars().count() <= width {
            return shorter;
        }
    }
    let name = format!("{}{line}", file.rsplit('/').next().unwrap_or(file));
    if name.chars().count() <= width { name } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_fit_are_left_alone() {
        assert_eq!(shorten("app::parse", 10), "app::parse");
    }

    #[test]
    fn the_middle_goes_and_the_function_stays() {
        assert_eq!(shorten("app::module::inner::function", 20), "app::m…ner::function");
        assert_eq!(shorten("app::module::inner::function", 4), "…function");
        let long = "<app::Parser<alloc::string::String> as core::iter::Iterator>::next";
        assert_eq!(shorten(long, 30), "<app::Parser<…:Iterator>::next");
    }

    #[test]
    fn a_closure_keeps_the_function_it_is_in() {
        assert_eq!(shorten("app::module::inner::run::{closure#0}", 24), "app:…r::run::{closure#0}");
    }

    #[test]
    fn arguments_go_before_the_name_does() {
        assert_eq!(shorten("app::sort<alloc::vec::Vec<u8>>", 16), "app::sort<allo…>");
        assert_eq!(shorten("app::very::long::path::sort<u8, u16>", 14), "app…h::sort<…>");
    }

    #[test]
    fn any_text_at_any_width_is_shortened_without_panic() {
        for name in ["", "::", "a::", "<<<>::", "é::ü::ß", "->::>", "{}::{}", "fn(a) -> b::c"] {
            for width in 0..12 {
                shorten(name, width);
                place(name, 3, width);
            }
        }
    }

    #[test]
    fn places_keep_the_end_of_the_path() {
        assert_eq!(place("src/main.rs", 12, 20), "src/main.rs:12");
        assert_eq!(place("/home/me/app/src/main.rs", 12, 20), "…/app/src/main.rs:12");
        assert_eq!(place("/home/me/app/src/main.rs", 12, 10), "main.rs:12");
        assert_eq!(place("/home/me/app/src/main.rs", 12, 5), "");
        assert_eq!(place("main.rs", 0, 20), "main.rs");
    }
}
