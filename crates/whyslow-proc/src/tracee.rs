//! A traced process or thread: stops, registers and memory. All calls must come from the thread that seized
//! it.
#![expect(unsafe_code, reason = "ptrace and its relatives take untyped pointers")]

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::time::{Duration, Instant};

pub use crate::arch::{FloatRegisters, Registers};

/// Sleep between two checks of a running process. The agent needs about a millisecond.
const NAP: Duration = Duration::from_micros(100);

/// Why a process stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Its exec succeeded and has not returned yet.
    Exec,
    /// We asked it to stop.
    Interrupted,
    /// A signal stopped the whole process.
    Group,
    /// This signal is about to be delivered.
    Signal(i32),
    /// It has exited. Its status remains available to its parent.
    Ended,
    /// It was still running at the deadline.
    Late,
}

/// A seized process. It keeps running unless it is in a stop.
#[derive(Debug)]
pub struct Tracee {
    pid: libc::pid_t,
}

impl Tracee {
    /// Seizes a process, so that it stops at its exec.
    pub fn seize(pid: u32) -> io::Result<Self> {
        let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let tracee = Self { pid };
        tracee.request(libc::PTRACE_SEIZE, 0, libc::PTRACE_O_TRACEEXEC as usize)?;
        Ok(tracee)
    }

    /// Seizes a thread, which keeps running.
    pub fn seize_thread(tid: u32) -> io::Result<Self> {
        let pid = libc::pid_t::try_from(tid).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let tracee = Self { pid };
        tracee.request(libc::PTRACE_SEIZE, 0, 0)?;
        Ok(tracee)
    }

    /// Its id.
    pub fn pid(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// Waits until the process stops, exits, or the deadline passes. Exited processes are not reaped: that is
    /// their parent's job.
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

    /// Why it has stopped or exited; `None` if it runs.
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

    /// Resumes it, with a signal or none (0).
    pub fn go_on(&self, signal: i32) -> io::Result<()> {
        self.request(libc::PTRACE_CONT, 0, signal as usize)
    }

    /// Leaves it in its group stop, but reports the end of that stop.
    pub fn listen(&self) -> io::Result<()> {
        self.request(libc::PTRACE_LISTEN, 0, 0)
    }

    /// Asks it to stop.
    pub fn interrupt(&self) -> io::Result<()> {
        self.request(libc::PTRACE_INTERRUPT, 0, 0)
    }

    /// Resumes and detaches it, with the signal that it was stopped at or none (0).
    pub fn detach(&self, signal: i32) -> io::Result<()> {
        self.request(libc::PTRACE_DETACH, 0, signal as usize)
    }

    /// Reaps it as its tracer after its exit. Its real parent is then notified.
    pub fn reap(&self) {
        // SAFETY: the status pointer is null, so nothing is written.
        unsafe { libc::waitpid(self.pid, ptr::null_mut(), libc::__WALL | libc::WNOHANG) };
    }

    /// Sends it a signal that was withheld from it.
    pub fn send(&self, signal: i32) {
        // SAFETY: takes two integers. The process was traced until now, so its id is still valid.
        unsafe { libc::kill(self.pid, signal) };
    }

    /// Whether one of its own instructions caused the signal that it is stopped at.
    pub fn signal_is_its_own(&self) -> io::Result<bool> {
        // SAFETY: the request fills this type, for which zero bytes are a valid value.
        let info: libc::siginfo_t = unsafe { self.get(libc::PTRACE_GETSIGINFO) }?;
        Ok(info.si_code > 0)
    }

    /// All registers except the floating-point registers.
    pub fn registers(&self) -> io::Result<Registers> {
        // SAFETY: the request fills this type, which is plain integers.
        unsafe { self.get(libc::PTRACE_GETREGS) }
    }

    /// Sets these registers.
    pub fn set_registers(&self, registers: &Registers) -> io::Result<()> {
        // SAFETY: the request reads this.
        unsafe { self.request_at(libc::PTRACE_SETREGS, 0, ptr::from_ref(registers) as usize) }
    }

    /// The floating-point registers.
    pub fn float_registers(&self) -> io::Result<FloatRegisters> {
        // SAFETY: the request fills this type, which is plain integers.
        unsafe { self.get(libc::PTRACE_GETFPREGS) }
    }

    /// Sets the floating-point registers.
    pub fn set_float_registers(&self, registers: &FloatRegisters) -> io::Result<()> {
        // SAFETY: the request reads this.
        unsafe { self.request_at(libc::PTRACE_SETFPREGS, 0, ptr::from_ref(registers) as usize) }
    }

    /// Reads a word, even of code.
    pub fn word(&self, address: u64) -> io::Result<u64> {
        let mut word = 0_u64;
        // The system call stores the word at the address in the last argument; libc's wrapper would return
        // it. SAFETY: `word` is writable for eight bytes.
        let result = unsafe {
            libc::syscall(libc::SYS_ptrace, libc::PTRACE_PEEKDATA, self.pid, address as usize, &raw mut word)
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(word) }
    }

    /// Writes a word, even over code.
    pub fn set_word(&self, address: u64, word: u64) -> io::Result<()> {
        self.request(libc::PTRACE_POKEDATA, address as usize, word as usize)
    }

    /// Writes to memory that the process itself could write to.
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
            Ok(_) => Err(io::Error::new(io::ErrorKind::WriteZero, "only part of the data was written")),
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
    /// The request fills a `T`, for which zero bytes are a valid value.
    unsafe fn get<T>(&self, request: libc::c_uint) -> io::Result<T> {
        let mut value = MaybeUninit::<T>::zeroed();
        // SAFETY: there is room for what the request fills; the caller promises the rest.
        unsafe {
            self.request_at(request, 0, value.as_mut_ptr() as usize)?;
            Ok(value.assume_init())
        }
    }

    /// # Safety
    /// `data` is what the request expects: an integer, or a pointer to a structure of the right type.
    unsafe fn request_at(&self, request: libc::c_uint, address: usize, data: usize) -> io::Result<()> {
        // SAFETY: the caller's promise.
        let result = unsafe { libc::ptrace(request, self.pid, address, data) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
