//! Hands out counted references, which is cheap.
//! planted: nothing
use std::rc::Rc;

struct Style {
    width: u32,
}

struct Span {
    style: Rc<Style>,
    length: u32,
}

fn main() {
    let styles: Vec<Rc<Style>> = (0..8).map(|width| Rc::new(Style { width })).collect();
    let mut spans: Vec<Span> = Vec::with_capacity(1_000);
    let mut random = lab_corpus::Random(2);
    let mut sum = 0u64;
    for _ in 0..30_000 {
        spans.clear();
        for _ in 0..1_000 {
            let pick = random.next();
            spans.push(Span { style: Rc::clone(&styles[(pick % 8) as usize]), length: (pick >> 40) as u32 });
        }
        sum += spans.iter().map(|span| u64::from(span.style.width) * u64::from(span.length & 7)).sum::<u64>();
    }
    println!("{sum}");
}
