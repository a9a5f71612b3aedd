//! The stack of a sample: unwound from its bytes, or made of ready addresses; the kernel's part on top of the user's.

use whyslow_profile::{Builder, LocationId, RelativeAddress, StackId};
use whyslow_unwind::Registers;

use super::Converter;
use crate::completion::{Completion, Images, Read};
use crate::input::{Dump, Task, UserStack};
use crate::walk::{Code, Ended, Walk};
use crate::world::World;

/// Memory for images of live stacks and for the last walks, over all threads.
const IMAGES_MOST: usize = 64 << 20;

impl<W: World> Converter<W> {
    /// The user's stack of a sample.
    pub(super) fn user_stack(&mut self, task: Task, user: &UserStack<'_>) -> Option<StackId> {
        match user {
            UserStack::Dump(registers, dump) => self.walk(*registers, dump, task),
            UserStack::Frames(addresses) => self.frames(task.pid, addresses),
            UserStack::Address(address) => {
                self.without_stack += 1;
                address.and_then(|address| self.frames(task.pid, &[address]))
            }
            UserStack::None => {
                self.counters.without_user_stack += 1;
                None
            }
        }
    }

    /// Puts the kernel's frames on top of the user's stack.
    pub(super) fn kernel_stack(&mut self, kernel: &[u64], mut stack: Option<StackId>) -> Option<StackId> {
        if kernel.is_empty() {
            return stack;
        }
        let module = self.modules.kernel(&mut self.builder, &mut self.world);
        let id = self.modules.get(module).id;
        for (at, ip) in kernel.iter().enumerate().rev() {
            let address = if at == 0 { *ip } else { ip.wrapping_sub(1) };
            // Its modules move with every boot: their addresses mean something only while it runs.
            let location = if self.kernel_code.contains(&address) {
                let relative = RelativeAddress(address.wrapping_sub(self.kernel_base));
                self.builder.location(Some(id), relative)
            } else {
                self.builder.location(None, RelativeAddress(address))
            };
            stack = Some(self.builder.stack(stack, location));
        }
        stack
    }

    /// A stack of addresses, innermost first, of which all but the first are return addresses.
    pub(super) fn frames(&mut self, pid: u32, addresses: &[u64]) -> Option<StackId> {
        let Self { builder, modules, processes, counters, .. } = self;
        let space = &processes.get(&pid)?.space;
        let mut locations = Vec::with_capacity(addresses.len());
        let mut cut = false;
        for (at, ip) in addresses.iter().enumerate() {
            let address = if at == 0 { *ip } else { ip.wrapping_sub(1) };
            match space.find(address) {
                Some(mapping) => {
                    let id = modules.get(mapping.module).id;
                    locations.push(builder.location(Some(id), mapping.relative_address(address)));
                }
                None if at == 0 => locations.push(builder.location(None, RelativeAddress(address))),
                // What is no code was no return address: the frame pointer was used for something else.
                None => {
                    cut = true;
                    break;
                }
            }
        }
        counters.no_unwind_info += u64::from(cut);
        let root = cut.then(|| builder.stack(None, LocationId::TRUNCATED));
        locations.iter().rev().fold(root, |parent, &location| Some(builder.stack(parent, location)))
    }

