//! Exits, prints and reports in every way, to check that a recorder changes nothing.
//!
//! Run: `exits [--spin MS] ACTION`, where --spin first uses that much CPU and ACTION is one of
//!   code N       exit with code N                    signal N     exit by signal N, default action
//!   abort        abort()                             panic        panic in main
//!   print        "to stdout" and "to stderr", each to its stream
//!   echo         copy stdin to stdout, byte for byte
//!   report       argv, working folder, environment, signal masks, open files, limits; one per line
//!   wait         print "ready", wait for SIGINT or SIGTERM, print "got N", exit with code 40 + N
//!
//! THE KNOWN ANSWER: what the action says; `report` prints the same under a recorder as without one.

use std::hint::black_box;
use std::io::Write;
use std::process::exit;
use std::sync::atomic::{AtomicI32, Ordering};

unsafe extern "C" {
    fn raise(signal: i32) -> i32;
    fn signal(signal: i32, handler: usize) -> usize;
    fn pause() -> i32;
}

const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;
const DEFAULT_ACTION: usize = 0;

static GOT: AtomicI32 = AtomicI32::new(0);

#[inline(never)]
fn spin(steps: u64, mut x: u64) -> u64 {
    let mut left = steps;
    while left > 0 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        left -= 1;
    }
    black_box(x)
}

fn report() {
    for (i, argument) in std::env::args_os().enumerate() {
        println!("argv {i} {argument:?}");
    }
    println!("cwd {:?}", std::env::current_dir().expect("a working folder"));
    let mut variables: Vec<_> = std::env::vars_os().collect();
    variables.sort();
    for (name, value) in variables {
        println!("env {name:?} {value:?}");
    }
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    for line in status.lines().filter(|l| l.starts_with("Sig") || l.starts_with("NoNewPrivs")) {
        println!("status {}", line.replace('\t', " "));
    }
    let mut files: Vec<u32> = std::fs::read_dir("/proc/self/fd")
        .expect("/proc is mounted")
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let target = std::fs::read_link(entry.path()).ok()?;
            // Except the descriptor that lists the folder, which belongs to this function.
            (!target.starts_with("/proc")).then_some(entry.file_name().to_str()?.parse().ok()?)
        })
        .collect();
    files.sort();
    println!("files {}", files.iter().map(u32::to_string).collect::<Vec<_>>().join(" "));
    print!("{}", std::fs::read_to_string("/proc/self/limits").expect("/proc is mounted"));
}

extern "C" fn remember(signal: i32) {
    GOT.store(signal, Ordering::SeqCst);
}

fn wait() -> ! {
    for number in [SIGINT, SIGTERM] {
        // SAFETY: the handler only stores to an atomic.
        unsafe { signal(number, remember as *const () as usize) };
    }
    println!("ready");
    while GOT.load(Ordering::SeqCst) == 0 {
        // The sleep bounds the delay of a signal that arrives between the check above and `pause`.
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let number = GOT.load(Ordering::SeqCst);
    println!("got {number}");
    exit(40 + number);
}

fn die(number: i32) -> ! {
    // SAFETY: restores the default action, then raises; no memory is involved.
    unsafe {
        signal(number, DEFAULT_ACTION);
        raise(number);
        loop {
            pause();
        }
    }
}

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|a| a == "--spin") {
        let ms: u64 = arguments[1].parse().expect("a number of milliseconds");
        black_box(spin(ms * 600_000, 1));
        arguments.drain(..2);
    }
    let number = || arguments.get(1).and_then(|a| a.parse().ok()).expect("a number");
    match arguments.first().map_or("", String::as_str) {
        "code" => exit(number()),
        "signal" => die(number()),
        "abort" => std::process::abort(),
        "panic" => panic!("as asked"),
        "print" => {
            println!("to stdout");
            eprintln!("to stderr");
        }
        "echo" => {
            let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
            std::io::copy(&mut input, &mut output).expect("readable and writable");
            output.flush().expect("writable");
        }
        "report" => report(),
        "wait" => wait(),
        other => {
            eprintln!("exits: unknown action {other:?}");
            exit(64);
        }
    }
}
