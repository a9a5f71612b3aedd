//! Records the heap of a program and compares the profile with the program's claims, number by number.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use whyslow_lab_harness::{Numbers, Truth, Variant, build_or_skip, run};
use whyslow_profile::{HeapCounts, Profile, StackId, file};

use crate::recorded::{PATIENCE, Recorded, last_segment, whyslow};

/// C library functions that allocate for themselves: a table for each thread, work at a thread's exit, the
/// start of a static program.
const OF_THE_LIBRARY: [&str; 8] = [
    "pthread_create",
    "__pthread_create",
    "_dl_allocate_tls",
    "allocate_dtv",
    "dlopen",
    "dlclose",
    "__cxa_thread_atexit_impl",
    "_dl_non_dynamic_init",
];

/// A recorded heap and the program's claims.
pub(crate) struct HeapRecorded {
    pub(crate) recorded: Recorded,
    /// `heap` and `sites` of `whyslow report --format json`.
    pub(crate) json: Value,
    pub(crate) output: Output,
}

/// Builds and records a lab program with `whyslow heap`; `None` if a compiler is missing (reported on
/// stderr).
pub(crate) fn record_heap(program: &str, variant: Variant, arguments: &[&str]) -> Option<HeapRecorded> {
    let program = build_or_skip(program, variant)?;
    Some(record_program(&program, &[], arguments))
}

/// Records a program that is already built, with further options of `whyslow heap`.
pub(crate) fn record_program(program: &Path, options: &[&str], arguments: &[&str]) -> HeapRecorded {
    record_program_in(&[], program, options, arguments)
}

/// The same with further environment variables.
pub(crate) fn record_program_in(
    environment: &[(&str, &Path)],
    program: &Path,
    options: &[&str],
    arguments: &[&str],
) -> HeapRecorded {
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    command.envs(environment.iter().copied());
    command.args(["heap", "-q", "-o", "run.whyslow"]).args(options).arg("--").arg(program).args(arguments);
    let output = run(&mut command, PATIENCE).unwrap();
    let path = folder.path().join("run.whyslow");
    assert!(path.exists(), "{program:?} {arguments:?}: no profile: {}", text(&output.stderr));
    let mut report = whyslow(folder.path());
    report.args(["report", "run.whyslow", "heap", "--format", "json", "--limit", "100000"]);
    let report = run(&mut report, PATIENCE).unwrap();
    assert!(report.status.success(), "{}", text(&report.stderr));
    let json = serde_json::from_slice(&report.stdout).unwrap();
    let truth = Truth::parse(&text(&output.stdout));
    let recorded = Recorded { profile: file::read(&path).unwrap(), truth, folder };
    HeapRecorded { recorded, json, output }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The exit code as a shell reports it.
pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().or(output.status.signal().map(|signal| 128 + signal)).unwrap()
}

/// The output and exit status of a program without a recorder.
pub(crate) fn plain(program: &Path, arguments: &[&str]) -> Output {
    run(Command::new(program).args(arguments), PATIENCE).unwrap()
}

/// The column of [`HeapCounts`] with this number, which is in JSON at a path such as
/// `leaks.definitely.blocks`.
fn column(counts: &HeapCounts, name: &str) -> u64 {
    let name = match name.strip_prefix("leaks.").map(|leak| leak.split_once('.')) {
        Some(Some(("reachable", unit))) => format!("reachable_{unit}"),
        Some(Some((class, unit))) => format!("{class}_lost_{unit}"),
        _ => name.to_owned(),
    };
    let at = HeapCounts::COLUMNS.iter().position(|column| *column == name);
    counts.numbers()[at.unwrap_or_else(|| panic!("there is no column {name}"))]
}

impl HeapRecorded {
    pub(crate) fn profile(&self) -> &Profile {
        &self.recorded.profile
    }

    pub(crate) fn truth(&self) -> &Truth {
        &self.recorded.truth
    }

