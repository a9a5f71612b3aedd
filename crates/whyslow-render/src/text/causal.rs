//! What speeding up a line or a function would buy.

use anstyle::{AnsiColor, Style};
use whyslow_causal::words::{per_visit, sentence, with_interval};
use whyslow_causal::{Estimates, PointEstimates, QUEUED_LIMIT, Row, Verdict};
use whyslow_profile::{PointKind, Profile};
use whyslow_words::{Count, Percent, Severity};

use super::cells::place;
use super::layout::{DIM, PLAIN, Page, number_of, push_wrapped};
use super::remark::severity_style;
use crate::sanitize::clean;
use crate::table::{Cell, Column, Table};
use crate::units::duration;

/// The least and the most room for functions: the answer needs the rest.
const FUNCTION: (usize, usize) = (12, 28);

/// Renders the answer for each progress point, at most `limit` rows of each.
pub fn causal(found: &Estimates, profile: &Profile, limit: usize, page: Page) -> String {
    let mut out = String::new();
    if let Some(refused) = &found.refused {
        let text = format!(
            "no answer: the machine is overloaded. While other programs used the CPUs, the program's threads queued for {} per second, \
             added up (limit {})",
            duration((refused.queued * 1e9) as u64),
            duration((QUEUED_LIMIT * 1e9) as u64),
        );
        push_wrapped(&mut out, severity_style(Severity::Serious), &text, page.width);
        return out;
    }
    push_wrapped(&mut out, PLAIN, &intro(profile), page.width);
    if found.points.is_empty() {
        let text = "no answer: no progress point was visited; try: --progress FUNCTION, a function that runs once per request \
                    or item; whyslow causal --suggest -- PROGRAM proposes some";
        push_wrapped(&mut out, severity_style(Severity::Warning), text, page.width);
    }
    for point in &found.points {
        out.push('\n');
        point_text(&mut out, point, profile, limit, page);
    }
    out
}

/// How many experiments there were, and how long they took.
fn intro(profile: &Profile) -> String {
    let experiments = &profile.causal.experiments;
    let length = experiments.iter().fold(0u64, |sum, row| sum.saturating_add(row.length_ns));
    let delay = experiments.iter().fold(0u64, |sum, row| sum.saturating_add(row.delay_ns));
    let baselines = experiments.iter().filter(|row| row.is_baseline()).count();
    let mut text = format!(
        "{} in {}, {} of them without a speed-up",
        number_of(experiments.len() as u64, "experiment", "experiments"),
        duration(length),
        Count(baselines as u64),
    );
    // coz does not write its delays.
    if delay > 0 {
        let share = Percent(delay as f64 / length.max(1) as f64);
        text.push_str(&format!("; delays took {share} of the time"));
    }
    text
}

fn point_text(out: &mut String, found: &PointEstimates, profile: &Profile, limit: usize, page: Page) {
    let point = &profile.causal.points[found.point.index()];
    let mut text = match point.kind {
        PointKind::WholeRun => {
            "progress: whole runs: there is no progress point, so each run was one experiment".to_owned()
        }
        kind => {
            let visits = number_of(found.visits, "visit", "visits");
            format!("progress: {} ({}, {visits})", clean(profile.text(point.name)), kind.label())
        }
    };
    if found.visits == 0 {
        text.push_str(": never visited, so nothing can be said about it");
        return push_wrapped(out, severity_style(Severity::Warning), &text, page.width);
    }
    if found.dropped > 0 {
        let dropped = number_of(found.dropped as u64, "outlying experiment", "outlying experiments");
        text.push_str(&format!("; {dropped} dropped"));
    }
    push_wrapped(out, PLAIN, &text, page.width);
    out.push_str(&table_of(&[found], profile, limit, page).text(page.width));
    if let Some((text, severity)) = found.placebo.as_ref().and_then(placebo) {
        push_wrapped(out, severity.map_or(DIM, severity_style), &text, page.width);
    }
}

/// What the placebo says; it must say nothing.
fn placebo(row: &Row) -> Option<(String, Option<Severity>)> {
    match row.verdict {
        Verdict::Effect => {
            let largest = row.curve.iter().max_by(|a, b| a.effect.abs().total_cmp(&b.effect.abs()))?;
            let text = format!(
                "placebo: code that never runs makes the program {}. Do not trust the other lines",
                with_interval(largest)
            );
            Some((text, Some(Severity::Serious)))
        }
        Verdict::None { beyond } => {
            let text = format!("placebo: no effect beyond ±{}", Percent(beyond));
            Some((text, None))
        }
        Verdict::Undecided { .. } => None,
    }
}

