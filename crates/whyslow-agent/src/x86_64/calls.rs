//! System calls: their numbers, and the instruction.

use core::arch::asm;

pub const READ: usize = 0;
pub const CLOSE: usize = 3;
pub const MMAP: usize = 9;
pub const MPROTECT: usize = 10;
pub const MUNMAP: usize = 11;
pub const RT_SIGACTION: usize = 13;
pub const RT_SIGPROCMASK: usize = 14;
pub const PREAD64: usize = 17;
pub const MREMAP: usize = 25;
pub const MADVISE: usize = 28;
pub const IOCTL: usize = 16;
pub const NANOSLEEP: usize = 35;
pub const GETPID: usize = 39;
pub const SOCKET: usize = 41;
pub const CONNECT: usize = 42;
pub const SENDTO: usize = 44;
pub const SENDMSG: usize = 46;
pub const RECVMSG: usize = 47;
pub const SETSOCKOPT: usize = 54;
pub const CLONE: usize = 56;
pub const WAIT4: usize = 61;
pub const KILL: usize = 62;
pub const FCNTL: usize = 72;
pub const GETRESUID: usize = 118;
pub const GETRESGID: usize = 120;
pub const PRCTL: usize = 157;
pub const ARCH_PRCTL: usize = 158;
pub const GETTID: usize = 186;
pub const FGETXATTR: usize = 193;
pub const FUTEX: usize = 202;
pub const GETDENTS64: usize = 217;
pub const TIMER_CREATE: usize = 222;
pub const TIMER_SETTIME: usize = 223;
pub const TIMER_DELETE: usize = 226;
pub const CLOCK_GETTIME: usize = 228;
pub const CLOCK_GETRES: usize = 229;
pub const EXIT_GROUP: usize = 231;
pub const TGKILL: usize = 234;
pub const OPENAT: usize = 257;
pub const NEWFSTATAT: usize = 262;
pub const READLINKAT: usize = 267;
pub const FACCESSAT: usize = 269;
pub const PERF_EVENT_OPEN: usize = 298;
pub const PROCESS_VM_READV: usize = 310;
pub const FACCESSAT2: usize = 439;

/// Makes a system call. Negative results are errors.
///
/// # Safety
/// Same as for the system call.
pub unsafe fn call(number: usize, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the caller is responsible for the call. The kernel clobbers only these registers.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}
