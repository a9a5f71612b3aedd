//! Stops every thread of a process, and releases them again.
//!
//! Threads are seized and interrupted, not attached to: no signal is visible, and they continue where they
//! were. The stop is not awaited with `waitpid`, because any other thread of this process could receive it;
//! the thread is polled instead.

use std::io;
use std::time::{Duration, Instant};

use whyslow_proc::kernel::Settings;
use whyslow_proc::process::{self, Status};

use super::{LeakError, Waiting};

/// Time limit for a thread to stop.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// Sleep between two polls.
const PAUSE: Duration = Duration::from_micros(50);

/// A stopped thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Thread {
    pub(crate) tid: u32,
    /// All general registers, and the vector registers if they may hold a pointer: the data of a copy in
    /// progress is nowhere else.
    pub(crate) registers: Vec<u64>,
    /// Its stack pointer.
    pub(crate) sp: u64,
    /// The bytes that it may use below the stack pointer.
    pub(crate) red_zone: u64,
    /// The address of its thread-local storage.
    pub(crate) fs: u64,
}

/// Bytes that a function may use below the stack pointer.
const RED_ZONE: u64 = 128;

impl Thread {
    /// Restores the state in which the program called the agent.
    pub(crate) fn put_back(&mut self, waiting: &Waiting) {
        if waiting.sp != 0 {
            self.sp = waiting.sp;
            self.red_zone = 0;
            self.registers.clone_from(&waiting.registers);
        }
    }
}

/// A process whose threads are stopped until this is dropped.
#[derive(Debug)]
pub(crate) struct Stopped {
    pid: u32,
    /// The seized threads, with the signal that each was about to get.
    held: Vec<(u32, i32)>,
}

impl Stopped {
    /// Stops all threads of a process, including those started in the meantime.
    pub(crate) fn stop(pid: u32) -> Result<Self, LeakError> {
        let mut stopped = Self { pid, held: Vec::new() };
        loop {
            let before = stopped.held.len();
            for tid in tasks(pid)? {
                if !stopped.held.iter().any(|&(held, _)| held == tid) {
                    stopped.seize(tid)?;
                }
            }
            if stopped.held.len() == before {
                break;
            }
            for at in before..stopped.held.len() {
                stopped.await_stop(at)?;
            }
        }
        if stopped.held.is_empty() { Err(LeakError::Exited { pid }) } else { Ok(stopped) }
    }

    fn seize(&mut self, tid: u32) -> Result<(), LeakError> {
        match call::seize(tid) {
            Ok(()) => {
                self.held.push((tid, 0));
                // This fails only if the thread has exited, which the next poll shows.
                let _ = call::interrupt(tid);
                Ok(())
            }
            Err(_) if !process::thread_runs(self.pid, tid) => Ok(()),
            Err(error) => Err(refusal(self.pid, error)),
        }
    }

    fn await_stop(&mut self, at: usize) -> Result<(), LeakError> {
        let tid = self.held[at].0;
        let began = Instant::now();
        loop {
            match call::stopped_by(tid) {
                Ok(signal) => {
                    self.held[at].1 = signal;
                    return Ok(());
                }
                Err(_) if !process::thread_runs(self.pid, tid) => return Ok(()),
                Err(_) if began.elapsed() > PATIENCE => return Err(LeakError::Stuck { pid: self.pid, tid }),
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// The registers of the threads, without threads that were killed in the meantime.
    pub(crate) fn threads(&self) -> Result<Vec<Thread>, LeakError> {
        let mut threads = Vec::with_capacity(self.held.len());
        for &(tid, _) in &self.held {
            match call::registers(tid) {
                Ok(Some(registers)) => threads.push(registers),
                Ok(None) => return Err(LeakError::NotX86_64 { pid: self.pid }),
                Err(_) => {}
            }
        }
        if threads.is_empty() { Err(LeakError::Exited { pid: self.pid }) } else { Ok(threads) }
    }

    /// Whether all threads are still stopped, so that everything read is consistent.
    pub(crate) fn still(&self, threads: &[Thread]) -> bool {
        threads.iter().all(|thread| call::stopped_by(thread.tid).is_ok())
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for &(tid, signal) in &self.held {
            // This fails for killed threads; the kernel detaches those when the tracing thread ends.
            let _ = call::detach(tid, signal);
        }
    }
}

fn tasks(pid: u32) -> Result<Vec<u32>, LeakError> {
    process::threads(pid).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => LeakError::Exited { pid },
        _ => LeakError::Io { what: "list the threads of", pid, source },
    })
}

/// The reason why a thread could not be seized.
fn refusal(pid: u32, source: io::Error) -> LeakError {
    if source.raw_os_error() != Some(libc::EPERM) {
        return LeakError::Io { what: "stop", pid, source };
    }
    // The tracer is a thread; users know processes.
    let tracer = Status::of(pid).and_then(|status| status.tracer()).map(process::process_of);
    let scope = Settings::now().ptrace_scope.and_then(|scope| u32::try_from(scope).ok()).unwrap_or(0);
    match (tracer, scope) {
        (None, 0) => LeakError::Permission { pid },
        (None, scope) => LeakError::Yama { pid, scope },
        (Some(tracer), _) => LeakError::Traced { pid, tracer: tracer.unwrap_or(0) },
    }
}

#[expect(unsafe_code, reason = "ptrace is a system call")]
mod call {
    use std::io;
    use std::mem::{MaybeUninit, offset_of};

