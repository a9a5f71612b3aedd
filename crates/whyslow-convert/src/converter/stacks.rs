//! The stack of a sample: unwound from its bytes, or built from given addresses; the kernel's part is on top
//! of the user's.

use std::iter;

use rustc_hash::{FxHashMap, FxHashSet};
use whyslow_numbers::RunTimeAddress;
use whyslow_profile::{Builder, LocationId, RelativeAddress, StackId, ThreadId};
use whyslow_unwind::{AnyRegisters, Registers};

use super::mappings::Mappings;
use super::tables::Tables;
use super::tasks::LiveThread;
use crate::arch::Convertible;
use crate::completion::{Completion, Images, Read};
use crate::input::{Dump, UserStack};
use crate::walk::{Code, Ended, Interned, Spare, Walk};
use crate::world::World;

/// Memory limit for images of live stacks and for the last walks, over all threads.
const IMAGES_MAX: usize = 64 << 20;

/// The kept stacks of threads, from which later ones are completed.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    threads: FxHashMap<ThreadId, Images>,
    /// Processes whose memory may not be read.
    unreadable: FxHashSet<u32>,
    round: u64,
    /// Whether a live stack had to be read in this round.
    has_read: bool,
    /// The memory of all kept stacks.
    memory: usize,
    spare: Spare,
    /// Samples of events without stacks, which have only an address.
    addresses: u64,
}

/// What a stack is built from, and into.
pub(super) struct Context<'a, W> {
    pub(super) world: &'a mut W,
    pub(super) tables: &'a mut Tables,
    pub(super) code: &'a mut Mappings,
}

impl Stacks {
    /// Begins a round of records.
    pub(super) fn begin_round(&mut self) {
        self.round += 1;
        self.has_read = false;
    }

    /// Whether a live stack had to be read in this round.
    pub(super) fn has_read(&self) -> bool {
        self.has_read
    }

    /// The number of samples that have only an address.
    pub(super) fn addresses(&self) -> u64 {
        self.addresses
    }

    /// Drops the kept stacks of a thread.
    pub(super) fn forget(&mut self, thread: ThreadId) {
        if let Some(images) = self.threads.remove(&thread) {
            self.memory -= images.memory();
        }
    }

    /// The memory of a process may be readable: it has started, or executes another program.
    pub(super) fn process_changed(&mut self, pid: u32) {
        self.unreadable.remove(&pid);
    }

    /// The user stack of a sample.
    pub(super) fn of_user<W: World>(
        &mut self,
        context: &mut Context<'_, W>,
        thread: LiveThread,
        user: &UserStack<'_>,
    ) -> Option<StackId> {
        match user {
            UserStack::Dump(AnyRegisters::X86_64(registers), dump) => {
                self.walk(context, *registers, dump, thread)
            }
            UserStack::Dump(AnyRegisters::Aarch64(registers), dump) => {
                self.walk(context, *registers, dump, thread)
            }
            UserStack::Frames(addresses) => frames(context, thread.task.pid, addresses),
            UserStack::Address(address) => {
                self.addresses += 1;
                address.and_then(|address| frames(context, thread.task.pid, &[address]))
            }
            UserStack::None => {
                context.tables.counters.without_user_stack += 1;
                None
            }
        }
    }

