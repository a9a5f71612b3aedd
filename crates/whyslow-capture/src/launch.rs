//! Starts the program: the child process waits before its exec until the events are open.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::process::{WaitId, WaitIdOptions};
use whyslow_proc::accounts::IoFile;
use whyslow_profile::ExitStatus;

use crate::cgroup::ProgramGroup;
use crate::host::Usage;
use crate::last_moment::LastMoment;
use crate::{Command, RecordError, inherited};

/// A child process that has not executed its program yet.
#[derive(Debug)]
pub(crate) struct Suspended {
    pub(crate) pid: u32,
    go: OwnedFd,
    error: OwnedFd,
    command: Command,
    last_moment: LastMoment,
}

/// A child process that runs its program.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) pid: u32,
    io: Option<IoFile>,
    last_moment: LastMoment,
}

/// A program that may already run.
#[derive(Debug)]
pub(crate) enum Program {
    Suspended(Suspended),
    Running(Running),
}

/// Everything the child needs, prepared before the fork: after the fork, only system calls are allowed.
struct Prepared {
    program: CString,
    _args: Vec<CString>,
    argv: Vec<*const libc::c_char>,
    _env: Vec<CString>,
    envp: Vec<*const libc::c_char>,
    folder: Option<CString>,
    /// Replaces its standard output when that is discarded.
    nowhere: Option<std::fs::File>,
}

/// The descriptors of a new child. The child closes the recorder's ends: if it kept them open, it would never
/// notice that the recorder closes them.
struct ChildEnds<'a> {
    wait: &'a OwnedFd,
    report: &'a OwnedFd,
    recorder_ends: [&'a OwnedFd; 2],
    last_moment: &'a LastMoment,
}

impl Prepared {
    fn new(command: &Command) -> io::Result<Self> {
        let text = |text: &OsStr| {
            CString::new(text.as_bytes())
                .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "an argument contains a zero byte"))
        };
        let program = text(&command.program)?;
        let args = std::iter::once(&command.program).chain(&command.args);
        let args = args.map(|arg| text(arg)).collect::<io::Result<Vec<_>>>()?;
        let changed = |name: &OsStr| command.env.iter().any(|(changed, _)| changed == name);
        let inherited = std::env::vars_os().filter(|(name, _)| !changed(name));
        let env = inherited
            .chain(command.env.iter().cloned())
            .map(|(mut name, value): (OsString, OsString)| {
                name.push("=");
                name.push(value);
                text(&name)
            })
            .collect::<io::Result<Vec<_>>>()?;
        let pointers = |texts: &[CString]| {
            texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>()
        };
        let folder = command.folder.as_deref().map(|folder| text(folder.as_os_str())).transpose()?;
        let nowhere = match command.silent {
            true => Some(std::fs::OpenOptions::new().write(true).open("/dev/null")?),
            false => None,
        };
        Ok(Self {
            program,
            argv: pointers(&args),
            _args: args,
            envp: pointers(&env),
            _env: env,
            folder,
            nowhere,
        })
    }
}

impl Suspended {
    /// Creates the process, in a control group if one is given and the kernel takes it.
    pub(crate) fn new(command: &Command, group: Option<&ProgramGroup>) -> Result<Self, RecordError> {
        let failed = |error| RecordError::System { what: "the program could not be started", error };
        let prepared = Prepared::new(command).map_err(failed)?;
        let last_moment = LastMoment::new().map_err(failed)?;
        let (wait, go) = pipe().map_err(failed)?;
        let (error, report) = pipe().map_err(failed)?;
        let ends = ChildEnds {
            wait: &wait,
            report: &report,
            recorder_ends: [&go, &error],
            last_moment: &last_moment,
        };
        let pid = fork_and_wait(&prepared, &ends, group.map(AsFd::as_fd)).map_err(failed)?;
        Ok(Self { pid, go, error, command: command.clone(), last_moment })
    }

    /// Lets the child execute its program, and waits until it has.
    pub(crate) fn release(self) -> Result<Running, RecordError> {
        let Self { pid, go, error, command, last_moment } = self;
        let io = IoFile::open(pid);
        io::Write::write_all(&mut std::fs::File::from(go), b"!")
            .map_err(|error| RecordError::System { what: "the program could not be released", error })?;
        let mut code = Vec::new();
        io::Read::read_to_end(&mut std::fs::File::from(error), &mut code)
            .map_err(|error| RecordError::System { what: "the program could not be watched", error })?;
        let Ok(code) = <[u8; 4]>::try_from(code) else {
            return Ok(Running { pid, io, last_moment });
        };
        wait4(pid, 0);
        Err(exec_error(&command, io::Error::from_raw_os_error(i32::from_ne_bytes(code))))
    }

