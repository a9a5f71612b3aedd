//! What calls do to descriptors.

use whyslow_numbers::{ClockNs, RunTimeAddress};
use whyslow_profile::Builder;

use super::files::{FileId, Files};
use super::meaning::{Does, Meaning};
use super::text::socket_name;
use crate::world::World;

/// `F_DUPFD` and `F_DUPFD_CLOEXEC`.
const DUPLICATING: [u64; 2] = [0, 1030];
/// The numbers of descriptors are below this, by default.
const DESCRIPTORS: i32 = 1 << 20;

/// A call that has succeeded.
#[derive(Debug)]
pub(super) struct Done<'a> {
    pub(super) arguments: [u64; 6],
    pub(super) file: Option<FileId>,
    /// The path or address that it points to.
    pub(super) text: Option<&'a str>,
    pub(super) result: i32,
}

impl Files {
    /// The file of a call's descriptor. A call that closes one needs no name that would have to be queried.
    pub(super) fn of_call(
        &mut self,
        world: &mut impl World,
        pid: u32,
        meaning: Meaning,
        arguments: &[u64; 6],
        time_ns: ClockNs,
    ) -> Option<FileId> {
        let descriptor = arguments[0] as i32;
        if !meaning.descriptor || descriptor < 0 {
            if meaning.does == Does::CloseRange {
                let last = i32::try_from(arguments[1] as u32).unwrap_or(i32::MAX);
                self.closed_range(pid, descriptor, last, time_ns);
            }
            return None;
        }
        match meaning.does {
            Does::Close => {
                let known = self.known(pid, descriptor);
                self.closed(pid, descriptor, time_ns);
                known
            }
            does => {
                let file = self.of((pid, descriptor), || world.descriptor(pid, descriptor));
                if does == Does::DupTo && arguments[1] as i32 != descriptor {
                    self.closed(pid, arguments[1] as i32, time_ns);
                }
                Some(file)
            }
        }
    }

    /// Updates the descriptors after a successful call.
    pub(super) fn change(
        &mut self,
        world: &impl World,
        builder: &mut Builder,
        pid: u32,
        meaning: Meaning,
        call: &Done<'_>,
        time_ns: ClockNs,
    ) {
        let result = call.result;
        let descriptor = call.arguments[0] as i32;
        match meaning.does {
            Does::Open(path) => {
                self.closed(pid, result, time_ns);
                let Some(name) = call.text else { return };
                let folder = path.checked_sub(1).map(|at| call.arguments[at] as i32);
                let folder = folder.filter(|folder| *folder >= 0 && !name.starts_with('/'));
                let name = match folder {
                    None => name.to_owned(),
                    Some(folder) => {
                        let folder = self.known(pid, folder);
                        let Some(folder) = folder.and_then(|file| self.certain_text(builder, file)) else {
                            return;
                        };
                        format!("{folder}/{name}")
                    }
                };
                let file = self.named(builder, &name);
                self.set(pid, result, file);
            }
            Does::Pipe => {
                // The program mostly still has the numbers where the kernel has put them.
                let mut numbers = [0; 8];
                if world.read_memory(pid, RunTimeAddress(call.arguments[0]), &mut numbers)
                    != Ok(numbers.len())
                {
                    return;
                }
                let word = |at: usize| i32::from_ne_bytes([0, 1, 2, 3].map(|byte| numbers[at + byte]));
                let ends = [word(0), word(4)];
                if !ends.iter().all(|end| (0..DESCRIPTORS).contains(end)) || ends[0] == ends[1] {
                    return;
                }
                let file = self.named(builder, "pipe");
                for end in ends {
                    self.closed(pid, end, time_ns);
                    self.set(pid, end, file);
                }
            }
            Does::Socket => {
                self.closed(pid, result, time_ns);
                let file = self.named(builder, socket_name(call.arguments));
                self.set(pid, result, file);
            }
            Does::Connect => {
                let Some(address) = call.text else { return };
                let known = self.known(pid, descriptor);
                let kind = known.and_then(|file| self.certain_text(builder, file)).unwrap_or("socket");
                let kind = kind.split(" to ").next().unwrap_or(kind).to_owned();
                let file = self.named(builder, &format!("{kind} to {address}"));
                self.set(pid, descriptor, file);
            }
            Does::Dup | Does::DupTo => {
                self.closed(pid, result, time_ns);
                if let Some(file) = call.file {
                    self.set(pid, result, file);
                }
            }
            Does::Fcntl if DUPLICATING.contains(&call.arguments[1]) => {
                self.closed(pid, result, time_ns);
                if let Some(file) = call.file {
                    self.set(pid, result, file);
                }
            }
            Does::Nothing | Does::Close | Does::CloseRange | Does::Fcntl | Does::Exit => {}
        }
    }
}
