//! Writes machine code into memory and runs it, like a just-in-time compiler, and publishes its names for profilers.
//!
//! Run: `jit [MS=1000] [perfmap|jitdump|unnamed]` (x86-64 only). `perfmap` writes /tmp/perf-PID.map. `jitdump`
//! writes jit-PID.dump into the working folder and maps its first page executable, as the convention requires.
//! `unnamed` publishes no names. The files are kept, for readers that run after the program.
//!
//! THE KNOWN ANSWER: jit_hot 75 %, jit_warm 25 %, self time. Both keep a frame
//! pointer, have no unwind information, and are called by rounds < main.

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::os::fd::AsRawFd;

const STEPS_PER_MS: u64 = 600_000;
const PAGE: usize = 4096;
const PROT_READ: i32 = 1;
const PROT_WRITE: i32 = 2;
const PROT_EXEC: i32 = 4;
const MAP_PRIVATE: i32 = 2;
const MAP_ANONYMOUS: i32 = 0x20;
const CLOCK_MONOTONIC: i32 = 1;

unsafe extern "C" {
    fn mmap(at: *mut u8, size: usize, prot: i32, flags: i32, file: i32, offset: i64) -> *mut u8;
    fn mprotect(at: *mut u8, size: usize, prot: i32) -> i32;
    fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
}

type Spin = extern "C" fn(u64, u64) -> u64;

/// One function in the code memory.
struct Jitted {
    name: &'static str,
    address: u64,
    code: Vec<u8>,
}

/// `fn(steps: rdi, x: rsi) -> rax`: the xorshift loop of the other lab programs, with the given shifts.
fn machine_code(a: u8, b: u8, c: u8) -> Vec<u8> {
    let mut code = vec![0x55, 0x48, 0x89, 0xe5]; // push rbp; mov rbp, rsp
    code.extend([0x48, 0x89, 0xf0]); // mov rax, rsi
    let start = code.len();
    for (shift, by) in [(0xe2, a), (0xea, b), (0xe2, c)] {
        code.extend([0x48, 0x89, 0xc2]); // mov rdx, rax
        code.extend([0x48, 0xc1, shift, by]); // shl or shr rdx, by
        code.extend([0x48, 0x31, 0xd0]); // xor rax, rdx
    }
    code.extend([0x48, 0xff, 0xcf]); // dec rdi
    let back = start as i8 - (code.len() as i8 + 2);
    code.extend([0x75, back as u8]); // jnz start
    code.extend([0x5d, 0xc3]); // pop rbp; ret
    code
}

fn make_executable(functions: [(&'static str, Vec<u8>); 2]) -> Vec<Jitted> {
    // SAFETY: a new private mapping. It is written within its page before it becomes executable.
    unsafe {
        let flags = MAP_PRIVATE | MAP_ANONYMOUS;
        let page = mmap(std::ptr::null_mut(), PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
        assert_ne!(page as isize, -1, "memory");
        let mut at = page.add(64);
        let mut made = Vec::new();
        for (name, code) in functions {
            std::ptr::copy_nonoverlapping(code.as_ptr(), at, code.len());
            made.push(Jitted { name, address: at as u64, code });
            at = at.add(256);
        }
        assert_eq!(mprotect(page, PAGE, PROT_READ | PROT_EXEC), 0, "executable memory");
        made
    }
}

fn write_perf_map(functions: &[Jitted]) {
    let path = format!("/tmp/perf-{}.map", std::process::id());
    let mut file = File::create(&path).expect("the map can be written");
    for f in functions {
        writeln!(file, "{:x} {:x} {}", f.address, f.code.len(), f.name).expect("the map can be written");
    }
}

fn now() -> u64 {
    let mut time = [0; 2];
    // SAFETY: the array has the layout of `timespec`.
    unsafe { clock_gettime(CLOCK_MONOTONIC, &raw mut time) };
    time[0] as u64 * 1_000_000_000 + time[1] as u64
}

/// The format is tools/perf/Documentation/jitdump-specification.txt in the kernel's sources.
fn write_jitdump(functions: &[Jitted]) {
    let pid = std::process::id();
    let mut bytes = Vec::new();
    let mut header = [0x4a69_5444_u32, 1, 40, 62, 0, pid].map(u32::to_ne_bytes).concat();
    header.extend([now(), 0].map(u64::to_ne_bytes).concat());
    bytes.extend(header);
    for (index, f) in functions.iter().enumerate() {
        let size = 16 + 40 + f.name.len() + 1 + f.code.len();
        bytes.extend([0, size as u32].map(u32::to_ne_bytes).concat());
        bytes.extend(now().to_ne_bytes());
        bytes.extend([pid, pid].map(u32::to_ne_bytes).concat());
        let length = f.code.len() as u64;
        bytes.extend([f.address, f.address, length, index as u64].map(u64::to_ne_bytes).concat());
        bytes.extend(f.name.bytes().chain([0]).chain(f.code.iter().copied()));
    }

    let path = format!("jit-{pid}.dump");
    let mut file = File::options().create(true).truncate(true).read(true).write(true).open(&path);
    let file = file.as_mut().expect("the dump can be written");
    // SAFETY: a private mapping that is never read. It makes profilers notice the file and its name.
    let marker = unsafe {
        file.set_len(PAGE as u64).expect("the dump can be written");
        mmap(std::ptr::null_mut(), PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file.as_raw_fd(), 0)
    };
    assert_ne!(marker as isize, -1, "the dump can be mapped");
    file.set_len(0).expect("the dump can be written");
    file.write_all(&bytes).expect("the dump can be written");
}

#[inline(never)]
fn rounds(hot: Spin, warm: Spin, steps: u64) -> u64 {
    let (mut x, mut left) = (1, steps / 4);
    while left > 0 {
        let unit = (3_000 + x % 4_096).min(left);
        x = hot(3 * unit, x);
        x = warm(unit, x);
        left -= unit;
    }
    x
}

fn main() {
    if !cfg!(target_arch = "x86_64") {
        println!("skipped: the machine code in here is for x86-64");
        return;
    }
    let mut arguments = std::env::args().skip(1);
    let ms = arguments.next().map_or(1000, |a| a.parse::<u64>().expect("a number"));
    let mode = arguments.next().unwrap_or_else(|| "perfmap".into());

    let functions =
        make_executable([("jit_hot", machine_code(13, 7, 17)), ("jit_warm", machine_code(11, 9, 19))]);
    match mode.as_str() {
        "perfmap" => write_perf_map(&functions),
        "jitdump" => write_jitdump(&functions),
        _ => {}
    }
    // SAFETY: both addresses hold whole functions of this type, in executable memory that is never freed.
    let [hot, warm] = [0, 1].map(|i| unsafe { std::mem::transmute::<u64, Spin>(functions[i].address) });
    black_box(rounds(hot, warm, ms * STEPS_PER_MS));
    println!("pid {}", std::process::id());
    println!("truth jit_hot=0.75 jit_warm=0.25");
}
