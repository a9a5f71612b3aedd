//! The growth of a program with its input, as text.

use whyslow_analyze::scale::{Grown, Growth};
use whyslow_stats::growth::{Exponent, Shapes};
use whyslow_stats::pairs::Interval;
use whyslow_words::Severity;

use super::layout::{BOLD, DIM, number_of, push_line, push_wrapped, styled};
use super::remark::severity_style;
use crate::names::place;
use crate::sanitize::clean;
use crate::table::{Cell, Column, Table};
use crate::units::Percent;

const NARROWEST: usize = 60;
/// A wider interval of an exponent says nothing.
const WIDEST: f64 = 3.0;
/// Jumps of functions with at least this share are named.
const CLIFF_SHARE: f64 = 0.05;
/// Number of functions shown; JSON has all.
const ROWS: usize = 15;

/// Renders the growth of the whole program, the functions that will dominate, and the tables.
pub fn scale(growth: &Growth, width: usize) -> String {
    let width = width.max(NARROWEST);
    let mut out = String::new();
    let sizes = growth.sizes.iter().map(|size| size_words(*size)).collect::<Vec<_>>().join(", ");
    let head = format!(
        "{} of {}: {} of each size, in random order; {}",
        number_of(growth.sizes.len() as u64, "size", "sizes"),
        sizes,
        number_of(growth.runs as u64, "run", "runs"),
        clean(&growth.metric)
    );
    push_wrapped(&mut out, DIM, &head, width);
    out.push('\n');
    push_wrapped(&mut out, BOLD, &format!("The whole program grows as {}.", grows(&growth.whole)), width);
    for function in growth.steep() {
        let at = function
            .place
            .as_ref()
            .map_or(String::new(), |(file, line)| format!(" ({})", place(file, *line, width / 2)));
        let with = if growth.with_callees.contains(function) { " with its callees" } else { "" };
        let later = match function.projected_share {
            Some(share) => format!("{} at ten times that size if the trend holds", projected(share)),
            None => "at ten times that size not predictable, because part of the program follows no shape"
                .to_owned(),
        };
        let words = format!(
            "{}{at}{with} grows as {}: {} of the time at {}, {later}.",
            clean(&function.name),
            grows(function),
            Percent(function.share),
            size_words(growth.sizes.last().copied().unwrap_or(0.0)),
        );
        push_wrapped(&mut out, severity_style(Severity::Warning), &words, width);
    }
    for function in growth.cliffs(CLIFF_SHARE) {
        let words = format!(
            "{} grows as {}: a cache that no longer holds the data, or a threshold in the program.",
            clean(&function.name),
            grows(function)
        );
        push_wrapped(&mut out, severity_style(Severity::Warning), &words, width);
    }
    if growth.steep().is_empty() {
        push_wrapped(&mut out, BOLD, &without_steep(growth), width);
    }
    functions(&mut out, "", &growth.functions, width);
    let (few, share) = growth.too_few;
    if few > 0 {
        let words = format!(
            "{} with fewer than 5 samples at the largest size are left out ({} of the total)",
            number_of(few as u64, "function", "functions"),
            Percent(share)
        );
        push_line(&mut out, &styled(DIM, words));
    }
    functions(&mut out, "with callees", &growth.with_callees, width);
    numbers(&mut out, growth, width);
    out
}

/// What is known if no function is steep.
fn without_steep(growth: &Growth) -> String {
    if growth.functions.is_empty() {
        return "There are too few samples to analyse functions.".to_owned();
    }
    let first = match growth.whole.is_steep() {
        true => "No single function clearly grows faster than n log n, although the whole does.",
        false => "No function clearly grows faster than n log n.",
    };
    match growth.dominating().and_then(|function| Some((function, function.projected_share?))) {
        Some((function, share)) => format!(
            "{first} At ten times the size, {} has the largest share: {}.",
            clean(&function.name),
            projected(share)
        ),
        None => format!("{first} What has the largest share at ten times the size cannot be predicted."),
    }
}

/// `62.0 % (35 to 84)`
fn projected(share: Interval) -> String {
    let whole = |share: f64| (share * 100.0).round();
    let (low, high) = (whole(share.low), whole(share.high));
    let range = if low < high { format!(" ({low} to {high})") } else { String::new() };
    format!("{}{range}", Percent(share.estimate))
}

/// `n^1.98 (1.78 to 2.17), which fits n^2`
fn grows(grown: &Grown) -> String {
    let Some(exponent) = grown.exponent else { return "an unknown power (too little data)".to_owned() };
    let words = match &grown.shapes {
        Some(Shapes::OneOf(all)) => {
            let labels = all.iter().map(|fit| fit.shape.label()).collect::<Vec<_>>();
            format!(", which fits {}", labels.join(" or "))
        }
        Some(Shapes::Power) => ", between the common shapes".to_owned(),
        Some(Shapes::Cliff(cliff)) => {
            return format!(
                "{} with a jump of ×{:.1} between {} and {}",
                cliff.shape.label(),
                cliff.factor,
                size_words(cliff.below),
                size_words(cliff.above)
            );
        }
        Some(Shapes::None) => {
            format!("; no single shape fits, and at the largest sizes it is n^{:.2}", exponent.at_the_top)
        }
        None => String::new(),
    };
    format!("{}{words}", power(&exponent))
}

fn power(exponent: &Exponent) -> String {
    let interval = exponent.interval;
    if interval.high - interval.low > WIDEST {
        return "an unclear power".to_owned();
    }
    let constant = if exponent.base > 0.0 { "c + " } else { "" };
    format!("{constant}n^{:.2} ({:.2} to {:.2})", interval.estimate, interval.low, interval.high)
}

