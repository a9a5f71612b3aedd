//! The growth of a program with its input, as text.

use whyslow_analyze::Severity;
use whyslow_analyze::scale::{Grown, Growth};
use whyslow_stats::growth::{Exponent, Shapes};

use super::layout::{BOLD, DIM, cut, number_of, push_line, push_rows, push_wrapped, styled};
use super::remark::severity_style;
use crate::names::place;
use crate::sanitize::clean;
use crate::units::Percent;

const NARROWEST: usize = 60;
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
        let words = format!(
            "{}{at}{with} grows as {}: {} of the time at {}, {} at ten times that size if the trend holds.",
            clean(&function.name),
            grows(function),
            Percent(function.share),
            size_words(growth.sizes.last().copied().unwrap_or(0.0)),
            Percent(function.projected_share),
        );
        push_wrapped(&mut out, severity_style(Severity::Warning), &words, width);
    }
    if growth.steep().is_empty() {
        let words = match growth.dominating() {
            Some(function) => format!(
                "No function clearly grows faster than n log n. At ten times the size, {} has the largest share: {}.",
                clean(&function.name),
                Percent(function.projected_share)
            ),
            None => "There are too few samples to analyse functions.".to_owned(),
        };
        push_wrapped(&mut out, BOLD, &words, width);
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
    numbers(&mut out, growth);
    out
}

/// `n^1.98 (1.78 to 2.17), as n^2 does`
fn grows(grown: &Grown) -> String {
    let Some(exponent) = grown.exponent else { return "an unknown power (too little data)".to_owned() };
    let words = match &grown.shapes {
        Some(Shapes::OneOf(all)) => {
            let labels = all.iter().map(|fit| fit.shape.label()).collect::<Vec<_>>();
            format!(", which fits {}", labels.join(" or "))
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
    format!("n^{:.2} ({:.2} to {:.2})", interval.estimate, interval.low, interval.high)
}

fn functions(out: &mut String, head: &str, functions: &[Grown], width: usize) {
    if functions.is_empty() {
        return;
    }
    out.push('\n');
    let mut rows =
        vec![[head, "share", "at 10 n", "exponent", "largest sizes", "shape"].map(str::to_owned).to_vec()];
    for function in functions.iter().take(ROWS) {
        let shape = match &function.shapes {
            Some(Shapes::OneOf(all)) => {
                all.iter().map(|fit| fit.shape.label()).collect::<Vec<_>>().join(" or ")
            }
            Some(Shapes::None) => "none fits".to_owned(),
            None => String::new(),
        };
        rows.push(vec![
            cut(&clean(&function.name), (width / 3).max(24)),
            Percent(function.share).to_string(),
            Percent(function.projected_share).to_string(),
            function.exponent.as_ref().map_or(String::new(), power),
            function.exponent.map_or(String::new(), |exponent| format!("n^{:.2}", exponent.at_the_top)),
            shape,
        ]);
    }
    push_rows(out, &rows, 1);
    if functions.len() > ROWS {
        let rest = number_of((functions.len() - ROWS) as u64, "function", "functions");
        push_line(out, &styled(DIM, format!("… and {rest}; --format json has all of them")));
    }
}

fn numbers(out: &mut String, growth: &Growth) {
    if growth.numbers.is_empty() {
        return;
    }
    out.push('\n');
    let mut rows = vec![["", "at the largest size", "exponent"].map(str::to_owned).to_vec()];
    for number in &growth.numbers {
        let value = match number.name.as_str() {
            name if name.ends_with("time") => crate::units::duration(number.at_top as u64),
            name if name.ends_with("bytes") || name.ends_with("resident") => {
                crate::units::bytes(number.at_top as u64)
            }
            _ => crate::units::Count(number.at_top as u64).to_string(),
        };
        rows.push(vec![number.name.clone(), value, number.exponent.as_ref().map_or(String::new(), power)]);
    }
    push_rows(out, &rows, 1);
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
}
