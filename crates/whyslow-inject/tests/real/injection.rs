//! Injects agents into static programs, and checks that programs survive failed injections.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::{Bench, run_injected, watched};
use whyslow_inject::{Entry, InjectError, Injector, entry_of, entry_of_file, is_static};

/// An agent that prints a line when it runs, and overwrites every register.
const VISITOR: &str = r#"
static long say(const char *text, long len) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(1), "D"(2), "S"(text), "d"(len) : "rcx", "r11", "memory");
    return result;
}
static const char *volatile texts[] = {"agent was here\n"};
void whyslow_agent_enter(const char *socket, unsigned long bias, unsigned long headers, unsigned long count) {
    long len = 0;
    while (socket[len]) len++;
    say(socket, len);
    say(": ", 2);
    // The first header's type can be read, and there are several headers.
    if (*(volatile unsigned *)headers < 100 && count > 2 && bias % 4096 == 0) say(texts[0], 15);
    __asm__ volatile("mov $-1, %%rax; movq %%rax, %%xmm0; movq %%rax, %%xmm7; std; mov $-1, %%r8; mov $-1, %%r15; cld"
                     : : : "rax", "r8", "xmm0", "xmm7", "r15", "cc");
}
"#;

/// A program without libc that checks how the kernel started it: all registers zero, the arguments on the
/// stack, the code at its entry as it was linked.
const OBSERVER: &str = r#"
__asm__(
    ".globl _start\n_start:\n"
    "  mov %rsp, %rbp\n"
    "  or %rbx, %rax\n  or %rcx, %rax\n  or %rdx, %rax\n  or %rsi, %rax\n  or %rdi, %rax\n"
    "  or %r8, %rax\n  or %r9, %rax\n  or %r10, %rax\n  or %r11, %rax\n"
    "  or %r12, %rax\n  or %r13, %rax\n  or %r14, %rax\n  or %r15, %rax\n"
    "  movq %xmm0, %rbx\n  or %rbx, %rax\n  movq %xmm7, %rbx\n  or %rbx, %rax\n"
    "  mov %rax, %rdi\n  mov %rbp, %rsi\n"
    "  and $-16, %rsp\n  call check\n");
static long call(long n, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}
extern const unsigned char _start[];
__attribute__((used)) void check(long registers, long *stack) {
    if (registers) call(1, 1, (long)"registers ", 10);
    if (stack[0] != 1) call(1, 1, (long)"stack ", 6);
    // mov %rsp, %rbp
    if (_start[0] != 0x48 || _start[1] != 0x89 || _start[2] != 0xe5) call(1, 1, (long)"code ", 5);
    call(1, 1, (long)"done\n", 5);
    call(231, 7, 0, 0);
}
"#;

const SHARED: [&str; 5] = ["-O1", "-shared", "-fPIC", "-nostdlib", "-fno-stack-protector"];

fn agent(bench: &Bench, source: &str) -> Vec<u8> {
    std::fs::read(bench.gcc("visitor.so", source, &SHARED)).unwrap()
}

fn observer(bench: &Bench, way: &str) -> PathBuf {
    bench.gcc("observer", OBSERVER, &[way, "-O1", "-nostdlib", "-fno-stack-protector"])
}

#[test]
fn the_agent_runs_and_leaves_registers_stack_and_code_unchanged() {
    let Some(bench) = Bench::new() else { return };
    let agent = agent(&bench, VISITOR);
    for way in ["-static", "-static-pie"] {
        let (output, result) = run_injected(&observer(&bench, way), &agent, Path::new("/some/where"));
        result.unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "/some/where: agent was here\n", "{way}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n", "{way}");
        assert_eq!(output.status.code(), Some(7), "{way}");
    }
}

#[test]
fn a_program_runs_on_when_its_agent_fails() {
    let Some(bench) = Bench::new() else { return };
    let observer = observer(&bench, "-static");
    let broken = [
        ("void whyslow_agent_enter(void) { *(volatile int *)8 = 1; }", "the agent failed with signal 11"),
        ("void whyslow_agent_enter(void) { __builtin_trap(); }", "the agent failed with signal 4"),
        ("int needed(void); void whyslow_agent_enter(void) { needed(); }", "needs needed"),
        ("void enter(void) {}", "it has no entry point"),
    ];
    for (source, why) in broken {
        let (output, result) = run_injected(&observer, &agent(&bench, source), Path::new("/socket"));
        let error = result.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n", "{why}");
        assert_eq!(output.status.code(), Some(7), "{why}");
    }
    let (output, result) = run_injected(&observer, b"no file", Path::new("/socket"));
    assert!(matches!(result, Err(InjectError::Agent(_))));
    assert_eq!(output.stdout, b"done\n");
}

