//! The data that the agent sends to the host: a program can write anything into the shared area.
#![no_main]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use libfuzzer_sys::fuzz_target;
use whyslow_agent_host::{Area, Arrival, Clock, Host, Samples, Until};
use whyslow_agent_wire::area::ring;
use whyslow_heap::{Accounting, Config, NoInspector, NoSnapshots};

/// Rings and words to fill: larger areas only repeat these cases.
const RINGS: usize = 3;
const WORDS: usize = 512;

fuzz_target!(|bytes: &[u8]| {
    let Some((settings, bytes)) = bytes.split_first() else { return };
    let words: Vec<u64> =
        bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes"))).collect();
    let config = Config {
        sample_bytes: (settings & 1 != 0).then_some(4096),
        unused: settings & 2 != 0,
        maps: true,
        ..Config::default()
    };
    let clock = Clock::start();
    let heap = Accounting::new(config, clock, Arc::new(NoInspector), Arc::new(NoSnapshots));
    let mut host = Host::new(clock, vec![Box::new(heap), Box::new(Samples::new(1_000_000))]);
    let area = Area::create().expect("an area");
    let theirs = Area::map(area.file().expect("its file")).expect("a map");
    let pid = std::process::id();
    if !host.arrive(Arrival::new(area, pid, 1)) {
        return;
    }
    let share = words.len().div_ceil(RINGS).clamp(1, WORDS);
    for (number, words) in words.chunks(share).take(RINGS).enumerate() {
        let Some(header) = theirs.ring(number) else { continue };
        for (place, &word) in theirs.words(number).expect("words").iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        header.pid.store(pid, Ordering::Relaxed);
        header.tid.store(pid + number as u32, Ordering::Relaxed);
        header.state.store(ring::LIVE, Ordering::Relaxed);
        header.written.store(words.len() as u64, Ordering::Relaxed);
    }
    theirs.header().agent_start.store(0x1000, Ordering::Relaxed);
    theirs.header().rings_used.store(RINGS as u32, Ordering::Relaxed);
    theirs.header().rings_active.store(RINGS as u32, Ordering::Relaxed);
    host.round(if settings & 4 != 0 { Until::Now } else { Until::End });
    let _ = host.with(Accounting::take);
    let _ = host.with(|samples: &mut Samples, programs| samples.take(programs));
    host.finish();
    let _ = host.with(|heap: &mut Accounting, programs| heap.finish(programs, 0));
});
