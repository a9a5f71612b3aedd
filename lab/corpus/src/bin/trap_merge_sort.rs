//! A merge sort: it calls itself, but never twice for the same part.
//! planted: nothing
fn merge_sort(values: &mut [u64], spare: &mut [u64]) {
    if values.len() < 2 {
        return;
    }
    let middle = values.len() / 2;
    let (left, right) = values.split_at_mut(middle);
    merge_sort(left, spare);
    merge_sort(right, spare);
    let (mut one, mut other) = (0, 0);
    for slot in &mut spare[..left.len() + right.len()] {
        let takes_left = other == right.len() || (one < left.len() && left[one] <= right[other]);
        *slot = if takes_left { left[one] } else { right[other] };
        one += usize::from(takes_left);
        other += usize::from(!takes_left);
    }
    let length = values.len();
    values.copy_from_slice(&spare[..length]);
}

fn main() {
    let mut random = lab_corpus::Random(10);
    let mut spare = vec![0; 400_000];
    let mut middle = 0;
    for _ in 0..12 {
        let mut values: Vec<u64> = (0..400_000).map(|_| random.next()).collect();
        merge_sort(&mut values, &mut spare);
        middle ^= values[200_000];
    }
    println!("{middle}");
}
