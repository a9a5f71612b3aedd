//! Maps the agent into a static program before its first instruction.
//!
//! ```text
//! watch     seize the process, which has not executed its program yet
//! inject    wait for the exec; make the process map memory, write the agent there, make it call the agent, undo the rest
//! ```
//! The process does the work itself: in the meantime, two bytes `syscall` and one `int3` replace its first
//! instruction. Whatever happens, the code and the registers are restored and the process runs on.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use whyslow_elf::{FileBytes, Headers};
use whyslow_numbers::{Bias, RunTimeAddress};
use whyslow_proc::kernel::Settings;
use whyslow_proc::process::{self, Auxiliary};

use crate::agent::Agent;
use whyslow_proc::tracee::{Registers, Stop, Tracee};

use crate::arch::{CALL, RED_ZONE};

/// Default time limit for the agent. It waits for the collector, which reads the program's symbols.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time between two checks whether the exec was given up.
const PATIENCE_FOR_EXEC: Duration = Duration::from_millis(2);

/// Why the agent could not be injected. The program runs on without it.
#[derive(Debug, thiserror::Error)]
pub enum InjectError {
    /// Tracing is not permitted.
    #[error("no permission to trace the program: {0}")]
    NotAllowed(String),
    /// The program exited before or during the injection.
    #[error("the program exited before the agent was injected")]
    Ended,
    /// The process did not execute the program.
    #[error("the process did not execute the program in time")]
    NotExecuted,
    /// The exec started a program with a dynamic loader: the agent must be preloaded.
    #[error("the program is not static")]
    Dynamic,
    /// The exec started a program for another architecture.
    #[error("the program is not for x86-64")]
    Foreign,
    /// A system call in the program failed.
    #[error("the program could not {what}: {error} (possible reasons: a seccomp filter, a memory limit)")]
    Refused {
        /// What the call was for.
        what: &'static str,
        /// The error that it returned.
        error: io::Error,
    },
    /// The agent's file is not usable.
    #[error("the agent's file is not usable: {0}")]
    Agent(String),
    /// The agent did not return in time.
    #[error("the agent did not return in time")]
    Late,
    /// The agent raised a signal.
    #[error("the agent failed with signal {0}")]
    Crashed(i32),
    /// Tracing itself failed.
    #[error("tracing the program failed: {0}")]
    Trace(#[from] io::Error),
}

/// A process that will execute a static program and then get the agent: a child, or a descendant. All methods
/// must be called on the thread that called [`Injector::watch`], and no other thread of this process may wait
/// for the child in between.
#[derive(Debug)]
pub struct Injector {
    tracee: Tracee,
    /// Signals that arrived while the agent ran.
    held: Vec<i32>,
    /// Whether this process may still trace the child.
    traced: bool,
    patience: Duration,
}

impl Drop for Injector {
    /// A traced child that got no agent must not wait at its exec forever.
    fn drop(&mut self) {
        if self.traced {
            self.interrupt_and_release();
        }
    }
}

impl Injector {
    /// Seizes a process before its exec. The process must have one thread, or `pid` must be its main thread.
    pub fn watch(pid: u32) -> Result<Self, InjectError> {
        match Tracee::seize(pid) {
            Ok(tracee) => Ok(Self { tracee, held: Vec::new(), traced: true, patience: PATIENCE }),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err(InjectError::NotAllowed(why_not(&error)))
            }
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Err(InjectError::Ended),
            Err(error) => Err(error.into()),
        }
    }

    /// Sets how long the agent may take to return.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Waits until the child has executed its program, injects the agent, and lets the program run.
    ///
    /// The agent's `whyslow_agent_enter(socket, bias, phdr, phnum)` gets the path of the collector's socket,
    /// the program's load bias, and the address and number of its program headers. It must return.
    pub fn inject(mut self, agent: &[u8], socket: &Path) -> Result<(), InjectError> {
        self.bring_in(agent, socket, &mut || false)
    }

    /// Same as [`Injector::inject`], but stops waiting for the exec when `given_up` returns true. It is
    /// called repeatedly.
    pub fn inject_unless(
        mut self,
        agent: &[u8],
        socket: &Path,
        mut given_up: impl FnMut() -> bool,
    ) -> Result<(), InjectError> {
        self.bring_in(agent, socket, &mut given_up)
    }

