//! However a program starts another one, static or not, the other one's heap is counted exactly, and nothing
//! else changes for either. A program that cannot be recorded is reported by name.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use whyslow_lab_harness::{Variant, build_or_skip, run, skip};

use crate::heap_recorded::{
    HeapRecorded, as_nobody, assert_exact, code, record_program, record_program_in, text,
};
use crate::recorded::{PATIENCE, notes, whyslow};

const STATIC: [Variant; 3] = [Variant::Static, Variant::StaticPie, Variant::Musl];

/// Records a program that starts others. Compares only the counts per function: the shell allocates, too.
fn starts(starter: &Path, arguments: &[&str]) -> HeapRecorded {
    let what = format!("{} {arguments:?}", starter.display());
    let mut heap = record_program(starter, &[], arguments);
    assert_eq!(code(&heap.output), 0, "{what}: {}", text(&heap.output.stderr));
    heap.recorded.truth.heap.clear();
    assert!(heap.truth().sites.contains_key("use_briefly"), "{what}: {}", text(&heap.output.stdout));
    heap.assert_equal(&what);
    heap
}

fn text_of(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Checks that no program was left out.
fn assert_nothing_is_missing(heap: &HeapRecorded) {
    let notes = notes(heap.profile());
    assert!(!notes.iter().any(|note| note.contains("not in the recording")), "{notes:?}");
}

#[test]
fn a_static_program_is_recorded_however_it_is_started() {
    let Some(starter) = build_or_skip("heap_starts", Variant::Release) else { return };
    for variant in STATIC {
        let Some(program) = build_or_skip("heap_counts", variant) else { continue };
        for way in ["fork", "vfork", "spawn", "spawnp", "system", "popen", "replace", "folder", "file"] {
            let heap = starts(&starter, &[way, text_of(&program), "1", "200"]);
            assert_nothing_is_missing(&heap);
        }
    }
}

/// The environment may be cleared, or contain another value for the agent's variable.
#[test]
fn a_program_is_followed_with_any_environment() {
    for variant in [Variant::Release, Variant::Static] {
        let Some(program) = build_or_skip("heap_counts", variant) else { continue };
        let others: [&[&str]; 5] = [
            &["-i"],
            &["-i", "LD_PRELOAD=libm.so.6"],
            &["LD_PRELOAD="],
            &["LD_PRELOAD=libm.so.6 libdl.so.2", "WHYSLOW_AGENT_SOCKET="],
            &["WHYSLOW_AGENT_SOCKET=/nowhere"],
        ];
        for other in others {
            let arguments = [other, &[text_of(&program), "1", "200"]].concat();
            let heap = starts(Path::new("/usr/bin/env"), &arguments);
            assert_nothing_is_missing(&heap);
            assert_eq!(text(&heap.output.stderr), "", "{other:?}");
        }
        for starter in [Variant::Release, Variant::Static, Variant::Musl] {
            let Some(starter) = build_or_skip("heap_starts", starter) else { continue };
            for way in ["bare", "own"] {
                assert_nothing_is_missing(&starts(&starter, &[way, text_of(&program), "1", "200"]));
            }
        }
    }
}

#[test]
fn an_environment_is_unchanged_except_for_the_agent() {
    for starter in [Variant::Release, Variant::Musl] {
        let Some(starter) = build_or_skip("heap_starts", starter) else { continue };
        let heap = record_program(&starter, &[], &["own", "/usr/bin/env"]);
        let said = text(&heap.output.stdout);
        let lines: Vec<&str> = said.lines().skip_while(|line| !line.starts_with("LD_PRELOAD=")).collect();
        let [agent, variables @ .., socket] = &lines[..] else { panic!("no environment: {said}") };
        assert!(
            agent.ends_with("/whyslow-agent.so") && socket.starts_with("WHYSLOW_AGENT_SOCKET=/"),
            "{said}"
        );
        let own: Vec<String> = (0..3000).map(|at| format!("V{at}={}", at * at % 97)).collect();
        assert!(own.iter().eq(variables), "other variables, or another order: {said}");
    }
}

/// A `whyslow heap` inside a recorded program loads its own agent into the programs that it starts.
#[test]
fn a_program_recorded_by_another_whyslow_is_left_to_it() {
    let Some(program) = build_or_skip("heap_counts", Variant::Release) else { return };
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner.whyslow");
    let arguments = ["heap", "-q", "-o", text_of(&inner), "--", text_of(&program), "1", "200"];
    let heap = record_program(Path::new(env!("CARGO_BIN_EXE_whyslow")), &[], &arguments);
    assert_eq!(code(&heap.output), 0, "{}", text(&heap.output.stderr));
    assert_named(&heap, &program, "is recorded by another whyslow");
    let inner = whyslow_profile::file::read(&inner).unwrap();
    assert_eq!((inner.meta.heap.as_ref().unwrap().processes, inner.meta.notes), (1, Vec::new()));
    let claimed = heap.truth().heap["allocations"];
    assert_eq!(inner.heap.totals().allocations, claimed);
}

/// The agent's file is deleted by then; the loader would print an error if it still looked for it.
#[test]
fn a_program_started_after_the_recording_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        "(while [ ! -e go ]; do sleep 0.05; done; env >said; touch done) </dev/null >/dev/null 2>err &";
    let mut command = whyslow(folder.path());
    command.args(["heap", "-q", "-o", "run.whyslow", "--", "sh", "-c", script]);
    let output = run(&mut command, PATIENCE).unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let [go, done, said, err] = ["go", "done", "said", "err"].map(|name| folder.path().join(name));
    std::fs::write(go, "").unwrap();
    let since = std::time::Instant::now();
    while !done.exists() {
        assert!(since.elapsed() < PATIENCE, "what was started does not end");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(std::fs::read_to_string(err).unwrap(), "");
    assert!(!std::fs::read_to_string(said).unwrap().contains("whyslow-agent"), "the agent is still named");
}

#[test]
fn follows_chains_of_static_programs() {
    let Some(dynamic) = build_or_skip("heap_starts", Variant::Release) else { return };
    for (variant, ways) in [
        (Variant::Static, ["fork", "spawn"]),
        (Variant::StaticPie, ["system", "vfork"]),
        (Variant::Musl, ["spawnp", "replace"]),
    ] {
        let Some(middle) = build_or_skip("heap_starts", variant) else { continue };
        let Some(program) = build_or_skip("heap_counts", variant) else { continue };
        starts(&middle, &[ways[0], text_of(&program), "2", "200"]);
        // The starter claims the same function in each of them.
        let mut heap = record_program(
            &dynamic,
            &[],
            &["spawn", text_of(&middle), ways[1], text_of(&program), "2", "200"],
        );
        assert_eq!(code(&heap.output), 0, "{variant:?}: {}", text(&heap.output.stderr));
        heap.recorded.truth.heap.clear();
        heap.recorded.truth.sites.remove("before_it_starts");
        heap.assert_equal(&format!("{variant:?}"));
        assert_eq!(heap.at("before_it_starts", "allocations"), 20);
        assert_nothing_is_missing(&heap);
    }
}

#[test]
fn a_shell_and_a_script_may_start_static_programs() {
    let Some(program) = build_or_skip("heap_counts", Variant::Static) else { return };
    let folder = tempfile::tempdir().unwrap();
    let command = format!("{} 1 300; true", program.display());
    starts(Path::new("/bin/sh"), &["-c", &command]);
    let script = folder.path().join("script");
    std::fs::write(&script, format!("#!{} 1\n", program.display())).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    // The kernel calls the interpreter with `1`, the script's path, and the script's arguments: a number of
    // rounds that is not a number is refused.
    let Some(starter) = build_or_skip("heap_starts", Variant::Release) else { return };
    let heap = record_program(&starter, &[], &["spawn", text_of(&script)]);
    assert_eq!(code(&heap.output), 1, "{}", text(&heap.output.stderr));
    let processes = heap.profile().meta.heap.as_ref().unwrap().processes;
    assert_eq!(processes, 2, "the static interpreter was not entered");
}

/// As debuggers start programs: the libraries are below the stack, and the agent's own memory must leave room
/// for patches next to them.
#[test]
fn follows_programs_without_address_randomisation() {
    let setarch = Path::new("/usr/bin/setarch");
    if !setarch.exists() {
        skip("setarch is not installed");
        return;
    }
    let Some(starter) = build_or_skip("heap_starts", Variant::Release) else { return };
    for variant in STATIC {
        let Some(program) = build_or_skip("heap_counts", variant) else { continue };
        let heap = starts(setarch, &["-R", text_of(&starter), "spawn", text_of(&program), "1", "200"]);
        let notes = notes(heap.profile());
        assert!(!notes.iter().any(|note| note.contains("no free place")), "{notes:?}");
    }
}

#[test]
fn an_exec_that_fails_fails_as_without_a_recorder() {
    for starter in [Variant::Release, Variant::Static, Variant::Musl] {
        let Some(starter) = build_or_skip("heap_starts", starter) else { continue };
        assert_exact_starter(&starter, &["fails"]);
        for variant in STATIC {
            let Some(program) = build_or_skip("heap_counts", variant) else { continue };
            let heap = starts(&starter, &["fails", text_of(&program), "1", "200"]);
            assert_nothing_is_missing(&heap);
        }
    }
}

fn assert_exact_starter(starter: &Path, arguments: &[&str]) {
    let heap = record_program(starter, &[], arguments);
    assert_eq!(code(&heap.output), 0, "{}: {}", starter.display(), text(&heap.output.stdout));
    heap.assert_equal(&starter.display().to_string());
}

/// The exec of a second thread gives it the first one's number, which cannot be followed.
#[test]
fn names_a_static_program_that_cannot_be_recorded() {
    let Some(starter) = build_or_skip("heap_starts", Variant::Release) else { return };
    let Some(program) = build_or_skip("heap_counts", Variant::Static) else { return };
    let heap = record_program(&starter, &[], &["thread", text_of(&program), "1", "200"]);
    assert_eq!(code(&heap.output), 0, "{}", text(&heap.output.stderr));
    assert!(text(&heap.output.stdout).contains("site use_briefly"), "the program did not run");
    assert_named(&heap, &program, "is static");
}

fn assert_named(heap: &HeapRecorded, program: &Path, why: &str) {
    let start = format!("{} {why}", program.display());
    let notes = notes(heap.profile());
    assert!(notes.iter().any(|note| note.starts_with(&start)), "nothing says {start:?}: {notes:?}");
}

/// Any system call of the agent would kill the program.
#[test]
fn names_a_program_that_may_not_open_a_socket_and_leaves_it_alone() {
    for variant in [Variant::Static, Variant::Release] {
        let Some(program) = build_or_skip("heap_counts", variant) else { return };
        for starter in [Variant::Release, Variant::Static] {
            let Some(starter) = build_or_skip("heap_starts", starter) else { return };
            let heap = record_program(&starter, &[], &["confined", text_of(&program), "1", "200"]);
            assert_left_out(&heap, &program, "and its children run under a system call filter (seccomp)");
        }
    }
}

/// Checks that the program ran as without a recorder, and that a note names it.
fn assert_left_out(heap: &HeapRecorded, program: &Path, why: &str) {
    assert_eq!((code(&heap.output), text(&heap.output.stderr)), (0, String::new()));
    assert!(text(&heap.output.stdout).contains("site use_briefly"), "the program did not run");
    assert_named(heap, program, why);
    assert_eq!(heap.json["quality"]["grade"], "fair", "{}", heap.json["quality"]);
    assert_eq!(heap.profile().meta.heap.as_ref().unwrap().programs_left_out, 1);
}

/// Only its own user can access whyslow's folder.
#[test]
fn names_a_program_that_changes_its_user_and_leaves_it_alone() {
    let setpriv = Path::new("/usr/bin/setpriv");
    for variant in [Variant::Release, Variant::Static] {
        let Some(program) = build_or_skip("heap_counts", variant) else { continue };
        let Some((folder, _)) = as_nobody(&program) else { return };
        let copy = folder.path().join("program");
        let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", text_of(&copy), "1", "200"];
        assert_left_out(
            &record_program(setpriv, &[], &nobody),
            &copy,
            "and its children run as a user who may not open whyslow's private folder",
        );
        if variant == Variant::Release {
            let two = ["--euid=65534", text_of(&copy), "1", "200"];
            assert_left_out(
                &record_program(setpriv, &[], &two),
                &copy,
                "and its children run as a user who may not open whyslow's private folder",
            );
            let two = ["--rgid=65534", "--keep-groups", text_of(&copy), "1", "200"];
            let why = "has an effective user or group that is not the real one";
            assert_left_out(&record_program(setpriv, &[], &two), &copy, why);
        }
    }
}

#[test]
fn names_a_program_in_another_root_folder_and_leaves_it_alone() {
    let Some(program) = build_or_skip("heap_counts", Variant::Release) else { return };
    // Switching the user needs the same permission.
    let Some((folder, _)) = as_nobody(&program) else { return };
    let root = folder.path();
    let needed = std::process::Command::new("ldd").arg(&program).output();
    let (Some(chroot), Ok(needed)) =
        (["/usr/sbin/chroot", "/usr/bin/chroot"].map(Path::new).into_iter().find(|it| it.exists()), needed)
    else {
        skip("chroot or ldd is not installed");
        return;
    };
    for library in text(&needed.stdout).split_whitespace().filter(|word| word.starts_with('/')) {
        let to = root.join(&library[1..]);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(library, to).unwrap();
    }
    let heap = record_program(chroot, &[], &[text_of(root), "/program", "1", "200"]);
    assert_left_out(&heap, Path::new("/program"), "and its children run in another root folder");
    // Changing to the same root folder does not matter.
    assert_nothing_is_missing(&starts(chroot, &["/", text_of(&program), "1", "200"]));
}

/// A program that another tool already traces cannot be traced again.
#[test]
fn a_program_that_traces_its_children_keeps_them() {
    let Some(program) = build_or_skip("heap_counts", Variant::Static) else { return };
    let Some(strace) =
        ["/usr/bin/strace", "/bin/strace"].map(PathBuf::from).into_iter().find(|it| it.exists())
    else {
        skip("strace is not installed");
        return;
    };
    let heap = record_program(&strace, &[], &["-f", "-o", "/dev/null", text_of(&program), "1", "200"]);
    assert_eq!(code(&heap.output), 0, "{}", text(&heap.output.stderr));
    assert_named(&heap, &program, "is static");
}

#[test]
fn an_ordinary_user_can_record_static_programs_but_not_set_uid_ones() {
    let Some(program) = build_or_skip("heap_counts", Variant::Static) else { return };
    let Some((folder, mut command)) = as_nobody(&program) else { return };
    let copy = folder.path().join("program");
    let privileged = folder.path().join("privileged");
    std::fs::copy(&copy, &privileged).unwrap();
    std::fs::set_permissions(&privileged, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let line = format!("{} 1 200; {} 1 300", copy.display(), privileged.display());
    command.args(["heap", "-q", "-o", "run.whyslow", "--", "sh", "-c", &line]);
    let output = run(&mut command, PATIENCE).unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let profile = whyslow_profile::file::read(&folder.path().join("run.whyslow")).unwrap();
    let notes = notes(&profile);
    let refused = format!("{} is set-uid", privileged.display());
    assert!(notes.iter().any(|note| note.starts_with(&refused)), "{notes:?}");
    assert!(!notes.iter().any(|note| note.starts_with(text_of(&copy))), "{notes:?}");
    // The shell, and the program that may be inspected.
    let facts = profile.meta.heap.as_ref().unwrap();
    assert_eq!((facts.processes, facts.programs_left_out), (2, 1), "{notes:?}");
}

#[test]
fn allocators_in_libraries_loaded_later_are_counted_exactly() {
    let Some(heap) = assert_exact("heap_late", Variant::Release, &["40"]) else { return };
    let allocators = &heap.profile().meta.heap.as_ref().unwrap().allocators;
    for name in ["mimalloc", "jemalloc", "a library's own malloc"] {
        assert!(allocators.iter().any(|known| known == name), "{name} is not in {allocators:?}");
    }
    let notes = notes(heap.profile());
    assert!(notes.is_empty(), "{notes:?}");
}

#[test]
fn a_library_bound_to_libc_itself_is_counted_exactly() {
    for options in [&[][..], &["--unused"]] {
        let Some(program) = build_or_skip("heap_bound", Variant::Release) else { return };
        let heap = record_program(&program, options, &["20"]);
        assert_eq!(code(&heap.output), 0, "{}", text(&heap.output.stderr));
        heap.assert_equal(&format!("heap_bound {options:?}"));
        let facts = heap.profile().meta.heap.as_ref().unwrap();
        assert_eq!((facts.unknown_frees, facts.lost_events), (0, 0), "{options:?}");
    }
}

/// They are between the program and libc, after the agent.
#[test]
fn preloaded_allocators_are_counted_exactly() {
    let Some(program) = build_or_skip("heap_counts", Variant::Release) else { return };
    for name in ["libjemalloc.so.2", "libmimalloc.so.2", "libtcmalloc_minimal.so.4"] {
        let library = Path::new("/usr/lib/x86_64-linux-gnu").join(name);
        if !library.exists() {
            skip(&format!("{name} is not installed"));
            continue;
        }
        let mut heap = record_program_in(&[("LD_PRELOAD", &library)], &program, &[], &["1", "1000"]);
        assert_eq!(code(&heap.output), 0, "{name}: {}", text(&heap.output.stderr));
        // Their C++ library has its own block.
        heap.recorded.truth.heap.clear();
        heap.assert_equal(name);
        let allocators = &heap.profile().meta.heap.as_ref().unwrap().allocators;
        assert!(allocators.iter().any(|known| known.starts_with(name)), "{name} is not in {allocators:?}");
    }
}

/// Whatever the reason: a program without any report is named, and the recording does not count as complete.
#[test]
fn names_a_program_that_could_not_be_recorded() {
    let Some(program) = build_or_skip("heap_counts", Variant::Release) else { return };
    let files = format!("ulimit -n 4; exec {} 1 200", program.display());
    let heap = record_program(Path::new("/bin/sh"), &["--fail-on-leak"], &["-c", &files]);
    assert!(text(&heap.output.stdout).contains("site use_briefly"), "the program did not run");
    assert_eq!(code(&heap.output), 3, "{}", text(&heap.output.stderr));
    assert_named(&heap, &program, "could not be recorded: its limit of open files (`ulimit -n`) is 4");
    assert_eq!(heap.json["quality"]["grade"], "fair", "{}", heap.json["quality"]);
    // A program that exits before any of its code has run reports nothing.
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken");
    let built = std::process::Command::new("sh")
        .current_dir(folder.path())
        .args([
            "-c",
            "echo 'int f(void){return 0;}' >l.c && echo 'int f(void);int main(void){return f();}' >m.c && \
            gcc -shared -fPIC -o libgone.so l.c && gcc -o broken m.c ./libgone.so && rm libgone.so",
        ])
        .status();
    if !built.is_ok_and(|built| built.success()) {
        skip("gcc is not installed");
        return;
    }
    let line = format!("{}; true", broken.display());
    let heap = record_program(Path::new("/bin/sh"), &[], &["-c", &line]);
    assert_named(&heap, &broken, "started, but the agent inside it never reported");
    assert_eq!(heap.json["heap"]["programs_left_out"], 1);
}

/// Its starter calls no library function for it.
#[test]
fn finds_a_program_started_with_a_direct_system_call() {
    let Some(starter) = build_or_skip("heap_starts", Variant::Release) else { return };
    let Some(program) = build_or_skip("heap_exits", Variant::Static) else { return };
    let heap = record_program(&starter, &[], &["raw", text_of(&program), "wait"]);
    assert_named(&heap, &program, "was started by a direct system call, which whyslow cannot intercept");
}

#[test]
fn programs_with_little_address_space_are_recorded_and_do_not_fail() {
    let prlimit = Path::new("/usr/bin/prlimit");
    if !prlimit.exists() {
        skip("prlimit is not installed");
        return;
    }
    for variant in [Variant::Release, Variant::Static] {
        let Some(program) = build_or_skip("heap_counts", variant) else { continue };
        for limit in ["--as=4000000000", "--as=256000000"] {
            let heap = starts(prlimit, &[limit, text_of(&program), "4", "200"]);
            assert_nothing_is_missing(&heap);
            assert_eq!(heap.heap("lost_events"), 0);
        }
    }
}
