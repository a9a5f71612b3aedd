//! Checks the same bytes for UTF-8 again for each field that is looked at.
//! planted: utf8-validation
struct Row(Vec<u8>);

impl Row {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap()
    }
}

fn main() {
    let slow = lab_corpus::is_slow();
    let rows: Vec<Row> = (0..2_000).map(|row| Row(format!("größe;{row};{};ä", "x".repeat(400)).into_bytes())).collect();
    let texts: Vec<&str> = rows.iter().map(Row::text).collect();
    let mut sum = 0;
    for field in 0..4_000 {
        for (row, text) in rows.iter().zip(&texts) {
            let text = if slow { row.text() } else { text };
            sum += text[..12].split(';').nth(field % 2).map_or(0, str::len);
        }
    }
    println!("{sum}");
}
