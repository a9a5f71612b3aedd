//! A traced process or thread: stops, registers and memory. All calls must come from the thread that seized it.
#![expect(unsafe_code, reason = "ptrace and its relatives take untyped pointers")]

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::time::{Duration, Instant};

pub use crate::arch::{FloatRegisters, Registers};

/// How long to sleep between two looks at a process that runs. The agent needs about a millisecond.
const NAP: Duration = Duration::from_micros(100);

/// Why a process stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Its exec succeeded, and has not returned yet.
    Exec,
    /// It was asked to stop.
    Interrupted,
    /// It is stopped as a whole, by a signal that does so.
    Group,
    /// This signal is about to be delivered.
    Signal(i32),
    /// It has ended. Its status is still there for whoever waits for it.
    Ended,
    /// It still ran when time was up.
    Late,
}

/// A process that was seized. It runs on unless it is in a stop.
#[derive(Debug)]
pub struct Tracee {
    pid: libc::pid_t,
}

impl Tracee {
    /// Seizes a process, so that it will stop at its exec.
    pub fn seize(pid: u32) -> io::Result<Self> {
        let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let tracee = Self { pid };
        tracee.request(libc::PTRACE_SEIZE, 0, libc::PTRACE_O_TRACEEXEC as usize)?;
        Ok(tracee)
    }

