//! Renders frames, each into a fresh large buffer.
//! planted: page-faults, allocator-heavy
fn render(frame: &mut [u8], number: usize) -> u64 {
    for (at, pixel) in frame.iter_mut().enumerate().step_by(16) {
        *pixel = (at ^ number) as u8;
    }
    frame.iter().step_by(4096).map(|pixel| u64::from(*pixel)).sum()
}

fn main() {
    let slow = lab_corpus::is_slow();
    const BYTES: usize = 8 << 20;
    let mut kept = vec![0; BYTES];
    let mut sum = 0;
    for number in 0..180 {
        if slow {
            let mut frame = vec![0; BYTES];
            sum += render(&mut frame, number);
        } else {
            sum += render(&mut kept, number);
        }
    }
    println!("{sum}");
}
