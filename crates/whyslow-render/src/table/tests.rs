//! Tests of all writers on random tables.

use proptest::prelude::*;

use super::*;
use crate::names::columns;
use crate::text::plain;

fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,12}(::[a-z]{1,12}){0,6}",
        "[ -~\u{1b}\u{9b}\r\n\t|`,\"名é\u{301}\u{202e}😀]{0,80}",
        Just("<app::Map<K, V> as core::iter::Iterator>::next".to_owned()),
        Just("=cmd|' /C calc'!A0".to_owned()),
    ]
}

fn cell() -> impl Strategy<Value = Cell> {
    prop_oneof![
        Just(Cell::nothing()),
        hostile().prop_map(Cell::text),
        hostile().prop_map(Cell::verbatim),
        hostile().prop_map(Cell::name),
        hostile().prop_map(|name| Cell::name(name).behind("(somewhere)")),
        hostile().prop_map(Cell::path),
        (hostile(), any::<u32>()).prop_map(|(file, line)| Cell::place(Some(&file), line)),
        (0.0..1.0).prop_map(Cell::share),
        any::<u64>().prop_map(Cell::count),
        any::<u64>().prop_map(Cell::duration),
        any::<u64>().prop_map(Cell::bytes),
        any::<f64>().prop_map(|number| Cell::number(number, format!("{number:e}"))),
    ]
}

fn column() -> impl Strategy<Value = Column> {
    let kind = prop_oneof![
        Just(Column::share("id", "title")),
        Just(Column::number("id", "")),
        Just(Column::number("id", "a long title").spare(1)),
        Just(Column::words("id", "words").most(28)),
        Just(Column::words("id", "").spare(2).gap(1)),
        Just(Column::place("id", "line", "where")),
        Just(Column::words("id", "part").part(1, 3)),
        Just(Column::words("id", "left over").leftover().least(12)),
        Just(Column::share("id", "two columns").heads_next()),
        Just(Column::words("id", "hidden").in_data()),
    ];
    kind.prop_map(|column| Column { title: column.title, ..column })
}

prop_compose! {
    fn table()(
        mut columns in prop::collection::vec(column(), 1..9),
        rest in prop::option::of(any::<prop::sample::Index>()),
        is_wrapped in any::<bool>(),
        cells in prop::collection::vec(prop::collection::vec(cell(), 9), 0..6),
        left_out in 0usize..3,
    ) -> Table {
        if let Some(rest) = rest {
            let at = rest.index(columns.len());
            columns[at] = if is_wrapped { Column::wrapped("id", "text") } else { Column::rest("id", "name", 20) };
        }
        for (at, column) in columns.iter_mut().enumerate() {
            column.id = format!("id {at}");
            column.line_id = column.line_id.is_some().then(|| format!("line {at}"));
        }
        let count = columns.len();
        let mut table = Table::new(columns);
        for mut row in cells {
            row.truncate(count);
            table.push(row).note(PLAIN, "a note about this row that says more than fits on one line of a page");
        }
        let rows = table.rows.len();
        table.limited(rows + left_out, rows, "more row", "more rows")
    }
}

/// The cells of CSV, read as RFC 4180 says.
fn parsed(csv: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut is_quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut letters = csv.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => cell.extend(letters.next()),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => row.push(std::mem::take(&mut cell)),
            '\n' if !is_quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            letter => cell.push(letter),
        }
    }
    assert!(!is_quoted && cell.is_empty(), "{csv}");
    rows
}