    fn walk(&mut self, registers: Registers, dump: &Dump<'_>, Task { pid, tid }: Task) -> Option<StackId> {
        let Self { world, builder, modules, processes, threads, counters, drain, spare, .. } = self;
        let (process, thread) = (processes.get_mut(&pid)?, threads.get_mut(&tid)?);
        let memory_before = thread.images.memory();
        let mut code = Code { modules, space: &process.space, builder };
        let mut walk = Walk::start(registers, std::mem::take(spare));
        let follower =
            thread.images.trail.follow(dump, code.space.version(), || thread.images.agreeing(dump));
        let ended =
            walk.run(&mut code, &mut |address| dump.read(address), |sp, ip, bp| follower.known(sp, ip, bp));
        let met = follower.met();
        let behind_signal =
            walk.signal.filter(|signal| signal.is_on_another_stack() && !dump.holds(signal.sp));
        let stack = match (ended, behind_signal) {
            (Ended::Complete, _) => {
                counters.complete_in_dump += 1;
                let stack = walk.intern(code.builder, None, |_, _| {});
                thread.images.trail.keep(&walk, None, code.space.version(), None);
                stack
            }
            (Ended::Known(outer), _) => {
                let joined = met.is_some_and(|met| met.joined);
                *if joined { &mut counters.completed_by_join } else { &mut counters.complete_in_dump } += 1;
                let stack = walk.intern(code.builder, Some(outer), |_, _| {});
                thread.images.trail.keep(&walk, met, code.space.version(), None);
                stack
            }
            (Ended::OutOfMemory(_), Some(signal)) => {
                let completion = Completion { world: &*world, dump, pid, drain: *drain };
                let in_dump = walk.mark();
                let mut read = Read::No;
                if process.readable {
                    self.read_live = true;
                    read = completion.behind_signal(signal, &mut walk, &mut code, &mut thread.images);
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
                        process.readable &= !matches!(read, Read::Unreadable);
                        walk.rewind(&in_dump);
                        counters.cut_at_signal += 1;
                        truncated(&mut walk, code.builder)
                    }
                }
            }
            // Beyond the copied bytes, not somewhere else.
            (Ended::OutOfMemory(address), None) if dump.cut && address >= dump.sp => {
                let completion = Completion { world: &*world, dump, pid, drain: *drain };
                let in_dump = walk.mark();
                if let Some(stack) = completion.join(&mut walk, &mut code, &mut thread.images) {
                    counters.completed_by_join += 1;
                    Some(stack)
                } else {
                    walk.rewind(&in_dump);
                    let may_read = process.readable && !thread.images.is_fresh(*drain);
                    let read = if may_read {
                        self.read_live = true;
                        completion.read(&mut walk, &mut code, &mut thread.images)
                    } else {
                        Read::No
                    };
                    match read {
                        Read::Complete(stack) | Read::Joined(stack) => {
                            counters.completed_by_read += 1;
                            Some(stack)
                        }
                        Read::No | Read::Unreadable => {
                            process.readable &= !matches!(read, Read::Unreadable);
                            walk.rewind(&in_dump);
                            counters.truncated += 1;
                            truncated(&mut walk, code.builder)
                        }
                    }
                }
            }
            (Ended::OutOfMemory(_) | Ended::Lost, _) => {
                counters.no_unwind_info += 1;
                truncated(&mut walk, code.builder)
            }
        };
        *spare = walk.into_spare();
        self.image_memory = self.image_memory + thread.images.memory() - memory_before;
        if self.image_memory > IMAGES_MOST {
            self.image_memory = 0;
            self.threads.values_mut().for_each(|thread| thread.images = Images::default());
        }
        stack
    }
}

