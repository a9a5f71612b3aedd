//! The protocol between the agent inside a program and the collector outside.
//!
//! ```text
//! handshake   one exchange over a socket when a program starts: `Hello` there, `Welcome`, a shared area and patches back
//!             and another for each library that is loaded later
//! exec        the same socket, before a program executes another one that cannot be preloaded
//! purpose     what the agent is for: recording the heap, sampling CPU time, experiments
//! left_out    shared memory: programs executed by processes that can no longer reach the socket
//! snapshot    the same socket, another whyslow: what holds memory now?
//! area        shared memory: header, rings, stacks, modules
//! record      the heap's events in a ring: one to three words of eight bytes
//! sampler     shared memory: where threads spend CPU time, sampled by their own timers
//! causal      shared memory: experiments that delay threads
//! ```
//! Both sides are built from the same source and carry [`VERSION`]. An agent that finds another version does
//! not record. All data is little-endian x86-64. A forked child keeps using its parent's area, with its own
//! rings.

#![no_std]

pub mod area;
pub mod causal;
pub mod exec;
pub mod fill;
pub mod handshake;
pub mod left_out;
pub mod purpose;
pub mod record;
pub mod sampler;
pub mod snapshot;

/// The protocol version. Change it whenever anything in this crate changes.
pub const VERSION: u32 = 12;

/// The environment variable with the path of the socket on which the collector listens.
pub const SOCKET_VARIABLE: &str = "WHYSLOW_AGENT_SOCKET";

/// The name of the agent's file, which is in the same folder as the socket.
pub const AGENT_NAME: &str = "whyslow-agent.so";