fn functions(out: &mut String, head: &str, functions: &[Grown], width: usize) {
    if functions.is_empty() {
        return;
    }
    out.push('\n');
    let mut columns = vec![Column::rest("function", head, 24).gap(0)];
    let titles = ["share", "at 10 n", "exponent", "largest sizes", "shape"];
    columns.extend(titles.map(|title| Column::number(title, title)));
    let mut table = Table::new(columns).heading(DIM);
    for function in functions.iter().take(ROWS) {
        let shape = match &function.shapes {
            Some(Shapes::OneOf(all)) => {
                all.iter().map(|fit| fit.shape.label()).collect::<Vec<_>>().join(" or ")
            }
            Some(Shapes::Power) => "between".to_owned(),
            Some(Shapes::Cliff(cliff)) => format!("jump after {}", size_words(cliff.below)),
            Some(Shapes::None) => "none fits".to_owned(),
            None => String::new(),
        };
        let words = [
            Percent(function.share).to_string(),
            function.projected_share.map_or("-".to_owned(), projected),
            function.exponent.as_ref().map_or(String::new(), power),
            function.exponent.map_or(String::new(), |exponent| format!("n^{:.2}", exponent.at_the_top)),
            shape,
        ];
        table.push([Cell::verbatim(&function.name)].into_iter().chain(words.map(Cell::text)).collect());
    }
    out.push_str(&table.text(width));
    if functions.len() > ROWS {
        let rest = number_of((functions.len() - ROWS) as u64, "function", "functions");
        push_line(out, &styled(DIM, format!("… and {rest}; --format json has all of them")));
    }
}

fn numbers(out: &mut String, growth: &Growth, width: usize) {
    if growth.numbers.is_empty() {
        return;
    }
    out.push('\n');
    let mut columns = vec![Column::words("number", "").gap(0)];
    columns.extend(["at the largest size", "exponent"].map(|title| Column::number(title, title)));
    let mut table = Table::new(columns).heading(DIM);
    for number in &growth.numbers {
        let top = number.at_top as u64;
        let value = match number.name.as_str() {
            name if name.ends_with("time") => Cell::duration(top),
            name if name.ends_with("bytes") || name.ends_with("resident") => Cell::bytes(top),
            _ => Cell::count(top),
        };
        let exponent = number.exponent.as_ref().map_or(String::new(), power);
        table.push(vec![Cell::text(&number.name), value, Cell::text(exponent)]);
    }
    out.push_str(&table.text(width));
}

/// `16k`, `1.5M`, `300`.
pub(crate) fn size_words(size: f64) -> String {
    let scaled = [(1e9, "G"), (1e6, "M"), (1e3, "k")].into_iter().find(|(unit, _)| size >= *unit);
    match scaled {
        Some((unit, letter)) => format!("{}{letter}", ((size / unit) * 100.0).round() / 100.0),
        None => size.to_string(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use whyslow_analyze::scale::Observed;
    use whyslow_analyze::{Selection, testing};

    /// A program with a linear function and a quadratic one that is still cheap.
    pub(crate) fn growth() -> Growth {
        let observed = |size: f64| {
            let thousands = size / 1000.0;
            let folded = format!(
                "main;read_lines {}\nmain;deduplicate {}",
                (320.0 * thousands) as u64,
                (0.6 * thousands * thousands) as u64
            );
            let numbers = vec![("wall-time".to_owned(), size * 1e5), ("max-resident".to_owned(), 2e6 + size)];
            Observed::of(&testing::profile(&folded), &Selection::default(), size, numbers)
        };
        let sizes = [1000.0, 2000.0, 4000.0, 8000.0, 16000.0];
        let all = sizes
            .iter()
            .flat_map(|size| [observed(*size), observed(*size), observed(*size)])
            .collect::<Vec<_>>();
        Growth::of("cpu-time".to_owned(), true, &all)
    }

    #[test]
    fn the_hidden_quadratic_is_named() {
        let text = scale(&growth(), 100);
        assert!(
            text.contains("deduplicate grows as n^2") || text.contains("deduplicate grows as n^1.9"),
            "{text}"
        );
        assert!(text.contains("2.9 % of the time at 16k, 2"), "{text}");
        assert!(text.contains("max-resident"), "{text}");
        assert_eq!(
            ["300", "1.5k", "16k", "2M"].map(str::to_owned),
            [300.0, 1500.0, 16000.0, 2e6].map(size_words)
        );
        let empty = scale(&Growth::of("cpu-time".to_owned(), true, &[]), 80);
        assert!(empty.contains("too few samples"), "{empty}");
    }

    #[test]
    fn a_jump_is_named_and_not_projected() {
        let observed = |size: f64| {
            let samples = size / 1000.0 * if size > 5000.0 { 180.0 } else { 60.0 };
            let folded = format!("main;scan {}", samples as u64);
            Observed::of(&testing::profile(&folded), &Selection::default(), size, Vec::new())
        };
        let sizes = [1000.0, 2000.0, 4000.0, 8000.0, 16000.0];
        let all = sizes.iter().flat_map(|size| [observed(*size), observed(*size)]).collect::<Vec<_>>();
        let text = scale(&Growth::of("cpu-time".to_owned(), true, &all), 100);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("scan grows as n with a jump of ×3.0 between 4k and 8k: a cache"), "{text}");
        assert!(words.contains("cannot be predicted") && words.contains("jump after 4k"), "{text}");
    }
}
