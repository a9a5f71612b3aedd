//! The most informative part of a function's name, for frames in which the whole name does not fit.

use whyslow_profile::AsyncForm;

use super::grammar::Parts;

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
    let short = Parts::of(name).map(|parts| parts.last_two());
    short.filter(|short| !short.is_empty()).unwrap_or_else(|| name.to_owned())
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
            ("bool operator<(A const&, B const&)", "operator<"),
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
