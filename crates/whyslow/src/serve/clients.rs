//! Limits the number of clients. Clients without the token share a small pool; when it is full, the oldest is
//! dropped.

use std::collections::VecDeque;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::Limits;

/// All connected clients.
#[derive(Debug)]
pub(super) struct Clients {
    limits: Limits,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Clients that have not shown the token, oldest first.
    unauthenticated: VecDeque<Unauthenticated>,
    /// The number of clients that have.
    authenticated: usize,
    next_id: u64,
}

#[derive(Debug)]
struct Unauthenticated {
    id: u64,
    since: Instant,
    stream: Arc<TcpStream>,
}

/// A client's place in the pool, released on drop.
#[derive(Debug)]
pub(super) struct Place {
    clients: Arc<Clients>,
    id: u64,
    is_authenticated: bool,
}

impl Clients {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Adds a client. None is refused: if the pool of unauthenticated clients is full, the oldest is dropped
    /// once its minimum time is over. A browser sends its request long before that; later clients wait in the
    /// port's queue.
    pub(super) fn admit(self: &Arc<Self>, stream: &Arc<TcpStream>) -> Place {
        let mut state = self.state();
        while state.unauthenticated.len() >= self.limits.unauthenticated {
            let Some(oldest) = state.unauthenticated.front() else { break };
            let left = self.limits.min_time.saturating_sub(oldest.since.elapsed());
            if left.is_zero() {
                // Its thread reads the end of the stream, or fails to write, and exits.
                let _ = oldest.stream.shutdown(Shutdown::Both);
                state.unauthenticated.pop_front();
            } else {
                let waited = self.changed.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        let id = state.next_id;
        state.next_id += 1;
        state.unauthenticated.push_back(Unauthenticated {
            id,
            since: Instant::now(),
            stream: Arc::clone(stream),
        });
        Place { clients: Arc::clone(self), id, is_authenticated: false }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Removes an unauthenticated client. Returns whether it was still in the pool.
    fn remove(&mut self, id: u64) -> bool {
        let at = self.unauthenticated.iter().position(|client| client.id == id);
        at.and_then(|at| self.unauthenticated.remove(at)).is_some()
    }
}

impl Place {
    /// The client has shown the token: from now on it is not dropped for others. Returns false if too many
    /// clients have.
    pub(super) fn authenticate(&mut self) -> bool {
        let mut state = self.clients.state();
        if state.authenticated >= self.clients.limits.authenticated || !state.remove(self.id) {
            return false;
        }
        state.authenticated += 1;
        self.is_authenticated = true;
        self.clients.changed.notify_all();
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.clients.state();
        if self.is_authenticated {
            state.authenticated -= 1;
        } else {
            state.remove(self.id);
        }
        self.clients.changed.notify_all();
    }
}
