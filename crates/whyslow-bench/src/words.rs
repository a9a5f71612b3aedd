//! Splits a quoted command into words like a shell, without any other shell feature.
//!
//! ```text
//! words        are separated by spaces, tabs and line ends
//! 'text'       is taken literally
//! "text"       too, except \" \\ \$ \` and \ before a line end
//! \c           outside quotes is the character c
//! | & ; < >    and ( ) $ ` outside quotes need a shell: they are errors
//! * ? ~        are ordinary characters: file names are not expanded
//! ```

use thiserror::Error;

/// Why a command cannot be split.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WordsError {
    /// It contains no words.
    #[error("the command is empty")]
    Empty,
    /// A quote is not closed, or nothing follows a backslash.
    #[error("a quote is not closed in `{0}`")]
    Open(String),
    /// It contains a character that needs a shell.
    #[error("`{command}` has an unquoted {character}, which only a shell understands")]
    Shell {
        /// The command.
        command: String,
        /// The character.
        character: char,
    },
}

/// Splits a command into words.
pub fn split(command: &str) -> Result<Vec<String>, WordsError> {
    if let Some(character) = shell_character(command) {
        return Err(WordsError::Shell { command: command.to_owned(), character });
    }
    let words = shlex::split(command).ok_or_else(|| WordsError::Open(command.to_owned()))?;
    if words.is_empty() { Err(WordsError::Empty) } else { Ok(words) }
}

/// The first character outside quotes that needs a shell.
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

/// Joins words into a command line, quoted where needed.
pub fn quoted(words: &[String]) -> String {
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_like_a_shell() {
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
    fn rejects_shell_features() {
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
    fn joined_words_split_again() {
        let words = ["a b", "", "c'd", "$e"].map(str::to_owned);
        assert_eq!(split(&quoted(&words)).unwrap(), words);
    }
}
