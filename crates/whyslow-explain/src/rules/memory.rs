//! Allocating, copying and freeing.

use regex::Regex;
use whyslow_asm::Language;
use whyslow_profile::Profile;

use crate::finding::{Confidence, Place};
use crate::language::language_of;
use crate::rule::{Beneath, Frames, Rule, Signal};
use crate::rules::RuleId;

pub(super) static ALLOCATOR_HEAVY: Rule = Rule {
    id: RuleId::AllocatorHeavy,
    title: "much of the time is spent allocating and freeing memory",
    rust: "allocate less often: reuse a buffer that lives outside the loop (clear() keeps its memory), keep small values on the stack, \
           or put values with the same lifetime into an arena; if you need every allocation, try another allocator such as mimalloc",
    native: Some(
        "allocate less often: reuse buffers outside the loop, keep small values on the stack, use an arena (std::pmr in C++), or try another allocator",
    ),
    signal: Signal::Frames(
        Frames::new(&[
            r"^(?:__GI_|__libc_|je_|mi_|_rjem_|_mi_|tc_)?_*(?:libc_)?(?:malloc|calloc|realloc|free|cfree|memalign|posix_memalign|aligned_alloc)(?:_.*)?$",
            r"^_int_(?:malloc|free|realloc|memalign)|^malloc_consolidate|^unlink_chunk|^sysmalloc|^systrim",
            r"^alloc::alloc::(?:alloc|dealloc|realloc|alloc_zeroed|__rust_alloc)|__rust_(?:alloc|dealloc|realloc)|^__rdl_",
            r"^operator (?:new|delete)",
        ])
        .absorbs(&[RuleId::DropHeavy])
        .least(0.10),
    ),
};

/// Functions that give memory back.
const FREES: &str = r"^(?:__GI_|__libc_|je_|mi_|_rjem_|_mi_|tc_)?_*(?:libc_)?c?free(?:_.*)?$|^_int_free|^__rdl_dealloc|__rust_dealloc|^alloc::alloc::dealloc|^operator delete|^malloc_consolidate";

pub(super) static VEC_GROWTH: Rule = Rule {
    id: RuleId::VecGrowth,
    title: "a vector or string is reallocated repeatedly while it is filled",
    rust: "set the size up front with Vec::with_capacity(n), reserve(n), or collect() from an iterator that knows its length; or keep one vector, clear() it and refill it",
    native: Some("call reserve(n) before filling it, or keep one, clear() it and refill it"),
    signal: Signal::Frames(Frames::new(&[
        r"RawVec(?:Inner)?\b.*::(?:grow_one|grow_amortized|grow_exact|finish_grow|reserve_for_push|do_reserve_and_handle|reserve)\b",
        r"^(?:void )?std::vector<.*>::_M_(?:realloc_insert|realloc_append|fill_insert|default_append)",
    ])
    // A compiler moves instructions of an inlined `_M_realloc_insert` into the loop around it, where they run although
    // nothing grows. So a vector of C++ grows only where something is allocated, moved or freed beneath.
    .needs(&[
        r"finish_grow|grow_amortized|do_reserve_and_handle|(?:^|[^_M])_*realloc",
        r"^operator (?:new|delete)|::_M_(?:de)?allocate\b|^_*mem(?:move|cpy)|^(?:\w+ )*std::__(?:relocate|uninitialized|do_uninit)",
    ])
    .on_line(is_in_counted_loop).least(0.05).or_by(super::heap::vec_growth)),
};

