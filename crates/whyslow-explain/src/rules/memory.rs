//! Allocating, copying and freeing.

use regex::Regex;
use whyslow_profile::Profile;

use crate::finding::{Confidence, Place};
use crate::rule::{Beneath, Frames, Rule, Signal};

pub(super) static ALLOCATOR_HEAVY: Rule = Rule {
    id: "allocator-heavy",
    title: "much of the time goes into allocating and freeing memory",
    rust: "allocate less often: reuse a buffer that lives outside of the loop (clear() keeps its memory), keep small things on the stack, \
           or put many things with one life into an arena; if all sites are needed, try another allocator such as mimalloc",
    native: Some(
        "allocate less often: reuse buffers outside of the loop, keep small things on the stack, use an arena or std::pmr, or try another allocator",
    ),
    page: include_str!("../../../../docs/findings/allocator-heavy.md"),
    signal: Signal::Frames(
        Frames::new(&[
            r"^(?:__GI_|__libc_|je_|mi_|_rjem_|_mi_|tc_)?_*(?:libc_)?(?:malloc|calloc|realloc|free|cfree|memalign|posix_memalign|aligned_alloc)(?:_.*)?$",
            r"^_int_(?:malloc|free|realloc|memalign)|^malloc_consolidate|^unlink_chunk|^sysmalloc|^systrim",
            r"^alloc::alloc::(?:alloc|dealloc|realloc|alloc_zeroed|__rust_alloc)|__rust_(?:alloc|dealloc|realloc)|^__rdl_",
            r"^operator (?:new|delete)",
        ])
        .absorbs(&["drop-heavy"])
        .least(0.10),
    ),
};

pub(super) static VEC_GROWTH: Rule = Rule {
    id: "vec-growth",
    title: "a vector or string grows step by step while it is filled, and moves each time",
    rust: "say the size beforehand: Vec::with_capacity(n), reserve(n), or collect() from an iterator that knows its length; or clear() and fill one that is kept",
    native: Some("reserve(n) before filling it, or clear() and fill one that is kept"),
    page: include_str!("../../../../docs/findings/vec-growth.md"),
    signal: Signal::Frames(Frames::new(&[
        r"RawVec(?:Inner)?\b.*::(?:grow_one|grow_amortized|grow_exact|finish_grow|reserve_for_push|do_reserve_and_handle|reserve)\b",
        r"^(?:void )?std::vector<.*>::_M_(?:realloc_insert|realloc_append|fill_insert|default_append)",
        r"basic_string<.*>::_M_(?:mutate|create|append|replace)",
    ]).needs(&[r"finish_grow|grow_amortized|do_reserve_and_handle|realloc|_M_realloc|_M_fill_insert|_M_default_append|_M_mutate|_M_create"]).or_by(super::heap::vec_growth)),
};

pub(super) static CLONE_HEAVY: Rule = Rule {
    id: "clone-heavy",
    title: "values are cloned, which copies all that they own",
    rust: "borrow instead (&T, &str, &[T]), share with Rc or Arc, use Cow where only some are changed, or clone_from() into a value that is kept",
    native: Some("pass by const reference or std::string_view, or move instead of copying"),
    page: include_str!("../../../../docs/findings/clone-heavy.md"),
    signal: Signal::Frames(
        Frames::new(&[
            r" as core::clone::Clone>::clone(?:_from)?$",
            r"core::clone::Clone::clone_from$",
            r"::to_vec(?:_in)?(?:::<.*>)?$",
            r"alloc::(?:borrow::ToOwned|str::<impl .*ToOwned for str>|slice::<impl .*ToOwned for \[T\]>)::to_owned$",
            r"<str as alloc::(?:string::(?:SpecToString|ToString)|borrow::ToOwned)>::|<alloc::string::String as core::convert::From<&(?:mut )?str>>::from$",
        ])
        .with(Beneath::All)
        .absorbs(&["drop-heavy", "allocator-heavy"])
        .unless(&[r"alloc::vec::from_elem|extend_with|core::fmt::|alloc::fmt::format"]),
    ),
};

pub(super) static DROP_HEAVY: Rule = Rule {
    id: "drop-heavy",
    title: "much of the time goes into dropping values, piece by piece",
    rust: "keep fewer, larger allocations (Vec instead of boxes, an arena), reuse values instead of dropping them, \
           or std::mem::forget what lives until the end of the program",
    native: Some(
        "keep fewer, larger allocations, use an arena, or leave what lives until the end of the program",
    ),
    page: include_str!("../../../../docs/findings/drop-heavy.md"),
    signal: Signal::Frames(
        Frames::new(&[
            r"^core::ptr::drop_in_place", r"^(?:void )?std::_Rb_tree<.*>::_M_erase\(", r"^(?:void )?std::_Destroy",
            r"^core::mem::drop\b",
            r"alloc::sync::Arc<.*>::drop_slow$",
            r"alloc::rc::Rc<.*>::drop_slow$",
        ])
        .with(Beneath::All)
        .needs(&[
            r"drop_in_place(?:::)?<\[",
            r"drop_slow$|Dropper|DropGuard|drop_elements|drop_inner_table|dying_next|deallocating_|_Rb_tree|_Destroy",
        ])
        .least(0.10),
    ),
};

