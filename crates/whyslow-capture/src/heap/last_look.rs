//! Why nobody could look for leaks, when the way in which the program ended explains it.

use whyslow_profile::{ExitStatus, LeakCheck};

/// What to do instead.
const NEXT: &str = "`whyslow heap --snapshot PID` looks at a program while it runs";

/// Words for a look that was not possible. `exit` is how the program ended; `None` when it went on without us.
pub(crate) fn explain(leaks: LeakCheck, exit: Option<ExitStatus>) -> LeakCheck {
    match (leaks, exit) {
        (LeakCheck::Impossible(_), None) => {
            LeakCheck::Impossible(format!("the recording ended before the program did; {NEXT}"))
        }
        (LeakCheck::Impossible(_), Some(ExitStatus::Signal(signal))) => {
            LeakCheck::Impossible(format!("signal {signal} ended the program; {NEXT}"))
        }
        (leaks, _) => leaks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(exit: Option<ExitStatus>) -> String {
        match explain(LeakCheck::Impossible("nobody looked".to_owned()), exit) {
            LeakCheck::Impossible(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_end_of_the_program_is_the_reason_where_it_explains_it() {
        assert!(
            words(None).starts_with("the recording ended before the program did; `whyslow heap --snapshot")
        );
        assert!(words(Some(ExitStatus::Signal(15))).starts_with("signal 15 ended the program; `whyslow"));
        assert_eq!(words(Some(ExitStatus::Code(0))), "nobody looked");
    }

    #[test]
    fn what_was_found_stays() {
        assert_eq!(explain(LeakCheck::AtExit, None), LeakCheck::AtExit);
        assert_eq!(explain(LeakCheck::NotDone, None), LeakCheck::NotDone);
    }
}
