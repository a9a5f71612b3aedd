//! The files in `tests/golden` were written by each version of the format and must remain readable forever.
//!
//! `WHYSLOW_REGENERATE_GOLDEN=1 cargo test -p whyslow-profile golden` rewrites that of the current version.
//! Do that only before the first release of a format version; afterwards, add a file for the new version next
//! to the old ones.

use std::path::Path;

use whyslow_profile::{
    Code, CodeKind, Counters, ExitStatus, Frame, Function, FunctionId, Host, KernelView, LocationId, Meta,
    Metric, Module, ModuleId, ModuleKind, Note, Optimised, Process, ProcessId, Profile, RelativeAddress,
    Sampler, Samples, SourceLine, StackId, SymbolState, Thread, ThreadId, Trigger, file,
};

fn expected() -> Profile {
    let mut p = Profile { sealed: true, ..Profile::default() };
    p.meta = Meta {
        heap: None,
        command: vec!["./app".into(), "--size".into(), "3".into()],
        recorder: "whyslow 0.1.0".into(),
        started_unix_ns: 1_700_000_000_000_000_000,
        duration_ns: 5_000_000,
        exit: Some(ExitStatus::Code(7)),
        stack_bytes: 0,
        kernel: KernelView::Included,
        user_time_ns: 4_000_000,
        system_time_ns: 1_000_000,
        max_resident_bytes: 9 << 20,
        host: Host {
            distribution: String::new(),
            os: "Linux 6.1".into(),
            arch: "x86_64".into(),
            cpu: "A CPU".into(),
            cpus: 2,
            virtualisation: Some("kvm".into()),
            features: Vec::new(),
        },
        counters: Counters {
            lost_samples: 1,
            complete_in_dump: 2,
            completed_by_join: 1,
            ..Counters::default()
        },
        notes: vec![Note::Text("a note".into())],
        ..Meta::default()
    };
    let mut text = |text: &str| p.strings.push(text);
    let (app, worker, path, build_id) = (text("app"), text("worker"), text("/bin/app"), text("c0ffee"));
    let (main, raw_main, inlined) = (text("app::main"), text("_ZN3app4mainE"), text("app::größer"));
    let (source, line_text, kernel, metric) =
        (text("src/main.rs"), text("    loop {}"), text("[kernel]"), text(Metric::CPU_TIME));
    p.processes = vec![
        Process { pid: 100, parent: None, name: app, start_ns: 0, end_ns: Some(5_000_000) },
        Process { pid: 101, parent: Some(ProcessId(0)), name: worker, start_ns: 1_000, end_ns: None },
    ];
    p.threads = vec![
        Thread {
            process: ProcessId(0),
            tid: 100,
            name: app,
            start_ns: 0,
            end_ns: Some(5_000_000),
            times: None,
        },
        Thread { process: ProcessId(1), tid: 101, name: worker, start_ns: 1_000, end_ns: None, times: None },
    ];
    p.modules = vec![
        Module {
            path,
            build_id: Some(build_id),
            kind: ModuleKind::Program,
            symbols: SymbolState::Lines,
            optimised: Optimised::Yes,
        },
        Module {
            path: kernel,
            build_id: None,
            kind: ModuleKind::Kernel,
            symbols: SymbolState::Names,
            optimised: Optimised::Unknown,
        },
    ];
    let in_main = p.locations.push(Some(ModuleId(0)), RelativeAddress(0x1000));
    let in_inlined = p.locations.push(Some(ModuleId(0)), RelativeAddress(0x1010));
    let unknown = p.locations.push(None, RelativeAddress(0xdead_beef));
    p.functions = vec![
        Function {
            name: main,
            raw_name: raw_main,
            crate_name: Some(app),
            kind: CodeKind::Yours,
            file: Some(source),
            line: 10,
            module: Some(ModuleId(0)),
        },
        Function {
            name: inlined,
            raw_name: inlined,
            crate_name: None,
            kind: CodeKind::Dependency,
            file: None,
            line: 0,
            module: None,
        },
    ];
    p.frames.set(in_main, &[Frame { function: FunctionId(0), file: Some(source), line: 12 }]);
    p.frames.set(
        in_inlined,
        &[
            Frame { function: FunctionId(0), file: Some(source), line: 13 },
            Frame { function: FunctionId(1), file: None, line: 0 },
        ],
    );
    let root = p.stacks.push(None, in_main);
    let leaf = p.stacks.push(Some(root), in_inlined);
    let cut = p.stacks.push(None, LocationId::TRUNCATED);
    let cut_leaf = p.stacks.push(Some(cut), unknown);
    assert_eq!(cut_leaf, StackId(3));
    let sampler = Sampler { trigger: Trigger::CpuClock, rate_hz: 997 };
    p.metrics = vec![Metric::cpu_time(sampler).renamed(metric)];
    let mut samples = Samples::default();
    samples.push(1_003_009, ThreadId(0), leaf, 1_003_009);
    samples.push(2_006_018, ThreadId(0), root, 1_003_009);
    samples.push(2_000_000, ThreadId(1), cut_leaf, u64::from(u32::MAX));
    p.samples = vec![samples];
    p.sources.rows = vec![SourceLine { file: source, line: 13, text: line_text }];
    p.code.rows =
        vec![Code { module: ModuleId(0), start: RelativeAddress(0xff0), bytes: vec![0xeb, 0xfe, 0xc3] }];
    p
}

#[test]
fn every_version_remains_readable() {
    let golden =
        |version: u32| Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/v{version}.whyslow"));
    if std::env::var_os("WHYSLOW_REGENERATE_GOLDEN").is_some() {
        file::write(&golden(file::VERSION), &expected()).unwrap();
    }
    for version in 1..=file::VERSION {
        let read = file::read(&golden(version)).unwrap();
        assert_eq!(read, expected(), "version {version}");
        assert_eq!(read.text(read.functions[1].name), "app::größer");
        assert!(read.is_truncated(StackId(3)) && !read.is_truncated(StackId(1)));
    }
}