pub(super) static MEMORY_COPIES: Rule = Rule {
    id: "memory-copies",
    title: "memory is copied from place to place",
    rust: "pass large values by reference or in a Box, box the large variants of an enum, and copy whole slices once instead of again and again",
    native: Some("pass large values by reference or pointer, and move containers instead of copying them"),
    page: include_str!("../../../../docs/findings/memory-copies.md"),
    signal: Signal::Frames(
        Frames::new(&[r"^_*(?:GI_+)?mem(?:cpy|move)(?:_chk)?(?:_.*)?$"])
            .unless(&[r"std::io::|BufReader|BufWriter"])
            .least(0.10)
            .at_most(Confidence::Medium),
    ),
};

pub(super) static FRONT_REMOVAL: Rule = Rule {
    id: "front-removal",
    title: "things are taken out of, or put into, the middle of a vector, and all behind them move",
    rust: "take from the end with pop() or swap_remove(), use a VecDeque for a queue, or retain()/drain() for many at once",
    native: Some("take from the end, use a std::deque for a queue, or erase-remove many at once"),
    page: include_str!("../../../../docs/findings/front-removal.md"),
    signal: Signal::Frames(Frames::new(&[
        r"alloc::vec::Vec<.*>>?::(?:remove|try_remove|insert|insert_mut)$",
        r"alloc::vec::drain::Drain<.*> as core::ops::drop::Drop>::drop",
        r"alloc::string::String>?::(?:remove|insert|insert_str)$",
        r"^(?:void )?std::vector<.*>::(?:_M_erase|_M_insert_aux|erase)\b[^>]*$",
    ])),
};

pub(super) static PAGE_FAULTS: Rule = Rule {
    id: "page-faults",
    title: "the kernel brings in new pages of memory again and again",
    rust: "keep large buffers and use them again instead of making new ones; vec![0; n] of a large n is a new mapping each time, and its pages come one by one",
    native: Some(
        "keep large buffers and use them again; mallopt(M_MMAP_THRESHOLD, …) and M_TRIM_THRESHOLD keep memory that is freed",
    ),
    page: include_str!("../../../../docs/findings/page-faults.md"),
    signal: Signal::Frames(
        Frames::new(&[
            r"^asm_exc_page_fault$|^exc_page_fault$|^do_user_addr_fault$|^handle_mm_fault$|^clear_page",
            r"^__x64_sys_(?:munmap|mmap|brk|madvise)$",
        ])
        .least(0.10)
        .unless(&["_dl_start|^_dl_|execve|^main$"]),
    ),
};

pub(super) static COLLECT_THEN_ITERATE: Rule = Rule {
    id: "collect-then-iterate",
    title: "items are collected into a Vec that is dropped again soon",
    rust: "go on with the iterator instead of collecting it, or return `impl Iterator`; where it is needed twice, fill a Vec that is kept (clear, extend)",
    native: None,
    page: include_str!("../../../../docs/findings/collect-then-iterate.md"),
    signal: Signal::Frames(
        Frames::new(&[r"as core::iter::traits::collect::FromIterator<.*>>::from_iter$"])
            .on_line(is_iterated_once)
            .least(0.10)
            .at_most(Confidence::Low),
    ),
};

/// Whether what a line collects is used once, and only to be gone through.
fn is_iterated_once(profile: &Profile, place: &Place) -> bool {
    /// A statement begins so many lines before its `collect`, at most.
    const BEFORE: u32 = 8;
    /// What it makes is looked for in so many lines after it.
    const AFTER: u32 = 40;
    let Some(file) = place.file else { return false };
    let text = |line: u32| profile.sources.get(file, line).map(|text| profile.text(text));
    let here = text(place.line).unwrap_or("");
    if !here.contains("collect") {
        return false;
    }
    let name = (place.line.saturating_sub(BEFORE)..=place.line).rev().find_map(|line| {
        let rest = text(line)?.trim_start().strip_prefix("let ")?;
        let rest = rest.strip_prefix("mut ").unwrap_or(rest);
        Some(rest.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect::<String>())
    });
    let Some(name) = name.filter(|name| !name.is_empty()) else { return false };
    let (Ok(used), Ok(iterated)) = (
        Regex::new(&format!(r"\b{name}\b")),
        Regex::new(&format!(r"\bin &?{name}\b|\b{name}(?:\.iter\(\)|\.into_iter\(\)|\.drain\(\.\.\))")),
    ) else {
        return false;
    };
    let after = (place.line + 1..place.line + AFTER).map_while(text).take_while(|line| *line != "}");
    let after = after.collect::<Vec<_>>().join("\n");
    used.find_iter(&after).count() == 1 && iterated.is_match(&after)
}