    /// Ends the process before its program starts.
    pub(crate) fn cancel(self) {
        drop(self.go);
        wait4(self.pid, 0);
    }
}

impl Running {
    /// Returns its exit status if it has ended, without waiting.
    pub(crate) fn try_wait(&self) -> Option<(ExitStatus, Usage)> {
        // Check without reaping first: while a leak check stops the program, its stops are meant for the
        // thread that runs the check.
        if !has_ended(self.pid) {
            return None;
        }
        let io = self.io.as_ref().and_then(IoFile::read);
        let resident_before_exec_bytes = self.last_moment.resident_bytes();
        wait4(self.pid, libc::WNOHANG)
            .map(|(exit, usage)| (exit, Usage { io, resident_before_exec_bytes, ..usage }))
    }

    /// Kills the program because it cannot be recorded as requested.
    pub(crate) fn kill(&self) {
        whyslow_proc::send_signal(self.pid, libc::SIGKILL);
        wait4(self.pid, 0);
    }
}

pub(crate) fn exec_error(command: &Command, error: io::Error) -> RecordError {
    let program = command.program.to_string_lossy().into_owned();
    let path = Path::new(&command.program);
    let named_by_path = program.contains('/');
    let no_program = not_a_program(path);
    let reason = match error.raw_os_error() {
        Some(libc::ENOENT) if named_by_path && path.exists() => {
            "the interpreter that its first line or its header names does not exist".to_owned()
        }
        Some(libc::ENOENT | libc::ENOTDIR) => return RecordError::NotFound { program },
        // The search of PATH also ends like this if one of its folders may not be read.
        Some(libc::EACCES) if !named_by_path && !is_in_path(path) => {
            return RecordError::NotFound { program };
        }
        Some(libc::EACCES) if path.is_dir() => "it is a folder".to_owned(),
        Some(libc::EACCES | libc::ENOEXEC) if no_program.is_some() => no_program.unwrap_or_default(),
        Some(libc::EACCES) => format!("it is not executable; if it is a program, try: chmod +x {program}"),
        Some(libc::ENOEXEC) => "it is not a program for this machine".to_owned(),
        _ => error.to_string(),
    };
    RecordError::NotExecutable { program, reason }
}

/// Why a file of source code cannot be run, by its name.
fn not_a_program(path: &Path) -> Option<String> {
    const COMPILED: [&str; 15] =
        ["c", "h", "cc", "cpp", "cxx", "hpp", "rs", "go", "java", "zig", "f90", "s", "o", "toml", "md"];
    const RUN_BY: [(&str, &str); 7] = [
        ("py", "python3"),
        ("js", "node"),
        ("mjs", "node"),
        ("rb", "ruby"),
        ("php", "php"),
        ("pl", "perl"),
        ("lua", "lua"),
    ];
    let ending = path.extension()?.to_str()?;
    if COMPILED.contains(&ending) {
        return Some(
            "it is a source file, not a program: record the program that is built from it".to_owned(),
        );
    }
    let (_, interpreter) = RUN_BY.iter().find(|(known, _)| *known == ending)?;
    Some(format!("it is a script without permission to run; try: {interpreter} {}", path.display()))
}

/// Whether a folder of PATH has a file of this name, executable or not.
fn is_in_path(name: &Path) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

/// Whether a child has ended. Does not reap it, so another waiter still gets its status.
pub(crate) fn has_ended(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) else { return false };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = rustix::process::waitid(WaitId::Pid(pid), options);
    status.is_ok_and(|status| {
        status.is_some_and(|status| status.exited() || status.killed() || status.dumped())
    })
}

#[expect(unsafe_code, reason = "fork, exec and wait have no safe form that can pause in between")]
mod calls {
    use super::{ChildEnds, ExitStatus, Prepared, Usage, inherited, io};
    use std::os::fd::{AsRawFd, BorrowedFd};

    pub(super) fn fork_and_wait(
        prepared: &Prepared,
        ends: &ChildEnds<'_>,
        group: Option<BorrowedFd<'_>>,
    ) -> io::Result<u32> {
        // SAFETY: the child only makes system calls on memory prepared before the fork, then executes or exits.
        let pid = unsafe { group.and_then(|group| fork_into(group)).unwrap_or_else(|| libc::fork()) };
        match pid {
            ..0 => Err(io::Error::last_os_error()),
            0 => child(prepared, ends),
            pid => Ok(pid.unsigned_abs()),
        }
    }

