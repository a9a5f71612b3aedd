//! A profile with a row in every table.

use whyslow_analyze::testing;
use whyslow_profile::{
    Code, Counter, CounterId, ExitStatus, Metric, ModuleId, ProcessId, Profile, RelativeAddress, Samples,
    Span, StackId, ThreadId, Unit,
};

pub(crate) fn program() -> Profile {
    let mut profile = testing::profile(
        "main@src/main.rs:3;app::parse@src/parse.rs:10;+core::next@/rustc/1/library/core/src/iter.rs:7 4
         main@src/main.rs:4;[libz.so.1] 2
         worker: [truncated];app::work 3
         [unknown] 1",
    );
    testing::add_source(&mut profile, "src/parse.rs", "fn parse() {\n    next();\n}");
    testing::add_source(&mut profile, "src/main.rs", "fn main() {}");
    profile.meta.recorder = "whyslow 1.2.3".to_owned();
    profile.meta.started_unix_ns = 1_700_000_000_000_000_000;
    profile.meta.exit = Some(ExitStatus::Code(0));
    profile.meta.host.arch = "x86_64".to_owned();
    profile.processes[0].end_ns = Some(9_000_000);
    profile.threads[1].start_ns = 500;

    // Deliberately not in order of time.
    let main = &mut profile.samples[0];
    main.time_ns.swap(0, 5);
    let unit = Unit::Bytes;
    let name = profile.strings.push("allocated");
    profile.metrics.push(Metric::unknown(name, unit));
    let mut bytes = Samples::default();
    bytes.push(2_500, ThreadId(1), StackId(0), 64);
    bytes.push(4_999, ThreadId(0), StackId(1), 1 << 40);
    profile.samples.push(bytes);

    let [request, detail, memory, load] =
        ["request", "id=7", "memory", "load"].map(|text| profile.strings.push(text));
    profile.spans.push(Span {
        name: request,
        thread: Some(ThreadId(1)),
        start_ns: 5_000,
        end_ns: 9_000,
        detail: Some(detail),
    });
    profile.spans.push(Span { name: request, thread: None, start_ns: 1_000, end_ns: 1_000, detail: None });
    profile.counters.push(Counter { name: memory, unit, process: Some(ProcessId(0)) });
    profile.counters.push(Counter { name: load, unit: Unit::Count, process: None });
    for (counter, time_ns, value) in [(1, 10, -5), (0, 30, 2), (0, 20, 1)] {
        profile.counter_values.push(CounterId(counter), time_ns, value);
    }

    let code = |start: u64, bytes: &[u8]| Code {
        module: ModuleId(0),
        start: RelativeAddress(start),
        bytes: bytes.to_vec(),
    };
    profile.code.rows.push(code(0x2000, &[0x90, 0xc3]));
    profile.code.rows.push(code(0x1000, &[0x75, 0xfe, 0xe8, 0xf9, 0x0f, 0, 0, 0x06]));
    profile
}
