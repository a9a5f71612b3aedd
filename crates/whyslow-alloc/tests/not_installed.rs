//! Without the allocator nothing can be counted, and a message says so.

use std::panic::catch_unwind;

fn message_of(work: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let payload = catch_unwind(work).expect_err("it should have panicked");
    payload.downcast_ref::<&str>().map(|text| (*text).to_owned()).unwrap_or_default()
}

#[test]
fn scopes_and_profilers_panic_without_the_allocator() {
    for message in [
        message_of(|| drop(whyslow_alloc::Scope::new())),
        message_of(|| drop(whyslow_alloc::Scope::with_stacks())),
        message_of(|| {
            let _ = whyslow_alloc::count(|| ());
        }),
        message_of(|| whyslow_alloc::assert_no_alloc(|| ())),
        message_of(|| drop(whyslow_alloc::Profiler::new_heap())),
        message_of(|| drop(whyslow_alloc::Scope::with_stacks())),
    ] {
        assert!(message.contains("is not this program's global allocator"), "{message}");
        assert!(message.contains("#[global_allocator]"), "{message}");
    }
}

#[test]
fn events_need_no_allocator() {
    let mut profiler = whyslow_alloc::Profiler::new_ad_hoc();
    whyslow_alloc::ad_hoc_event(5);
    assert_eq!(whyslow_alloc::AdHocStats::get().total_units, 5);
    let json = profiler.drop_and_get_memory_output();
    assert!(json.contains("tests/not_installed.rs"), "{json}");
}
