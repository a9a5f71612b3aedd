//! Sums squares of floating-point numbers into one variable.
//! planted: serial-chain, not-vectorised
//! also: narrow-vectors, no-fused-multiply-add
fn one_sum(values: &[f64]) -> f64 {
    let mut sum = 0.0;
    for value in values {
        sum += value * value;
    }
    sum
}

fn eight_sums(values: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let parts = values.chunks_exact(8);
    let rest: f64 = parts.remainder().iter().map(|value| value * value).sum();
    for part in parts {
        for (sum, value) in sums.iter_mut().zip(part) {
            *sum += value * value;
        }
    }
    sums.iter().sum::<f64>() + rest
}

fn main() {
    let slow = lab_corpus::is_slow();
    let values: Vec<f64> = (0..2_048).map(|at| f64::from(at % 9)).collect();
    let mut total = 0.0;
    for _ in 0..400_000 {
        let values = std::hint::black_box(&values);
        total += if slow { one_sum(values) } else { eight_sums(values) };
    }
    println!("{total}");
}
