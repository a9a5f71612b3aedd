//! Reads divan's table: a tree of names, followed by columns for each benchmark.
//!
//! ```text
//! tree        fastest       │ slowest       │ median        │ mean          │ samples │ iters
//! ├─ plain    73.37 ns      │ 74.15 ns      │ 73.74 ns      │ 73.78 ns      │ 20      │ 640
//! ╰─ sized                  │               │               │               │         │
//!    ╰─ 1000  931.1 ns      │ 934.9 ns      │ 932.9 ns      │ 933.2 ns      │ 20      │ 80
//! ```

/// Lines between the columns; others belong to the tree.
const LINES: usize = 5;
/// The column of the median, counted from the right.
const MEDIAN: usize = 3;
/// The width of a level of the tree, in characters.
const INDENT: usize = 3;

/// The median of each benchmark in nanoseconds, by its path (`tree::sized::1000`). Columns are counted from
/// the right, because long thread counts push them out of line.
pub(super) fn medians_ns(table: &str) -> Vec<(String, f64)> {
    let mut path: Vec<String> = Vec::new();
    let mut found = Vec::new();
    for line in table.lines() {
        let columns = line.rsplitn(LINES + 1, '│').collect::<Vec<_>>();
        let (Some(median), Some(first)) = (columns.get(MEDIAN), columns.get(LINES)) else { continue };
        let branches = first.chars().take_while(|character| "│├╰─ ".contains(*character)).count();
        let rest = first.chars().skip(branches).collect::<String>();
        let median = nanoseconds(median.trim());
        // The fastest time follows the name: a number and its unit.
        let name = match median {
            Some(_) => without_last_word(without_last_word(&rest)),
            None => rest.trim_end().strip_suffix("fastest").unwrap_or(&rest).trim_end(),
        };
        // Throughput and allocations are on separate lines, without a name.
        if branches % INDENT != 0 || name.is_empty() {
            continue;
        }
        path.truncate(branches / INDENT);
        path.push(name.to_owned());
        found.extend(median.map(|median| (path.join("::"), median)));
    }
    found
}

/// The functions in the tree that `--list` prints, by their path.
///
/// ```text
/// tree
/// ├─ plain
/// ╰─ inner
///    ╰─ sized
/// ```
pub(super) fn functions(list: &str) -> Vec<String> {
    let mut found: Vec<Vec<String>> = Vec::new();
    let mut path: Vec<String> = Vec::new();
    for line in list.lines() {
        let branches = line.chars().take_while(|character| "│├╰─ ".contains(*character)).count();
        let name = line.chars().skip(branches).collect::<String>();
        let name = name.split(" (").next().unwrap_or_default().trim_end();
        if branches % INDENT != 0 || name.is_empty() {
            continue;
        }
        path.truncate(branches / INDENT);
        // What has something below it is no function.
        if found.last() == Some(&path) {
            found.pop();
        }
        path.push(name.to_owned());
        found.push(path.clone());
    }
    found.into_iter().map(|path| path.join("::")).collect()
}

fn without_last_word(text: &str) -> &str {
    text.trim_end().rsplit_once(' ').map_or("", |(rest, _)| rest.trim_end())
}

/// The name for `--exact`. The number of threads is a leaf of the table, but not part of the name.
pub(super) fn filter(benchmark: &str) -> &str {
    match benchmark.rsplit_once("::") {
        Some((name, threads))
            if threads.strip_prefix("t=").is_some_and(|count| count.parse::<u32>().is_ok()) =>
        {
            name
        }
        _ => benchmark,
    }
}

