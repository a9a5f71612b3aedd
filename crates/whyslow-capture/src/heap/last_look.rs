//! Why nobody could look for leaks, when the way in which the program ended explains it.

use whyslow_profile::{ExitStatus, LeakCheck, NoLeakCheck};

/// The reason for a look that was not possible. `exit` is how the program ended; `None` when it went on without us.
pub(crate) fn explain(leaks: LeakCheck, exit: Option<ExitStatus>) -> LeakCheck {
    match (leaks, exit) {
        (LeakCheck::Impossible(_), None) => LeakCheck::Impossible(NoLeakCheck::RecordingEnded),
        (LeakCheck::Impossible(_), Some(ExitStatus::Signal(signal))) => {
            LeakCheck::Impossible(NoLeakCheck::EndedBySignal { signal })
        }
        (leaks, _) => leaks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_program_is_the_reason_where_it_explains_it() {
        let explained = |exit| explain(LeakCheck::Impossible(NoLeakCheck::EndedWithoutExit), exit);
        assert_eq!(explained(None), LeakCheck::Impossible(NoLeakCheck::RecordingEnded));
        let by_signal = LeakCheck::Impossible(NoLeakCheck::EndedBySignal { signal: 15 });
        assert_eq!(explained(Some(ExitStatus::Signal(15))), by_signal);
        let by_itself = LeakCheck::Impossible(NoLeakCheck::EndedWithoutExit);
        assert_eq!(explained(Some(ExitStatus::Code(0))), by_itself);
    }

    #[test]
    fn what_was_found_stays() {
        assert_eq!(explain(LeakCheck::AtExit, None), LeakCheck::AtExit);
        assert_eq!(explain(LeakCheck::NotDone, None), LeakCheck::NotDone);
    }
}
