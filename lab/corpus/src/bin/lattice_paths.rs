//! Counts paths through a lattice by plain recursion, which computes the same counts again and again.
//! planted: recursion
fn paths(rows: u64, columns: u64) -> u64 {
    if rows == 0 || columns == 0 {
        return 1;
    }
    paths(rows - 1, columns) + paths(rows, columns - 1)
}

fn paths_by_table(rows: u64, columns: u64) -> u64 {
    let mut counts = vec![1; columns as usize + 1];
    for _ in 0..rows {
        for at in 1..counts.len() {
            counts[at] += counts[at - 1];
        }
    }
    counts[columns as usize]
}

fn main() {
    let slow = lab_corpus::is_slow();
    let (rows, columns) = std::hint::black_box((15, 15));
    println!("{}", if slow { paths(rows, columns) } else { paths_by_table(rows, columns) });
}