    /// Forks a process that is in a control group from its start. Moving it later waits for all CPUs, often
    /// for tens of milliseconds. `None` if the kernel refuses.
    ///
    /// # Safety
    ///
    /// The child may only make system calls: the C library does not know of this fork.
    unsafe fn fork_into(group: BorrowedFd<'_>) -> Option<libc::pid_t> {
        const CLONE_INTO_CGROUP: u64 = 1 << 33;
        // flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup
        let mut args = [0u64; 11];
        args[0] = CLONE_INTO_CGROUP;
        args[4] = libc::SIGCHLD.unsigned_abs().into();
        args[10] = group.as_raw_fd().unsigned_abs().into();
        // SAFETY: `args` has the layout of `clone_args` with this size. Without a stack, the child continues
        // on a copy of this one, as after a fork.
        let pid = unsafe { libc::syscall(libc::SYS_clone3, args.as_ptr(), size_of_val(&args)) };
        libc::pid_t::try_from(pid).ok().filter(|pid| *pid >= 0)
    }

    fn child(prepared: &Prepared, ends: &ChildEnds<'_>) -> ! {
        // SAFETY: system calls on prepared memory; see `fork_and_wait`. Every path ends in exec or _exit.
        unsafe {
            for end in ends.recorder_ends {
                libc::close(end.as_raw_fd());
            }
            let mut go = 0u8;
            if libc::read(ends.wait.as_raw_fd(), (&raw mut go).cast(), 1) != 1 {
                libc::_exit(125);
            }
            inherited::restore();
            let in_folder = match &prepared.folder {
                Some(folder) => libc::chdir(folder.as_ptr()) == 0,
                None => true,
            };
            let redirected = match &prepared.nowhere {
                Some(nowhere) => libc::dup2(nowhere.as_raw_fd(), libc::STDOUT_FILENO) >= 0,
                None => true,
            };
            if in_folder && redirected {
                ends.last_moment.note();
                libc::execvpe(prepared.program.as_ptr(), prepared.argv.as_ptr(), prepared.envp.as_ptr());
            }
            let code = *libc::__errno_location();
            libc::write(ends.report.as_raw_fd(), (&raw const code).cast(), size_of_val(&code));
            libc::_exit(125)
        }
    }

    pub(crate) fn wait4(pid: u32, options: i32) -> Option<(ExitStatus, Usage)> {
        let mut status = 0;
        // SAFETY: all-zero is a valid `rusage`.
        let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
        loop {
            // SAFETY: both pointers are to locals that the call fills.
            let waited = unsafe { libc::wait4(pid.cast_signed(), &raw mut status, options, &raw mut usage) };
            if waited == pid.cast_signed() {
                break;
            }
            if waited == 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return None;
            }
        }
        let exit = if libc::WIFSIGNALED(status) {
            ExitStatus::Signal(libc::WTERMSIG(status))
        } else {
            ExitStatus::Code(libc::WEXITSTATUS(status))
        };
        Some((exit, usage.into()))
    }
}
use calls::fork_and_wait;
pub(crate) use calls::wait4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_path_that_may_not_be_read_does_not_hide_that_a_program_is_missing() {
        let refused = |program: &str| {
            let command = Command { program: program.into(), ..Command::default() };
            exec_error(&command, io::Error::from_raw_os_error(libc::EACCES))
        };
        assert!(matches!(refused("no-such-program-anywhere"), RecordError::NotFound { .. }));
        assert!(matches!(refused("/etc/passwd"), RecordError::NotExecutable { .. }));
    }

    #[test]
    fn a_source_file_is_no_program() {
        let reason = |file: &str| {
            let command = Command { program: file.into(), ..Command::default() };
            exec_error(&command, io::Error::from_raw_os_error(libc::EACCES)).to_string()
        };
        assert!(reason("./spin.c").contains("source file") && !reason("./spin.c").contains("chmod"));
        assert!(reason("./app.py").contains("try: python3 ./app.py"));
        assert!(reason("./app").contains("chmod +x ./app"));
    }

    /// This would wait forever if the child kept its own end of the pipe open.
    #[test]
    fn a_cancelled_program_never_runs_and_cancelling_returns() {
        let folder = tempfile::tempdir().unwrap();
        let proof = folder.path().join("it-ran");
        let command = Command {
            program: "touch".into(),
            args: vec![proof.clone().into_os_string()],
            ..Command::default()
        };
        Suspended::new(&command, None).unwrap().cancel();
        assert!(!proof.exists());
    }
}
