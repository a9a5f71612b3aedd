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
use core::sync::atomic::{AtomicU32, AtomicU64};

use whyslow_heap_wire::left_out::why;
use whyslow_heap_wire::{AGENT_NAME, SOCKET_VARIABLE};

use crate::start::{self, SOCKET_LEN};
use crate::sys::{self, HERE};

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
        // SAFETY: the path ends with a zero byte.
        let (file, known) = unsafe { (sys::open_at(HERE, agent, 0), sys::know(HERE, agent, 0)) };
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
    pub fn change(&self, environment: u64, agent: Agent) -> Changed {
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
        let Some(copied) = Copied::take(pointers + measured.len) else {
            return Changed::Not(why::NO_MEMORY);
        };
        let at = copied.address() as *mut u8;
        let mut written = Draft {
            pointers: at.cast(),
            most_pointers: measured.count,
            // SAFETY: the copy has room for both.
            texts: unsafe { at.add(pointers) },
            most_len: measured.len,
            ..Draft::default()
        };
        // Another thread may have changed it in between.
        let drawn = self.draw(environment, agent, &mut written);
        if drawn != Some(true) || written.count > measured.count || written.len > measured.len {
            copied.give_back();
            return Changed::AsItIs;
        }
        // SAFETY: there is room for one more than was measured.
        unsafe { written.pointers.add(written.count).write(0) };
        Changed::Copied(copied)
    }

    /// Draws the environment as it shall be. False if it is that of another collector; none if it cannot be read.
    fn draw(&self, environment: u64, agent: Agent, draft: &mut Draft) -> Option<bool> {
        let mut reader = Reader { page: 0 };
        let (mut preloads, mut has_socket) = (false, false);
        let mut at = environment;
        loop {
            let pointer = if at == 0 { 0 } else { reader.word(at)? };
            if pointer == 0 {
                break;
            }
            at += size_of::<u64>() as u64;
            // Most are none of the two, and need not be read.
            let text = if matches!(reader.byte(pointer)?, b'L' | b'W') { reader.text(pointer)? } else { b"" };
            let socket =
                text.strip_prefix(SOCKET_VARIABLE.as_bytes()).and_then(|text| text.strip_prefix(b"="));
            if let Some(list) = text.strip_prefix(PRELOAD) {
                preloads = true;
                self.draw_list(pointer, list, agent, draft);
            } else if let (Some(value), Agent::In) = (socket, agent) {
                has_socket = true;
                if value == self.socket().to_bytes() {
                    draft.keep(pointer);
                } else if CStr::from_bytes_until_nul(with_end(value))
                    .is_ok_and(|path| sys::may_write(path) == 0)
                {
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

    fn draw_socket(&self, draft: &mut Draft) {
        draft.text(&[SOCKET_VARIABLE.as_bytes(), b"=", self.socket().to_bytes()]);
    }

    /// A list of libraries to preload, with the agent or without.
    fn draw_list(&self, pointer: u64, list: &[u8], agent: Agent, draft: &mut Draft) {
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

/// A text of the environment together with the zero byte behind it.
fn with_end(text: &[u8]) -> &[u8] {
    // SAFETY: the reader gives only texts with a zero byte behind them.
    unsafe { slice::from_raw_parts(text.as_ptr(), text.len() + 1) }
}

/// An environment that is measured, or written as far as there is room.
struct Draft {
    pointers: *mut u64,
    most_pointers: usize,
    count: usize,
    texts: *mut u8,
    most_len: usize,
    len: usize,
    changed: bool,
}

impl Default for Draft {
    fn default() -> Self {
        let (pointers, texts) = (ptr::null_mut(), ptr::null_mut());
        Draft { pointers, most_pointers: 0, count: 0, texts, most_len: 0, len: 0, changed: false }
    }
}

impl Draft {
    /// A variable that stays.
    fn keep(&mut self, pointer: u64) {
        if self.count < self.most_pointers {
            // SAFETY: there is room.
            unsafe { self.pointers.add(self.count).write(pointer) };
        }
        self.count += 1;
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
        self.keep(self.texts as u64 + self.len as u64);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        if self.len + bytes.len() <= self.most_len {
            // SAFETY: there is room.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.texts.add(self.len), bytes.len()) };
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
        // SAFETY: there is memory.
        self.is_there(at).then(|| unsafe { *(at as *const u8) })
    }

    fn word(&mut self, at: u64) -> Option<u64> {
        let last = at.checked_add(size_of::<u64>() as u64 - 1)?;
        // SAFETY: there is memory at both ends, which lie in one page or in two that follow each other.
        (self.is_there(at) && self.is_there(last)).then(|| unsafe { (at as *const u64).read_unaligned() })
    }

    /// A text, without the zero byte at its end.
    fn text(&mut self, at: u64) -> Option<&'static [u8]> {
        let mut len = 0u64;
        while self.byte(at.checked_add(len)?)? != 0 {
            len += 1;
        }
        // SAFETY: all of it is there, and lives as long as the exec is under way.
        Some(unsafe { slice::from_raw_parts(at as *const u8, len as usize) })
    }
}

/// How the memory of a copy begins.
struct Kept {
    next: u64,
    /// The thread it is for, by its `fs` base: a child of `vfork` has its parent's.
    owner: u64,
    /// Bytes behind this.
    len: usize,
    /// Who uses it, or used it last and executed; 0 for nobody.
    user: AtomicU32,
}

/// All of them.
static ALL_KEPT: AtomicU64 = AtomicU64::new(0);

/// A copied environment, in memory that its thread keeps.
pub struct Copied(&'static Kept);

impl Copied {
    fn take(len: usize) -> Option<Self> {
        let (thread, owner) = (sys::thread(), sys::fs_base());
        let mut at = ALL_KEPT.load(Acquire);
        while at != 0 {
            // SAFETY: all in the list are there for good.
            let kept = unsafe { &*(at as *const Kept) };
            // What this very thread uses is in use: a signal handler interrupted it.
            if kept.owner == owner && kept.len >= len && kept.user.load(Relaxed) != thread {
                kept.user.store(thread, Relaxed);
                return Some(Copied(kept));
            }
            at = kept.next;
        }
        Self::make(len, thread, owner)
    }

    fn make(len: usize, thread: u32, owner: u64) -> Option<Self> {
        let bytes = (size_of::<Kept>() + len).next_multiple_of(4096);
        let page = sys::pages(bytes).cast::<Kept>();
        if page.is_null() {
            return None;
        }
        let len = bytes - size_of::<Kept>();
        let mut next = ALL_KEPT.load(Acquire);
        loop {
            // SAFETY: fresh pages, which nobody else knows yet.
            unsafe { page.write(Kept { next, owner, len, user: AtomicU32::new(thread) }) };
            match ALL_KEPT.compare_exchange(next, page as u64, AcqRel, Acquire) {
                // SAFETY: it is written, and stays.
                Ok(_) => return Some(Copied(unsafe { &*page })),
                Err(now) => next = now,
            }
        }
    }

    /// Where the environment begins.
    pub fn address(&self) -> u64 {
        ptr::from_ref(self.0) as u64 + size_of::<Kept>() as u64
    }

    /// There was no exec.
    pub fn give_back(self) {
        self.0.user.store(0, Release);
    }
}