/// A stack that is honest about its missing outer frames.
fn truncated(walk: &mut Walk, builder: &mut Builder) -> Option<StackId> {
    let root = builder.stack(None, LocationId::TRUNCATED);
    walk.intern(builder, Some(root), |_, _| {})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Input;
    use crate::testing::{MadeStack, Recorded};

    const APP: (u32, u32) = (100, 100);
    /// Of ten frames of 4 KB, the bytes of five are copied with a sample.
    const FRAME: usize = 4 << 10;
    const COPIED: usize = 5 * FRAME;
    const SP: u64 = 0x7000_0000;

    fn recorded() -> Recorded {
        let mut recorded = Recorded::new();
        recorded.converter.add_process(100, "app");
        recorded.map(100, "/app", 0x1000);
        recorded
    }

    /// Ten functions deep, of which the outermost is told apart.
    fn stack(outermost: u64) -> MadeStack {
        let functions: Vec<u64> = (0..9).map(|at| 0x1100 + at).chain([outermost]).collect();
        MadeStack::new(SP, &functions, FRAME, 0)
    }

    /// What is there whenever memory is read.
    fn has(recorded: &mut Recorded, versions: &[&MadeStack]) {
        let versions = versions.iter().map(|stack| vec![(*stack).clone()]).collect();
        recorded.converter.world.memory.insert(100, versions);
        recorded.converter.world.reads.set(0);
    }

    fn reads(recorded: &Recorded) -> usize {
        recorded.converter.world.reads.get()
    }

    /// The outermost frames of all samples.
    fn ends(recorded: Recorded) -> Vec<String> {
        let last = |stack: &String| stack.rsplit(' ').next().unwrap_or_default().to_owned();
        recorded.stacks().iter().map(last).collect()
    }

    #[test]
    fn a_whole_stack_in_the_dump_needs_no_reading() {
        let mut recorded = recorded();
        recorded.sample(APP, 1, stack(0x1abc).dump(usize::MAX));
        assert_eq!((reads(&recorded), recorded.converter.counters.complete_in_dump), (0, 1));
        let stacks = recorded.stacks();
        assert!(stacks[0].starts_with("/app+100 /app+100 /app+101 "), "{stacks:?}");
        assert!(stacks[0].ends_with(" /app+abb"), "{stacks:?}");
    }

    #[test]
    fn outer_frames_are_read_once_and_then_joined() {
        let mut recorded = recorded();
        let stack = stack(0x1abc);
        has(&mut recorded, &[&stack]);
        recorded.sample(APP, 1, stack.dump(COPIED));
        let after_first = reads(&recorded);
        // Inner frames may have changed since, and another drain may have begun.
        recorded.converter.begin_drain();
        let mut inner = stack.clone();
        inner.bytes[0x20] = 1;
        recorded.sample(APP, 2, inner.dump(COPIED));
        assert_eq!(reads(&recorded), after_first);
        let counters = &recorded.converter.counters;
        assert_eq!((counters.completed_by_read, counters.completed_by_join, counters.truncated), (1, 1, 0));
        assert!(recorded.converter.has_read_live() || after_first > 0);
        assert_eq!(ends(recorded), ["/app+abb", "/app+abb"]);
    }

    /// A walk takes over what the one before found, but only from where every word is the same.
    #[test]
    fn a_walk_is_repeated_only_where_all_is_the_same() {
        let functions = |inner: u64, middle: u64, outer: u64| {
            let functions = (0..9).map(|at| match at {
                0 => inner,
                5 => middle,
                at => 0x1100 + at,
            });
            MadeStack::new(SP, &functions.chain([outer]).collect::<Vec<u64>>(), FRAME, 0)
        };
        let cases = [
            (0x1100, 0x1105, 0x1abc),
            (0x1100, 0x1105, 0x1abc),
            (0x1800, 0x1105, 0x1abc),
            (0x1100, 0x1905, 0x1abc),
            (0x1100, 0x1905, 0x1def),
            (0x1100, 0x1105, 0x1def),
            (0x1100, 0x1105, 0x1abc),
        ];
        let mut together = recorded();
        let mut alone = Vec::new();
        for (inner, middle, outer) in cases {
            together.sample(APP, 1, functions(inner, middle, outer).dump(usize::MAX));
            let mut single = recorded();
            single.sample(APP, 1, functions(inner, middle, outer).dump(usize::MAX));
            alone.extend(single.stacks());
        }
        assert_eq!(together.converter.counters.complete_in_dump, cases.len() as u64);
        assert_eq!(together.stacks(), alone);
    }

    /// What is kept of stacks has a bound, so it must be known how much that is.
    #[test]
    fn memory_of_what_is_kept_of_stacks_is_accounted_for() {
        let mut recorded = recorded();
        let kept = |recorded: &Recorded| {
            let kept =
                recorded.converter.threads.values().map(|thread| thread.images.memory()).sum::<usize>();
            assert_eq!(recorded.converter.image_memory, kept);
            kept
        };
        let stack = stack(0x1abc);
        recorded.sample(APP, 1, stack.dump(usize::MAX));
        let of_a_walk = kept(&recorded);
        assert!(of_a_walk > 0);
        has(&mut recorded, &[&stack]);
        recorded.sample(APP, 2, stack.dump(COPIED));
        assert!(kept(&recorded) > of_a_walk);
        let task = Task { pid: APP.0, tid: APP.1 };
        recorded.converter.take(&Input::Named { task, name: "app".into(), by_exec: true, time_ns: 3 });
        assert_eq!(kept(&recorded), 0);
        recorded.map(100, "/app", 0x1000);
        recorded.sample(APP, 4, stack.dump(usize::MAX));
        assert!(kept(&recorded) > 0);
        recorded.converter.take(&Input::Ended { task, time_ns: 5 });
        assert_eq!(kept(&recorded), 0);
        // The kernel may sample it once more; its state is dropped some drains later.
        recorded.sample(APP, 6, stack.dump(usize::MAX));
        (0..9).for_each(|_| recorded.converter.begin_drain());
        assert_eq!(kept(&recorded), 0);
    }

    /// The outer frames are from an image with which both samples agree; between, the second has another caller.
    #[test]
    fn a_walk_that_was_joined_is_repeated_only_where_the_dump_is_the_same() {
        let with = |middle: u64| {
            let functions = (0..9).map(|at| if at == 2 { middle } else { 0x1100 + at });
            MadeStack::new(SP, &functions.chain([0x1abc]).collect::<Vec<u64>>(), FRAME, 0)
        };
        let (first, second) = (with(0x1102), with(0x1802));
        let mut recorded = recorded();
        has(&mut recorded, &[&first]);
        recorded.sample(APP, 1, first.dump(COPIED));
        recorded.sample(APP, 2, second.dump(COPIED));
        let counters = &recorded.converter.counters;
        assert_eq!((counters.completed_by_read, counters.completed_by_join, counters.truncated), (1, 1, 0));
        let stacks = recorded.stacks();
        assert!(stacks[0].contains(" /app+101 ") && stacks[0].ends_with(" /app+abb"), "{stacks:?}");
        assert_eq!(stacks[1], stacks[0].replace(" /app+101 ", " /app+801 "));
    }

    #[test]
    fn a_walk_through_other_mappings_is_another_one() {
        let mut recorded = recorded();
        let stack = stack(0x1abc);
        recorded.sample(APP, 1, stack.dump(usize::MAX));
        recorded.map(100, "/other", 0x1000);
        recorded.sample(APP, 2, stack.dump(usize::MAX));
        assert_eq!(ends(recorded), ["/app+abb", "/other+abb"]);
    }

    /// The outer frames of the walk before are from an image that the sample does not agree with.
    #[test]
    fn a_walk_that_was_joined_is_repeated_only_with_its_image() {
        let mut recorded = recorded();
        let (then, mut now) = (stack(0x1abc), stack(0x1def));
        now.bytes[COPIED - 0x100] ^= 1;
        has(&mut recorded, &[&then]);
        recorded.sample(APP, 1, then.dump(COPIED));
        recorded.sample(APP, 2, then.dump(COPIED));
        has(&mut recorded, &[&now]);
        recorded.sample(APP, 3, now.dump(COPIED));
        recorded.converter.begin_drain();
        recorded.sample(APP, 4, now.dump(COPIED));
        recorded.sample(APP, 5, then.dump(COPIED));
        let counters = &recorded.converter.counters;
        assert_eq!((counters.completed_by_read, counters.completed_by_join, counters.truncated), (2, 2, 1));
        assert_eq!(ends(recorded), ["/app+abb", "/app+abb", "...", "/app+dee", "/app+abb"]);
    }

    /// The program has returned from the sample's outer frames and come back by another way.
    #[test]
    fn a_stack_that_stands_otherwise_by_now_is_not_joined() {
        let mut recorded = recorded();
        let (then, mut now) = (stack(0x1abc), stack(0x1def));
        now.bytes[COPIED - 0x100] ^= 1;
        has(&mut recorded, &[&now]);
        recorded.sample(APP, 1, then.dump(COPIED));
        assert_eq!(recorded.converter.counters.truncated, 1);
        assert_eq!(ends(recorded), ["..."]);
    }

    /// It stood when it was read, but no longer when that was over: what was read may be of both.
    #[test]
    fn a_stack_that_changes_while_it_is_read_is_not_joined_and_not_kept() {
        let mut recorded = recorded();
        let (then, mut now) = (stack(0x1abc), stack(0x1def));
        now.bytes[COPIED - 0x100] ^= 1;
        has(&mut recorded, &[&then, &now]);
        recorded.sample(APP, 1, then.dump(COPIED));
        recorded.sample(APP, 2, then.dump(COPIED));
        assert_eq!(recorded.converter.counters.truncated, 2);
        assert_eq!(ends(recorded), ["...", "..."]);
    }

    /// It stood otherwise while it was read, and as before when that was over.
    #[test]
    fn a_stack_that_was_another_for_a_moment_is_not_joined() {
        let mut recorded = recorded();
        let (then, mut meanwhile) = (stack(0x1abc), stack(0x1def));
        meanwhile.bytes[COPIED - 0x100] ^= 1;
        has(&mut recorded, &[&meanwhile, &then]);
        recorded.sample(APP, 1, then.dump(COPIED));
        assert_eq!(ends(recorded), ["..."]);
    }

    #[test]
    fn the_same_bytes_at_another_address_prove_nothing() {
        let mut recorded = recorded();
        let functions: Vec<u64> = (0..9).map(|at| 0x1100 + at).chain([0x1def]).collect();
        has(&mut recorded, &[&MadeStack::new(SP + 8, &functions, FRAME, 0)]);
        recorded.sample(APP, 1, stack(0x1abc).dump(COPIED));
        assert_eq!(ends(recorded), ["..."]);
    }

    /// Threads of one program have equal stacks, at different addresses and at different times at the same one.
    #[test]
    fn one_threads_stack_is_not_anothers() {
        let mut recorded = recorded();
        recorded.fork(100, (100, 101), 1);
        let stack = stack(0x1abc);
        has(&mut recorded, &[&stack]);
        recorded.sample(APP, 2, stack.dump(COPIED));
        recorded.converter.world.memory.clear();
        recorded.sample((100, 101), 3, stack.dump(COPIED));
        assert_eq!(ends(recorded), ["/app+abb", "..."]);
    }

    #[test]
    fn a_thread_that_ended_leaves_no_stack_to_its_successor() {
        let mut recorded = recorded();
        let stack = stack(0x1abc);
        has(&mut recorded, &[&stack]);
        recorded.fork(100, (100, 101), 1);
        recorded.sample((100, 101), 2, stack.dump(COPIED));
        recorded.exit((100, 101), 3);
        recorded.fork(100, (100, 101), 4);
        recorded.converter.world.memory.clear();
        recorded.sample((100, 101), 5, stack.dump(COPIED));
        assert_eq!(ends(recorded), ["/app+abb", "..."]);
    }

    #[test]
    fn an_exec_leaves_no_stack_to_the_next_program() {
        let mut recorded = recorded();
        let stack = stack(0x1abc);
        has(&mut recorded, &[&stack]);
        recorded.sample(APP, 2, stack.dump(COPIED));
        recorded.exec(APP, "next", 3);
        recorded.map(100, "/next", 0x1000);
        recorded.converter.world.memory.clear();
        recorded.sample(APP, 5, stack.dump(COPIED));
        assert_eq!(ends(recorded), ["/app+abb", "..."]);
    }

    #[test]
    fn who_refuses_to_be_read_is_not_asked_again_before_it_executes_a_program() {
        let mut recorded = recorded();
        let stack = stack(0x1abc);
        has(&mut recorded, &[&stack]);
        recorded.converter.world.refusing = vec![100];
        recorded.sample(APP, 1, stack.dump(COPIED));
        recorded.converter.begin_drain();
        recorded.sample(APP, 2, stack.dump(COPIED));
        assert_eq!(reads(&recorded), 1);
        recorded.converter.world.refusing.clear();
        recorded.exec(APP, "next", 3);
        recorded.map(100, "/next", 0x1000);
        recorded.sample(APP, 4, stack.dump(COPIED));
        assert_eq!(ends(recorded), ["...", "...", "/next+abb"]);
    }

    /// Reading takes time that the program's other samples wait for.
    #[test]
    fn a_stack_is_read_at_most_once_a_thread_and_drain() {
        let mut recorded = recorded();
        let (now, mut before) = (stack(0x1abc), stack(0x1def));
        before.bytes[COPIED - 0x100] ^= 1;
        has(&mut recorded, &[&now]);
        recorded.sample(APP, 1, now.dump(COPIED));
        let after_first = reads(&recorded);
        recorded.sample(APP, 2, before.dump(COPIED));
        assert_eq!(reads(&recorded), after_first);
        assert_eq!(ends(recorded), ["/app+abb", "..."]);
    }

    /// A signal handler on a stack of its own, which has interrupted a function of another stack.
    fn in_handler(recorded: &mut Recorded, interrupted: &MadeStack) -> MadeStack {
        const RETURNS_TO: u64 = 0x3008;
        // What can be a call, and then what makes the kernel's signal frame the current one again.
        let code = [0x90, 0x90, 0x90, 0xe8, 0, 0, 0, 0, 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05, 0x90];
        let file = whyslow_elf::testing::Built::default().load(0x1000, &code).bytes();
        recorded.converter.world.files.insert("/c".to_owned(), file);
        recorded.map_file(100, "/c", 0x3000, (2, 0));
        let mut handler = MadeStack::new(0x5000_0000, &[0x1800, RETURNS_TO], FRAME, 9);
        let registers = FRAME + 40;
        for (at, value) in [(10, interrupted.bp), (15, interrupted.sp), (16, interrupted.ip)] {
            let at = registers + 8 * at;
            handler.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        handler
    }

    #[test]
    fn behind_a_signal_the_interrupted_stack_is_read_and_then_joined() {
        let mut recorded = recorded();
        let interrupted = stack(0x1abc);
        let handler = in_handler(&mut recorded, &interrupted);
        recorded.converter.world.memory.insert(100, vec![vec![handler.clone(), interrupted]]);
        recorded.sample(APP, 1, handler.dump(usize::MAX));
        let after_first = reads(&recorded);
        recorded.sample(APP, 2, handler.dump(usize::MAX));
        assert_eq!(reads(&recorded), after_first);
        let counters = &recorded.converter.counters;
        assert_eq!((counters.completed_by_read, counters.completed_by_join), (1, 1));
        let stacks = recorded.stacks();
        assert!(stacks[0].starts_with("/app+800 /c+8 /app+100 /app+100 "), "{stacks:?}");
        assert!(stacks.iter().all(|stack| stack.ends_with(" /app+abb")), "{stacks:?}");
    }

    /// The handler has returned, and the next signal has come: the stack behind it is another one.
    #[test]
    fn behind_a_signal_that_is_over_nothing_is_believed() {
        let (interrupted, later) = (stack(0x1abc), stack(0x1def));
        // Before the first look, before its stack is read, and before the second look.
        for returned_before in 0..3 {
            let mut recorded = recorded();
            let handler = in_handler(&mut recorded, &interrupted);
            let mut next = handler.clone();
            next.bytes[FRAME + 48] ^= 1;
            let mut versions = vec![vec![handler.clone(), interrupted.clone()]; returned_before];
            versions.push(vec![next, later.clone()]);
            recorded.converter.world.memory.insert(100, versions);
            recorded.sample(APP, 1, handler.dump(usize::MAX));
            assert_eq!(recorded.converter.counters.cut_at_signal, 1, "{returned_before}");
            assert_eq!(recorded.stacks(), ["/app+800 /c+8 /app+100 ..."], "{returned_before}");
        }
    }

    /// The kernel copied everything: the frame pointer leads nowhere, and nothing that lies there by now would help.
    #[test]
    fn a_dump_that_was_not_cut_is_not_completed() {
        let mut recorded = recorded();
        let stack = stack(0x1abc);
        has(&mut recorded, &[&stack]);
        let UserStack::Dump(registers, dump) = stack.dump(COPIED) else { unreachable!() };
        recorded.sample(APP, 1, UserStack::Dump(registers, Dump { cut: false, ..dump }));
        assert_eq!((reads(&recorded), recorded.converter.counters.no_unwind_info), (0, 1));
        assert_eq!(ends(recorded), ["..."]);
    }
}
