//! The converter queries its world, never the system.

use std::path::{Path, PathBuf};

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

#[test]
fn the_converter_never_queries_the_system() {
    // `whyslow_proc` is allowed only for the meaning of mapping names.
    const OUTSIDE: [&str; 9] = [
        "std::fs",
        "std::env",
        "std::net",
        "std::process",
        "std::time",
        "Image::open",
        "FileBytes::open",
        "libc::",
        "rustix::",
    ];
    let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(sources.len() > 10);
    for path in sources {
        let text = std::fs::read_to_string(&path).unwrap();
        for word in OUTSIDE {
            let found = text.lines().find(|line| line.contains(word));
            assert_eq!(found, None, "{}", path.display());
        }
        let asks = text
            .lines()
            .find(|line| line.contains("whyslow_proc::") && line.trim() != "use whyslow_proc::MappingKind;");
        assert_eq!(asks, None, "{}", path.display());
    }
}
