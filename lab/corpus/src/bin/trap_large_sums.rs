//! Adds two large arrays, which takes as long as memory needs to deliver them.
//! planted: nothing
#[inline(never)]
fn add(to: &mut [f32], from: &[f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += from;
    }
}

fn main() {
    let mut sums = vec![0.0f32; 24_000_000];
    let parts = vec![0.5f32; 24_000_000];
    for _ in 0..30 {
        add(&mut sums, &parts);
    }
    println!("{}", sums[7]);
}
