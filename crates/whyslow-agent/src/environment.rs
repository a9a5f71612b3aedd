//! The environment of programs that this one executes: with the agent in it, whatever their starter made of it, or without.
//!
//! ```text
//! in     LD_PRELOAD=other.so      becomes  LD_PRELOAD=…/whyslow-agent.so:other.so
//!        (none of the two)        becomes  LD_PRELOAD=…/whyslow-agent.so and WHYSLOW_HEAP_SOCKET=…/socket, behind all others
//! out    LD_PRELOAD=…/whyslow-agent.so:other.so     becomes  LD_PRELOAD=other.so
//!        LD_PRELOAD=…/whyslow-agent.so              is left out
//! ```
//! All other variables stay, in their order, and what the caller gave stays as it is: the pointers are copied.
//!
//! The copy cannot be on the stack: a child of musl's `posix_spawn` has five kilobytes of it. It cannot go when the exec is done either: a child of
//! `vfork` does that in its parent's memory. So a thread keeps it for the next time. Until a child has executed or ended, the thread
//! whose memory it uses does not run, so the next time is later.

use core::ffi::CStr;
use core::ptr;
use core::slice;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32};

use whyslow_heap_wire::left_out::why;
use whyslow_heap_wire::{AGENT_NAME, SOCKET_VARIABLE};

use crate::arch::thread;
use crate::start::{self, SOCKET_LEN};
use crate::sys::{self, HERE, Pages};

/// What an environment shall have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Agent {
    In,
    Out,
}

/// What became of an environment.
pub enum Changed {
    /// It is right, or the kernel will refuse it.
    AsItIs,
    /// Take this one.
    Copied(Copied),
    /// It cannot be changed, for a reason of [`why`].
    Not(u32),
}

const PRELOAD: &[u8] = b"LD_PRELOAD=";

/// Where the agent's file and the collector's socket are, as texts that end with a zero byte.
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

    /// Whether a program that this thread executes can open both; the reason why not.
    pub fn can_be_reached(&self) -> Result<(), u32> {
        const EACCES: i32 = 13;
        const EPERM: i32 = 1;
        const ENOENT: i32 = 2;
        const ENOTDIR: i32 = 20;
        let agent = self.agent().as_ptr();
        let (file, known) = (sys::open_at(HERE, agent, 0), sys::know(HERE, agent, 0));
        if file >= 0 {
            sys::close(file);
        }
        // Who has just become another user may still have an administrator's rights, but loses them by the exec.
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

    /// Changes an environment so that the agent is in it or not.
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
        // Another thread may have changed it in between.
        let drawn = self.draw(environment, agent, &mut written);
        let complete = written.end();
        if drawn != Some(true) || !complete {
            copied.give_back();
            return Changed::AsItIs;
        }
        Changed::Copied(copied)
    }

    /// Draws the environment as it shall be. False if it is that of another collector; none if it cannot be read.
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
            // Most are none of the two, and need not be read.
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

    /// A list of libraries to preload, with the agent or without.
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

/// An environment as a program gives it to an exec: an array of texts that ends with a null pointer, or nonsense that the kernel refuses.
#[derive(Clone, Copy)]
pub struct Given(u64);

impl Given {
    /// # Safety
    /// What can be read of it stays as it is, or at least stays, until the exec is done.
    pub unsafe fn new(environment: u64) -> Self {
        Self(environment)
    }
}

/// An environment that is measured, or written as far as there is room.
#[derive(Default)]
struct Draft<'a> {
    pointers: &'a mut [u64],
    count: usize,
    texts: &'a mut [u8],
    len: usize,
    changed: bool,
}

impl Draft<'_> {
    /// A variable that stays.
    fn keep(&mut self, pointer: u64) {
        if let Some(to) = self.pointers.get_mut(self.count) {
            *to = pointer;
        }
        self.count += 1;
    }

    /// Ends the array of variables. False if not everything had room.
    fn end(&mut self) -> bool {
        let had_room = self.count < self.pointers.len() && self.len <= self.texts.len();
        self.keep(0);
        had_room
    }

    /// A new variable.
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

/// Reads what the program gave, which may be nonsense: the kernel shall refuse that, not the agent stumble over it.
struct Reader {
    /// The page that is known to be there; 0 for none.
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
        // SAFETY: the kernel has just read from this page, and what the program gave stays (`Given`).
        self.is_there(at).then(|| unsafe { ptr::read_volatile(at as *const u8) })
    }

    fn word(&mut self, at: u64) -> Option<u64> {
        let mut bytes = [0; size_of::<u64>()];
        for (offset, byte) in (0..).zip(&mut bytes) {
            *byte = self.byte(at.checked_add(offset)?)?;
        }
        Some(u64::from_le_bytes(bytes))
    }

    /// A text.
    fn text<'a>(&mut self, at: u64) -> Option<&'a CStr> {
        let mut len = 0u64;
        while self.byte(at.checked_add(len)?)? != 0 {
            len += 1;
        }
        // SAFETY: all of it is there, its first zero byte comes behind it, and what the program gave stays (`Given`).
        let bytes = unsafe { slice::from_raw_parts(at as *const u8, len as usize + 1) };
        CStr::from_bytes_until_nul(bytes).ok()
    }
}

/// How the memory of a copy begins.
struct Kept {
    next: *const Kept,
    /// The thread it is for, by its `fs` base: a child of `vfork` has its parent's.
    owner: u64,
    /// Bytes behind this.
    len: usize,
    /// Who uses it, or used it last and executed; 0 for nobody.
    user: AtomicU32,
}

/// All of them.
static ALL_KEPT: AtomicPtr<Kept> = AtomicPtr::new(ptr::null_mut());

/// A copied environment, in memory that its thread keeps. Whoever has this is the memory's user.
pub struct Copied(&'static Kept);

impl Copied {
    fn take(len: usize) -> Option<Self> {
        let (user, owner) = (sys::thread(), thread::base_by_call());
        let mut at = ALL_KEPT.load(Acquire);
        // SAFETY: null, or one in the list; all of them are there for good.
        while let Some(kept) = unsafe { at.as_ref() } {
            // What this very thread uses is in use: a signal handler interrupted it.
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
            // SAFETY: fresh pages, which nobody else knows yet.
            unsafe { page.write(Kept { next, owner, len, user: AtomicU32::new(thread) }) };
            match ALL_KEPT.compare_exchange(next, page.as_ptr(), AcqRel, Acquire) {
                // SAFETY: it is written, and stays.
                Ok(_) => return Some(Copied(unsafe { page.as_ref() })),
                Err(now) => next = now,
            }
        }
    }

    /// Where the environment begins.
    pub fn address(&self) -> u64 {
        ptr::from_ref(self.0) as u64 + size_of::<Kept>() as u64
    }

    /// Room for so many pointers, and behind them for texts.
    fn parts(&mut self, pointers: usize) -> (&mut [u64], &mut [u8]) {
        let bytes = (pointers * size_of::<u64>()).min(self.0.len / 8 * 8);
        let at = self.address() as *mut u8;
        // SAFETY: behind its head the memory has `len` bytes, which are aligned to 8, initialised since they were mapped, and this user's alone.
        unsafe {
            let pointers = slice::from_raw_parts_mut(at.cast(), bytes / size_of::<u64>());
            (pointers, slice::from_raw_parts_mut(at.add(bytes), self.0.len - bytes))
        }
    }

    /// There was no exec.
    pub fn give_back(self) {
        self.0.user.store(0, Release);
    }
}
