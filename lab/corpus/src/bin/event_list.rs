//! Walks a linked list whose nodes lie anywhere in memory.
//! planted: pointer-chase
//! also: cache-misses, allocator-heavy
struct Event {
    cost: u64,
    next: Option<Box<Event>>,
}

fn total(mut list: &Option<Box<Event>>) -> u64 {
    let mut sum = 0;
    while let Some(event) = list {
        sum += event.cost;
        list = &event.next;
    }
    sum
}

fn main() {
    let slow = lab_corpus::is_slow();
    let mut random = lab_corpus::Random(4);
    let mut nodes: Vec<Box<Event>> = (0..400_000).map(|cost| Box::new(Event { cost, next: None })).collect();
    for at in (1..nodes.len()).rev() {
        nodes.swap(at, random.below(at as u64 + 1) as usize);
    }
    let costs: Vec<u64> = nodes.iter().map(|node| node.cost).collect();
    let mut list = None;
    for mut node in nodes {
        node.next = list;
        list = Some(node);
    }
    let mut sum = 0;
    for _ in 0..40 {
        sum += if slow { total(&list) } else { costs.iter().sum() };
    }
    println!("{sum}");
    // A long list would be dropped by recursion.
    while let Some(mut node) = list {
        list = node.next.take();
    }
}
