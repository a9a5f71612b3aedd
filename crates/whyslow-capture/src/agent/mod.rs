//! The agent's part in a recording. `watch` loads it, `arrivals` queues the programs and libraries that it
//! reports, `timer` feeds the CPU samples that programs take of themselves to the converter, and `accounts`
//! computes the CPU time that no sample stands for.

mod accounts;
mod arrivals;
mod timer;
mod watch;

pub(crate) use timer::TimerSource;
pub(crate) use watch::{AgentWatch, Wanted};
pub(crate) use whyslow_agent_wire::sampler::STACK_LEN as STACK_BYTES;
