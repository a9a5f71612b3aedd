//! The environment of programs that this one executes: adds the agent, however the caller built the
//! environment, or removes it.
//!
//! ```text
//! In     LD_PRELOAD=other.so      becomes  LD_PRELOAD=…/whyslow-agent.so:other.so
//!        (neither variable)       gets     LD_PRELOAD=…/whyslow-agent.so and WHYSLOW_AGENT_SOCKET=…/socket, after all others
//! Out    LD_PRELOAD=…/whyslow-agent.so:other.so     becomes  LD_PRELOAD=other.so
//!        LD_PRELOAD=…/whyslow-agent.so              is removed
//! ```
//! All other variables keep their values and order. The caller's array is not modified: the pointers are
//! copied.
//!
//! The copy cannot be on the stack, because a child of musl's `posix_spawn` has only five kilobytes of stack.
//! It cannot be freed after the exec either, because a child of `vfork` executes in its parent's memory. So
//! each thread keeps its copy for the next exec. This is safe: until a `vfork` child has executed or exited,
//! the thread that owns the memory does not run.

use core::ffi::CStr;
use core::ptr;
use core::slice;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32};

use whyslow_agent_wire::left_out::why;
use whyslow_agent_wire::{AGENT_NAME, SOCKET_VARIABLE};

use crate::arch::thread;
use crate::start::{self, SOCKET_LEN};
use crate::sys::{self, HERE, Pages};

/// Whether an environment gets the agent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Agent {
    In,
    Out,
}

/// The result of changing an environment.
pub enum Changed {
    /// It needs no change, or the kernel will reject it.
    AsItIs,
    /// Use this copy instead.
    Copied(Copied),
    /// It cannot be changed, for a reason from [`why`].
    Not(u32),
}

const PRELOAD: &[u8] = b"LD_PRELOAD=";

/// The paths of the agent's file and of the collector's socket, zero-terminated.
pub struct Names {
    agent: [u8; SOCKET_LEN + AGENT_NAME.len()],
    socket: [u8; SOCKET_LEN],
}

impl Names {
    pub fn new() -> Self {
        let mut names = Names { agent: [0; SOCKET_LEN + AGENT_NAME.len()], socket: [0; SOCKET_LEN] };
        let len = start::socket(&mut names.socket[..SOCKET_LEN - 1]);
        let folder = names.socket[..len].iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let folder = names.socket[..folder].iter();
        for (to, from) in names.agent.iter_mut().zip(folder.chain(AGENT_NAME.as_bytes())) {
            *to = *from;
        }
        names
    }

