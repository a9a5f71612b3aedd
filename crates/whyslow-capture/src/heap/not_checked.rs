//! Why leaks were not checked, where the way the program exited explains it.

use whyslow_profile::{ExitStatus, LeakCheck, NoLeakCheck};

/// Adds the reason to a leak check that was not possible. `exit` is how the program exited; `None` if it
/// still runs.
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
    fn the_exit_status_explains_a_missing_leak_check() {
        let explained = |exit| explain(LeakCheck::Impossible(NoLeakCheck::EndedWithoutExit), exit);
        assert_eq!(explained(None), LeakCheck::Impossible(NoLeakCheck::RecordingEnded));
        let by_signal = LeakCheck::Impossible(NoLeakCheck::EndedBySignal { signal: 15 });
        assert_eq!(explained(Some(ExitStatus::Signal(15))), by_signal);
        let by_itself = LeakCheck::Impossible(NoLeakCheck::EndedWithoutExit);
        assert_eq!(explained(Some(ExitStatus::Code(0))), by_itself);
    }

    #[test]
    fn findings_are_kept() {
        assert_eq!(explain(LeakCheck::AtExit, None), LeakCheck::AtExit);
        assert_eq!(explain(LeakCheck::NotDone, None), LeakCheck::NotDone);
    }
}
