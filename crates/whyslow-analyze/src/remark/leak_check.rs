//! Why nobody looked for leaks, in words.

use whyslow_profile::NoLeakCheck;

/// What stands behind `leaks were not looked for:`.
pub fn no_leak_check(why: &NoLeakCheck) -> String {
    match why {
        NoLeakCheck::NotWanted => "the recording was started with --no-leak-check".to_owned(),
        NoLeakCheck::RecordingEnded => "the recording ended before the program did".to_owned(),
        NoLeakCheck::EndedBySignal { signal } => format!("signal {signal} ended the program"),
        NoLeakCheck::EndedWithoutExit => {
            "it ended without calling exit (it was killed, or made the system call itself)".to_owned()
        }
        NoLeakCheck::OnlySamples => "only samples of the blocks are known".to_owned(),
        NoLeakCheck::InContainer => "it runs in a container".to_owned(),
        NoLeakCheck::TooManyInherited => "it was forked with more blocks than whyslow keeps".to_owned(),
        NoLeakCheck::NoThread => "no thread could be started for it".to_owned(),
        NoLeakCheck::CheckFailed => "the leak check failed".to_owned(),
        NoLeakCheck::OutOfReach { error } => error.clone(),
        NoLeakCheck::OtherTool { tool } => format!("{tool} does not look for pointers to what was not freed"),
        NoLeakCheck::Text { text } => text.clone(),
    }
}

/// What to do instead.
pub(crate) fn leak_check_fix(why: &NoLeakCheck) -> Option<&'static str> {
    match why {
        NoLeakCheck::NotWanted => Some("record without --no-leak-check"),
        NoLeakCheck::RecordingEnded | NoLeakCheck::EndedBySignal { .. } | NoLeakCheck::EndedWithoutExit => {
            Some("`whyslow heap --snapshot PID` looks at a program while it runs")
        }
        NoLeakCheck::OnlySamples => Some("record without --sample"),
        _ => None,
    }
}
