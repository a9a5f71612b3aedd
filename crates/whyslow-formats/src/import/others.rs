//! Recognised formats that whyslow does not read, each with a way to convert it.

use super::ImportError;

const BY_SPEEDSCOPE: &str = "open it in speedscope.app, export it there, then import the .speedscope.json";
const BY_PPROF: &str = "`pprof -proto PROGRAM FILE > run.pb.gz` (or `go tool pprof`), then import the result";
const BY_FIREFOX: &str = "open it in profiler.firefox.com, save it there, then import the result";
const BY_NODE: &str =
    "`node --prof-process --preprocess -j FILE`, open that in speedscope.app and export it there";
const BY_PYTHON: &str = "`py-spy record --format speedscope -- python PROGRAM`, then import the result";
const RECORD_AGAIN: &str = "perf record, or whyslow itself";
const FTRACE: &str = "an ftrace or systrace text";
const NO_STACKS: &str = "`perf record` or whyslow itself: ftrace has no stacks";
const PSTATS: &str = "a profile of Python's cProfile";
const PPROF_REPORT: &str = "a text report of pprof";
const NO_REPORT: &str = "the profile that it was made from, or `pprof -proto` instead of a report";

/// A format: how a file starts, words near its start, the name, and how to convert it.
type Known = (&'static [u8], &'static [&'static str], &'static str, &'static str);

const KNOWN: &[Known] = &[
    (b"heap profile:", &[], "a tcmalloc or old Go heap profile", BY_PPROF),
    (
        b"heap_v2/",
        &[],
        "a jemalloc heap profile",
        "`jeprof --collapsed PROGRAM FILE > run.folded`, then import the result",
    ),
    (b"goroutine profile:", &[], "a Go text profile", BY_URL),
    (b"threadcreate profile:", &[], "a Go text profile", BY_URL),
    (b"Total: ", &["\nROUTINE ="], PPROF_REPORT, NO_REPORT),
    (b"", &["Showing nodes accounting for "], PPROF_REPORT, NO_REPORT),
    (b"File: ", &["\nType: "], PPROF_REPORT, NO_REPORT),
    (b"", &["\nType: ", "\n-----------+------"], PPROF_REPORT, NO_REPORT),
    (b"", &[": Total ", "%): "], PPROF_REPORT, NO_REPORT),
    (b"PeriodType: ", &["\nSamples:"], PPROF_REPORT, NO_REPORT),
    (b"{", &["\"selfSize\"", "\"callFrame\""], "a V8 heap profile", BY_SPEEDSCOPE),
    (b"{", &["\"recording\"", "\"instrumentTypes\""], "a recording of Safari's Web Inspector", BY_SPEEDSCOPE),
    (b"{", &["\"mode\"", "\"frames\"", "\"missed_samples\""], "a stackprof profile", BY_SPEEDSCOPE),
    (b"v8-version,", &[], "a V8 log", BY_NODE),
    (b"", &["\tSelf Weight\t"], "a deep copy from Instruments", BY_SPEEDSCOPE),
    (b"Bytes Used\t", &[], "a deep copy from Instruments", BY_SPEEDSCOPE),
    (b"Running Time\t", &[], "a deep copy from Instruments", BY_SPEEDSCOPE),
    (b"{", &["\"rts_arguments\"", "\"total_ticks\""], "a GHC profile", BY_SPEEDSCOPE),
    (b"shared-library,", &["code-creation,"], "a V8 log", BY_NODE),
    (b"", &[" log opened (PC)"], "a Papyrus log", BY_SPEEDSCOPE),
    (b"# tracer: ", &[], FTRACE, NO_STACKS),
    (b"", &["# Overhead"], "a text report of perf", "import the perf.data that it was made from"),
    (
        b"startup\t",
        &["\nexperiment\t"],
        "a coz profile",
        "`coz plot`: it predicts what a faster line would gain, and has no stacks",
    ),
    (b"Flat profile:", &[], "a gprof report", RECORD_AGAIN),
    (b"", &["\ncall graph profile:"], "a gprof report", RECORD_AGAIN),
    (b"QPERFSTREAM", &[], "a .perfparser file of Hotspot", "import the perf.data that it was made from"),
    (b"PERFFILE", &[], "a perf.data file of perf from before 2010", RECORD_AGAIN),
    (b"JAVA PROFILE 1.", &[], "a profile of Java's hprof", "async-profiler: `asprof -o collapsed`"),
    (
        b"Index ",
        &["CPU Time:Self", "CPU Time:Children"],
        "a VTune report of callers",
        "`vtune -report top-down -call-stack-mode all -format csv -csv-delimiter comma`",
    ),
    (
        b"Process Name, ",
        &[" Stack, ", " Weight, "],
        "a table of Xperf",
        "open the .etl file in PerfView and save the view as speedscope",
    ),
    (b"<profile>", &["<call_tree>"], "a profile of Sysprof 1", RECORD_AGAIN),
    (b"\xfb)\x03", &[], PSTATS, BY_PYTHON),
    (b"{(", &[], PSTATS, BY_PYTHON),
    (b"SIMPLEPERF", &[], "a simpleperf recording", BY_FIREFOX),
    (b"*version\n", &[], "an Android (ART) trace", BY_FIREFOX),
    (b"SLOW", &[], "an Android (ART) trace", BY_FIREFOX),
    (b"PK\x03\x04", &[], "a zip archive", "unpack it, then import what is inside"),
    (b"", &["\0ustar"], "a tar archive", "unpack it, then import what is inside"),
    (b"gmon", &[], "a gprof profile", RECORD_AGAIN),
    (
        b"FLR\0",
        &[],
        "a Java Flight Recorder recording",
        "`jfrconv FILE run.collapsed`, then import the result",
    ),
];

const BY_URL: &str = "the same URL without `?debug=1`, which returns pprof's own format";

/// The error for a file that no importer reads.
pub(super) fn named(start: &[u8]) -> ImportError {
    let found = |what, next| ImportError::NotRead { what, next };
    let start = start.trim_ascii_start();
    if is_ftrace(start) {
        return found(FTRACE, NO_STACKS);
    }
    if is_strace(start) {
        return found("the output of strace", "`whyslow record --syscalls PROGRAM`");
    }
    if is_cpu_profile(start) {
        return found("a gperftools CPU profile", BY_PPROF);
    }
    if is_old_text(start) {
        return found("an old text profile of a C++ or Java server", BY_PPROF);
    }
    let known = KNOWN.iter().find(|(first, words, ..)| has(start, first, words));
    known.map_or(ImportError::UnknownFormat, |(_, _, what, next)| found(what, next))
}

/// Whether a text starts so and contains all of these words.
fn has(start: &[u8], first: &[u8], words: &[&str]) -> bool {
    start.starts_with(first)
        && words.iter().all(|word| memchr::memmem::find(start, word.as_bytes()).is_some())
}

fn first_line(start: &[u8]) -> &[u8] {
    start.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii()
}

/// The kernel's trace, with or without its head: `app-7  (7) [000] d..2 50.647: sched_switch: …`.
pub(super) fn is_ftrace(start: &[u8]) -> bool {
    if start.starts_with(b"# tracer: ") {
        return true;
    }
    let mut words = first_line(start).split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let cpu = words.by_ref().find(|word| word.starts_with(b"[") && word.ends_with(b"]"));
    let is_flags = |word: &&[u8]| {
        (4..=5).contains(&word.len())
            && word.contains(&b'.')
            && word.iter().all(|byte| b".dDnNpPhHsSzZbXl0123456789".contains(byte))
    };
    cpu.is_some() && words.next().is_some_and(|word| is_flags(&word)) && words.next().is_some_and(is_time)
}

/// `50.647:`
fn is_time(word: &[u8]) -> bool {
    let digits = word.strip_suffix(b":").unwrap_or_default();
    digits.contains(&b'.') && digits.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
}

/// `7 17.32 read(3, "", 16) = 0`: perhaps a process and a time, then a call with its result.
pub(super) fn is_strace(start: &[u8]) -> bool {
    let line = first_line(start);
    let words = || line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let is_number = |word: &&[u8]| word.iter().all(|byte| byte.is_ascii_digit() || b".:".contains(byte));
    let call = words().find(|word| !is_number(word)).unwrap_or_default();
    let name = call.split(|byte| *byte == b'(').next().unwrap_or_default();
    let ends = memchr::memmem::find(line, b") ").map(|at| line[at + 2..].trim_ascii_start());
    let has_result = ends.is_some_and(|rest| rest.starts_with(b"= ")) || line.ends_with(b"<unfinished ...>");
    has_result
        && name.len() < call.len()
        && !name.is_empty()
        && name.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_')
}

/// `--- contentionz 1 ---`, and the same with heapz, threadz, growthz or mutex.
fn is_old_text(start: &[u8]) -> bool {
    let first = first_line(start);
    ["contention", "heap", "thread", "growth", "mutex"].iter().any(|kind| {
        first
            .strip_prefix(b"--- ")
            .is_some_and(|rest| rest.starts_with(kind.as_bytes()) && rest.ends_with(b"---"))
    })
}

/// The old binary format: words of 4 or 8 bytes with the values 0, 3, 0 (or 1, from Java), the period, 0.
fn is_cpu_profile(start: &[u8]) -> bool {
    let words = |width: usize, to_number: fn(&[u8]) -> u64| {
        let mut words = start.chunks_exact(width).map(to_number);
        let head: Vec<u64> = words.by_ref().take(5).collect();
        matches!(head[..], [0, 3, 0 | 1, period, 0] if period > 0)
    };
    let little = |word: &[u8]| word.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let big = |word: &[u8]| word.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    words(8, little) || words(8, big) || words(4, little) || words(4, big)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_formats_are_named() {
        let cpu: Vec<u8> = [0u64, 3, 0, 10_000, 0, 1, 2].iter().flat_map(|word| word.to_le_bytes()).collect();
        let cpu_32: Vec<u8> =
            [0u32, 3, 0, 10_000, 0, 1, 2].iter().flat_map(|word| word.to_be_bytes()).collect();
        for (bytes, name) in [
            (&cpu[..], "gperftools"),
            (&cpu_32, "gperftools"),
            (b"heap profile:  1: 2 [ 3: 4] @ heapprofile\n", "tcmalloc"),
            (b"heap_v2/524288\n", "jemalloc"),
            (b"goroutine profile: total 5\n", "Go"),
            (b"--- threadz 1 ---\n\n--- Thread 7f79 (name: main/14748) stack: ---\n", "old text profile"),
            (b"--- contentionz 1 ---\ncycles/second = 32\n", "old text profile"),
            (b"gmon\x01", "gprof"),
            (b"Total: 11\nROUTINE ======= bar in x.c\n", "pprof"),
            (b"File: app\nType: cpu\nShowing nodes accounting for 1s\n", "pprof"),
            (br#"{"head":{"callFrame":{"functionName":"(root)"},"selfSize":0}}"#, "V8 heap"),
            (br#"{"version":1.2,"mode":"wall","samples":9,"missed_samples":0,"frames":{}}"#, "stackprof"),
            (b"PK\x03\x04", "zip"),
            (b"# tracer: nop\n#\n  app-7 [000] 50.647: sched_switch: prev_comm=app\n", "ftrace"),
            (b"\n# tracer: nop\n", "ftrace"),
            (b"   <...>-882   (  882) [003] d..2 10.77: sched_wakeup: comm=app pid=7\n", "ftrace"),
            (b"1000 17.32 openat(AT_FDCWD, \"/etc/passwd\", O_RDONLY) = 3\n", "strace"),
            (b"1000 17.32 futex(0x7f, FUTEX_WAIT, 2, NULL <unfinished ...>\n", "strace"),
            (b"FLR\0\0", "Java Flight Recorder"),
            (b" bytes: Total 98.6MB of 98.6MB (100%)\n 62.5MB (63.4%): 1.5MB\n", "pprof"),
            (b"startup\ttime=14\nexperiment\tselected=a.c:1\tspeedup=0.5\n", "coz"),
            (b"Script_app log opened (PC)\n5:PUSH:1:1:None:app..run\n", "Papyrus"),
            (b"Flat profile:\n\nEach sample counts as 0.01 seconds.\n", "gprof"),
            (b"# To display the header\n#\n# Overhead  Command\n", "perf"),
            (b"QPERFSTREAM\0", "Hotspot"),
            (b"\xfb)\x03\xfa\x01", "cProfile"),
        ] {
            let error = named(bytes);
            assert!(matches!(error, ImportError::NotRead { what, .. } if what.contains(name)), "{error}");
        }
        assert!(matches!(named(b"hello"), ImportError::UnknownFormat));
        assert!(matches!(named(&[0; 64]), ImportError::UnknownFormat));
    }
}
