//! Programs that this one executes. Their heap is recorded, too: the dynamic loader brings the agent into most of them, if their
//! environment says so, and it is made to. For one that has no loader the collector is asked before: it traces the thread, and brings the
//! agent in when the exec is done. What cannot be recorded is written down.
//!
//! These functions are called between `vfork` and exec too, on little stack and in the parent's memory. So they look at no state
//! of a thread, leave nothing behind but an environment for the next time, and make nothing but system calls.

use core::ffi::c_char;

use whyslow_heap_wire::exec::{LEN, Message};
use whyslow_heap_wire::handshake::hook;
use whyslow_heap_wire::left_out::{LeftOut, why};

use crate::area::Area;
use crate::environment::{Agent, Changed, Copied, Given, Names};
use crate::program::{PIECE, Path, Program};
use crate::sys::{self, HERE, Pages};
use crate::{confined, left_out, program, real, start};

/// libc's `execve`, with a patch at its start.
///
/// # Safety
/// As for libc's.
pub unsafe extern "C" fn execve(name: *const c_char, arguments: u64, environment: u64) -> u64 {
    // SAFETY: the caller's own arguments.
    unsafe {
        around(Path::new(HERE, name, 0), environment, |environment| {
            call(hook::EXECVE, [name as u64, arguments, environment, 0, 0])
        })
    }
}

/// libc's `execveat`, likewise.
///
/// # Safety
/// As for libc's.
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

/// libc's `fexecve`, likewise.
///
/// # Safety
/// As for libc's.
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
        // SAFETY: the function that the hook stands in for; for the arguments, the caller's promise.
        Some(real) => unsafe { real.call(arguments) },
        None => FAILED,
    }
}

/// Prepares, and executes. Who comes back has failed, with `errno` set: everything is as it was then.
///
/// # Safety
/// The environment is what a program gives to an exec.
unsafe fn around(path: Path, environment: u64, execute: impl FnOnce(u64) -> u64) -> u64 {
    let mut preparation = Preparation { socket: None, environment: None, left_out: None };
    // SAFETY: passed on.
    preparation.make(&path, unsafe { Given::new(environment) });
    let result = execute(preparation.environment.as_ref().map_or(environment, Copied::address));
    preparation.take_back();
    result
}

/// What is done before an exec.
struct Preparation {
    /// Where to say that the exec failed; it closes by itself otherwise.
    socket: Option<i32>,
    /// The environment that the program gets instead of the one it should get.
    environment: Option<Copied>,
    /// Where it is written that the program is not recorded, or that its agent should say hello.
    left_out: Option<&'static LeftOut>,
}

impl Preparation {
    #[inline(never)]
    fn make(&mut self, path: &Path, environment: Given) {
        let Some(area) = Area::get().filter(|area| area.enabled()) else {
            // Nobody listens any more, and the agent's file may be gone.
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

    /// Sees to it that the agent comes into the program, or says why it cannot. True if the loader brings it in, and it will say hello.
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

    /// The loader shall not look in vain for what it cannot find, and say so.
    fn leave_out(&mut self, why: u32, environment: Given) {
        self.give_environment_back();
        if matches!(why, why::OTHER_USER | why::OTHER_ROOT | why::CONFINED | why::OTHER_COLLECTOR)
            && let Changed::Copied(copied) = Names::new().change(environment, Agent::Out)
        {
            self.environment = Some(copied);
        }
    }

    /// Asks the collector about a program that the loader may not preload the agent into. Unless it says to go, its environment, and that
    /// of those it starts, should have the agent.
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
