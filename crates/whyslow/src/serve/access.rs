//! What opens the site: the token, and the ticket that gets the token once.

use std::io;

use super::token::Token;

/// What can be shown at the door, and what has been.
#[derive(Debug)]
pub(super) struct Access {
    /// The second one is for when the first must be taken back.
    tokens: [Token; 2],
    /// For the browser that whyslow starts.
    ticket: Token,
    progress: Progress,
}

/// How often the ticket has been shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Progress {
    /// Not yet.
    Closed,
    /// Once: whoever came has the token.
    Opened,
    /// Twice: somebody else knows the ticket, so the token it has opened is void, and another one is needed.
    Revoked,
}

impl Access {
    pub(super) fn new() -> io::Result<Self> {
        let tokens = [Token::random()?, Token::random()?];
        Ok(Self { tokens, ticket: Token::random()?, progress: Progress::Closed })
    }

    pub(super) fn progress(&self) -> Progress {
        self.progress
    }

    /// What an address must have in it.
    pub(super) fn token(&self) -> &Token {
        &self.tokens[usize::from(self.progress == Progress::Revoked)]
    }

    pub(super) fn ticket(&self) -> &Token {
        &self.ticket
    }

    /// Shows a ticket. Tells how far that brought it; `None` where it is not the ticket.
    pub(super) fn show(&mut self, text: &str) -> Option<Progress> {
        if !self.ticket.is(text) {
            return None;
        }
        self.progress = match self.progress {
            Progress::Closed => Progress::Opened,
            Progress::Opened | Progress::Revoked => Progress::Revoked,
        };
        Some(self.progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_use_of_a_ticket_takes_the_token_back() {
        let mut access = Access::new().unwrap();
        let (token, ticket) = (access.token().clone(), access.ticket().text().to_owned());
        assert_eq!(access.show(token.text()), None);
        assert_eq!(access.show(&ticket), Some(Progress::Opened));
        assert!(*access.token() == token);
        assert_eq!(access.show(&ticket), Some(Progress::Revoked));
        let second = access.token().clone();
        assert!(second != token && second.text() != ticket);
        assert_eq!(access.show(&ticket), Some(Progress::Revoked));
        assert!(*access.token() == second);
    }
}
