//! Command lines as the user would type them.

use whyslow_profile::Profile;

/// A command line as the user would type it. What a recorder stored in place of one, such as `(7 processes)`,
/// is shown as it is.
pub fn command_line(words: &[String]) -> String {
    match description(words) {
        Some(description) => description.to_owned(),
        None => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
    }
}

/// The command that records the same again with these options.
pub fn record_again(profile: &Profile, options: &str) -> String {
    let words = &profile.meta.command;
    match description(words) {
        Some(what) if what.contains("machine") => format!("whyslow record {options} -a"),
        Some(_) => format!("whyslow record {options} -p PID"),
        None if words.is_empty() => format!("whyslow record {options} -- PROGRAM"),
        None => format!("whyslow record {options} -- {}", command_line(words)),
    }
}

/// What stands in place of a command line if none was recorded: `(7 processes)`, `(the whole machine)`.
fn description(words: &[String]) -> Option<&str> {
    match words {
        [only] if only.starts_with('(') && only.ends_with(')') => Some(only),
        _ => None,
    }
}

/// Quotes a word for the shell if needed; with control characters as `$'a\nb'`.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./:=,+@%^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    if !word.contains(char::is_control) {
        return format!("'{}'", word.replace('\'', "'\\''"));
    }
    let mut out = String::from("$'");
    for c in word.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\\' | '\'' => out.extend(['\\', c]),
            c if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", c as u32)),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('\'');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_the_shell() {
        let line =
            |words: &[&str]| command_line(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        assert_eq!(line(&["./app", "--in=a b", "it's", ""]), r"./app '--in=a b' 'it'\''s' ''");
        assert_eq!(line(&["sh", "-c", "a\n\tb'\\\u{1b}"]), r"sh -c $'a\n\tb\'\\\x1b'");
        assert_eq!(line(&["(7 processes)"]), "(7 processes)");
    }

    #[test]
    fn recording_again_names_what_was_recorded() {
        let mut profile = crate::testing::profile("main 1");
        let mut again = |words: &[&str]| {
            profile.meta.command = words.iter().map(|&word| word.to_owned()).collect();
            record_again(&profile, "--off-cpu")
        };
        assert_eq!(again(&["./app", "a b"]), "whyslow record --off-cpu -- ./app 'a b'");
        assert_eq!(again(&["(7 processes)"]), "whyslow record --off-cpu -p PID");
        assert_eq!(again(&["(the whole machine)"]), "whyslow record --off-cpu -a");
    }
}