/// `73.74 ns`, `2.417 µs`
fn nanoseconds(cell: &str) -> Option<f64> {
    let (number, unit) = cell.split_once(' ')?;
    let in_unit = match unit {
        "ps" => 1e-3,
        "ns" => 1.0,
        "µs" | "μs" | "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        "h" => 3600e9,
        _ => return None,
    };
    Some(number.replace(',', "").parse::<f64>().ok()? * in_unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed by divan 0.1.21.
    const TABLE: &str = "\
tree           fastest       │ slowest       │ median        │ mean          │ samples │ iters
├─ counted     73.18 ns      │ 74.18 ns      │ 73.79 ns      │ 73.72 ns      │ 20      │ 640
│              10.93 GB/s    │ 10.78 GB/s    │ 10.84 GB/s    │ 10.85 GB/s    │         │
├─ sized                     │               │               │               │         │
│  ├─ 10       4.898 ns      │ 7.285 ns      │ 4.923 ns      │ 5.762 ns      │ 20      │ 10240
│  ╰─ 1000     931.1 ns      │ 934.9 ns      │ 932.9 ns      │ 933.2 ns      │ 20      │ 80
╰─ inner                     │               │               │               │         │
   ├─ thr                    │               │               │               │         │
   │  ├─ t=1   456.1 ns      │ 2.417 µs      │ 2.417 µs      │ 556.2 ns      │ 20      │ 160
   │  ╰─ t=2   472 ns        │ 479 ns        │ 473.6 ns      │ 474.2 ns      │ 20      │ 160
   ╰─ gen                    │               │               │               │         │
      ├─ u8                  │               │               │               │         │
      │  ├─ 1  0.337 ns      │ 0.34 ns       │ 0.339 ns      │ 0.339 ns      │ 20      │ 81920
      │  ╰─ 2  0.364 ns      │ 0.381 ns      │ 0.369 ns      │ 0.37 ns       │ 20      │ 81920

";

    #[test]
    fn reads_medians_from_the_tree() {
        let found = medians_ns(TABLE);
        let expected = [
            ("tree::counted", 73.79),
            ("tree::sized::10", 4.923),
            ("tree::sized::1000", 932.9),
            ("tree::inner::thr::t=1", 2417.0),
            ("tree::inner::thr::t=2", 473.6),
            ("tree::inner::gen::u8::1", 0.339),
            ("tree::inner::gen::u8::2", 0.369),
        ];
        assert_eq!(found, expected.map(|(name, ns)| (name.to_owned(), ns)));
        assert!(medians_ns("").is_empty() && medians_ns("Timer precision: 20 ns\n").is_empty());
        for cut in (0..TABLE.len()).filter(|cut| TABLE.is_char_boundary(*cut)) {
            assert!(medians_ns(&TABLE[..cut]).len() <= expected.len());
        }
    }

    #[test]
    fn reads_functions_from_the_list() {
        // Printed by divan 0.1.21.
        let list = "div\n├─ broken\n├─ fib\n╰─ inner\n   ├─ a\n   ╰─ b\n\n";
        assert_eq!(functions(list), ["div::broken", "div::fib", "div::inner::a", "div::inner::b"]);
        assert!(functions("").is_empty());
    }

    #[test]
    fn reads_columns_that_thread_counts_push_out_of_line() {
        // Printed by divan 0.1.21 for a single benchmark.
        let table = "\
tree       fastest       │ slowest       │ median        │ mean          │ samples │ iters
╰─ inner                 │               │               │               │         │
   ╰─ thr                │               │               │               │         │
      ├─ t=1  487.6 ns      │ 567.9 µs      │ 505.1 ns      │ 648.9 ns      │ 22555   │ 45110
      ╰─ t=2  472.1 ns      │ 101.4 µs      │ 490 ns        │ 557 ns        │ 2958    │ 23664
";
        let expected = [("tree::inner::thr::t=1", 505.1), ("tree::inner::thr::t=2", 490.0)];
        assert_eq!(medians_ns(table), expected.map(|(name, ns)| (name.to_owned(), ns)));
    }

    #[test]
    fn filter_leaves_out_the_thread_count() {
        assert_eq!(filter("tree::inner::thr::t=2"), "tree::inner::thr");
        assert_eq!(filter("tree::t=x"), "tree::t=x");
        assert_eq!(filter("tree::sized::10"), "tree::sized::10");
    }
}