    fn bring_in(
        &mut self,
        agent: &[u8],
        socket: &Path,
        given_up: &mut dyn FnMut() -> bool,
    ) -> Result<(), InjectError> {
        let result = self.wait_for_exec(given_up).and_then(|()| {
            let agent = Agent::parse(agent)?;
            self.enter(&agent, socket)
        });
        self.traced = false;
        match result {
            Err(InjectError::Ended) => {}
            Err(InjectError::NotExecuted) => self.interrupt_and_release(),
            _ => self.release(),
        }
        result
    }

    /// Detaches from a running child.
    fn interrupt_and_release(&mut self) {
        if self.tracee.interrupt().is_ok() && self.until_interrupted().is_ok() {
            self.release();
        }
    }

    /// Detaches from a stopped child, and sends it the signals that were held back.
    fn release(&self) {
        // This fails only if the process was killed in the meantime.
        let _ = self.tracee.detach(0);
        for signal in &self.held {
            self.tracee.send(*signal);
        }
    }

    /// Runs the child until its exec is complete: the next instruction is the program's first.
    fn wait_for_exec(&mut self, given_up: &mut dyn FnMut() -> bool) -> Result<(), InjectError> {
        loop {
            match self.tracee.wait(Some(Instant::now() + PATIENCE_FOR_EXEC))? {
                Stop::Exec => break,
                Stop::Ended => return Err(InjectError::Ended),
                Stop::Signal(signal) => self.tracee.go_on(signal)?,
                Stop::Group => self.tracee.listen()?,
                Stop::Interrupted => self.tracee.go_on(0)?,
                Stop::Late if given_up() => return Err(InjectError::NotExecuted),
                Stop::Late => {}
            }
        }
        // The exec system call has not returned yet, and would overwrite a register when it does.
        self.tracee.interrupt()?;
        self.tracee.go_on(0)?;
        self.until_interrupted()
    }

    fn until_interrupted(&mut self) -> Result<(), InjectError> {
        loop {
            match self.tracee.wait(None)? {
                Stop::Interrupted => return Ok(()),
                Stop::Ended => return Err(InjectError::Ended),
                Stop::Signal(signal) => {
                    self.held.push(signal);
                    self.tracee.go_on(0)?;
                }
                Stop::Exec | Stop::Group | Stop::Late => self.tracee.go_on(0)?,
            }
        }
    }

    fn enter(&mut self, agent: &Agent<'_>, socket: &Path) -> Result<(), InjectError> {
        let registers = self.tracee.registers()?;
        if !registers.are_of_64_bits() {
            return Err(InjectError::Foreign);
        }
        let registers = registers.outside_of_calls();
        let floats = self.tracee.float_registers()?;
        let start = registers.pc();
        let code = self.tracee.word(start)?;
        let mut call = code.to_le_bytes();
        call[..CALL.len()].copy_from_slice(&CALL);
        self.tracee.set_word(start, u64::from_le_bytes(call))?;
        let result = self.run_agent(agent, socket, &registers);
        if matches!(result, Err(InjectError::Ended)) {
            return result;
        }
        let restored = self
            .tracee
            .set_word(start, code)
            .and_then(|()| self.tracee.set_float_registers(&floats))
            .and_then(|()| self.tracee.set_registers(&registers));
        result.and(restored.map_err(InjectError::from))
    }

    fn run_agent(
        &mut self,
        agent: &Agent<'_>,
        socket: &Path,
        registers: &Registers,
    ) -> Result<(), InjectError> {
        let program = Program::of(self.tracee.pid())?;
        let socket = CString::new(socket.as_os_str().as_bytes())
            .map_err(|_| InjectError::Agent("the socket's path contains a zero byte".into()))?;
        let base = self.map(agent, registers)?;

        let path = socket.as_bytes_with_nul();
        let path_at = (registers.sp() - RED_ZONE - path.len() as u64) & !15;
        let stack = path_at - 8;
        self.tracee.write(path_at, path)?;
        self.tracee.write(stack, &(registers.pc() + 2).to_le_bytes())?;
        let arguments = [path_at, program.bias(registers.pc())?.raw(), program.headers, program.header_count];
        let entering = registers.entering(base + agent.enter, stack, arguments);
        self.run(&entering, registers.pc() + CALL.len() as u64).map(drop)
    }

