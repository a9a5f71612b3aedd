//! Asks the kernel for the size of the same file for every item.
//! planted: syscall-per-item
//! record: --syscalls
fn main() {
    let slow = lab_corpus::is_slow();
    let path = lab_corpus::Scratch::new("stat");
    std::fs::write(&path.0, "limits").unwrap();
    let known = std::fs::metadata(&path.0).unwrap().len();
    let mut random = lab_corpus::Random(11);
    let mut over = 0;
    for _ in 0..250_000 {
        let limit = if slow { std::fs::metadata(&path.0).unwrap().len() } else { known };
        if random.below(10) > limit {
            over += 1;
        }
    }
    println!("{over}");
}
