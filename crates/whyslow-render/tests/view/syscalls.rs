//! System calls reach the viewer with the line that each is charged to.

use whyslow_analyze::testing;
use whyslow_profile::{Lengths, Profile, Syscalls};
use whyslow_render::html::{Page, write_payload};

use crate::decoder::{NONE, Payload};

fn payload(profile: &Profile) -> Payload {
    let mut bytes = Vec::new();
    write_payload(&Page::new(profile, "run.whyslow"), &mut bytes).unwrap();
    Payload::decode(&bytes)
}

/// Two writes and a failed wait, out of order, on a stack that has no samples of CPU time.
fn calls() -> Profile {
    let mut profile = testing::profile(
        "main;f 1
         main;std::io::write 1",
    );
    let stack = profile.samples[0].stack[1];
    let thread = profile.samples[0].thread[1];
    profile.samples[0] = whyslow_profile::Samples::default();
    let mut text = |text: &str| profile.strings.push(text);
    let (write, wait, file, error) = (text("write"), text("poll"), text("out.txt"), text("EINTR"));
    let mut add = |time_ns, call, file, error, lengths: &[u64]| {
        let mut sum = Lengths::default();
        lengths.iter().for_each(|length| sum.add(*length));
        profile.syscalls.push(Syscalls {
            time_ns,
            thread,
            stack,
            call,
            file,
            error,
            count: lengths.len() as u64,
            spread: 0,
            total_ns: lengths.iter().sum(),
            max_ns: lengths.iter().copied().max().unwrap_or(0),
            bytes: 24,
            lengths: sum,
        });
    };
    add(9_000, write, Some(file), None, &[5, 8]);
    add(4_000, wait, None, Some(error), &[1000]);
    profile
}

#[test]
fn calls_are_in_the_order_of_time_with_their_file_and_error() {
    let payload = payload(&calls());
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(payload.f64("syscalls.time"), [4_000.0, 9_000.0]);
    assert_eq!(payload.texts("syscalls.call"), [text("poll"), text("write")]);
    assert_eq!(payload.u8("syscalls.only_waits"), [1, 0]);
    assert_eq!(payload.texts("syscalls.file"), [None, text("out.txt")]);
    assert_eq!(payload.texts("syscalls.error"), [text("EINTR"), None]);
    assert_eq!(payload.f64("syscalls.count"), [1.0, 2.0]);
    assert_eq!(payload.f64("syscalls.total"), [1000.0, 13.0]);
    assert_eq!(payload.f64("syscalls.max"), [1000.0, 8.0]);
    assert_eq!(payload.u32("syscall_bars.syscalls"), [0, 1, 1]);
    assert_eq!(payload.u32("syscall_bars.bar"), [63, 5, 8]);
    assert!(!self::payload(&testing::profile("main 1")).names().contains(&"syscalls.call"));
}

#[test]
fn calls_are_charged_to_a_line_even_without_samples() {
    let payload = payload(&calls());
    let stack = payload.u32("syscalls.stack")[0] as usize;
    let charge = payload.u32("stacks.charge")[stack];
    assert_ne!(charge, NONE);
    let function = payload.u32("charges.function")[charge as usize] as usize;
    assert_eq!(payload.texts("functions.name")[function].as_deref(), Some("main"));
}