    /// Makes the process map memory for the agent, and writes the agent there. Returns its address.
    fn map(&mut self, agent: &Agent<'_>, registers: &Registers) -> Result<u64, InjectError> {
        let writable = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let private = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        let arguments = [0, agent.len, writable, private, u64::MAX, 0];
        let base = self.system_call(registers, libc::SYS_mmap, arguments, "map memory")?;
        self.tracee.write(base, &agent.laid_out(base)?)?;
        for part in agent.parts() {
            let arguments = [base + part.start, part.len, part.protection as u64, 0, 0, 0];
            self.system_call(registers, libc::SYS_mprotect, arguments, "make memory executable")?;
        }
        Ok(base)
    }

    fn system_call(
        &mut self,
        registers: &Registers,
        number: i64,
        arguments: [u64; 6],
        what: &'static str,
    ) -> Result<u64, InjectError> {
        let calling = registers.calling(number, arguments);
        let after = self.run(&calling, registers.pc() + CALL.len() as u64)?.returned();
        match after as i64 {
            error @ -4095..=-1 => {
                Err(InjectError::Refused { what, error: io::Error::from_raw_os_error(-error as i32) })
            }
            _ => Ok(after),
        }
    }

    /// Runs the process from these registers until it hits the `int3` that ends at `end`.
    fn run(&mut self, registers: &Registers, end: u64) -> Result<Registers, InjectError> {
        self.tracee.set_registers(registers)?;
        self.tracee.go_on(0)?;
        let until = Instant::now() + self.patience;
        loop {
            match self.tracee.wait(Some(until))? {
                Stop::Ended => return Err(InjectError::Ended),
                Stop::Late => {
                    self.tracee.interrupt()?;
                    self.until_interrupted()?;
                    return Err(InjectError::Late);
                }
                Stop::Signal(signal) => {
                    let now = self.tracee.registers()?;
                    if signal == libc::SIGTRAP && now.pc() == end {
                        return Ok(now);
                    }
                    if is_fault(signal) && self.tracee.signal_is_its_own()? {
                        return Err(InjectError::Crashed(signal));
                    }
                    self.held.push(signal);
                    self.tracee.go_on(0)?;
                }
                Stop::Exec | Stop::Interrupted | Stop::Group => self.tracee.go_on(0)?,
            }
        }
    }
}

fn is_fault(signal: i32) -> bool {
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS].contains(&signal)
}

/// The program's auxiliary vector, as far as it is needed.
struct Program {
    headers: u64,
    header_count: u64,
    pid: u32,
}

impl Program {
    fn of(pid: u32) -> Result<Self, InjectError> {
        let table = Auxiliary::of(pid)?;
        if table.get(libc::AT_BASE) != 0 {
            return Err(InjectError::Dynamic);
        }
        Ok(Self { headers: table.get(libc::AT_PHDR), header_count: table.get(libc::AT_PHNUM), pid })
    }

    /// The program's load bias, from the address of its first instruction.
    fn bias(&self, entry: u64) -> Result<Bias, InjectError> {
        let file = FileBytes::open(&process::program_file(self.pid))?;
        let headers = Headers::parse(&file).map_err(|error| InjectError::Trace(io::Error::other(error)))?;
        Ok(Bias::between(RunTimeAddress(entry), headers.entry()))
    }
}

/// The reason why tracing is forbidden.
fn why_not(error: &io::Error) -> String {
    match Settings::now().ptrace_scope {
        Some(1) => {
            "kernel.yama.ptrace_scope is 1 (only descendants may be traced), or another tool traces it"
                .to_owned()
        }
        Some(2) => "kernel.yama.ptrace_scope is 2: only root may trace".to_owned(),
        Some(3) => "kernel.yama.ptrace_scope is 3: no process may trace until the next boot".to_owned(),
        _ => format!(
            "{error} (already traced by another tool, or forbidden by the container's seccomp filter)"
        ),
    }
}
