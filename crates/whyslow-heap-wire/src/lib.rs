//! What the agent inside a program and the collector outside of it say to each other.
//!
//! ```text
//! handshake   one exchange over a socket when a program starts: `Hello` there, `Welcome`, a shared area and patches back
//!             and another for each library that is loaded later
//! exec        the same socket, before a program executes one that cannot be preloaded                see `exec`
//! left_out    shared memory: programs that are executed where nobody can ask any more               see `left_out`
//! snapshot    the same socket, another whyslow: what holds memory now?                               see `snapshot`
//! area        shared memory: header, rings, stacks, modules                                          see `Area`
//! record      what happens in a ring: one to three words of eight bytes                              see `record`
//! sampler     shared memory: where threads spend CPU time, taken by their own timers                 see `sampler`
//! ```
//! Both sides are built from one source and carry [`VERSION`]; an agent that meets another version stays quiet.
//! Everything is little-endian x86-64. A forked child goes on in its parent's area, with rings of its own.

#![no_std]

pub mod area;
pub mod exec;
pub mod fill;
pub mod handshake;
pub mod left_out;
pub mod record;
pub mod sampler;
pub mod snapshot;

/// Changes whenever anything here does.
pub const VERSION: u32 = 9;

/// The environment variable that tells the agent where the collector listens: the path of a socket.
pub const SOCKET_VARIABLE: &str = "WHYSLOW_HEAP_SOCKET";

/// The name of the agent's file, which lies beside the socket.
pub const AGENT_NAME: &str = "whyslow-agent.so";
