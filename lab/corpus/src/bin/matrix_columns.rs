//! Normalises the columns of a matrix that is stored by rows, one column after the other.
//! planted: strided-access
//! also: serial-chain
const SIZE: usize = 2_000;

fn sums_by_columns(matrix: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0; SIZE];
    for column in 0..SIZE {
        for row in 0..SIZE {
            sums[column] += matrix[row * SIZE + column];
        }
    }
    sums
}

fn sums_by_rows(matrix: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0; SIZE];
    for row in matrix.chunks_exact(SIZE) {
        for (sum, value) in sums.iter_mut().zip(row) {
            *sum += value;
        }
    }
    sums
}

fn main() {
    let slow = lab_corpus::is_slow();
    let matrix: Vec<f64> = (0..SIZE * SIZE).map(|at| (at % 13) as f64).collect();
    let mut total = 0.0;
    for _ in 0..24 {
        let sums = if slow { sums_by_columns(&matrix) } else { sums_by_rows(&matrix) };
        total += sums.iter().sum::<f64>();
    }
    println!("{total}");
}
