//! Builds a report by making a new String for each added line.
//! planted: format-allocates, memory-copies
//! also: page-faults (each new String of some hundred kilobytes is mapped and given back)
use std::fmt::Write as _;

fn main() {
    let slow = lab_corpus::is_slow();
    let mut random = lab_corpus::Random(3);
    let mut report = String::new();
    for line in 0..14_000 {
        let (user, spent) = (random.below(900), random.below(10_000));
        if slow {
            report = format!("{report}{line}: user {user} spent {spent}\n");
        } else {
            let _ = writeln!(report, "{line}: user {user} spent {spent}");
        }
    }
    println!("{} {}", report.len(), report.bytes().map(u64::from).sum::<u64>());
}
