//! The payload has what the viewer needs to show how many threads ran and which lines are charged.

use whyslow_analyze::{elapsed_time, testing};
use whyslow_profile::Profile;
use whyslow_render::html::{Page, write_payload};

use crate::decoder::{NONE, Payload};

const MS: u64 = 1_000_000;

/// 2 ms of main alone, then 3 ms of two others; rows out of order.
fn parallel() -> Profile {
    let mut profile = testing::profile(
        "a: app::work@app.rs:20;std::copy 3
         b: app::work@app.rs:20;std::copy 3
         main: app::parse@app.rs:12 2",
    );
    let times = [3, 4, 5, 3, 4, 5, 1, 2];
    profile.samples[0].time_ns = times.map(|ms| ms * MS).into();
    profile.samples[0].value = vec![MS; times.len()];
    profile.meta.duration_ns = 6 * MS;
    profile
}

fn payload(profile: &Profile) -> Payload {
    let mut bytes = Vec::new();
    write_payload(&Page::new(profile, "run.whyslow"), &mut bytes).unwrap();
    Payload::decode(&bytes)
}

#[test]
fn each_cpu_sample_says_how_many_threads_ran() {
    let profile = parallel();
    let payload = payload(&profile);
    assert_eq!(payload.u32("samples.0.running"), [1, 1, 2, 2, 2, 2, 2, 2], "in the order of time");
    assert_eq!(payload.u32("samples.0.busy"), payload.u32("samples.0.running"));
    let shared = payload.f64("samples.0.value").into_iter().zip(payload.u32("samples.0.running"));
    let elapsed: f64 = shared.map(|(value, running)| value / f64::from(running)).sum();
    let known: u64 = elapsed_time(&profile).unwrap().1.value.iter().sum();
    assert_eq!((elapsed, known), (known as f64, 5 * MS));
}

#[test]
fn stacks_name_the_line_that_they_are_charged_to() {
    let profile = parallel();
    let payload = payload(&profile);
    let names = payload.texts("functions.name");
    let charge = |stack: u32| payload.u32("stacks.charge")[stack as usize];
    let name = |stack: u32| {
        let row = charge(stack) as usize;
        let name = names[payload.u32("charges.function")[row] as usize].clone().unwrap();
        (name, payload.texts("charges.file")[row].clone(), payload.u32("charges.line")[row])
    };
    let copy = profile.samples[0].stack[0];
    assert_eq!(name(copy.0), ("app::work".to_owned(), Some("app.rs".to_owned()), 20), "not std's");
    assert_eq!(name(profile.samples[0].stack[6].0).0, "app::parse");
    let outer = profile.stacks.parent(copy).unwrap();
    assert_eq!(charge(outer.0), NONE, "no sample has it as its stack");
}

#[test]
fn the_header_has_the_facts_that_samples_lack() {
    let mut profile = parallel();
    let facts = |profile: &Profile| {
        let head = &payload(profile).header["parallelism"];
        (head["sealed"].as_bool(), head["end_ns"].as_u64())
    };
    profile.sealed = true;
    assert_eq!(facts(&profile), (Some(true), Some(6 * MS)));
    profile.sealed = false;
    assert_eq!(facts(&profile), (Some(false), Some(6 * MS)));
}

#[test]
fn a_heap_profile_has_no_parallelism() {
    let heap = testing::heap_profile("app::f;malloc : allocations=1 bytes_allocated=4");
    let payload = payload(&heap);
    assert!(!payload.names().iter().any(|name| name.ends_with(".running")));
    assert!(payload.u32("charges.function").is_empty());
}
