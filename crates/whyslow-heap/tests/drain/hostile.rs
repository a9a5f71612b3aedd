//! Areas full of nonsense: the drain neither stops nor hangs, whatever a program writes.

use std::sync::atomic::Ordering;

use crate::fake::{Drain, FakeRing};
use proptest::prelude::*;
use whyslow_agent_host::{Until, sys};
use whyslow_agent_wire::area::{RING_WORDS, ring};
use whyslow_agent_wire::record::{self, Stack, op};
use whyslow_heap::Config;
use whyslow_profile::HeapNote;

/// Words that are valid records more often than random ones.
fn word() -> impl Strategy<Value = u64> {
    let kind = 0u64..14;
    let near =
        (kind, 0u64..100, 0u64..16).prop_map(|(kind, ticks, slot)| record::head(kind, ticks, slot << 12));
    let stack = (0usize..3, 0usize..3, any::<bool>(), 0usize..4, 0usize..4)
        .prop_map(|(from, to, cut, kept, fresh)| record::stack(Stack { from, to, cut, kept, fresh }));
    prop_oneof![4 => near, 2 => stack, 1 => 0u64..100, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_area_can_be_read(
        rings in proptest::collection::vec((proptest::collection::vec(word(), 0..120), any::<u32>(), 0u32..4), 1..5),
        written in proptest::option::of(any::<u64>()),
        modules in proptest::collection::vec(any::<u64>(), 0..40),
        modules_used in prop_oneof![0u32..400, any::<u32>()],
        numbers in any::<[u32; 4]>(),
        sampled in any::<bool>(),
        safe in any::<bool>(),
    ) {
        let sample_bytes = sampled.then_some(4096);
        let config = Config { sample_bytes, leak_check: true, unused: true, maps: true, ..Config::default() };
        let mut drain = Drain::new(config);
        let area = drain.arrive();
        for (at, &word) in modules.iter().enumerate() {
            area.modules()[at].store(word, Ordering::Relaxed);
        }
        let header = area.header();
        header.modules_used.store(modules_used, Ordering::Relaxed);
        let [used, active, exiting, exiting_tid] = numbers;
        header.rings_used.store(used.max(rings.len() as u32), Ordering::Relaxed);
        header.rings_active.store(active, Ordering::Relaxed);
        header.exiting_pid.store(exiting, Ordering::Relaxed);
        header.exiting_tid.store(exiting_tid, Ordering::Relaxed);
        header.lost_events.store(u64::MAX, Ordering::Relaxed);
        header.lost_ringless.store(u64::MAX, Ordering::Relaxed);
        for (number, (words, pid, state)) in rings.iter().enumerate() {
            let header = area.ring(number).expect("a ring");
            for (at, &word) in words.iter().enumerate() {
                area.words(number).expect("words")[at].store(word, Ordering::Relaxed);
            }
            header.pid.store(*pid, Ordering::Relaxed);
            header.tid.store(*pid, Ordering::Relaxed);
            header.state.store(*state, Ordering::Relaxed);
            header.written.store(written.unwrap_or(words.len() as u64), Ordering::Relaxed);
        }
        for _ in 0..3 {
            drain.round(if safe { Until::Now } else { Until::End });
            drain.take();
            for number in 0..rings.len() {
                // A writer that moves back or forward without writing.
                area.ring(number).expect("a ring").written.fetch_add(u64::from(exiting) * 97, Ordering::Relaxed);
            }
        }
        drain.finish();
    }
}

#[test]
fn a_time_from_the_future_does_not_stop_others() {
    let mut drain = Drain::new(Config::default());
    let area = drain.arrive();
    let mut liar = FakeRing::take(&area, 0, 1, 1);
    let mut honest = FakeRing::take(&area, 1, 1, 2);
    liar.alloc(1 << 59, 0x1000, 1, 10);
    honest.alloc(sys::now().0, 0x2000, 1, 20);
    let mut events = 0;
    for _ in 0..10_000 {
        events += drain.round(Until::Now).events;
        if events == 2 {
            break;
        }
        std::thread::yield_now();
    }
    assert_eq!(events, 2);
    assert_eq!(drain.finish().facts.peak_bytes, 30);
}

#[test]
fn more_bytes_than_a_number_holds_do_not_stop_the_drain() {
    let mut drain = Drain::new(Config::default());
    let area = drain.arrive();
    let mut ring = FakeRing::take(&area, 0, 1, 1);
    let tick = sys::now().0;
    // 2^18 blocks of 2^47 bytes.
    for round in 0..64 {
        for block in 0..4096u64 {
            ring.put(tick, op::ALLOC, (round * 4096 + block) * 8, &[u64::MAX]);
        }
        drain.round(Until::Now);
    }
    drain.finish();
}

#[test]
fn gives_up_a_damaged_ring_with_a_note() {
    let mut drain = Drain::new(Config::default());
    let area = drain.arrive();
    let mut ring = FakeRing::take(&area, 0, 1, 1);
    let mut good = FakeRing::take(&area, 1, 1, 2);
    let tick = sys::now().0;
    ring.alloc(tick, 0x1000, 1, 10);
    ring.put(tick, 15, 0, &[]);
    good.alloc(tick, 0x2000, 1, 20);
    drain.round(Until::End);
    // It can still write and is still read, so that it does not wait for room; but nothing counts.
    for _ in 0..3 * RING_WORDS / 2 {
        ring.alloc(tick, 0x3000, 1, 40);
        drain.round(Until::End);
    }
    assert_eq!(area.ring(0).expect("ring").state.load(Ordering::Relaxed), ring::LIVE);
    let outcome = drain.finish();
    assert_eq!(outcome.facts.peak_bytes, 30);
    assert!(
        outcome.notes.iter().any(|note| matches!(note, HeapNote::DamagedRecords { .. })),
        "{:?}",
        outcome.notes
    );
}
