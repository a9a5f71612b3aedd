//! Tests skip only through one function, so that none passes by accident under CI.

use std::path::{Path, PathBuf};

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                rust_files(&path, found)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

#[test]
fn tests_skip_only_through_the_harness() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let mut files = Vec::new();
    rust_files(&root.join("crates"), &mut files).unwrap();
    rust_files(&root.join("lab/harness"), &mut files).unwrap();
    assert!(files.len() > 100, "{files:?}");
    let says_skipped = |file: &&PathBuf| {
        let text = std::fs::read_to_string(file).unwrap();
        text.lines().any(|line| line.contains("print") && line.contains(concat!("\"", "skip", "ped")))
    };
    let own: Vec<_> = files.iter().filter(says_skipped).collect();
    assert!(own.is_empty(), "these files must call whyslow_lab_harness::skip: {own:?}");
}
