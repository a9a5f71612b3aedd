//! Fits names of functions and places into a limited width: the least informative part goes first.

#[cfg(test)]
mod cpp_tests;
mod grammar;
mod short;
mod width;

pub(crate) use short::short_name;
pub(crate) use whyslow_analyze::generic_name;
pub(crate) use width::{beginning, columns, cut, ending};

use grammar::Parts;
use whyslow_profile::AsyncForm;

/// The name in at most `width` columns: the first of these forms that fits.
///
/// ```text
/// void app::Map<int, std::allocator<int> >::insert<Key>(Key const&)   the whole name
/// app::Map<int>::insert<Key>                     without noise, return type and parameters
/// app::Map<…>::insert<…>                         without arguments
/// app::…::Map<…>::insert<…>                      without the middle of the path
/// Map::insert                                    the last two parts
/// insert                                         the last part, and finally a prefix of it
/// ```
pub(crate) fn shorten(name: &str, width: usize) -> String {
    if columns(name) <= width {
        return name.to_owned();
    }
    if let (Some(form), path) = AsyncForm::split(name) {
        // The form says more than the middle of the path, but less than the function.
        let prefix = form.prefix();
        let short = shorten(path, width.saturating_sub(columns(prefix)));
        return if short.ends_with('…') || short.is_empty() {
            shorten(path, width)
        } else {
            format!("{prefix}{short}")
        };
    }
    let fits = |text: &String| !text.is_empty() && columns(text) <= width;
    if let Some(parts) = Parts::of(name) {
        let found = Some(parts.with_arguments())
            .filter(fits)
            .or_else(|| Some(parts.without_arguments()).filter(fits))
            .or_else(|| parts.without_middle(fits))
            .or_else(|| Some(parts.last_two()).filter(fits));
        return found.unwrap_or_else(|| cut(&parts.last(), width));
    }
    without_folders(name).filter(fits).unwrap_or_else(|| middle_cut(name, width))
}

/// Shortens names that contain folders, as Go's packages do: `…/http.(*conn).serve`.
fn without_folders(name: &str) -> Option<String> {
    let path = &name[..name.find(['(', '[', ' ']).unwrap_or(name.len())];
    let at = path.rfind('/')?;
    Some(format!("…{}", &name[at..]))
}

/// Both ends of a text: the start names the owner, the end the part.
fn middle_cut(text: &str, width: usize) -> String {
    if columns(text) <= width || width < 3 {
        return cut(text, width);
    }
    let start = beginning(text, (width - 1) / 3);
    let end = ending(text, width - 1 - columns(start));
    format!("{start}…{end}")
}

