//! What all programs of the corpus share: which half to run, and their input.

/// Whether to run the half with the planted inefficiency. `PROGRAM slow` or `PROGRAM fast`.
pub fn is_slow() -> bool {
    match std::env::args().nth(1).as_deref() {
        Some("slow") => true,
        Some("fast") => false,
        _ => panic!("say slow or fast"),
    }
}

/// Numbers that no compiler can predict.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// A text of this many words, of a vocabulary of this size, ten words to a line.
pub fn text(words: usize, vocabulary: u64) -> String {
    let mut random = Random(88_172_645_463_325_252);
    let mut text = String::with_capacity(words * 9);
    for at in 0..words {
        let mut word = random.below(vocabulary) + 1_000;
        while word > 0 {
            text.push((b'a' + (word % 26) as u8) as char);
            word /= 26;
        }
        text.push(if at % 10 == 9 { '\n' } else { ' ' });
    }
    text
}

/// A file that no other run uses, deleted at the end.
pub struct Scratch(pub std::path::PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("{name}-{}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
