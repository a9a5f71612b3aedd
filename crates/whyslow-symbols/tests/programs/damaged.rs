//! Damaged files must never make symbolising panic or hang.

use std::path::Path;

use crate::common::{options, profile, run, spread};
use proptest::prelude::*;
use whyslow_symbols::symbolize;

const C: &str = "static inline int twice(int x) { return x * 2; }
int busy(int *data, int count) { int sum = 0; for (int at = 0; at < count; at++) sum += twice(data[at]); return sum; }
int other(int x) { return twice(x) - 1; }
";

/// A library with debug info, and the addresses of its code.
fn library(folder: &Path, flags: &[&str]) -> Option<(Vec<u8>, Vec<u64>)> {
    std::fs::write(folder.join("lib.c"), C).unwrap();
    let mut arguments = vec!["lib.c", "-o", "lib.so", "-shared", "-fPIC", "-nostdlib", "-O2", "-g"];
    arguments.extend(flags);
    run("gcc", folder, &arguments).then(|| {
        let file = folder.join("lib.so");
        (std::fs::read(&file).unwrap(), spread(&file, 1))
    })
}

fn survives(file: &Path, bytes: &[u8], addresses: &[u64]) {
    std::fs::write(file, bytes).unwrap();
    let mut damaged = profile(file, None, addresses);
    symbolize(&mut damaged, &options());
}

#[test]
fn mutated_files() {
    let folder = tempfile::tempdir().unwrap();
    for flags in [["-gdwarf-4"], ["-gdwarf-5"], ["-gz=zlib"]] {
        let Some((bytes, addresses)) = library(folder.path(), &flags) else { return };
        let file = folder.path().join("damaged.so");
        let change = (0..bytes.len(), any::<u8>());
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
            cases: 300,
            failure_persistence: None,
            ..ProptestConfig::default()
        });
        let outcome = runner.run(&proptest::collection::vec(change, 1..24), |changes| {
            let mut bytes = bytes.clone();
            for (at, value) in changes {
                bytes[at] = value;
            }
            survives(&file, &bytes, &addresses);
            Ok(())
        });
        outcome.unwrap();
    }
}

#[test]
fn cut_files() {
    let folder = tempfile::tempdir().unwrap();
    let Some((bytes, addresses)) = library(folder.path(), &[]) else { return };
    let file = folder.path().join("cut.so");
    for end in (0..bytes.len()).step_by(97) {
        survives(&file, &bytes[..end], &addresses);
    }
}