    fn walk<A: Convertible, W: World>(
        &mut self,
        context: &mut Context<'_, W>,
        registers: Registers<A>,
        dump: &Dump<'_>,
        thread: LiveThread,
    ) -> Option<StackId> {
        let Context { world, tables, code } = context;
        let Tables { builder, counters, .. } = &mut **tables;
        let (world, pid) = (&**world, thread.task.pid);
        let (modules, space) = code.of::<A>(pid)?;
        let images = self.threads.entry(thread.id).or_default();
        let memory_before = images.memory();
        let mut code = Code { modules, space, builder };
        let mut walk = Walk::start(registers, std::mem::take(&mut self.spare));
        let follower = images.trail.follow(dump, code.space.version(), || images.agreeing(dump));
        let ended =
            walk.run(&mut code, &mut |address| dump.read(address), |sp, ip, bp| follower.known(sp, ip, bp));
        let met = follower.met();
        let behind_signal =
            walk.signal.filter(|signal| signal.is_on_another_stack() && !dump.holds(signal.sp));
        let is_readable = world.has_memory() && !self.unreadable.contains(&pid);
        let completion = Completion { world, dump, pid, drain: self.round };
        let stack = match (ended, behind_signal) {
            (Ended::Complete, _) => {
                counters.complete_in_dump += 1;
                let stack = walk.intern(code.builder, iter::empty());
                images.trail.keep(&walk, None, code.space.version(), None);
                stack
            }
            (Ended::Known(outer), _) => {
                let joined = met.is_some_and(|met| met.joined);
                *if joined { &mut counters.completed_by_join } else { &mut counters.complete_in_dump } += 1;
                let stack = walk.intern(code.builder, images.trail.outwards(outer));
                images.trail.keep(&walk, met, code.space.version(), None);
                stack
            }
            (Ended::OutOfMemory(_), Some(signal)) => {
                let in_dump = walk.mark();
                let mut read = Read::No;
                if is_readable {
                    self.has_read = true;
                    read = completion.behind_signal(signal, &mut walk, &mut code, images);
                }
                match read {
                    Read::Complete(stack) => {
                        counters.completed_by_read += 1;
                        Some(stack)
                    }
                    Read::Joined(stack) => {
                        counters.completed_by_join += 1;
                        Some(stack)
                    }
                    Read::No | Read::Unreadable => {
                        if matches!(read, Read::Unreadable) {
                            self.unreadable.insert(pid);
                        }
                        walk.rewind(&in_dump);
                        counters.cut_at_signal += 1;
                        truncated(&walk, code.builder)
                    }
                }
            }
            // The address is beyond the copied bytes, not elsewhere.
            (Ended::OutOfMemory(address), None) if dump.cut && address >= dump.sp => {
                let in_dump = walk.mark();
                if let Some(stack) = completion.join(&mut walk, &mut code, images) {
                    counters.completed_by_join += 1;
                    Some(stack)
                } else {
                    walk.rewind(&in_dump);
                    let read = if is_readable && !images.is_fresh(self.round) {
                        self.has_read = true;
                        completion.read(&mut walk, &mut code, images)
                    } else {
                        Read::No
                    };
                    match read {
                        Read::Complete(stack) | Read::Joined(stack) => {
                            counters.completed_by_read += 1;
                            Some(stack)
                        }
                        Read::No | Read::Unreadable => {
                            if matches!(read, Read::Unreadable) {
                                self.unreadable.insert(pid);
                            }
                            walk.rewind(&in_dump);
                            counters.truncated += 1;
                            truncated(&walk, code.builder)
                        }
                    }
                }
            }
            (Ended::OutOfMemory(_) | Ended::Lost, _) => {
                counters.no_unwind_info += 1;
                truncated(&walk, code.builder)
            }
        };
        self.spare = walk.into_spare();
        self.memory = self.memory + images.memory() - memory_before;
        if self.memory > IMAGES_MAX {
            self.memory = 0;
            self.threads.clear();
        }
        let Interned { stack, depth } = stack?;
        counters.deepest_stack = counters.deepest_stack.max(u64::from(depth));
        Some(stack)
    }
}

/// Puts the kernel frames on top of the user stack.
pub(super) fn with_kernel<W: World>(
    Context { world, tables, code }: &mut Context<'_, W>,
    kernel: &[u64],
    mut stack: Option<StackId>,
) -> Option<StackId> {
    for (at, ip) in kernel.iter().enumerate().rev() {
        let address = RunTimeAddress(if at == 0 { *ip } else { ip.wrapping_sub(1) });
        let location = code.kernel_location(*world, tables, address);
        stack = Some(tables.builder.stack(stack, location));
    }
    stack
}

/// A stack of addresses, innermost first, of which all but the first are return addresses.
fn frames<W>(
    Context { tables, code, .. }: &mut Context<'_, W>,
    pid: u32,
    addresses: &[u64],
) -> Option<StackId> {
    let space = code.space(pid)?;
    let mut locations = Vec::with_capacity(addresses.len());
    let mut cut = false;
    for (at, ip) in addresses.iter().enumerate() {
        let address = RunTimeAddress(if at == 0 { *ip } else { ip.wrapping_sub(1) });
        match space.find(address) {
            Some(mapping) => locations.push(code.location(tables, mapping, address)),
            None if at == 0 => locations.push(tables.builder.location(None, RelativeAddress(address.0))),
            // The address is not code, so it was not a return address: the frame pointer held something else.
            None => {
                cut = true;
                break;
            }
        }
    }
    tables.counters.no_unwind_info += u64::from(cut);
    tables.counters.deepest_stack = tables.counters.deepest_stack.max(locations.len() as u64);
    let root = cut.then(|| tables.builder.stack(None, LocationId::TRUNCATED));
    tables.builder.stack_of(root, locations.into_iter().rev())
}

/// A stack that is marked as truncated.
fn truncated<A: Convertible>(walk: &Walk<A>, builder: &mut Builder) -> Option<Interned> {
    let root = builder.stack(None, LocationId::TRUNCATED);
    let stack = builder.stack_of(Some(root), walk.frames.iter().rev().map(|frame| frame.location))?;
    Some(Interned { stack, depth: walk.frames.len() as u32 })
}

#[cfg(test)]
impl Stacks {
    /// The memory of all kept stacks, as it is counted and as it is.
    pub(super) fn memory(&self) -> (usize, usize) {
        (self.memory, self.threads.values().map(Images::memory).sum())
    }
}

#[cfg(test)]
mod tests;
