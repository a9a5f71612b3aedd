//! Functions that may be progress points.

use whyslow_causal::suggest::{FASTEST, SLOWEST, Suggestion, Suggestions};
use whyslow_words::{Count, Severity, command_line, number_of};

use super::layout::{DIM, PLAIN, Page, push_wrapped};
use super::remark::severity_style;
use crate::table::{Cell, Column, Table};

/// The least and the most room for functions.
const FUNCTION: (usize, usize) = (16, 48);

/// Renders the proposals, at most `limit`, and the command with the best.
pub fn suggestions(found: &Suggestions, limit: usize, page: Page) -> String {
    let mut out = String::new();
    let range = format!("{} to {} visits per second", Count(SLOWEST as u64), Count(FASTEST as u64));
    if found.rows.is_empty() {
        let text = match found.counted {
            0 => format!(
                "no proposal: none of {} is in a function of the program that can be counted. The program needs symbols, and \
                 work to do while it is watched; try: a build with symbols, load for a server, or the macros of the crate coz",
                number_of(found.samples, "CPU sample", "CPU samples")
            ),
            counted => format!(
                "no proposal: none of {} was entered in {:.1} s; try: --budget 30s, to watch for longer",
                number_of(counted as u64, "function", "functions"),
                found.seconds
            ),
        };
        push_wrapped(&mut out, severity_style(Severity::Warning), &text, page.width);
        return out;
    }
    let text = format!(
        "progress points, best first: a good one is entered at a steady rate ({range}) and, with all that it calls, has most \
         of the CPU time. Counted for {:.1} s",
        found.seconds
    );
    push_wrapped(&mut out, PLAIN, &text, page.width);
    out.push('\n');
    out.push_str(&table(&found.rows, limit, page).text(page.width));
    out.push('\n');
    match &found.command {
        Some(words) => push_wrapped(&mut out, PLAIN, &format!("next: {}", command_line(words)), usize::MAX),
        None => {
            let text = format!(
                "no proposal: no function is entered at a steady rate of {range}; try: an idle machine, the macros of \
                 the crate coz, or whyslow causal without a progress point, which compares whole runs"
            );
            push_wrapped(&mut out, severity_style(Severity::Warning), &text, page.width);
        }
    }
    out
}

fn table(rows: &[Suggestion], limit: usize, page: Page) -> Table {
    let columns = vec![
        Column::words("function", "function").part(1, 2).least(FUNCTION.0).most(FUNCTION.1),
        Column::place("file", "line", "line").part(1, 4).least(12).most(32),
        Column::number("visits_per_second", "visits/s"),
        Column::words("steadiness", "rate"),
        Column::share("cpu_share", "CPU"),
    ];
    let mut table = Table::new(columns).full_names(page.full_names);
    for row in rows.iter().take(limit) {
        let style = if row.suits.is_suitable { PLAIN } else { DIM };
        let rate = row.suits.per_second;
        let word = match (row.suits.is_suitable, rate) {
            (false, rate) if rate < SLOWEST => "too rare",
            (false, rate) if rate > FASTEST => "too frequent",
            _ => row.suits.steadiness.label(),
        };
        let shown = if rate < 10.0 { format!("{rate:.1}") } else { Count(rate.round() as u64).to_string() };
        table.push(vec![
            Cell::name(&row.function).style(style),
            Cell::place(row.file.as_deref(), row.line).style(style),
            Cell::number(rate, shown).style(style),
            Cell::text(word).style(style),
            Cell::share(row.share).style(style),
        ]);
    }
    table.limited(rows.len(), limit, "more row", "more rows")
}

#[cfg(test)]
mod tests {
    use whyslow_causal::suggest::{Visited, suitable};

    use super::*;
    use crate::text::tests::plain;

    fn found() -> Suggestions {
        let visited = |rate: f64, share| {
            let counts = (0..=40).map(|at| f64::from(at) * 0.05).map(|at| (at, (at * rate) as u64));
            Visited { share, counts: counts.collect() }
        };
        let once = Visited { share: 0.99, counts: vec![(0.0, 1), (2.0, 1)] };
        let visited = [visited(1200.0, 0.92), once, visited(300_000.0, 0.4)];
        let names = ["app::handle_request", "app::main", "app::hash"];
        let rows = suitable(&visited).into_iter().map(|suits| Suggestion {
            function: names[suits.row].to_owned(),
            file: Some("/home/dev/app/src/main.rs".to_owned()),
            line: 10 + suits.row as u32,
            share: visited[suits.row].share,
            suits,
        });
        let command = ["whyslow", "causal", "--progress", "app::handle_request", "--", "./my app"];
        Suggestions {
            program: vec!["./my app".to_owned()],
            seconds: 2.0,
            samples: 900,
            counted: 3,
            rows: rows.collect(),
            command: Some(command.map(str::to_owned).to_vec()),
        }
    }

    fn shown(found: &Suggestions) -> String {
        plain(&suggestions(found, 10, Page::of_width(100)))
    }

    #[test]
    fn the_best_point_comes_first_and_its_command_can_be_typed() {
        let text = shown(&found());
        let rows: Vec<Vec<&str>> = text
            .lines()
            .filter(|line| line.contains("app::") && line.starts_with("  "))
            .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
            .collect();
        let (first, second, third) = ("…/src/main.rs:10", "…/src/main.rs:12", "…/src/main.rs:11");
        assert_eq!(rows.len(), 3, "{text}");
        assert_eq!(rows[0], ["app::handle_request", first, "1,200", "steady", "92.0 %"], "{text}");
        assert!(rows.contains(&vec!["app::hash", second, "300,000", "too frequent", "40.0 %"]), "{text}");
        assert!(rows.contains(&vec!["app::main", third, "0.5", "too rare", "99.0 %"]), "{text}");
        let next = "\nnext: whyslow causal --progress app::handle_request -- './my app'\n";
        assert!(text.ends_with(next), "{text}");
    }

    #[test]
    fn without_a_proposal_the_reason_is_said() {
        let none = Suggestions { samples: 12, ..Suggestions::default() };
        assert!(shown(&none).contains("none of 12 CPU samples"), "{}", shown(&none));
        let idle = Suggestions { samples: 12, counted: 7, seconds: 3.0, ..Suggestions::default() };
        assert!(shown(&idle).contains("none of 7 functions was entered in 3.0 s"), "{}", shown(&idle));
        let mut bursty = Suggestions { command: None, ..found() };
        bursty.rows.retain(|row| !row.suits.is_suitable);
        assert!(shown(&bursty).contains("no function is entered at a steady rate"), "{}", shown(&bursty));
    }
}
