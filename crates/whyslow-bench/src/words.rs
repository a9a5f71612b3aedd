//! A quoted command is split into words as a shell splits them, and nothing else is done with it.
//!
//! ```text
//! words        are parted by spaces, tabs and line ends
//! 'text'       is taken as it is
//! "text"       too, but for \" \\ \$ \` and \ before a line end
//! \c           outside of quotes is the character c
//! | & ; < >    and ( ) $ ` outside of quotes mean something to a shell alone: they are refused
//! * ? ~        are characters like others: file names are not filled in
//! ```

use thiserror::Error;

/// Why a command cannot be split.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WordsError {
    /// There is nothing in it.
    #[error("the command is empty")]
    Empty,
    /// A quote is not closed, or nothing follows a backslash.
    #[error("in `{0}` a quote is not closed")]
    Open(String),
    /// A character that only a shell understands.
    #[error("`{command}` has an unquoted {character}, which only a shell understands")]
    Shell {
        /// The command.
        command: String,
        /// The character.
        character: char,
    },
}

/// The words of a command.
pub fn split(command: &str) -> Result<Vec<String>, WordsError> {
    if let Some(character) = shell_character(command) {
        return Err(WordsError::Shell { command: command.to_owned(), character });
    }
    let words = shlex::split(command).ok_or_else(|| WordsError::Open(command.to_owned()))?;
    if words.is_empty() { Err(WordsError::Empty) } else { Ok(words) }
}

/// The first character outside of quotes that only a shell understands.
fn shell_character(command: &str) -> Option<char> {
    let mut quote = None;
    let mut characters = command.chars();
    while let Some(character) = characters.next() {
        match (character, quote) {
            ('\\', None | Some('"')) => {
                characters.next();
            }
            ('\'' | '"', None) => quote = Some(character),
            (_, Some(open)) if character == open => quote = None,
            ('$' | '`', Some('"')) => return Some(character),
            ('|' | '&' | ';' | '<' | '>' | '(' | ')' | '$' | '`', None) => return Some(character),
            _ => {}
        }
    }
    None
}

/// Words as they would have to be typed.
pub fn quoted(words: &[String]) -> String {
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        let split = |text: &str| super::split(text).unwrap();
        assert_eq!(
            split("./app  --name 'a b' \"c \\\" d\" e\\ f"),
            ["./app", "--name", "a b", "c \" d", "e f"]
        );
        assert_eq!(split("rg foo.*bar ~ ''"), ["rg", "foo.*bar", "~", ""]);
        assert_eq!(split("awk '{print $1; exit}' x"), ["awk", "{print $1; exit}", "x"]);
        assert_eq!(split("grep a\\|b"), ["grep", "a|b"]);
    }

    #[test]
    fn what_a_shell_would_do_is_refused() {
        for (text, expected) in [
            ("a | b", '|'),
            ("a > b", '>'),
            ("a && b", '&'),
            ("echo $HOME", '$'),
            ("echo \"$HOME\"", '$'),
            ("a; b", ';'),
            ("a `b`", '`'),
            ("(a)", '('),
        ] {
            let Err(WordsError::Shell { character, .. }) = split(text) else { panic!("{text}") };
            assert_eq!(character, expected, "{text}");
        }
        assert_eq!(split("  "), Err(WordsError::Empty));
        assert!(matches!(split("a 'b"), Err(WordsError::Open(_))));
        assert!(matches!(split("a \\"), Err(WordsError::Open(_))));
    }

    #[test]
    fn what_is_joined_can_be_split() {
        let words = ["a b", "", "c'd", "$e"].map(str::to_owned);
        assert_eq!(split(&quoted(&words)).unwrap(), words);
    }
}
