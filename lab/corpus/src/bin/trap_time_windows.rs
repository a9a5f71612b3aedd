//! Keeps events in a BTreeMap, adds and removes them in turn, and asks for ranges.
//! planted: nothing
use std::collections::BTreeMap;

struct Timeline {
    events: BTreeMap<u64, u32>,
}

impl Timeline {
    fn window(&self, from: u64) -> u64 {
        self.events.range(from..).take(4).map(|(_, value)| u64::from(*value)).sum()
    }
}

fn main() {
    let mut random = lab_corpus::Random(50);
    let mut timeline = Timeline { events: BTreeMap::new() };
    let mut sum = 0;
    for _ in 0..2_000_000 {
        let time = random.below(1_000_000);
        timeline.events.insert(time, time as u32 % 10);
        if timeline.events.len() > 50_000 {
            timeline.events.pop_first();
        }
        sum += timeline.window(time);
    }
    println!("{sum}");
}