pub(super) static CLONE_HEAVY: Rule = Rule {
    id: RuleId::CloneHeavy,
    title: "cloning values copies everything they own",
    rust: "borrow instead (&T, &str, &[T]), share with Rc or Arc, use Cow if only some are modified, or clone_from() into an existing value",
    native: Some("pass by const reference or std::string_view, or move instead of copying"),
    signal: Signal::Frames(
        Frames::new(&[
            r" as core::clone::Clone>::clone(?:_from)?$",
            r"core::clone::Clone::clone_from$",
            r"::to_vec(?:_in)?(?:::<.*>)?$",
            r"alloc::(?:borrow::ToOwned|str::<impl .*ToOwned for str>|slice::<impl .*ToOwned for \[T\]>)::to_owned$",
            r"<str as alloc::(?:string::(?:SpecToString|ToString)|borrow::ToOwned)>::|<alloc::string::String as core::convert::From<&(?:mut )?str>>::from$",
        ])
        .with(Beneath::All)
        .absorbs(&[RuleId::DropHeavy, RuleId::AllocatorHeavy])
        // A counted reference is not what it points to.
        .ended_by(&[r"<alloc::(?:rc|sync)::(?:Rc|Arc|UniqueRc|Weak)<.*> as core::clone::Clone>::clone$"])
        // Numbers and others that are written as text are not copied, and words that are collected are kept.
        .unless(&[r"alloc::vec::from_elem|extend_with|core::fmt::|alloc::fmt::format|<(?:u|i)(?:8|16|32|64|128|size) as alloc::string::|<f(?:32|64) as alloc::string::|FromIterator<.*>>::from_iter$"]),
    ),
};

pub(super) static DROP_HEAVY: Rule = Rule {
    id: RuleId::DropHeavy,
    title: "large or many values are dropped element by element",
    rust: "keep fewer, larger allocations (Vec instead of boxes, an arena), reuse values instead of dropping them, \
           or std::mem::forget values that live until the program exits",
    native: Some(
        "keep fewer, larger allocations, use an arena, or do not free values that live until the program exits",
    ),
    signal: Signal::Frames(
        Frames::new(&[
            r"drop_in_place(?:::)?<\[|^(?:void )?std::_Rb_tree<.*>::_M_erase\(|^(?:void )?std::_Destroy",
            r"drop_slow$|Dropper|DropGuard|drop_elements|drop_inner_table|dying_next|deallocating_",
        ])
        .with(Beneath::All)
        // Elements that own nothing, or count a reference down, are no blocks that an arena saves.
        .needs(&[FREES])
        .least(0.10),
    ),
};

pub(super) static MEMORY_COPIES: Rule = Rule {
    id: RuleId::MemoryCopies,
    title: "large or frequent memory copies (memcpy, memmove)",
    rust: "pass large values by reference or in a Box, box the large variants of an enum, and copy whole slices once instead of repeatedly",
    native: Some("pass large values by reference or pointer, and move containers instead of copying them"),
    signal: Signal::Frames(
        Frames::new(&[r"^_*(?:GI_+)?mem(?:cpy|move)(?:_chk)?(?:_.*)?$"])
            // Copies that the program asks for: text and slices are put together, and files are read and written.
            .unless(&[
                r"std::io::|BufReader|BufWriter|^<*alloc::(?:string|str|slice|borrow|fmt|collections)::|<impl \[T\]>::|<\[.*\]>::",
                r"extend_from_slice|append_elements|spec_extend|SpecExtend|copy_nonoverlapping|copy_within|core::fmt::",
                r"^(?:_IO_|__GI__IO_|fwrite|fread|fputs|fgets|str|realloc)|basic_(?:file|string)buf|basic_[io]?stream",
            ])
            .on_line(is_no_explicit_copy)
            .least(0.10)
            .at_most(Confidence::Medium),
    ),
};

pub(super) static FRONT_REMOVAL: Rule = Rule {
    id: RuleId::FrontRemoval,
    title: "removing from or inserting into the front or middle of a vector moves all later elements",
    rust: "remove from the end with pop() or swap_remove(), use a VecDeque for a queue, or remove many at once with retain() or drain()",
    native: Some("remove from the end, use a std::deque for a queue, or erase-remove many at once"),
    signal: Signal::Frames(Frames::new(&[
        r"alloc::vec::Vec<.*>>?::(?:remove|try_remove|insert|insert_mut)$",
        r"alloc::vec::drain::Drain<.*> as core::ops::drop::Drop>::drop",
        r"alloc::string::String>?::(?:remove|insert|insert_str)$",
        r"^(?:void )?std::vector<.*>::(?:_M_erase|_M_insert_aux|erase)\(",
    ])),
};

