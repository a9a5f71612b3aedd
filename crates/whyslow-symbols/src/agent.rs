//! Names whyslow's own agent inside a program with a recorded heap. Its file no longer exists when names are
//! looked up, and readers need to know that the time is the agent's, not which of its functions ran.

use whyslow_numbers::RelativeAddress;
use whyslow_profile::SpecialFrame;

use crate::answers::{Answers, RawFrame, RawFunction};

const FILE: &str = "/whyslow-agent.so";

/// Whether this is the agent's file.
pub(crate) fn is_path(module: &str) -> bool {
    module.strip_suffix(" (deleted)").unwrap_or(module).ends_with(FILE)
}

/// Gives all addresses the same name.
pub(crate) fn resolve(addresses: &[RelativeAddress]) -> Answers {
    let mut answers = Answers::default();
    let name = answers.text_id(SpecialFrame::Agent.text());
    let function = answers.function_id(RawFunction { name, file: None, line: 0, form: None });
    for &address in addresses {
        answers.add(address, (address, address), &[RawFrame { function, file: None, line: 0 }]);
    }
    answers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_is_recognised_by_its_file() {
        assert!(is_path("/run/user/1000/whyslow/heap-12-0/whyslow-agent.so"));
        assert!(is_path("/tmp/whyslow-0/heap-12-0/whyslow-agent.so (deleted)"));
        assert!(!is_path("/usr/lib/not-whyslow-agent.so"));
    }
}
