//! Symbol tables and debug information: names and lines of addresses across a file.
#![no_main]

use std::fs::File;
use std::io::Write as _;

use libfuzzer_sys::fuzz_target;
use whyslow_elf::FileBytes;
use whyslow_profile::{
    Metric, Module, ModuleId, ModuleKind, Optimised, Process, Profile, RelativeAddress, Sampler, Samples,
    SymbolState, Thread, ThreadId,
};
use whyslow_symbols::{DebugFolders, Options, symbolize};

fuzz_target!(|bytes: &[u8]| {
    if bytes.is_empty() {
        return;
    }
    let file = rustix::fs::memfd_create("fuzzed", rustix::fs::MemfdFlags::CLOEXEC).expect("memory");
    let mut file = File::from(file);
    file.write_all(bytes).expect("memory");
    let file = FileBytes::map(&file).expect("a map");
    let mut profile = profile();
    let options = Options {
        cache: None,
        files: vec![(ModuleId(0), file)],
        debug_folders: DebugFolders::default(),
        keep_sources: false,
        keep_code: true,
    };
    let _ = symbolize(&mut profile, &options);
    whyslow_fuzz::use_profile(&profile);
});

/// One sample at each of several addresses of one program.
fn profile() -> Profile {
    let mut profile = Profile { sealed: true, ..Profile::default() };
    let name = profile.strings.push("/fuzzed/program");
    profile.processes.push(Process { pid: 1, parent: None, name, start_ns: 0, end_ns: None });
    profile.threads.push(Thread { process: 0.into(), tid: 1, name, start_ns: 0, end_ns: None, times: None });
    profile.modules.push(Module {
        path: name,
        build_id: None,
        kind: ModuleKind::Program,
        symbols: SymbolState::NotLoaded,
        optimised: Optimised::Unknown,
    });
    profile.metrics.push(Metric::cpu_time(Sampler::default()).renamed(name));
    let mut samples = Samples::default();
    for address in (0x1000..0x5000).step_by(0x61) {
        let location = profile.locations.push(Some(ModuleId(0)), RelativeAddress(address));
        let stack = profile.stacks.push(None, location);
        samples.push(address, ThreadId(0), stack, 1_000_000);
    }
    profile.samples.push(samples);
    profile
}
