//! What the agent inside of programs does for a recording: `watch` brings it in, `news` is what it tells of programs and libraries,
//! `timer` turns the samples of CPU time that programs take of themselves into inputs of the converter, `accounts` knows for what time none of them
//! stands.

mod accounts;
mod news;
mod timer;
mod watch;

pub(crate) use timer::TimerSource;
pub(crate) use watch::{AgentWatch, Wanted};
pub(crate) use whyslow_heap_wire::sampler::STACK_LEN as STACK_BYTES;
