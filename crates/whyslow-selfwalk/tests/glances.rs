//! Compares looks through the stack of a thread that is interrupted anywhere with glibc's own `backtrace`.

#![expect(unsafe_code, reason = "a signal handler looks through the stack that it interrupted")]

use std::ffi::c_void;
use std::hint::black_box;
use std::ptr;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use whyslow_selfwalk::hosted::Hosted;
use whyslow_selfwalk::{Glance, Registers, Rules, Seen};

static RULES: Rules = Rules::new();
/// Looks that ended at the root, those that were cut, and those that differ from `backtrace`.
static COUNTS: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

const MOST: usize = 256;

unsafe extern "C" fn interrupted(_: i32, _: *const libc::siginfo_t, context: *const libc::ucontext_t) {
    // SAFETY: the kernel put it on the stack above this frame.
    let registers = unsafe { (*context).uc_mcontext.gregs };
    let register = |index: i32| registers[index as usize] as u64;
    let from = Registers {
        pc: register(libc::REG_RIP),
        sp: register(libc::REG_RSP),
        bp: register(libc::REG_RBP),
        bx: register(libc::REG_RBX),
    };
    let mut walked = [0u64; MOST];
    let mut count = 0;
    let note = |address: u64| {
        walked[count] = address;
        count += 1;
        false
    };
    // SAFETY: the tables of this test lead along its own stack.
    let read = |address: u64| Some(unsafe { (address as *const u64).read() });
    let seen = Glance::new().search(&RULES, &Hosted, from, MOST, read, note);
    let mut expected = [ptr::null_mut::<c_void>(); MOST];
    // SAFETY: there is room for this many.
    let len = unsafe { libc::backtrace(expected.as_mut_ptr(), MOST as i32) } as usize;
    let first = expected[..len].iter().position(|address| *address as u64 == from.pc);
    let expected = first.map_or(&[][..], |first| &expected[first..len]);
    let same = |(at, (ours, theirs)): (usize, (&u64, &*mut c_void))| {
        // All but the interrupted frame have a return address.
        *ours == *theirs as u64 - u64::from(at > 0)
    };
    let all_same = count == expected.len() && walked.iter().zip(expected).enumerate().all(same);
    let which = match seen {
        _ if !all_same => 2,
        Seen::Absent => 0,
        Seen::Cut | Seen::Found => 1,
    };
    COUNTS[which].fetch_add(1, Relaxed);
}

#[inline(never)]
fn descend(depth: u64, seed: u64) -> u64 {
    if depth == 0 {
        return (0..200).fold(seed, |sum, number| black_box(sum.wrapping_mul(31) ^ number));
    }
    let mut numbers: Vec<u64> = (0..depth).map(|number| descend(depth - 1, seed ^ number)).collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    numbers.iter().fold(0, |sum, number| sum ^ number)
}

/// Of CPU time; 0 for no more.
fn interrupt_every(microseconds: i64) {
    let time = libc::timeval { tv_sec: 0, tv_usec: microseconds };
    let timer = libc::itimerval { it_interval: time, it_value: time };
    // SAFETY: a valid timer.
    assert_eq!(unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const timer, ptr::null_mut()) }, 0);
}

#[test]
fn looks_from_any_instruction_agree_with_backtrace() {
    let mut warm = [ptr::null_mut(); 4];
    // SAFETY: there is room. The first call loads a library, which a handler must not do.
    unsafe { libc::backtrace(warm.as_mut_ptr(), 4) };
    // SAFETY: the handler has the signature that `SA_SIGINFO` requires.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = interrupted as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGPROF, &raw const action, ptr::null_mut()), 0);
    }
    interrupt_every(1000);
    let count = |which: usize| COUNTS[which].load(Relaxed);
    while count(0) + count(1) + count(2) < 100 {
        black_box(descend(6, 1));
    }
    interrupt_every(0);
    let [whole, cut, different] = [count(0), count(1), count(2)];
    // A few samples are in code of libc without tables.
    assert!(whole >= 90 && different <= 5, "{whole} whole, {cut} cut, {different} different");
}

#[test]
fn a_look_finds_the_frame_it_asks_for_and_ends_there() {
    let mut frames = 0;
    let from = Registers { pc: descend as *const () as u64, sp: 0x1000, bp: 0, bx: 0 };
    let stop = |_| {
        frames += 1;
        frames == 1
    };
    assert_eq!(Glance::new().search(&RULES, &Hosted, from, MOST, |_| None, stop), Seen::Found);
    assert_eq!(frames, 1);
}

#[test]
fn unreadable_memory_and_too_many_frames_cut_a_look() {
    let from = Registers { pc: descend as *const () as u64, sp: 0x1000, bp: 0, bx: 0 };
    assert_eq!(Glance::new().search(&RULES, &Hosted, from, MOST, |_| None, |_| false), Seen::Cut);
    // Every return address is the same function's entry: the stack never ends.
    let endless = |_| Some(descend as *const () as u64 + 1);
    assert_eq!(Glance::new().search(&RULES, &Hosted, from, MOST, endless, |_| false), Seen::Cut);
}
