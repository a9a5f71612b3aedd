//! Waits reach the viewer with their reasons and details.

use whyslow_analyze::{Reason, testing};
use whyslow_profile::{Metric, Profile, Samples, StackId, ThreadId, WaitDetail, WokenBy};
use whyslow_render::html::{Page, write_payload};

use crate::decoder::{NONE, Payload};

/// A CPU sample, a lock wait and an idle pool thread, with stacks in this order; the waits are out of order.
fn waits() -> Profile {
    let mut profile = testing::profile(
        "main;f 1
         main;std::lock_contended;sys_futex_wait 1
         main;rayon_core::sleep::sleep;sys_futex_wait 1",
    );
    let stacks = profile.samples[0].stack.clone();
    profile.samples[0] = Samples::default();
    profile.samples[0].push(1_000_000, ThreadId(0), stacks[0], 1_000_000);
    let name = profile.strings.push(Metric::off_cpu_time().name);
    profile.metrics.push(Metric::off_cpu_time().renamed(name));
    let mut waits = Samples::default();
    waits.push(9_000_000, ThreadId(0), stacks[2], 2_000_000);
    waits.push(5_000_000, ThreadId(0), stacks[1], 3_000_000);
    profile.samples.push(waits);
    profile.add_wall_time();
    profile
}

fn payload(profile: &Profile) -> Payload {
    let mut bytes = Vec::new();
    write_payload(&Page::new(profile, "run.whyslow"), &mut bytes).unwrap();
    Payload::decode(&bytes)
}

fn code(reason: Reason) -> u8 {
    1 + Reason::ALL.iter().position(|known| *known == reason).unwrap() as u8
}

#[test]
fn each_wait_has_its_reason_in_the_order_of_time() {
    let payload = payload(&waits());
    assert!(!payload.names().contains(&"samples.0.reason"), "CPU time has no waits");
    assert_eq!(payload.u8("samples.1.reason"), [code(Reason::Lock), code(Reason::Idle)]);
    assert_eq!(payload.u8("samples.2.reason"), [0, code(Reason::Lock), code(Reason::Idle)]);
    let reasons = payload.header["reasons"].as_array().unwrap();
    let lock = &reasons[usize::from(code(Reason::Lock) - 1)];
    assert_eq!(lock["word"], "lock");
    let kind = &payload.header["time_kinds"][lock["kind"].as_u64().unwrap() as usize];
    assert_eq!((kind["word"].as_str(), kind["state"].as_str()), (Some("blocked: threads"), Some("blocked")));
    assert_eq!(reasons.len(), Reason::ALL.len());
}

#[test]
fn each_lock_wait_names_its_row_in_the_lock_table() {
    let payload = payload(&waits());
    assert_eq!(payload.u32("samples.1.lock"), [0, NONE], "an idle thread waits for no lock");
    assert_eq!(payload.texts("locks.kind"), [Some("lock".to_owned())]);
    assert_eq!(payload.texts("locks.name"), [None]);
    assert!(payload.f64("locks.address")[0].is_nan(), "its address is unknown");
    assert_eq!(payload.u32("locks.process"), [0]);
    let name = payload.texts("functions.name")[payload.u32("locks.function")[0] as usize].clone();
    assert_eq!(name.as_deref(), Some("main"), "your function that waits");
    let mut without = waits();
    without.samples[1] = Samples::default();
    assert!(!self::payload(&without).names().contains(&"locks.kind"));
}

#[test]
fn details_of_single_waits_have_their_own_columns() {
    let mut profile = waits();
    assert!(!payload(&profile).names().contains(&"samples.1.cpu"));
    profile.wait_details.push(WaitDetail {
        thread: ThreadId(0),
        end_ns: 9_000_000,
        cpu: Some(3),
        argument: 0x7f00_1234_5678,
        parked_on: 0,
        data: None,
        woken_by: WokenBy::Thread,
        waker: Some(ThreadId(0)),
        waker_stack: Some(StackId(0)),
    });
    let payload = payload(&profile);
    assert_eq!(payload.u32("samples.1.cpu"), [NONE, 3]);
    assert_eq!(payload.u32("samples.1.waker"), [NONE, 0]);
    assert_eq!(payload.u32("samples.1.waker_stack"), [NONE, 0]);
    assert_eq!(payload.f64("samples.1.argument"), [0.0, 0x7f00_1234_5678u64 as f64]);
    assert_eq!(payload.u8("samples.1.woken_by"), [0, WokenBy::Thread.code()]);
}
