//! Checks that a page describes every name of a JSON document.

use serde_json::Value;

fn names(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.keys().cloned());
            fields.values().for_each(|value| names(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| names(value, found)),
        _ => {}
    }
}

/// Fails if the page lacks a name of these documents.
pub(crate) fn assert_described<'a>(documents: impl IntoIterator<Item = &'a Value>, page: &str) {
    let mut found = Vec::new();
    documents.into_iter().for_each(|document| names(document, &mut found));
    found.sort();
    found.dedup();
    assert!(!found.is_empty());
    found.retain(|name| !page.contains(&format!("`{name}`")));
    assert!(found.is_empty(), "not described: {found:?}");
}