    /// Seizes a thread, which runs on as before.
    pub fn seize_thread(tid: u32) -> io::Result<Self> {
        let pid = libc::pid_t::try_from(tid).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let tracee = Self { pid };
        tracee.request(libc::PTRACE_SEIZE, 0, 0)?;
        Ok(tracee)
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// Waits until the process stops, ends, or time is up. Ended processes are not reaped: that is their starter's business.
    pub fn wait(&self, until: Option<Instant>) -> io::Result<Stop> {
        let Some(until) = until else { return Ok(self.stop_or_none(0)?.unwrap_or(Stop::Late)) };
        loop {
            if let Some(stop) = self.stop()? {
                return Ok(stop);
            }
            if Instant::now() >= until {
                return Ok(Stop::Late);
            }
            std::thread::sleep(NAP);
        }
    }

    /// Why it has stopped or ended; nothing if it runs.
    pub fn stop(&self) -> io::Result<Option<Stop>> {
        self.stop_or_none(libc::WNOHANG)
    }

    fn stop_or_none(&self, nap: i32) -> io::Result<Option<Stop>> {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        let info = loop {
            let options = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::__WALL | nap;
            // SAFETY: `info` is large enough, and all-zero is a valid value if the call leaves it alone.
            let (result, info) = unsafe {
                let result = libc::waitid(libc::P_PID, self.pid as libc::id_t, info.as_mut_ptr(), options);
                (result, info.assume_init())
            };
            if result == 0 {
                break info;
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        };
        // SAFETY: waitid fills this field, or leaves it zero when nothing happened.
        if unsafe { info.si_pid() } == 0 {
            return Ok(None);
        }
        if matches!(info.si_code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED) {
            return Ok(Some(Stop::Ended));
        }
        let mut status = 0;
        // SAFETY: writes one integer.
        if unsafe { libc::waitpid(self.pid, &raw mut status, libc::__WALL) } != self.pid {
            return Err(io::Error::last_os_error());
        }
        let signal = libc::WSTOPSIG(status);
        Ok(Some(match status >> 16 {
            libc::PTRACE_EVENT_EXEC => Stop::Exec,
            libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => Stop::Interrupted,
            libc::PTRACE_EVENT_STOP => Stop::Group,
            _ => Stop::Signal(signal),
        }))
    }

    /// Lets it run, with a signal or none (0).
    pub fn go_on(&self, signal: i32) -> io::Result<()> {
        self.request(libc::PTRACE_CONT, 0, signal as usize)
    }

    /// Leaves it stopped as a whole, but hears when that ends.
    pub fn listen(&self) -> io::Result<()> {
        self.request(libc::PTRACE_LISTEN, 0, 0)
    }

    /// Asks it to stop.
    pub fn interrupt(&self) -> io::Result<()> {
        self.request(libc::PTRACE_INTERRUPT, 0, 0)
    }

    /// Lets it run and be nobody's, with the signal that it was stopped at or none (0).
    pub fn detach(&self, signal: i32) -> io::Result<()> {
        self.request(libc::PTRACE_DETACH, 0, signal as usize)
    }

    /// Forgets it after its end. Somebody else has started it, and hears of it now.
    pub fn reap(&self) {
        // SAFETY: the status is not asked for.
        unsafe { libc::waitpid(self.pid, ptr::null_mut(), libc::__WALL | libc::WNOHANG) };
    }

    /// Sends it a signal that was kept from it.
    pub fn send(&self, signal: i32) {
        // SAFETY: takes two integers. The process was traced just now, so the number is still its own.
        unsafe { libc::kill(self.pid, signal) };
    }

    /// Whether the signal that it is stopped at comes from an instruction of its own.
    pub fn signal_is_its_own(&self) -> io::Result<bool> {
        // SAFETY: the request fills this, of which zero bytes are a value.
        let info: libc::siginfo_t = unsafe { self.get(libc::PTRACE_GETSIGINFO) }?;
        Ok(info.si_code > 0)
    }

    /// All registers but those for floating-point numbers.
    pub fn registers(&self) -> io::Result<Registers> {
        // SAFETY: the request fills this, which is plain integers.
        unsafe { self.get(libc::PTRACE_GETREGS) }
    }

    /// Sets them.
    pub fn set_registers(&self, registers: &Registers) -> io::Result<()> {
        // SAFETY: the request reads this.
        unsafe { self.request_at(libc::PTRACE_SETREGS, 0, ptr::from_ref(registers) as usize) }
    }

    /// The registers for floating-point numbers.
    pub fn float_registers(&self) -> io::Result<FloatRegisters> {
        // SAFETY: the request fills this, which is plain integers.
        unsafe { self.get(libc::PTRACE_GETFPREGS) }
    }

    /// Sets them.
    pub fn set_float_registers(&self, registers: &FloatRegisters) -> io::Result<()> {
        // SAFETY: the request reads this.
        unsafe { self.request_at(libc::PTRACE_SETFPREGS, 0, ptr::from_ref(registers) as usize) }
    }

    /// Reads a word, of code too.
    pub fn word(&self, address: u64) -> io::Result<u64> {
        let mut word = 0_u64;
        // The system call stores the word where the last argument points to; libc's wrapper would return it.
        // SAFETY: `word` is writable for eight bytes.
        let result = unsafe {
            libc::syscall(libc::SYS_ptrace, libc::PTRACE_PEEKDATA, self.pid, address as usize, &raw mut word)
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(word) }
    }

    /// Writes a word, over code too.
    pub fn set_word(&self, address: u64, word: u64) -> io::Result<()> {
        self.request(libc::PTRACE_POKEDATA, address as usize, word as usize)
    }

    /// Writes into memory that the process could write to as well.
    pub fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let remote =
            libc::iovec { iov_base: ptr::without_provenance_mut(address as usize), iov_len: bytes.len() };
        // SAFETY: only reads from `bytes`; the other side is checked by the kernel.
        let written =
            unsafe { libc::process_vm_writev(self.pid, &raw const local, 1, &raw const remote, 1, 0) };
        match usize::try_from(written) {
            Err(_) => Err(io::Error::last_os_error()),
            Ok(written) if written == bytes.len() => Ok(()),
            Ok(_) => Err(io::Error::new(io::ErrorKind::WriteZero, "only a part could be written")),
        }
    }

    /// A request that takes integers.
    fn request(&self, request: libc::c_uint, address: usize, data: usize) -> io::Result<()> {
        // SAFETY: the kernel neither reads nor writes this process's memory for the requests above.
        unsafe { self.request_at(request, address, data) }
    }

    /// A request that fills a structure.
    ///
    /// # Safety
    /// The request fills a `T`, of which zero bytes are a value.
    unsafe fn get<T>(&self, request: libc::c_uint) -> io::Result<T> {
        let mut value = MaybeUninit::<T>::zeroed();
        // SAFETY: there is room for what the request fills; for the rest, the caller's promise.
        unsafe {
            self.request_at(request, 0, value.as_mut_ptr() as usize)?;
            Ok(value.assume_init())
        }
    }

    /// # Safety
    /// `data` is what the request wants: an integer, or a pointer to a structure of the right type.
    unsafe fn request_at(&self, request: libc::c_uint, address: usize, data: usize) -> io::Result<()> {
        // SAFETY: the caller's promise.
        let result = unsafe { libc::ptrace(request, self.pid, address, data) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