    /// A number in `heap` of the JSON, by a path such as `leaks.definitely.blocks`.
    pub(crate) fn heap(&self, path: &str) -> u64 {
        let value = path.split('.').fold(&self.json["heap"], |value, key| &value[key]);
        value.as_u64().unwrap_or_else(|| panic!("heap.{path} is {value} in the JSON report"))
    }

    /// The functions on a stack, innermost first, without paths and generic arguments.
    pub(crate) fn functions(&self, stack: StackId) -> Vec<&str> {
        self.recorded.names(stack).into_iter().map(last_segment).collect()
    }

    /// The sum of a number over all sites with matching stacks.
    fn sum(&self, name: &str, fits: impl Fn(&[&str]) -> bool) -> u64 {
        let sites = self.profile().heap.sites.iter();
        sites.filter(|site| fits(&self.functions(site.stack))).map(|site| column(&site.counts, name)).sum()
    }

    /// The sum of a number over all stacks with this function.
    pub(crate) fn at(&self, function: &str, name: &str) -> u64 {
        self.sum(name, |functions| functions.contains(&function))
    }

    /// The C library's own allocations.
    fn of_the_library(&self, name: &str) -> u64 {
        self.sum(name, |functions| {
            functions.iter().any(|function| OF_THE_LIBRARY.iter().any(|it| function.starts_with(it)))
        })
    }

    /// Fails unless every number that the program claimed equals the profile's.
    pub(crate) fn assert_equal(&self, what: &str) {
        let mut wrong = Vec::new();
        let mut compare = |place: &str, claims: &Numbers, measured: &dyn Fn(&str) -> u64| {
            for (name, claimed) in claims {
                let measured = measured(name);
                if measured != *claimed {
                    wrong.push(format!("{place} {name}: {measured}, but in truth {claimed}"));
                }
            }
        };
        let truth = self.truth();
        compare("heap", &truth.heap, &|name| self.heap(name) - self.of_the_library(name));
        for (function, claims) in &truth.sites {
            compare(function, claims, &|name| self.at(function, name));
        }
        assert!(
            !truth.heap.is_empty() || !truth.sites.is_empty(),
            "{what} claims nothing: {:?}",
            self.output
        );
        for name in ["lost_events", "unknown_frees"] {
            if self.heap(name) != 0 {
                wrong.push(format!("heap {name}: {}", self.heap(name)));
            }
        }
        assert!(wrong.is_empty(), "{what}:\n  {}", wrong.join("\n  "));
    }
}

/// Records and compares; the program must exit with code 0.
pub(crate) fn assert_exact(program: &str, variant: Variant, arguments: &[&str]) -> Option<HeapRecorded> {
    let what = format!("{program} {variant:?} {arguments:?}");
    let heap = record_heap(program, variant, arguments)?;
    assert_eq!(code(&heap.output), 0, "{what}: {}", text(&heap.output.stderr));
    heap.assert_equal(&what);
    Some(heap)
}

/// A folder that all users may use, with copies of whyslow and a program, and a command that runs this
/// whyslow as `nobody`. [`skip`](whyslow_lab_harness::skip)s and returns `None` if the user cannot be
/// changed.
pub(crate) fn as_nobody(program: &Path) -> Option<(tempfile::TempDir, Command)> {
    use std::os::unix::fs::PermissionsExt as _;
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let is_root = status.lines().any(|line| line.starts_with("Uid:\t0\t0"));
    if !is_root || Command::new("setpriv").arg("--version").output().is_err() {
        whyslow_lab_harness::skip("becoming an ordinary user needs root and setpriv");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let everyone = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(folder.path(), everyone.clone()).unwrap();
    let copies: [(OsString, &str); 2] =
        [(env!("CARGO_BIN_EXE_whyslow").into(), "whyslow"), (program.into(), "program")];
    for (from, name) in copies {
        let to: PathBuf = folder.path().join(name);
        std::fs::copy(from, &to).unwrap();
        std::fs::set_permissions(to, everyone.clone()).unwrap();
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(folder.path().join("whyslow"));
    command.current_dir(folder.path()).env("HOME", folder.path()).env_remove("XDG_CACHE_HOME");
    command.env_remove("XDG_RUNTIME_DIR");
    Some((folder, command))
}