proptest! {
    #[test]
    fn no_line_is_wider_than_the_page(table in table(), width in 60usize..200) {
        for line in plain(&table.text(width)).lines() {
            prop_assert!(columns(line) <= width, "{} of {width}: {line}", columns(line));
            prop_assert_eq!(line, line.trim_end());
        }
    }

    #[test]
    fn no_writer_passes_on_control_characters(table in table()) {
        let text = plain(&table.text(100));
        for written in [text, table.csv(), table.markdown(), table.asciidoc(), table.orgmode()] {
            prop_assert!(written.chars().all(|letter| letter == '\n' || !letter.is_control()), "{written:?}");
        }
    }

    #[test]
    fn csv_and_json_have_every_value(table in table()) {
        let csv = parsed(&table.csv());
        let json = serde_json::to_value(&table).unwrap();
        prop_assert_eq!(csv.len(), 1 + table.rows.len());
        for (at, row) in table.rows.iter().enumerate() {
            prop_assert_eq!(csv[at + 1].len(), csv[0].len());
            for (field, written) in table.fields().zip(&csv[at + 1]) {
                let (value, in_json) = (field.of(row), &json[at][field.id]);
                match value.text() {
                    Some(text) => {
                        prop_assert_eq!(in_json.as_str(), Some(text));
                        let cleaned = crate::sanitize::clean(text);
                        let guard = if cleaned.starts_with(['=', '+', '-', '@']) { "'" } else { "" };
                        prop_assert_eq!(written, &format!("{guard}{cleaned}"));
                    }
                    None if in_json.is_null() => prop_assert_eq!(written, ""),
                    None => prop_assert_eq!(written.parse::<f64>().ok(), in_json.as_f64()),
                }
            }
        }
    }

    #[test]
    fn markdown_has_one_line_per_row_and_one_cell_per_column(table in table()) {
        let markdown = table.markdown();
        let lines: Vec<&str> = markdown.lines().take(2 + table.rows.len()).collect();
        prop_assert_eq!(lines.len(), 2 + table.rows.len());
        let bars = |line: &str| line.replace("\\\\", "").replace("\\|", "").matches('|').count();
        for line in &lines {
            prop_assert_eq!(bars(line), bars(lines[0]), "{}", line);
        }
    }
}

/// Three numbers, a name and a place.
fn functions() -> Table {
    let mut table = Table::new(vec![
        Column::share("self_share", "self"),
        Column::number("self_ns", "self").least(8),
        Column::number("calls", "calls").spare(1),
        Column::words("kind", "kind").least(10),
        Column::rest("function", "function", 20).gap(1),
        Column::place("file", "line", "where"),
    ]);
    for (share, name) in [(0.75, "app::module::inner::parse"), (0.25, "<app::Map<K, V> as Drop>::drop")] {
        table.push(vec![
            Cell::share(share),
            Cell::duration((share * 1e9) as u64),
            Cell::count((share * 4e6) as u64),
            Cell::text("yours"),
            Cell::name(name),
            Cell::place(Some("/home/me/app/src/module/inner.rs"), 12),
        ]);
    }
    table.limited(12, 2, "more function", "more functions")
}

#[test]
fn columns_give_way_in_their_order() {
    insta::assert_snapshot!([110, 70, 60].map(|width| plain(&functions().text(width))).join("\n"), @r"
        self      self      calls  kind       function                        where
      75.0 %    750 ms  3,000,000  yours      app::module::inner::parse       …/src/module/inner.rs:12
      25.0 %    250 ms  1,000,000  yours      <app::Map<K, V> as Drop>::drop  …/src/module/inner.rs:12
    and 10 more functions

        self      self  kind       function              where
      75.0 %    750 ms  yours      app::…::inner::parse  …/inner.rs:12
      25.0 %    250 ms  yours      Map::drop             …/inner.rs:12
    and 10 more functions

        self      self  kind       function
      75.0 %    750 ms  yours      app::module::inner::parse
      25.0 %    250 ms  yours      <app::Map<…> as Drop>::drop
    and 10 more functions
    ");
}

#[test]
fn data_have_numbers_and_whole_names() {
    insta::assert_snapshot!(format!("{}\n{}", functions().csv(), functions().markdown()), @r#"
    self_share,self_ns,calls,kind,function,file,line
    0.75,750000000,3000000,yours,app::module::inner::parse,/home/me/app/src/module/inner.rs,12
    0.25,250000000,1000000,yours,"<app::Map<K, V> as Drop>::drop",/home/me/app/src/module/inner.rs,12

    | self | self | calls | kind | function | where |
    |---:|---:|---:|:---|:---|:---|
    | 75.0 % | 750 ms | 3,000,000 | yours | `app::module::inner::parse` | `/home/me/app/src/module/inner.rs:12` |
    | 25.0 % | 250 ms | 1,000,000 | yours | `<app::Map<K, V> as Drop>::drop` | `/home/me/app/src/module/inner.rs:12` |

    and 10 more functions
    "#);
}

#[test]
fn full_names_may_be_wider_than_the_page() {
    let text = plain(&functions().full_names(true).text(60));
    assert!(text.contains("<app::Map<K, V> as Drop>::drop"), "{text}");
}
