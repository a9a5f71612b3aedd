//! Runs the demonstration program by itself: `cargo run --release -p whyslow-lab-demo --example demo [SECONDS]`.

fn main() {
    whyslow_lab_demo::run(std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(1.5));
}