pub(super) static PAGE_FAULTS: Rule = Rule {
    id: RuleId::PageFaults,
    title: "page faults: the kernel maps fresh memory over and over",
    rust: "reuse large buffers instead of allocating new ones; vec![0; n] with a large n creates a new mapping each time, and each of its pages faults on first use",
    native: Some(
        "reuse large buffers; mallopt(M_MMAP_THRESHOLD, …) and M_TRIM_THRESHOLD keep freed memory in the process",
    ),
    signal: Signal::Frames(
        Frames::new(&[
            r"^asm_exc_page_fault$|^exc_page_fault$|^do_user_addr_fault$|^handle_mm_fault$|^clear_page",
            r"^__x64_sys_(?:munmap|mmap|madvise)$|^systrim|^heap_trim|^malloc_trim",
        ])
        .least(0.10)
        // Memory that is mapped once faults once. Only what is unmapped is mapped again.
        .rounds_end_in(&[r"^__x64_sys_(?:munmap|madvise)$|^systrim|^heap_trim|^malloc_trim"])
        // A large buffer is filled in one place. Small blocks all over the program have no buffer to reuse.
        .in_one_function(0.5)
        // Pages of a mapped file, and those that a new process copies.
        .refuted_by(&[r"^filemap_|^do_(?:read|shared|cow)_fault$|^do_fault_around$|^(?:do_)?wp_page|^next_uptodate_folio$"], 1.0 / 3.0)
        .unless(&["_dl_start|^_dl_|execve|^main$"]),
    ),
};

pub(super) static COLLECT_THEN_ITERATE: Rule = Rule {
    id: RuleId::CollectThenIterate,
    title: "items are collected into a Vec that is only iterated once",
    rust: "continue with the iterator instead of collecting it, or return `impl Iterator`; if you need the items twice, refill one Vec (clear, extend)",
    native: None,
    signal: Signal::Frames(
        Frames::new(&[r"as core::iter::traits::collect::FromIterator<.*>>::from_iter$"])
            .on_line(is_iterated_once)
            .least(0.10)
            .at_most(Confidence::Low),
    ),
};

/// Whether a line is the body of a `for` over something whose length is known before: only then is there a size to set.
pub(super) fn is_in_counted_loop(profile: &Profile, place: &Place) -> bool {
    /// The head is at most this many lines before.
    const BEFORE: u32 = 12;
    const UNKNOWN: [&str; 14] = [
        "lines(",
        "split",
        "chars(",
        "bytes(",
        "filter",
        "take_while",
        "read",
        "recv",
        "matches(",
        "walk",
        "successors",
        "from_fn",
        "flat_map",
        ";;",
    ];
    let Some(file) = place.file else { return false };
    let text = |line: u32| profile.sources.get(file, line).map(|text| profile.text(text));
    let depth = |text: &str| text.len() - text.trim_start().len();
    let is_counted = |text: &str| {
        let head = text.trim_start();
        (head.starts_with("for ") || head.starts_with("for("))
            && !UNKNOWN.iter().any(|word| head.contains(word))
    };
    // An imported profile may have no source.
    let Some(here) = text(place.line) else { return true };
    let mut before = (place.line.saturating_sub(BEFORE)..place.line).rev().filter_map(text);
    let outer = before.find(|text| !text.trim().is_empty() && depth(text) < depth(here));
    is_counted(here) || outer.is_some_and(is_counted)
}

/// Whether a line of C or C++ copies by itself, not because the program calls `memcpy` or the like.
fn is_no_explicit_copy(profile: &Profile, place: &Place) -> bool {
    if language_of(profile, place) == Language::Rust {
        return true;
    }
    let text = place.file.and_then(|file| profile.sources.get(file, place.line));
    let text = text.map(|text| profile.text(text));
    text.is_some_and(|text| !["cpy", "memmove", "copy", "bcopy"].iter().any(|word| text.contains(word)))
}

/// Whether the collection that a line creates is used only once, to iterate over it.
fn is_iterated_once(profile: &Profile, place: &Place) -> bool {
    /// A statement starts at most this many lines before its `collect`.
    const BEFORE: u32 = 8;
    /// Uses of the collection are searched for in this many lines after it.
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