/// `file:line` in at most `width` columns: as many of the last parts of the path as fit.
pub(crate) fn place(file: &str, line: u32, width: usize) -> String {
    let line = if line > 0 { format!(":{line}") } else { String::new() };
    let whole = format!("{file}{line}");
    if columns(&whole) <= width {
        return whole;
    }
    let starts = file.match_indices('/').map(|(at, _)| at);
    for start in starts {
        let shorter = format!("…{}{line}", &file[start..]);
        if columns(&shorter) <= width {
            return shorter;
        }
    }
    let name = format!("{}{line}", file.rsplit('/').next().unwrap_or(file));
    if columns(&name) <= width { name } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use whyslow_analyze::{FunctionTable, Selection, SortBy, candidates, meant};

    /// Names of many forms.
    const NAMES: [&str; 26] = [
        "app::module::inner::function",
        "async fn app::module::inner::function::<u8>",
        "app::old::<alloc::string::String>::parse",
        "<app::Parser<alloc::string::String> as core::iter::Iterator>::next",
        "<app::Config as core::clone::Clone>::clone",
        "<impl core::fmt::Debug for app::module::X>::fmt",
        "<&mut app::Reader<R> as std::io::Read>::read_exact",
        "core::ops::function::FnOnce::call_once{{vtable.shim}}",
        "app::module::run::{closure#0}::{closure#1}",
        "app::module::run::{{closure}}",
        "std::_Rb_tree<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >, int>::\
         _M_insert_unique<int>(std::pair<int, int>&&)",
        "void std::vector<int, std::allocator<int> >::_M_realloc_insert<int const&>(int*, int const&)",
        "std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&, char const*)",
        "app::run(int, char**)::{lambda(int)#1}::operator()(int) const",
        "app::Value::operator bool() const",
        "app::Set::operator->() const volatile",
        "app::Set::get(int, std::vector<int> const&) const",
        "(anonymous namespace)::Worker::run(std::function<void (int)>)",
        "operator new(unsigned long, std::align_val_t)",
        "app::name[abi:cxx11](int, int, int, int)",
        "bool (*app::pick<int>(int))(int, long)",
        "github.com/user/project/internal/http.(*conn).serve",
        "github.com/user/project/pkg.Map[go.shape.int].Get",
        "com.example.application.server.RequestHandler.handle",
        "a_long_name_of_a_function_in_c",
        "libfoo.so.1.2.3+0x1234",
    ];

    #[test]
    fn names_that_fit_are_left_alone() {
        assert_eq!(shorten("app::parse", 10), "app::parse");
    }

    #[test]
    fn rust_names_lose_arguments_then_the_middle() {
        for (name, width, short) in [
            ("app::module::inner::function", 20, "inner::function"),
            ("app::module::inner::function", 24, "app::…::inner::function"),
            ("app::module::inner::function", 8, "function"),
            ("app::module::inner::function", 4, "fun…"),
            ("app::module::inner::run::{closure#0}", 24, "run::{closure#0}"),
            ("async fn app::module::inner::function", 29, "async fn inner::function"),
            ("async fn app::module::inner::function", 12, "function"),
            ("async block in app::module::inner::run::<u8>", 30, "async block in inner::run"),
            ("app::old::<alloc::string::String>::parse", 30, "app::old::<…>::parse"),
            ("app::sort<alloc::vec::Vec<u8>>", 16, "app::sort<…>"),
            (
                "<app::Parser<alloc::string::String> as core::iter::Iterator>::next",
                40,
                "<app::Parser<…> as Iterator>::next",
            ),
            ("<app::Parser<alloc::string::String> as core::iter::Iterator>::next", 20, "Parser::next"),
            (
                "core::ops::function::FnOnce::call_once{{vtable.shim}}",
                44,
                "core::…::FnOnce::call_once{{vtable.shim}}",
            ),
        ] {
            assert_eq!(shorten(name, width), short, "{name}");
        }
    }

    #[test]
    fn cpp_names_lose_noise_parameters_and_templates() {
        let map = "std::_Rb_tree<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >, \
                   std::pair<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > const, \
                   int> >::_M_insert_unique<int>(std::pair<int, int>&&)";
        for (name, width, short) in [
            (
                map,
                100,
                "std::_Rb_tree<std::string, std::pair<std::string const, int>>::_M_insert_unique<int>",
            ),
            (map, 60, "std::_Rb_tree<…>::_M_insert_unique<…>"),
            (map, 30, "_Rb_tree::_M_insert_unique"),
            (
                "void std::vector<int, std::allocator<int> >::_M_realloc_insert<int const&>(int*, int const&)",
                60,
                "std::vector<int>::_M_realloc_insert<int const&>",
            ),
            (
                "std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&, char const*)",
                25,
                "std::operator<< <…>",
            ),
            (
                "app::run(int, char**)::{lambda(int)#1}::operator()(int) const",
                35,
                "app::run::{lambda#1}::operator()",
            ),
            ("app::Value::operator bool() const", 28, "app::Value::operator bool"),
            ("app::Set::operator->() const volatile", 28, "app::Set::operator->"),
            (
                "(anonymous namespace)::Worker::run(std::function<void (int)>)",
                40,
                "(anonymous namespace)::Worker::run",
            ),
            (
                "std::function<void (std::unique_ptr<Job, std::default_delete<Job> >)>::operator()(std::unique_ptr<Job>) const",
                50,
                "std::function<…>::operator()",
            ),
            ("operator new(unsigned long, std::align_val_t)", 20, "operator new"),
            ("app::name[abi:cxx11](int, int, int, int)", 12, "app::name"),
            ("bool (*app::pick<int>(int))(int, long)", 26, "app::pick<int>"),
        ] {
            assert_eq!(shorten(name, width), short, "{name}");
        }
    }

    #[test]
    fn names_of_other_languages_keep_their_ends() {
        for (name, width, short) in [
            ("github.com/user/project/internal/http.(*conn).serve", 30, "…/http.(*conn).serve"),
            ("github.com/user/project/pkg.Map[go.shape.int].Get", 24, "github…pe.int].Get"),
            ("com.example.application.server.RequestHandler.handle", 30, "com.examp…equestHandler.handle"),
            ("[unknown] in a_library_with_a_long_name.so", 30, "[unknown]…with_a_long_name.so"),
        ] {
            let shown = shorten(name, width);
            assert!(columns(&shown) <= width, "{shown}");
            let (start, end) = short.split_once('…').unwrap();
            assert!(
                shown.starts_with(&start[..start.len().min(6)]) && shown.ends_with(&end[end.len() - 6..]),
                "{shown}"
            );
        }
    }

    #[test]
    fn every_printed_name_leads_to_its_function() {
        let folded: String = NAMES.iter().map(|name| format!("{name} 1\n")).collect();
        let profile = whyslow_analyze::testing::profile(&folded);
        let table = FunctionTable::build(&profile, &Selection::default(), true, SortBy::Total);
        for name in NAMES {
            let found = candidates(&profile, &table, name);
            assert_eq!(meant(&found).map(|one| one.name.as_str()), Some(name));
            // In narrower columns, only the first letters of the last part remain.
            let shortened = (8..100).map(|width| shorten(name, width));
            let mut printed: Vec<String> =
                shortened.chain([short_name(name)]).chain(generic_name(name)).collect();
            printed.sort();
            printed.dedup();
            for printed in printed {
                let found = candidates(&profile, &table, &printed);
                assert!(meant(&found).is_some(), "{printed} of {name}: {found:?}");
                assert!(found.iter().any(|one| one.name == name), "{printed} of {name}: {found:?}");
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

    proptest! {
        #[test]
        fn any_name_at_any_width_fits(
            pieces in prop::collection::vec(
                prop::sample::select(vec![
                    "::", "<", ">", "(", ")", "[", "]", "{", "}", "->", "operator", "operator<<", "operator()", " ", " as ",
                    "a", "名前", "e\u{301}", "❤\u{fe0f}", "std::allocator<", ", ", "&", "*", "/", ".", "void ", "[abi:", "é",
                ]),
                0..30,
            ),
            width in 0usize..60,
        ) {
            let name = pieces.concat();
            prop_assert!(columns(&shorten(&name, width)) <= width);
            prop_assert!(columns(&place(&name, 3, width)) <= width);
            short_name(&name);
        }
    }
}
