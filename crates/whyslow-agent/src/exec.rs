//! Records programs that this one executes. The dynamic loader preloads the agent into most of them, as long
//! as their environment says so, and this file makes it say so. For a program without a loader, the agent
//! asks the collector before the exec: the collector traces the thread and injects the agent once the exec is
//! done. Programs that cannot be recorded are noted.
//!
//! These functions also run between `vfork` and exec, with little stack and in the parent's memory. So they
//! use no thread state, leave nothing behind except an environment for the next exec, and make only system
//! calls.

use core::ffi::c_char;

use whyslow_agent_wire::exec::{LEN, Message};
use whyslow_agent_wire::handshake::hook;
use whyslow_agent_wire::left_out::{LeftOut, why};

use crate::area::Area;
use crate::environment::{Agent, Changed, Copied, Given, Names};
use crate::program::{PIECE, Path, Program};
use crate::sys::{self, HERE, Pages};
use crate::{confined, left_out, program, real, start};

/// Hook for libc's `execve`, patched at its start.
///
/// # Safety
/// Same as libc's.
pub unsafe extern "C" fn execve(name: *const c_char, arguments: u64, environment: u64) -> u64 {
    // SAFETY: the caller's own arguments.
    unsafe {
        around(Path::new(HERE, name, 0), environment, |environment| {
            call(hook::EXECVE, [name as u64, arguments, environment, 0, 0])
        })
    }
}

/// Hook for libc's `execveat`, patched at its start.
///
/// # Safety
/// Same as libc's.
pub unsafe extern "C" fn execveat(
    folder: i32,
    name: *const c_char,
    arguments: u64,
    environment: u64,
    flags: u64,
) -> u64 {
    // SAFETY: the caller's own arguments.
    unsafe {
        around(Path::new(folder, name, flags & Path::ITSELF), environment, |environment| {
            call(hook::EXECVEAT, [folder as u64, name as u64, arguments, environment, flags])
        })
    }
}

/// Hook for libc's `fexecve`, patched at its start.
///
/// # Safety
/// Same as libc's.
pub unsafe extern "C" fn fexecve(file: i32, arguments: u64, environment: u64) -> u64 {
    // SAFETY: the caller's own arguments.
    unsafe {
        around(Path::new(file, c"".as_ptr(), Path::ITSELF), environment, |environment| {
            call(hook::FEXECVE, [file as u64, arguments, environment, 0, 0])
        })
    }
}

/// # Safety
/// The arguments are those of the program's own call.
unsafe fn call(hook: usize, arguments: [u64; 5]) -> u64 {
    const FAILED: u64 = u64::MAX;
    match real::of(hook) {
        // SAFETY: the hooked function. The caller guarantees the arguments.
        Some(real) => unsafe { real.call(arguments) },
        None => FAILED,
    }
}

/// Prepares, then executes. `execute` returns only if the exec failed, with `errno` set. Then the preparation
/// is undone.
///
/// # Safety
/// `environment` is the program's argument to an exec.
unsafe fn around(path: Path, environment: u64, execute: impl FnOnce(u64) -> u64) -> u64 {
    let mut preparation = Preparation { socket: None, environment: None, left_out: None };
    // SAFETY: the caller upholds the same contract.
    preparation.make(&path, unsafe { Given::new(environment) });
    let result = execute(preparation.environment.as_ref().map_or(environment, Copied::address));
    preparation.take_back();
    result
}

/// The preparation for an exec.
struct Preparation {
    /// Where to report that the exec failed. The exec closes it otherwise.
    socket: Option<i32>,
    /// The environment that replaces the one the program passed.
    environment: Option<Copied>,
    /// The entry that says the program is not recorded, or that its agent will say hello.
    left_out: Option<&'static LeftOut>,
}

impl Preparation {
    #[inline(never)]
    fn make(&mut self, path: &Path, environment: Given) {
        let Some(area) = Area::get().filter(|area| area.enabled()) else {
            // The recording is over, and the agent's file may have been deleted.
            if let Changed::Copied(copied) = Names::new().change(environment, Agent::Out) {
                self.environment = Some(copied);
            }
            return;
        };
        let Some(mut page) = Pages::new(PIECE) else { return };
        let buffer = page.bytes();
        if let Some(program) = program::find(path, buffer) {
            let why = match self.bring_in(&program, environment, buffer) {
                Ok(true) => Some(why::STARTED),
                Ok(false) => None,
                Err(why) => {
                    self.leave_out(why, environment);
                    Some(why)
                }
            };
            if let Some(why) = why {
                self.left_out = left_out::write(area, why, path, program.file, buffer);
            }
            sys::close(program.file);
        }
    }

    /// Arranges for the agent to get into the program, or returns the reason why it cannot. True if the
    /// loader preloads it and it will say hello.
    fn bring_in(&mut self, program: &Program, environment: Given, buffer: &mut [u8]) -> Result<bool, u32> {
        if confined::since_the_start(buffer) {
            return Err(why::CONFINED);
        }
        let names = Names::new();
        names.can_be_reached()?;
        if program.preloads && sys::has_two_users() {
            return Err(why::TWO_USERS);
        }
        match names.change(environment, Agent::In) {
            Changed::AsItIs => {}
            Changed::Copied(copied) => self.environment = Some(copied),
            Changed::Not(why) => return Err(why),
        }
        if program.preloads {
            return Ok(true);
        }
        let answer = self.ask(program.file)?;
        if answer == Message::Go {
            self.give_environment_back();
        }
        Ok(answer == Message::Preload)
    }

    /// Removes the agent from the environment, so that the loader does not complain about a file it cannot
    /// open.
    fn leave_out(&mut self, why: u32, environment: Given) {
        self.give_environment_back();
        if matches!(why, why::OTHER_USER | why::OTHER_ROOT | why::CONFINED | why::OTHER_COLLECTOR)
            && let Changed::Copied(copied) = Names::new().change(environment, Agent::Out)
        {
            self.environment = Some(copied);
        }
    }

    /// Asks the collector about a program that the loader may not preload the agent into. Unless the answer
    /// is `Go`, the environment of the program and its children gets the agent.
    fn ask(&mut self, file: i32) -> Result<Message, u32> {
        let socket = start::connect();
        if socket < 0 {
            return Err(why::NO_ANSWER);
        }
        let ask = Message::Ask { first_thread: sys::thread() == sys::process() };
        let mut answer = [0; LEN];
        if sys::send_with_file(socket, &ask.to_bytes(), file) {
            sys::receive(socket, &mut answer);
        }
        let answer = Message::parse(&answer);
        if answer == Some(Message::Watched) {
            self.socket = Some(socket);
        } else {
            sys::close(socket);
        }
        answer.ok_or(why::NO_ANSWER)
    }

    fn take_back(&mut self) {
        if let Some(socket) = self.socket.take() {
            let mut answer = [0; LEN];
            if sys::send(socket, &Message::Failed.to_bytes()) {
                sys::receive(socket, &mut answer);
            }
            sys::close(socket);
        }
        self.give_environment_back();
        if let Some(entry) = self.left_out.take() {
            left_out::take_back(entry);
        }
    }

    fn give_environment_back(&mut self) {
        if let Some(environment) = self.environment.take() {
            environment.give_back();
        }
    }
}
