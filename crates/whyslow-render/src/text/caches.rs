//! Simulated caches: the table that Valgrind prints, and the functions and lines with the most misses.

use whyslow_analyze::{CacheAnswer, CacheLevel, Caches, CallTree, Misses};
use whyslow_answers::Answer;
use whyslow_profile::simulation::{Cache, Simulation};
use whyslow_profile::{MetricId, Profile};
use whyslow_words::Percent;

use super::cells::{NAME, place};
use super::explain::short_findings;
use super::layout::{
    BOLD, DIM, PLAIN, Page, columns, kind_style, number_of, push_line, push_titled, push_wrapped, styled,
};
use super::own::{hot_line_table, name_in_crate};
use super::summary::{command_line, exit_words, next_commands};
use crate::sanitize::clean;
use crate::table::{Cell, Column, Table};
use crate::units::{bytes, duration};

/// Rows of functions, and of lines, if no number is wanted: everything fits a screen.
const ROWS: usize = 5;
const MOST_FINDINGS: usize = 3;
const WHY: &str = "why: ";

/// Renders the table, then functions and lines by misses.
pub fn caches(of: &CacheAnswer, answer: &Answer<'_>, page: Page) -> String {
    let Answer { profile, query, .. } = *answer;
    let rows = query.limit.unwrap_or(ROWS);
    let mut out = String::new();
    if !profile.meta.command.is_empty() {
        push_line(&mut out, &styled(BOLD, command_line(&profile.meta.command)));
    }
    push_wrapped(&mut out, PLAIN, &how(profile), page.width);
    if let Some(lost) = lost(profile) {
        push_wrapped(&mut out, PLAIN, &lost, page.width);
    }
    out.push('\n');
    if !of.caches.levels.is_empty() {
        out.push_str(&cache_table(&of.caches).text(page.width));
    }
    push_branches(&mut out, &of.caches, page);
    out.push('\n');
    let findings = short_findings(profile, &answer.findings, MOST_FINDINGS, page.width - columns(WHY));
    if !findings.is_empty() {
        push_titled(&mut out, WHY, BOLD, &findings);
        out.push('\n');
    }
    let total = of.functions.total_value;
    if total == 0 {
        push_line(&mut out, &format!("no {}", title(profile, of.metric)));
        return out;
    }
    out.push_str(&function_table(profile, of, rows, page).text(page.width));
    out.push('\n');
    out.push_str(&hot_line_table(profile, &of.lines, rows, page).without_more().text(page.width));
    let Some(file) = query.file.as_deref().map(clean) else { return out };
    push_line(&mut out, &format!("\n{} {file}", styled(BOLD, "saved:")));
    let metric = clean(profile.text(profile.metrics[of.metric.index()].name));
    let mut commands = vec![
        format!("whyslow report {file} lines --metric {metric}"),
        format!("whyslow view {file}"),
        format!("whyslow diff BEFORE {file} --metric {metric}"),
    ];
    if !answer.findings.is_empty() {
        commands.insert(0, format!("whyslow explain {file}"));
    }
    out.push_str(&next_commands(commands, page.width));
    out
}

/// `simulated by callgrind 3.19 in 2.10 s, 1 process, exit code 3; …`
fn how(profile: &Profile) -> String {
    let default = Simulation::default();
    let facts = profile.meta.simulation.as_ref().unwrap_or(&default);
    let by = match facts.tool.as_str() {
        "" => "simulated".to_owned(),
        tool => format!("simulated by {} {}", clean(tool), clean(&facts.version)),
    };
    let time =
        if facts.elapsed_ns > 0 { format!(" in {}", duration(facts.elapsed_ns)) } else { String::new() };
    let processes = profile.processes.len() as u64;
    let several = match processes {
        0 | 1 => String::new(),
        more => format!(", {}", number_of(more, "process", "processes")),
    };
    let inside = match &facts.only_inside[..] {
        [] => String::new(),
        names => format!(", only inside {}", clean(&names.join(", "))),
    };
    let caches: Vec<String> = facts.caches.iter().map(cache_words).collect();
    let caches = if caches.is_empty() { String::new() } else { format!(": {}", caches.join(", ")) };
    format!("{by}{time}{several}{inside}{}{caches}", exit_words(profile))
}

/// `D1 48 KiB (12 ways of 64-byte lines)`
fn cache_words(cache: &Cache) -> String {
    format!(
        "{} {} ({}-way, {} B lines)",
        clean(&cache.name),
        bytes(cache.bytes),
        cache.ways,
        cache.line_bytes
    )
}

