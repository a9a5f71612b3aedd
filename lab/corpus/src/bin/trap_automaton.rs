//! Searches text with a table of states: each step looks up the next state.
//! planted: nothing
struct Automaton {
    next: Vec<u16>,
    accepts: Vec<bool>,
}

impl Automaton {
    fn for_word(word: &[u8]) -> Self {
        let mut next = vec![0u16; (word.len() + 1) * 256];
        for state in 0..=word.len() {
            for byte in 0..=255u8 {
                let mut seen = word[..state].to_vec();
                seen.push(byte);
                let longest = (0..=word.len()).rev().find(|length| seen.ends_with(&word[..*length]));
                next[state * 256 + usize::from(byte)] = longest.unwrap_or(0) as u16;
            }
        }
        Self { next, accepts: (0..=word.len()).map(|state| state == word.len()).collect() }
    }

    #[inline(never)]
    fn count(&self, text: &[u8]) -> u64 {
        let (mut state, mut found) = (0usize, 0);
        for byte in text {
            state = usize::from(self.next[(state << 8) | usize::from(*byte)]);
            found += u64::from(self.accepts[state]);
        }
        found
    }
}

fn main() {
    let text = lab_corpus::text(200_000, 2_000);
    let automaton = Automaton::for_word(b"abba");
    let mut found = 0;
    for _ in 0..150 {
        found += automaton.count(std::hint::black_box(text.as_bytes()));
    }
    println!("{found}");
}