fn verdict_style(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Effect => AnsiColor::Green.on_default().bold(),
        Verdict::None { .. } => PLAIN,
        Verdict::Undecided { .. } => DIM,
    }
}

/// The targets of all progress points, at most `limit` of each.
pub(super) fn causal_table(found: &Estimates, profile: &Profile, limit: usize, page: Page) -> Table {
    table_of(&found.points.iter().collect::<Vec<_>>(), profile, limit, page)
}

fn table_of(points: &[&PointEstimates], profile: &Profile, limit: usize, page: Page) -> Table {
    let kind = points.first().map(|found| profile.causal.points[found.point.index()].kind);
    let title = match kind.filter(|_| points.len() == 1) {
        Some(kind) => format!("the program would be ({})", per_visit(kind)),
        None => "the program would be".to_owned(),
    };
    let rows = || points.iter().flat_map(|found| found.rows.iter().take(limit).map(move |row| (*found, row)));
    let mut speedups: Vec<f64> =
        rows().flat_map(|(_, row)| row.curve.iter().map(|point| point.speedup)).collect();
    speedups.sort_by(f64::total_cmp);
    speedups.dedup();

    let mut columns = vec![
        Column::words("progress", "progress").in_data(),
        Column::words("kind", "kind").in_data(),
        Column::words("function", "if this were faster").part(1, 3).least(FUNCTION.0).most(FUNCTION.1),
        Column::place("file", "line", "line").part(1, 4).least(12).most(28),
        Column::share("cpu_share", "CPU").spare(1),
        Column::words("verdict", "verdict").in_data(),
        Column::wrapped("answer", &title).for_people(),
        Column::share("beyond", "beyond").in_data(),
        Column::number("missing", "missing").in_data(),
        Column::number("experiments", "experiments").in_data(),
    ];
    for speedup in &speedups {
        let percent = (speedup * 100.0).round();
        columns.extend(
            ["effect", "low", "high"].map(|name| Column::share(&format!("{name}_{percent}"), name).in_data()),
        );
    }
    let mut table = Table::new(columns).full_names(page.full_names);
    for (found, row) in rows() {
        let target = &profile.causal.targets[row.target.index()];
        let name = Cell::name(profile.text(target.function));
        let (beyond, missing) = match row.verdict {
            Verdict::Effect => (None, None),
            Verdict::None { beyond } => (Some(beyond), None),
            Verdict::Undecided { missing } => (None, Some(missing)),
        };
        let mut cells = vec![
            Cell::verbatim(profile.text(profile.causal.points[found.point.index()].name)),
            Cell::text(target.kind.label()),
            name,
            place(profile, target.file, target.line),
            Cell::share(target.share),
            Cell::text(row.verdict.label()),
            Cell::text(sentence(row, target)).style(verdict_style(row.verdict)),
            Cell::maybe(beyond.map(Cell::share)),
            Cell::maybe(missing.map(|missing| Cell::count(missing as u64))),
            Cell::count(row.experiments as u64),
        ];
        for speedup in &speedups {
            let point = row.curve.iter().find(|point| point.speedup == *speedup);
            let of = |value: Option<f64>| Cell::maybe(value.map(Cell::share));
            cells.extend([
                of(point.map(|point| point.effect)),
                of(point.map(|point| point.low)),
                of(point.map(|point| point.high)),
            ]);
        }
        table.push(cells);
    }
    let all = points.iter().map(|found| found.rows.len()).sum::<usize>();
    let shown = rows().count();
    table.limited(all, shown, "more row", "more rows")
}

#[cfg(test)]
mod tests {
    use whyslow_analyze::heap::Sites;
    use whyslow_analyze::{Quality, testing};
    use whyslow_causal::estimate;
    use whyslow_causal::testing::add_experiments;
    use whyslow_profile::MetricId;

    use super::*;
    use crate::text::tests::plain;

    fn profile(blocks: usize) -> Profile {
        let mut profile = testing::profile("app::main@m.rs:1;app::hash@src/store.rs:44 100");
        let lines: [whyslow_causal::testing::Line<'_>; 4] = [
            ("app::json::parse", "/home/dev/app/src/json.rs", 120, 0.35, |speedup| (0.5 * speedup).min(0.3)),
            ("app::store::hash\x1b[31m", "/home/dev/app/src/store.rs", 44, 0.4, |_| 0.0),
            ("app::page::render", "/home/dev/app/src/page.rs", 9, 0.02, |_| 0.0),
            ("app::log::lock", "/home/dev/app/src/log.rs", 7, 0.06, |speedup| -0.1 * speedup),
        ];
        add_experiments(&mut profile, "app::handle_request", &lines, blocks);
        profile
    }

