//! The allocator that a program uses: one that it has already is no advice.

use whyslow_profile::Profile;

/// The ends of advice to use another allocator than libc's.
const ANOTHER: [&str; 2] =
    ["; if you need every allocation, try another allocator such as mimalloc", ", or try another allocator"];

/// Allocators that replace libc's: their name, how their functions start, and how their libraries start.
const REPLACEMENTS: [(&str, &[&str], &str); 4] = [
    ("jemalloc", &["_rjem_", "rjem_", "je_malloc", "je_free", "je_sdallocx", "je_mallocx"], "libjemalloc"),
    (
        "mimalloc",
        &["mi_malloc", "mi_free", "mi_heap_", "mi_theap_", "mi_realloc", "mi_page_", "_mi_"],
        "libmimalloc",
    ),
    ("tcmalloc", &["tc_malloc", "tc_free", "tcmalloc::"], "libtcmalloc"),
    ("snmalloc", &["sn_rust_alloc", "sn_rust_dealloc", "snmalloc::"], "libsnmalloc"),
];

/// Advice for this program: without "try another allocator" if it has one.
pub(crate) fn advice(profile: &Profile, advice: &str) -> String {
    let shorter = ANOTHER.iter().find_map(|end| advice.strip_suffix(end));
    match shorter.and_then(|shorter| Some((shorter, replacement(profile)?))) {
        Some((shorter, name)) => format!("{shorter}; the program already uses {name}"),
        None => advice.to_owned(),
    }
}

/// The allocator that the program uses instead of libc's, if its code was sampled.
fn replacement(profile: &Profile) -> Option<&'static str> {
    let is_of = |starts: &[&str]| {
        profile.functions.iter().any(|function| {
            let names = [profile.text(function.name), profile.text(function.raw_name)];
            starts.iter().any(|start| names.iter().any(|name| name.starts_with(start)))
        })
    };
    let is_library = |start: &str| {
        let base = |path: &str| path.rsplit('/').next().is_some_and(|name| name.starts_with(start));
        profile.modules.iter().any(|module| base(profile.text(module.path)))
    };
    let found = REPLACEMENTS.iter().find(|(_, starts, library)| is_of(starts) || is_library(library));
    found.map(|(name, ..)| *name)
}

#[cfg(test)]
mod tests {
    use whyslow_analyze::testing;
    use whyslow_asm::Language;

    use super::*;
    use crate::RuleId;

    #[test]
    fn a_program_is_not_advised_to_use_the_allocator_that_it_has() {
        let rule = RuleId::AllocatorHeavy.rule();
        for language in [Language::Rust, Language::Native] {
            let own = rule.advice(language);
            let libc = advice(&testing::profile("app::main;malloc;_int_malloc 900"), own);
            assert!(libc.contains("try another allocator"), "{libc}");
            for (function, name) in
                [("_rjem_malloc", "jemalloc"), ("mi_malloc_aligned", "mimalloc"), ("tc_malloc", "tcmalloc")]
            {
                let given = advice(&testing::profile(&format!("app::main;{function} 900")), own);
                assert!(!given.contains("another allocator") && given.ends_with(name), "{given}");
            }
        }
    }
}