    fn agent(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.agent).unwrap_or(c"")
    }

    fn socket(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.socket).unwrap_or(c"")
    }

    /// Whether a program that this thread executes can open both, or the reason why not.
    pub fn can_be_reached(&self) -> Result<(), u32> {
        const EACCES: i32 = 13;
        const EPERM: i32 = 1;
        const ENOENT: i32 = 2;
        const ENOTDIR: i32 = 20;
        let agent = self.agent().as_ptr();
        let (file, known) = (sys::open_at(HERE, agent, 0), sys::file_status(HERE, agent, 0));
        if file >= 0 {
            sys::close(file);
        }
        // A process that just changed its user may still have root's capabilities, but the exec drops them.
        let user = sys::user();
        if known.is_some_and(|known| user != 0 && user != known.user) {
            return Err(why::OTHER_USER);
        }
        for result in [file, sys::may_write(self.socket())] {
            match -result {
                EACCES | EPERM => return Err(why::OTHER_USER),
                ENOENT | ENOTDIR => return Err(why::OTHER_ROOT),
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds the agent to an environment or removes it.
    pub fn change(&self, environment: Given, agent: Agent) -> Changed {
        let mut measured = Draft::default();
        match self.draw(environment, agent, &mut measured) {
            Some(true) => {}
            Some(false) => return Changed::Not(why::OTHER_COLLECTOR),
            None => return Changed::AsItIs,
        }
        if !measured.changed {
            return Changed::AsItIs;
        }
        let pointers = (measured.count + 1) * size_of::<u64>();
        let Some(mut copied) = Copied::take(pointers + measured.len) else {
            return Changed::Not(why::NO_MEMORY);
        };
        let (pointers, texts) = copied.parts(measured.count + 1);
        let mut written = Draft { pointers, texts, ..Draft::default() };
        // Another thread may have changed it since.
        let drawn = self.draw(environment, agent, &mut written);
        let complete = written.end();
        if drawn != Some(true) || !complete {
            copied.give_back();
            return Changed::AsItIs;
        }
        Changed::Copied(copied)
    }

    /// Builds the changed environment. `Some(false)` if it belongs to another collector, `None` if it cannot
    /// be read.
    fn draw(&self, environment: Given, agent: Agent, draft: &mut Draft<'_>) -> Option<bool> {
        // Pointers and texts lie in different pages.
        let (mut pointers, mut texts) = (Reader { page: 0 }, Reader { page: 0 });
        let (mut preloads, mut has_socket) = (false, false);
        let mut at = environment.0;
        loop {
            let pointer = if at == 0 { 0 } else { pointers.word(at)? };
            if pointer == 0 {
                break;
            }
            at += size_of::<u64>() as u64;
            // Most variables are neither of the two and need not be read.
            let text = match texts.byte(pointer)? {
                b'L' | b'W' => texts.text(pointer)?,
                _ => c"",
            };
            let socket = text
                .to_bytes_with_nul()
                .strip_prefix(SOCKET_VARIABLE.as_bytes())
                .and_then(|text| text.strip_prefix(b"="))
                .and_then(|value| CStr::from_bytes_with_nul(value).ok());
            if let Some(list) = text.to_bytes().strip_prefix(PRELOAD) {
                preloads = true;
                self.draw_list(pointer, list, agent, draft);
            } else if let (Some(value), Agent::In) = (socket, agent) {
                has_socket = true;
                if value == self.socket() {
                    draft.keep(pointer);
                } else if sys::may_write(value) == 0 {
                    return Some(false);
                } else {
                    self.draw_socket(draft);
                }
            } else {
                draft.keep(pointer);
            }
        }
        if agent == Agent::In && !preloads {
            draft.text(&[PRELOAD, self.agent().to_bytes()]);
        }
        if agent == Agent::In && !has_socket {
            self.draw_socket(draft);
        }
        Some(true)
    }

    fn draw_socket(&self, draft: &mut Draft<'_>) {
        draft.text(&[SOCKET_VARIABLE.as_bytes(), b"=", self.socket().to_bytes()]);
    }

    /// Writes an `LD_PRELOAD` list with or without the agent.
    fn draw_list(&self, pointer: u64, list: &[u8], agent: Agent, draft: &mut Draft<'_>) {
        let own = self.agent().to_bytes();
        let is_separator = |byte: &u8| matches!(*byte, b':' | b' ');
        let is_in = list.split(is_separator).any(|name| name == own);
        match agent {
            Agent::In if is_in => draft.keep(pointer),
            Agent::In if list.is_empty() => draft.text(&[PRELOAD, own]),
            Agent::In => draft.text(&[PRELOAD, own, b":", list]),
            Agent::Out if !is_in => draft.keep(pointer),
            Agent::Out => {
                let mut others = list.split(is_separator).filter(|name| !name.is_empty() && *name != own);
                draft.changed = true;
                if let Some(first) = others.next() {
                    draft.begin();
                    draft.bytes(PRELOAD);
                    draft.bytes(first);
                    for other in others {
                        draft.bytes(b":");
                        draft.bytes(other);
                    }
                    draft.bytes(b"\0");
                }
            }
        }
    }
}

/// An environment as passed to an exec: an array of texts that ends with a null pointer, or garbage that the
/// kernel rejects.
#[derive(Clone, Copy)]
pub struct Given(u64);

impl Given {
    /// # Safety
    /// Its readable memory is not unmapped before the exec is done.
    pub unsafe fn new(environment: u64) -> Self {
        Self(environment)
    }
}

/// A first pass measures the environment, a second one writes it as far as there is room.
#[derive(Default)]
struct Draft<'a> {
    pointers: &'a mut [u64],
    count: usize,
    texts: &'a mut [u8],
    len: usize,
    changed: bool,
}

impl Draft<'_> {
    /// Copies a variable's pointer.
    fn keep(&mut self, pointer: u64) {
        if let Some(to) = self.pointers.get_mut(self.count) {
            *to = pointer;
        }
        self.count += 1;
    }

    /// Ends the array of variables. False if it did not all fit.
    fn end(&mut self) -> bool {
        let had_room = self.count < self.pointers.len() && self.len <= self.texts.len();
        self.keep(0);
        had_room
    }

    /// Adds a new variable.
    fn text(&mut self, parts: &[&[u8]]) {
        self.changed = true;
        self.begin();
        for part in parts {
            self.bytes(part);
        }
        self.bytes(b"\0");
    }

    fn begin(&mut self) {
        self.keep(self.texts.as_ptr() as u64 + self.len as u64);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        if let Some(to) = self.texts.get_mut(self.len..end) {
            to.copy_from_slice(bytes);
        }
        self.len += bytes.len();
    }
}