#[test]
fn a_program_runs_on_when_its_agent_does_not_return() {
    let Some(bench) = Bench::new() else { return };
    let pause = "void whyslow_agent_enter(void) {
        for (;;) { long r; __asm__ volatile(\"syscall\" : \"=a\"(r) : \"a\"(34) : \"rcx\", \"r11\", \"memory\"); } }";
    for source in ["void whyslow_agent_enter(void) { for (;;) __asm__ volatile(\"pause\"); }", pause] {
        let agent = agent(&bench, source);
        let (child, injector) = watched(&observer(&bench, "-static"));
        let result = injector.patience(Duration::from_millis(50)).inject(&agent, Path::new("/socket"));
        assert!(matches!(result, Err(InjectError::Late)));
        let output = child.wait_with_output().unwrap();
        assert_eq!((&output.stdout[..], output.status.code()), (&b"done\n"[..], Some(7)));
    }
}

#[test]
fn undefined_weak_symbols_are_zero_and_defined_symbols_resolve() {
    let Some(bench) = Bench::new() else { return };
    let source = VISITOR.replace(
        "say(\": \", 2);",
        "extern int optional(void) __attribute__((weak)); extern int own(void);
         if (!optional && own() == 3) say(\": \", 2);",
    ) + "int own(void) { return 3; }";
    let (output, result) =
        run_injected(&observer(&bench, "-static"), &agent(&bench, &source), Path::new("/s"));
    result.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "/s: agent was here\n");
}

#[test]
fn a_signal_during_injection_reaches_the_program() {
    let Some(bench) = Bench::new() else { return };
    // The agent sends itself SIGTERM, then prints that it still runs.
    let source = VISITOR.replace(
        "long len = 0;",
        "long len = 0, result, pid;
         __asm__ volatile(\"syscall\" : \"=a\"(pid) : \"a\"(39) : \"rcx\", \"r11\", \"memory\");
         __asm__ volatile(\"syscall\" : \"=a\"(result) : \"a\"(62), \"D\"(pid), \"S\"(15) : \"rcx\", \"r11\", \"memory\");",
    );
    let waits = "#include <unistd.h>\nint main(void) { for (;;) pause(); }";
    let program = bench.gcc("waits", waits, &["-static"]);
    let (output, result) = run_injected(&program, &agent(&bench, &source), Path::new("/s"));
    result.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "/s: agent was here\n");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(libc::SIGTERM));
}

#[test]
fn a_dynamic_program_is_left_alone() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.gcc("dynamic", "int main(void) { return 5; }", &[]);
    let (output, result) = run_injected(&program, &agent(&bench, VISITOR), Path::new("/s"));
    assert!(matches!(result, Err(InjectError::Dynamic)));
    assert_eq!(output.status.code(), Some(5));
}

#[test]
fn a_program_that_is_never_executed_keeps_its_status() {
    let Some(bench) = Bench::new() else { return };
    let (output, result) =
        run_injected(Path::new("/does/not/exist"), &agent(&bench, VISITOR), Path::new("/s"));
    assert!(matches!(result, Err(InjectError::Ended)));
    assert_eq!(output.status.code(), Some(127));
}

#[test]
fn a_dropped_injector_releases_its_child() {
    let Some(bench) = Bench::new() else { return };
    let (child, injector) = watched(&observer(&bench, "-static"));
    drop(injector);
    let output = child.wait_with_output().unwrap();
    assert_eq!((&output.stdout[..], output.status.code()), (&b"done\n"[..], Some(7)));
}

#[test]
fn a_process_without_an_exec_runs_on() {
    let piped = std::process::Stdio::piped;
    let mut child = std::process::Command::new("cat").stdin(piped()).stdout(piped()).spawn().unwrap();
    // Wait until its own exec is over.
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, b"1").unwrap();
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
    let injector = Injector::watch(child.id()).unwrap();
    let mut asked = 0;
    let result = injector.inject_unless(&[], Path::new("/s"), || {
        asked += 1;
        asked == 3
    });
    assert!(matches!(result, Err(InjectError::NotExecuted)), "{result:?}");
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    assert!(status.contains("TracerPid:\t0\n"), "{status}");
    std::io::Write::write_all(&mut input, b"2").unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!((&output.stdout[..], output.status.code()), (&b"2"[..], Some(0)));
}

#[test]
fn entry_depends_on_the_file() {
    let Some(bench) = Bench::new() else { return };
    let main = "int main(void) { return 0; }";
    let dynamic = bench.gcc("dynamic", main, &[]);
    assert_eq!(entry_of(&dynamic), Entry::Preload);
    for way in ["-static", "-static-pie"] {
        let program = bench.gcc("static", main, &[way]);
        assert!(is_static(&program), "{way}");
        let open = std::fs::File::open(&program).unwrap();
        assert_eq!(entry_of_file(&open, Path::new("of-another-name")), Entry::Inject, "{way}");
        let script = bench.path("script");
        std::fs::write(&script, format!("#! {} -x\necho\n", program.display())).unwrap();
        let outer = bench.path("outer");
        std::fs::write(&outer, format!("#!{}\n", script.display())).unwrap();
        assert_eq!(entry_of(&outer), Entry::Inject, "{way}");
    }
    let itself = bench.path("itself");
    std::fs::write(&itself, format!("#!{}\n", itself.display())).unwrap();
    let text = bench.path("text");
    std::fs::write(&text, "echo hello\n").unwrap();
    let foreign = bench.path("foreign");
    let mut bytes = std::fs::read(&dynamic).unwrap();
    // The machine: AArch64.
    bytes[18] = 183;
    std::fs::write(&foreign, bytes).unwrap();
    let why = |path: &Path| match entry_of(path) {
        Entry::Impossible(why) => why,
        entry => panic!("{entry:?}"),
    };
    assert!(why(&itself).contains("script that is interpreted by a script"));
    assert!(why(&text).contains("neither a program nor a script"));
    assert!(why(&foreign).contains("not a program for x86-64"));
    let named = entry_of_file(&std::fs::File::open(&foreign).unwrap(), Path::new("its-name"));
    assert_eq!(named, Entry::Impossible("its-name is not a program for x86-64".to_owned()));
    assert!(why(&bench.path("nothing")).contains("cannot be read"));
    assert!(why(Path::new("/")).contains("cannot be read"));
}

#[test]
fn the_dynamic_loader_run_as_a_program_preloads() {
    let loader = Path::new("/lib64/ld-linux-x86-64.so.2");
    if loader.exists() {
        assert_eq!(entry_of(loader), Entry::Preload);
    } else {
        whyslow_lab_harness::skip("there is no dynamic loader for x86-64");
    }
}