    use super::Thread;

    const PTRACE_SEIZE: libc::c_uint = 0x4206;
    const PTRACE_INTERRUPT: libc::c_uint = 0x4207;
    const PTRACE_EVENT_STOP: i32 = 128;
    const NT_PRSTATUS: usize = 1;

    fn checked(result: libc::c_long) -> io::Result<()> {
        if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    pub(super) fn seize(tid: u32) -> io::Result<()> {
        // SAFETY: no memory of this process is involved.
        checked(unsafe { libc::ptrace(PTRACE_SEIZE, tid.cast_signed(), 0usize, 0usize) })
    }

    pub(super) fn interrupt(tid: u32) -> io::Result<()> {
        // SAFETY: no memory of this process is involved.
        checked(unsafe { libc::ptrace(PTRACE_INTERRUPT, tid.cast_signed(), 0usize, 0usize) })
    }

    /// Lets a thread continue, with the signal that it was about to get, or with none.
    pub(super) fn detach(tid: u32, signal: i32) -> io::Result<()> {
        // SAFETY: no memory of this process is involved; the signal is a number.
        checked(unsafe { libc::ptrace(libc::PTRACE_DETACH, tid.cast_signed(), 0usize, signal as usize) })
    }

    /// The signal that a stopped thread was about to get, 0 for none; an error while it is not stopped.
    pub(super) fn stopped_by(tid: u32) -> io::Result<i32> {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: the kernel writes a `siginfo_t`.
        checked(unsafe {
            libc::ptrace(libc::PTRACE_GETSIGINFO, tid.cast_signed(), 0usize, info.as_mut_ptr())
        })?;
        // SAFETY: all-zero is a valid `siginfo_t`, and so is the kernel's.
        let info = unsafe { info.assume_init() };
        Ok(if info.si_code >> 8 == PTRACE_EVENT_STOP { 0 } else { info.si_signo })
    }

    /// Reads a register set of a stopped thread.
    fn register_set(tid: u32, kind: usize, words: &mut [u64]) -> io::Result<usize> {
        let mut part = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: size_of_val(words) };
        // SAFETY: the kernel writes at most `iov_len` bytes into `words`, and the length it wrote into `part`.
        checked(unsafe { libc::ptrace(libc::PTRACE_GETREGSET, tid.cast_signed(), kind, &raw mut part) })?;
        Ok(part.iov_len)
    }

    /// The registers of a stopped thread; `None` if they are not those of x86-64.
    pub(super) fn registers(tid: u32) -> io::Result<Option<Thread>> {
        const WORDS: usize = size_of::<libc::user_regs_struct>() / 8;
        const NT_X86_XSTATE: usize = 0x202;
        let mut words = [0u64; WORDS];
        if register_set(tid, NT_PRSTATUS, &mut words)? != size_of_val(&words) {
            return Ok(None);
        }
        let at = |offset: usize| words[offset / 8];
        let mut registers = words.to_vec();
        // A thread in a system call has called a function, and calls need not preserve vector registers.
        if at(offset_of!(libc::user_regs_struct, orig_rax)).cast_signed() < 0 {
            let mut vectors = vec![0u64; 2048];
            // Without them, the other registers are still known.
            let len = register_set(tid, NT_X86_XSTATE, &mut vectors).unwrap_or(0);
            registers.extend(&vectors[..(len / 8).min(vectors.len())]);
        }
        Ok(Some(Thread {
            tid,
            registers,
            sp: at(offset_of!(libc::user_regs_struct, rsp)),
            red_zone: super::RED_ZONE,
            fs: at(offset_of!(libc::user_regs_struct, fs_base)),
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    struct Sleeper(Child);

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn refuses_a_process_that_is_already_traced() {
        let sleep = Command::new("sleep").arg("1000").stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = Sleeper(sleep.unwrap());
        let pid = child.0.id();
        let stopped = Stopped::stop(pid).unwrap();
        let error = std::thread::spawn(move || Stopped::stop(pid).map(|_| ()).unwrap_err()).join().unwrap();
        let own = std::process::id();
        assert!(matches!(error, LeakError::Traced { tracer, .. } if tracer == own), "{error}");
        assert!(stopped.still(&stopped.threads().unwrap()));
        drop(stopped);
        let again = Stopped::stop(pid).map(|stopped| stopped.threads().unwrap().len());
        assert_eq!(again.unwrap(), 1);
    }
}
