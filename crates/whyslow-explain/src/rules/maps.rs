//! Maps and sets.

use super::memory::is_in_counted_loop;
use crate::finding::Confidence;
use crate::rule::{Frames, Rule, Signal};
use crate::rules::RuleId;

pub(super) static SMALL_KEY_MAP: Rule = Rule {
    id: RuleId::SmallKeyMap,
    title: "small keys are hashed with SipHash: hashing takes longer than the rest of the lookup",
    rust: "use a faster hasher for keys that do not come from untrusted input: rustc-hash (FxHashMap), foldhash or ahash; for small dense numbers, use a Vec indexed by the key",
    native: None,
    signal: Signal::Frames(Frames::new(&[
        r"core::hash::impls::<impl core::hash::Hash for (?:u|i)(?:8|16|32|64|128|size)>::hash$|core::hash::impls::<impl core::hash::Hash for (?:char|bool)>::hash$",
        r"<std::hash::random::RandomState as core::hash::BuildHasher>::hash_one::<&?&?(?:u|i)(?:8|16|32|64|128|size)>$",
    ])
    .absorbs(&[RuleId::SipHash])
    .refuted_by(&[r"foldhash|ahash|rustc_hash|fxhash|fnv::|xxh|wyhash|nohash|seahash|metrohash"], 1.0 / 3.0)),
};

pub(super) static SIP_HASH: Rule = Rule {
    id: RuleId::SipHash,
    title: "keys are hashed with SipHash, HashMap's safe but slow default",
    rust: "use a faster hasher for keys that do not come from untrusted input: rustc-hash (FxHashMap), foldhash or ahash; hash less often: use the entry API instead of get and insert",
    native: None,
    signal: Signal::Frames(Frames::new(&[
        // Anchored at the start: the drop of a map has the hasher among its type arguments.
        r"^<*&?(?:core::hash::sip::|std::hash::random::(?:DefaultHasher|RandomState)\b)",
    ])),
};

pub(super) static MAP_GROWTH: Rule = Rule {
    id: RuleId::MapGrowth,
    title: "a hash map is resized repeatedly while it is filled, and each resize rehashes every key",
    rust: "set the size up front with HashMap::with_capacity(n) or reserve(n); or keep one map, clear() it and refill it",
    native: Some("call reserve(n) before filling it"),
    signal: Signal::Frames(
        Frames::new(&[
            r"hashbrown::raw::.*::(?:reserve_rehash\w*|resize_inner|resize|rehash_in_place)",
            r"std::_Hashtable<.*>::_M_rehash",
        ])
        .on_line(is_in_counted_loop),
    ),
};

pub(super) static BTREE_SEARCH: Rule = Rule {
    id: RuleId::BtreeSearch,
    title: "lookups in ordered maps (BTreeMap, std::map) compare keys level by level",
    rust: "use a HashMap if you do not need the order, or a sorted Vec with binary search once the map no longer changes",
    native: Some(
        "use std::unordered_map if you do not need the order, or a sorted std::vector with std::lower_bound",
    ),
    signal: Signal::Frames(
        Frames::new(&[
            r"^<*alloc::collections::btree::(?:map|set)::BTree(?:Map|Set)<.*>::(?:get|get_mut|get_key_value|contains_key|contains)(?:::<.*>)?$",
            r"std::_Rb_tree<.*>::find\(|^std::(?:map|set)<.*>::(?:find|at|count|contains)\(",
        ])
        // What uses the order, or changes all the time, has a tree for a reason. Rust's runtime removes its own
        // thread from a tree at exit: that is too little to count.
        .needed_at(0.01)
        .needed_for(&[
            r"^<*alloc::collections::btree::(?:map|set)::BTree(?:Map|Set)<.*>::(?:range|range_mut|first|last|first_key_value|last_key_value|first_entry|last_entry|pop_first|pop_last|lower_bound|upper_bound|split_off|extract_if|remove|remove_entry|take|retain)\b",
            r"^<*alloc::collections::btree::(?:map|set)::(?:Iter|IterMut|IntoIter|Keys|Values|ValuesMut|IntoKeys|IntoValues|Range|RangeMut)<.*> as core::iter::traits::\w+::\w+>::",
            r"^<*alloc::collections::btree::map::entry::OccupiedEntry<.*>::remove",
            r"^std::_Rb_tree_(?:const_)?iterator<.*>::operator\+\+|^std::_Rb_tree<.*>::(?:erase|_M_erase_aux)\b|_Rb_tree_rebalance_for_erase",
            r"^std::(?:multi)?(?:map|set)<.*>::(?:upper_bound|equal_range|rbegin)\b",
        ])
        .least(0.10)
        .at_most(Confidence::Medium),
    ),
};