fn lost(profile: &Profile) -> Option<String> {
    let lost = &profile.meta.simulation.as_ref()?.lost_processes;
    let first = lost.first()?;
    let more = match lost.len() {
        1 => String::new(),
        more => format!(" and {} more", more - 1),
    };
    Some(format!(
        "warning: {}{more} was killed before Valgrind could write its numbers: they are missing",
        clean(first)
    ))
}

/// References, misses and rates per cache.
pub(super) fn cache_table(caches: &Caches) -> Table {
    let count = |id: &str, title: &str| Column::number(id, title).gap(2);
    let mut table = Table::new(vec![
        Column::words("cache", "simulated").least(9),
        count("references", "references"),
        count("misses", "misses"),
        Column::share("rate", "rate").gap(2),
        count("reads", "reads").in_data(),
        count("read_misses", "read misses"),
        Column::share("read_rate", "rate").gap(1),
        count("writes", "writes").in_data(),
        count("write_misses", "write misses"),
        Column::share("write_rate", "rate").gap(1),
    ]);
    let split = |of: Option<Misses>| {
        of.map_or_else(
            || [Cell::nothing(), Cell::nothing(), Cell::nothing()],
            |of| [Cell::count(of.references), Cell::count(of.misses), Cell::part(of.misses, of.references)],
        )
    };
    for row in &caches.levels {
        let CacheLevel { name, all, of, .. } = row;
        let mut cells = vec![
            Cell::text(*name),
            Cell::count(all.references),
            Cell::count(all.misses),
            Cell::part(all.misses, *of),
        ];
        // The rates of reads of the last level are of all references, which this row does not have.
        let [reads, read_misses, read_rate] = split(row.reads);
        let [writes, write_misses, write_rate] = split(row.writes);
        let known = |rate: Cell| if *name == "LL" { Cell::nothing() } else { rate };
        cells.extend([reads, read_misses, known(read_rate), writes, write_misses, known(write_rate)]);
        table.push(cells);
    }
    table
}

fn push_branches(out: &mut String, caches: &Caches, page: Page) {
    if let Some([conditional, indirect]) = caches.branches {
        let all = Misses {
            references: conditional.references.saturating_add(indirect.references),
            misses: conditional.misses.saturating_add(indirect.misses),
        };
        let number = |number: u64| crate::units::value(number, whyslow_profile::Unit::Count);
        let text = format!(
            "{} of {} branches mispredicted ({}); {} of {} indirect",
            number(all.misses),
            number(all.references),
            Percent(all.rate()),
            number(indirect.misses),
            number(indirect.references),
        );
        push_wrapped(out, PLAIN, &text, page.width);
    }
    let text = "LL: its rate is of all references. Simulated: two levels without prefetching; counts repeat, times do not follow from them.";
    push_wrapped(out, DIM, text, page.width);
}

/// `D1 misses`
fn title(profile: &Profile, metric: MetricId) -> String {
    clean(profile.text(profile.metrics[metric.index()].name)).replace('-', " ")
}

/// Functions with the libraries that they call.
fn function_table(profile: &Profile, of: &CacheAnswer, limit: usize, page: Page) -> Table {
    let own = &of.functions;
    let main = title(profile, of.metric);
    let mut columns = vec![Column::share("own_share", ""), Column::number("own", &main).gap(1).heads_next()];
    columns[0] = Column::share("own_share", "own");
    for &metric in &of.beside {
        let name = title(profile, metric);
        columns.push(Column::share(&format!("{}_share", name.replace(' ', "_")), &short(&name)).gap(2));
    }
    columns.push(Column::rest("name", "function", NAME).gap(2));
    columns.push(Column::place("hottest_file", "hottest_line", "hottest line").part(2, 7).from(48));
    let mut table = Table::new(columns).full_names(page.full_names);
    for (row, shares) in own.rows.iter().zip(&of.shares).take(limit) {
        let mut cells = vec![Cell::part(row.own_value, own.total_value), Cell::count(row.own_value)];
        cells.extend(shares.iter().map(|share| Cell::share(*share)));
        cells.push(
            Cell::name(name_in_crate(profile, row.label))
                .style(kind_style(CallTree::kind(profile, row.label))),
        );
        cells.push(match row.line {
            Some(hottest) => place(profile, Some(hottest.file), hottest.line).style(DIM),
            None => Cell::nothing(),
        });
        table.push(cells);
    }
    table
}

fn short(name: &str) -> String {
    if name == "instructions" {
        "instr".to_owned()
    } else {
        name.strip_suffix(" misses").unwrap_or(name).to_owned()
    }
}
