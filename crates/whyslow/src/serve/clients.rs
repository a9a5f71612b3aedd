//! Places for clients. Who has not shown the token is a stranger: strangers share a few places, and the oldest makes room.

use std::collections::VecDeque;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::Limits;

/// Everyone who is connected.
#[derive(Debug)]
pub(super) struct Clients {
    limits: Limits,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Oldest first.
    strangers: VecDeque<Stranger>,
    /// Clients that have shown the token.
    guests: usize,
    next_id: u64,
}

#[derive(Debug)]
struct Stranger {
    id: u64,
    since: Instant,
    stream: Arc<TcpStream>,
}

/// A client's place, given back when dropped.
#[derive(Debug)]
pub(super) struct Place {
    clients: Arc<Clients>,
    id: u64,
    is_guest: bool,
}

impl Clients {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, state: Mutex::default(), changed: Condvar::new() }
    }

    /// A place for a new client. Nobody is turned away: when the strangers' places are taken, the oldest of them is sent away as soon
    /// as its least time is over. A browser has sent its request long before; until then later clients wait in the port's queue.
    pub(super) fn admit(self: &Arc<Self>, stream: &Arc<TcpStream>) -> Place {
        let mut state = self.state();
        while state.strangers.len() >= self.limits.strangers {
            let Some(oldest) = state.strangers.front() else { break };
            let left = self.limits.least_time.saturating_sub(oldest.since.elapsed());
            if left.is_zero() {
                // Its thread reads the end of the stream, or cannot write, and ends.
                let _ = oldest.stream.shutdown(Shutdown::Both);
                state.strangers.pop_front();
            } else {
                let waited = self.changed.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        let id = state.next_id;
        state.next_id += 1;
        state.strangers.push_back(Stranger { id, since: Instant::now(), stream: Arc::clone(stream) });
        Place { clients: Arc::clone(self), id, is_guest: false }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes a stranger off the list; tells whether it was still on it.
    fn remove(&mut self, id: u64) -> bool {
        let at = self.strangers.iter().position(|stranger| stranger.id == id);
        at.and_then(|at| self.strangers.remove(at)).is_some()
    }
}

impl Place {
    /// The client has shown the token, and from now on no stranger takes its place. False where too many have.
    pub(super) fn welcome(&mut self) -> bool {
        let mut state = self.clients.state();
        if state.guests >= self.clients.limits.guests || !state.remove(self.id) {
            return false;
        }
        state.guests += 1;
        self.is_guest = true;
        self.clients.changed.notify_all();
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.clients.state();
        if self.is_guest {
            state.guests -= 1;
        } else {
            state.remove(self.id);
        }
        self.clients.changed.notify_all();
    }
}