/// Reads the program's arguments. They may be garbage: the kernel should reject that, and the agent must not
/// crash on it.
struct Reader {
    /// The page that is known to be readable. 0 for none.
    page: u64,
}

impl Reader {
    fn is_there(&mut self, at: u64) -> bool {
        let page = at & !4095;
        if page != self.page && sys::is_readable(at) {
            self.page = page;
        }
        page == self.page && page != 0
    }

    fn byte(&mut self, at: u64) -> Option<u8> {
        // SAFETY: the kernel has just read from this page, and the program's arguments are not unmapped
        // (`Given`).
        self.is_there(at).then(|| unsafe { ptr::read_volatile(at as *const u8) })
    }

    fn word(&mut self, at: u64) -> Option<u64> {
        let mut bytes = [0; size_of::<u64>()];
        for (offset, byte) in (0..).zip(&mut bytes) {
            *byte = self.byte(at.checked_add(offset)?)?;
        }
        Some(u64::from_le_bytes(bytes))
    }

    /// Reads a zero-terminated text.
    fn text<'a>(&mut self, at: u64) -> Option<&'a CStr> {
        let mut len = 0u64;
        while self.byte(at.checked_add(len)?)? != 0 {
            len += 1;
        }
        // SAFETY: all of it is readable, the first zero byte follows it, and the program's arguments are not
        // unmapped (`Given`).
        let bytes = unsafe { slice::from_raw_parts(at as *const u8, len as usize + 1) };
        CStr::from_bytes_until_nul(bytes).ok()
    }
}

/// The header of a copy's memory.
struct Kept {
    next: *const Kept,
    /// The thread it is for, by its `fs` base: a child of `vfork` has its parent's.
    owner: u64,
    /// Bytes after this header.
    len: usize,
    /// The thread that uses it, or that used it last and executed. 0 for none.
    user: AtomicU32,
}

/// List of all copies.
static ALL_KEPT: AtomicPtr<Kept> = AtomicPtr::new(ptr::null_mut());

/// A copied environment, in memory that its thread keeps. The holder of this value is the memory's user.
pub struct Copied(&'static Kept);

impl Copied {
    fn take(len: usize) -> Option<Self> {
        let (user, owner) = (sys::thread(), thread::base_by_call());
        let mut at = ALL_KEPT.load(Acquire);
        // SAFETY: null, or an entry of the list. Entries are never freed.
        while let Some(kept) = unsafe { at.as_ref() } {
            // A copy with this thread as its user is in use: a signal handler has interrupted this thread.
            if kept.owner == owner && kept.len >= len && kept.user.load(Relaxed) != user {
                kept.user.store(user, Relaxed);
                return Some(Copied(kept));
            }
            at = kept.next.cast_mut();
        }
        Self::make(len, user, owner)
    }

    fn make(len: usize, thread: u32, owner: u64) -> Option<Self> {
        let bytes = (size_of::<Kept>() + len).next_multiple_of(4096);
        let page = Pages::new(bytes)?.keep().cast::<Kept>();
        let len = bytes - size_of::<Kept>();
        let mut next = ALL_KEPT.load(Acquire);
        loop {
            // SAFETY: fresh pages that no other code knows yet.
            unsafe { page.write(Kept { next, owner, len, user: AtomicU32::new(thread) }) };
            match ALL_KEPT.compare_exchange(next, page.as_ptr(), AcqRel, Acquire) {
                // SAFETY: it is initialised and never freed.
                Ok(_) => return Some(Copied(unsafe { page.as_ref() })),
                Err(now) => next = now,
            }
        }
    }

    /// The address of the environment.
    pub fn address(&self) -> u64 {
        ptr::from_ref(self.0) as u64 + size_of::<Kept>() as u64
    }

    /// Room for this many pointers, and for texts after them.
    fn parts(&mut self, pointers: usize) -> (&mut [u64], &mut [u8]) {
        let bytes = (pointers * size_of::<u64>()).min(self.0.len / 8 * 8);
        let at = self.address() as *mut u8;
        // SAFETY: `len` bytes follow the header. They are aligned to 8, were initialised when they were
        // mapped, and belong to this user alone.
        unsafe {
            let pointers = slice::from_raw_parts_mut(at.cast(), bytes / size_of::<u64>());
            (pointers, slice::from_raw_parts_mut(at.add(bytes), self.0.len - bytes))
        }
    }

    /// Releases the copy after a failed exec.
    pub fn give_back(self) {
        self.0.user.store(0, Release);
    }
}
