//! The command that records again.

use whyslow_profile::Profile;
use whyslow_words::{command_line, description, quoted};

/// The command that records the same again with these options.
pub fn record_again(profile: &Profile, options: &str) -> String {
    let words = &profile.meta.command;
    match description(words) {
        Some(what) if what.contains("machine") => format!("whyslow record {options} -a"),
        Some(_) => format!("whyslow record {options} -p PID"),
        None if words.is_empty() => format!("whyslow record {options} -- PROGRAM"),
        None => format!("whyslow record {options} -- {}{}", command_line(words), input(profile)),
    }
}

/// The cargo command that builds a program with lines and records the same again; `None` if this file is not the
/// program that was started.
pub(crate) fn cargo_again(profile: &Profile, file: &str) -> Option<String> {
    let (program, arguments) = profile.meta.command.split_first()?;
    let last = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    // Tests and benches have names of cargo's.
    if description(&profile.meta.command).is_some() || last(program) != last(file) || file.contains("/deps/")
    {
        return None;
    }
    let kind = if file.contains("/examples/") { "--example" } else { "--bin" };
    let arguments =
        if arguments.is_empty() { String::new() } else { format!(" -- {}", command_line(arguments)) };
    Some(format!("cargo whyslow {kind} {}{arguments}{}", quoted(&last(file)), input(profile)))
}

/// ` < FILE`, if standard input was a file.
fn input(profile: &Profile) -> String {
    profile.meta.standard_input.as_ref().map_or_else(String::new, |file| format!(" < {}", quoted(file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recording_again_names_what_was_recorded() {
        let mut profile = crate::testing::profile("main 1");
        let mut again = |words: &[&str]| {
            profile.meta.command = words.iter().map(|&word| word.to_owned()).collect();
            record_again(&profile, "--off-cpu")
        };
        assert_eq!(again(&["./app", "a b"]), "whyslow record --off-cpu -- ./app 'a b'");
        profile.meta.standard_input = Some("my data".to_owned());
        let mut again = |words: &[&str]| {
            profile.meta.command = words.iter().map(|&word| word.to_owned()).collect();
            record_again(&profile, "--off-cpu")
        };
        assert_eq!(again(&["./app"]), "whyslow record --off-cpu -- ./app < 'my data'");
        assert_eq!(again(&["(7 processes)"]), "whyslow record --off-cpu -p PID");
        assert_eq!(again(&["(the whole machine)"]), "whyslow record --off-cpu -a");
    }
}
