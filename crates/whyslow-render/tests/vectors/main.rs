//! Answers that the viewer computes, too: small profiles as payloads, and what Rust finds in them.
//!
//! `viewer/test/vectors` holds both, and `viewer/src/vectors.test.ts` must find the same. `UPDATE_VECTORS=1`
//! writes them.

#![expect(clippy::unwrap_used, reason = "a failed step of a test fails the test")]

mod answers;
mod cases;
mod container;
mod scenes;

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::cases::{Case, cases};

/// The selections of a case, each with its answers.
fn answers_of(case: &Case) -> Value {
    let selections = case.selections.iter().map(|wanted| answers::of(case, wanted));
    json!({ "selections": selections.collect::<Vec<_>>(), "folded": answers::folded(&case.profile) })
}

/// JSON with a line for each value that fits into one.
fn lines_of(value: &Value, depth: usize, out: &mut String) {
    const WIDTH: usize = 140;
    let short = value.to_string();
    let items: Vec<(String, &Value)> = match value {
        Value::Array(items) => items.iter().map(|item| (String::new(), item)).collect(),
        Value::Object(items) => items.iter().map(|(name, item)| (format!("{name:?}: "), item)).collect(),
        _ => Vec::new(),
    };
    if items.is_empty() || short.len() <= WIDTH {
        out.push_str(&short);
        return;
    }
    out.push_str(&short[..1]);
    for (at, (name, item)) in items.into_iter().enumerate() {
        out.push_str(if at == 0 { "\n" } else { ",\n" });
        out.push_str(&format!("{}{name}", " ".repeat(depth + 1)));
        lines_of(item, depth + 1, out);
    }
    out.push_str(&format!("\n{}{}", " ".repeat(depth), &short[short.len() - 1..]));
}

#[test]
fn viewer_is_tested_with_what_rust_computes_today() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../viewer/test/vectors");
    let writes = std::env::var_os("UPDATE_VECTORS").is_some();
    let mut known = Vec::new();
    for case in cases() {
        let mut text = String::new();
        lines_of(&answers_of(&case), 0, &mut text);
        text.push('\n');
        let made = [("json", text.into_bytes()), ("payload", container::of(&case.profile))];
        for (extension, bytes) in made {
            let file = format!("{}.{extension}", case.name);
            let path = folder.join(&file);
            if writes {
                fs::write(&path, bytes).unwrap();
            } else {
                let is_same = fs::read(&path).unwrap_or_default() == bytes;
                assert!(is_same, "viewer/test/vectors/{file} has other answers; UPDATE_VECTORS=1 writes it");
            }
            known.push(file);
        }
    }
    let files = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let others = files.filter(|file| !known.contains(file)).collect::<Vec<_>>();
    assert_eq!(others, [""; 0], "files without a case");
}
