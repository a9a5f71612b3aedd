//! A table whose slots follow from a remainder by its length, which data decides.
//! planted: nothing
//! also: division
struct Table {
    slots: Vec<u64>,
}

impl Table {
    #[inline(never)]
    fn count(&mut self, keys: &[u64]) -> u64 {
        let mut seen = 0;
        for key in keys {
            let slot = (*key as usize) % self.slots.len();
            seen += self.slots[slot];
            self.slots[slot] = key & 7;
        }
        seen
    }
}

fn main() {
    let mut random = lab_corpus::Random(29);
    let keys: Vec<u64> = (0..100_000).map(|_| random.next()).collect();
    let mut table = Table { slots: vec![0; 1_009] };
    let mut seen = 0;
    for _ in 0..800 {
        seen += table.count(&keys);
    }
    println!("{seen}");
}
