//! Why there is no leak check, in words.

use whyslow_profile::NoLeakCheck;

/// The reason that follows `no leak check:`.
pub fn no_leak_check(why: &NoLeakCheck) -> String {
    match why {
        NoLeakCheck::NotWanted => "the recording was started with --no-leak-check".to_owned(),
        NoLeakCheck::RecordingEnded => "the recording ended before the program did".to_owned(),
        NoLeakCheck::EndedBySignal { signal } => format!("signal {signal} ended the program"),
        NoLeakCheck::EndedWithoutExit => {
            "the program exited without calling exit (it was killed, or made the system call directly)"
                .to_owned()
        }
        NoLeakCheck::OnlySamples => {
            "allocations were sampled (--sample), so most blocks are unknown".to_owned()
        }
        NoLeakCheck::InContainer => "the program runs in a container".to_owned(),
        NoLeakCheck::TooManyInherited => {
            "the process was forked with more live blocks than whyslow keeps".to_owned()
        }
        NoLeakCheck::NoThread => "whyslow could not start a thread for it".to_owned(),
        NoLeakCheck::CheckFailed => "the leak check failed".to_owned(),
        NoLeakCheck::OutOfReach { error } => error.clone(),
        NoLeakCheck::OtherTool { tool } => {
            format!("{tool} does not search for pointers to blocks that are still allocated")
        }
        NoLeakCheck::Text { text } => text.clone(),
    }
}

/// The command that gives a leak check, if there is one.
pub(crate) fn leak_check_fix(why: &NoLeakCheck) -> Option<&'static str> {
    match why {
        NoLeakCheck::NotWanted => Some("record without --no-leak-check"),
        NoLeakCheck::RecordingEnded | NoLeakCheck::EndedBySignal { .. } | NoLeakCheck::EndedWithoutExit => {
            Some("`whyslow heap --snapshot PID` checks a program for leaks while it runs")
        }
        NoLeakCheck::OnlySamples => Some("record without --sample"),
        _ => None,
    }
}
