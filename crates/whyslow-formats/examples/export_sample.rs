//! Writes a small profile in every format, and its totals per function, to test with other tools' own readers.
//!
//! ```text
//! cargo run -p whyslow-formats --example export_sample -- FOLDER
//! ```

use std::error::Error;
use std::fs::{self, File};
use std::path::PathBuf;

use whyslow_analyze::{CallTree, FunctionTable, Selection, SortBy, testing};
use whyslow_formats::export::{
    Export, write_csv, write_dhat, write_firefox, write_perf_script, write_pprof, write_speedscope,
};
use whyslow_profile::Span;

const STACKS: &str = "
    main@src/main.rs:3;app::parse@src/parse.rs:9;+app::next@src/parse.rs:30;std::read 40
    main@src/main.rs:3;app::parse@src/parse.rs:9 10
    main@src/main.rs:5;app::walk;app::walk;app::walk 20
    worker: app::work;malloc 25
    worker: app::work;[libz.so] 5
    worker: [truncated];sys_read 4
    main;<script>alert(1)</script> 3";

/// Two of these sites have the same frames: DHAT's viewer accepts only one of each.
const HEAP: &str = "
    main@src/main.rs:3;app::load@src/load.rs:7 : allocations=3 bytes_allocated=3000 peak_bytes=2000 peak_blocks=2 live_at_exit_bytes=1000 live_at_exit_blocks=1
    worker: main@src/main.rs:3;app::load@src/load.rs:7 : allocations=1 bytes_allocated=50
    main@src/main.rs:3 : allocations=2 bytes_allocated=20
    main@src/main.rs:3;<script>alert(1)</script> : allocations=1 bytes_allocated=7";

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("which folder?")?);
    let mut profile = testing::profile(STACKS);
    let name = profile.strings.push("request");
    let thread = Some(0.into());
    profile.spans.push(Span { name, thread, start_ns: 5_000_000, end_ns: 30_000_000, detail: None });
    let selection = Selection::default();
    let export = Export::new(&profile, &selection, true);
    write_firefox(&export, &mut File::create(folder.join("firefox.json"))?)?;
    write_pprof(&export, &mut File::create(folder.join("pprof.pb.gz"))?)?;
    write_speedscope(&export, &mut File::create(folder.join("speedscope.json"))?)?;
    write_perf_script(&export, &mut File::create(folder.join("perf-script.txt"))?)?;
    write_csv(&export, &mut File::create(folder.join("functions.csv"))?)?;
    let heap = testing::heap_profile(HEAP);
    let export = Export::new(&heap, &selection, true);
    write_dhat(&export, &mut File::create(folder.join("dhat.json"))?)?;
    write_pprof(&export, &mut File::create(folder.join("heap.pb.gz"))?)?;

    let table = FunctionTable::build(&profile, &selection, true, SortBy::Total);
    let row = |row: &whyslow_analyze::FunctionRow| {
        let name = CallTree::name(&profile, row.label).into_owned();
        (name, serde_json::json!({ "self": row.self_value, "total": row.total_value }))
    };
    let rows: serde_json::Map<String, serde_json::Value> = table.rows.iter().map(row).collect();
    fs::write(folder.join("totals.json"), serde_json::Value::from(rows).to_string())?;
    Ok(())
}
