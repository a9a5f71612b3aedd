//! The secret in the viewer's address: other users of this machine can reach the port, but do not know the
//! secret.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};

/// 128 random bits as text.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Token(String);

impl Token {
    /// A new token from the operating system.
    pub(super) fn random() -> io::Result<Self> {
        let mut bytes = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Its text, for an address.
    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Whether this is the token. The time does not depend on how much of the text is right.
    pub(super) fn is(&self, text: &str) -> bool {
        let (token, text) = (self.0.as_bytes(), text.as_bytes());
        let difference = token.iter().zip(text).fold(0, |sum, (token, text)| sum | (token ^ text));
        token.len() == text.len() && std::hint::black_box(difference) == 0
    }
}

/// Hides the secret from messages.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_and_different() {
        let [a, b] = [Token::random().unwrap(), Token::random().unwrap()];
        assert_eq!(a.text().len(), 32);
        assert!(a != b && a.is(a.text()) && !a.is(b.text()));
        assert!(!a.is("") && !a.is(&a.text()[1..]) && !a.is(&format!("{}0", a.text())));
    }
}