    fn shown(profile: &Profile, width: usize) -> String {
        let found = estimate(&profile.causal, profile.meta.host.cpus);
        plain(&causal(&found, profile, 10, Page::new(profile, MetricId(0), width)))
    }

    #[test]
    fn lines_are_ranked_by_what_a_speed_up_buys() {
        insta::assert_snapshot!(shown(&profile(8), 120), @r"
        273 experiments in 27.8 s, 137 of them without a speed-up; delays took 0.2 % of the time

        progress: app::handle_request (throughput, 14,239 visits)
          if this were faster         line                            CPU  the program would be (per visit)
          app::json::parse            …/dev/app/src/json.rs:120    35.0 %  25 % faster → 13 % faster (9 to 16 %), 100 % → at
                                                                           most 33 %
          app::log::lock              /home/dev/app/src/log.rs:7    6.0 %  50 % faster → 5 % slower (2 to 9 %), 100 % → 10 %
                                                                           slower (6 to 13 %)
          app::store::hash\u{1b}[31m  …/dev/app/src/store.rs:44    40.0 %  no effect beyond ±2 %: it has 40 % of the CPU time,
                                                                           and nothing waits for it
          app::page::render           /home/dev/app/src/page.rs:9   2.0 %  no effect beyond ±2 %
        ");
        let narrow = shown(&profile(8), 70);
        assert!(narrow.lines().all(|line| line.chars().count() <= 70), "{narrow}");
    }

    #[test]
    fn too_few_experiments_say_so() {
        let text = shown(&profile(1), 120);
        assert!(text.contains("not enough data: 5 experiments more would decide"), "{text}");
    }

    #[test]
    fn without_a_progress_point_the_answer_names_the_option() {
        let mut profile = profile(4);
        profile.causal.visits.clear();
        profile.causal.points.clear();
        assert!(shown(&profile, 120).contains("--progress FUNCTION"), "{}", shown(&profile, 120));
    }

    #[test]
    fn an_overloaded_machine_and_an_unvisited_point_have_no_answer() {
        let mut profile = profile(4);
        profile.causal.visits.clear();
        assert!(shown(&profile, 120).contains("never visited"), "{}", shown(&profile, 120));
        profile.causal.experiments.iter_mut().for_each(|row| row.queued = 0.95);
        insta::assert_snapshot!(shown(&profile, 90), @r"
        no answer: the machine is overloaded. While other programs used the CPUs, the program's
        threads queued for 950 ms per second, added up (limit 300 ms)
        ");
    }

    #[test]
    fn data_have_every_number() {
        let profile = profile(8);
        let found = estimate(&profile.causal, 2);
        let csv = causal_table(&found, &profile, 10, Page::new(&profile, MetricId(0), usize::MAX)).csv();
        let lines = csv.lines().collect::<Vec<_>>();
        let head = "progress,kind,function,file,line,cpu_share,verdict,beyond,missing,experiments,effect_25,low_25,high_25,";
        assert!(lines[0].starts_with(head), "{}", lines[0]);
        assert_eq!(lines.len(), 5);
        let first =
            "app::handle_request,line,app::json::parse,/home/dev/app/src/json.rs,120,0.35,effect,,,32,0.1";
        assert!(lines[1].starts_with(first), "{}", lines[1]);

        let (quality, sites) = (Quality::of(&profile), Sites::build(&profile));
        let context = crate::json::Context {
            profile: &profile,
            metric: MetricId(0),
            quality: &quality,
            sites: Some(&sites),
            site_limit: 1,
        };
        let json = serde_json::to_value(crate::json::causal(&context, &found, 2)).unwrap();
        let results = json["results"].as_array().unwrap();
        assert_eq!(results.len(), 2);
        assert_eq!(
            (&results[0]["function"], &results[0]["verdict"]),
            (&"app::json::parse".into(), &"effect".into())
        );
        let point = &results[0]["points"][0];
        assert_eq!((&point["speedup"], &point["experiments"]), (&0.25.into(), &8.into()));
        let near = |name: &str, truth: f64| (point[name].as_f64().unwrap() - truth).abs() < 0.01;
        assert!(near("effect", 0.125) && near("low", 0.09) && near("high", 0.16), "{point}");
        assert_eq!(json["progress_points"][0]["placebo"]["kind"], "placebo");
        assert_eq!((&json["refused"], &json["experiments"]), (&serde_json::Value::Null, &273.into()));
    }
}
