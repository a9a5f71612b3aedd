use super::*;
use crate::testing::profile;
use crate::{FunctionFilter, Pattern};

fn add(
    profile: &mut Profile,
    stack: usize,
    (call, file, error): (&str, Option<&str>, Option<&str>),
    lengths: &[u64],
    bytes: u64,
) {
    let mut text = |text: &str| profile.strings.push(text);
    let (call, file, error) = (text(call), file.map(&mut text), error.map(&mut text));
    let (call, file) = (first(profile, call), file.map(|file| first(profile, file)));
    let error = error.map(|error| first(profile, error));
    let mut sum = Lengths::default();
    lengths.iter().for_each(|length| sum.add(*length));
    let samples = &profile.samples[0];
    profile.syscalls.push(Syscalls {
        time_ns: 0,
        thread: samples.thread[stack],
        stack: samples.stack[stack],
        call,
        file,
        error,
        count: lengths.len() as u64,
        spread: 1,
        total_ns: lengths.iter().sum(),
        max_ns: lengths.iter().copied().max().unwrap_or(0),
        bytes,
        lengths: sum,
    });
}

/// The first row of a text.
fn first(profile: &Profile, text: StringId) -> StringId {
    let text = profile.text(text);
    profile.strings.iter().position(|known| known == text).map(StringId::from).unwrap()
}

fn made() -> Profile {
    let mut profile = profile(
        "main@app.rs:3;std::io::write 1
         main@app.rs:9;std::fs::open 1
         worker: main@app.rs:20;std::thread::sleep 1",
    );
    add(&mut profile, 0, ("write", Some("out.txt"), None), &[1000; 99], 12 * 99);
    add(&mut profile, 0, ("write", Some("log"), None), &[5000], 12);
    add(&mut profile, 1, ("openat", None, None), &[300; 2], 0);
    add(&mut profile, 1, ("openat", None, Some("ENOENT")), &[100; 3], 0);
    add(&mut profile, 2, ("clock_nanosleep", None, None), &[9_000_000], 0);
    profile
}

#[test]
fn calls_are_added_up_by_call_and_line_with_their_files_and_errors() {
    let profile = made();
    let charges = Charges::new(&profile, true);
    let table = SyscallTable::build(&profile, &Selection::default(), &charges);
    let rows: Vec<_> =
        table.rows.iter().map(|row| (profile.text(row.call), row.line, row.cost.count)).collect();
    assert_eq!(rows, [("clock_nanosleep", 20, 1), ("write", 3, 100), ("openat", 9, 5)]);
    let write = &table.rows[1];
    let targets: Vec<_> =
        write.targets.iter().map(|(name, cost)| (profile.text(*name), cost.count)).collect();
    assert_eq!(targets, [("out.txt", 99), ("log", 1)]);
    assert_eq!((write.cost.total_ns, write.cost.max_ns, write.cost.bytes), (104_000, 5000, 1200));
    assert!((1000..=1125).contains(&write.cost.quantile_ns(50)), "{}", write.cost.quantile_ns(50));
    assert_eq!(write.cost.quantile_ns(100), 5000, "never more than the longest");
    let open = &table.rows[2];
    assert_eq!(
        (open.cost.failed, open.errors.len(), profile.text(open.errors[0].0), open.errors[0].1),
        (3, 1, "ENOENT", 3)
    );
    assert_eq!((table.all.count, table.all.failed, table.waiting_ns), (106, 3, 9_000_000));
    assert_eq!(
        table.most_costly(&profile).map(|row| row.line),
        Some(3),
        "what only waits is not named first"
    );
}

#[test]
fn calls_without_a_stack_are_noted() {
    let profile = made();
    let table = SyscallTable::build(&profile, &Selection::default(), &Charges::new(&profile, true));
    assert_eq!(table.note(), Some(SyscallNote::Spread { calls: 5, of: 106 }));
}

#[test]
fn only_selected_calls_count() {
    let profile = made();
    let charges = Charges::new(&profile, true);
    let of = |selection: Selection| SyscallTable::build(&profile, &selection, &charges).all.count;
    let worker = Pattern::Name(regex::Regex::new("worker").unwrap());
    assert_eq!(of(Selection { threads: vec![worker], ..Selection::default() }), 1);
    let open = FunctionFilter::new("open");
    assert_eq!(of(Selection { function: Some(open), ..Selection::default() }), 5);
    assert_eq!(of(Selection { time_ns: Some(1..5), ..Selection::default() }), 0);
}
