//! The secrets of the site: the token, and the one-time ticket that yields the token.

use std::io;

use super::token::Token;

/// The secrets, and how often the ticket was used.
#[derive(Debug)]
pub(super) struct Access {
    /// The second replaces the first if that must be revoked.
    tokens: [Token; 2],
    /// For the browser that whyslow starts.
    ticket: Token,
    progress: Progress,
}

/// How often the ticket was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Progress {
    /// Never.
    Closed,
    /// Once: the browser has the token.
    Opened,
    /// Twice: another client knows the ticket, so its token is revoked and replaced.
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

    /// The token that addresses must have.
    pub(super) fn token(&self) -> &Token {
        &self.tokens[usize::from(self.progress == Progress::Revoked)]
    }

    pub(super) fn ticket(&self) -> &Token {
        &self.ticket
    }

    /// Uses a ticket. Returns the new progress; `None` if it is not the ticket.
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
    fn the_second_use_of_a_ticket_revokes_the_token() {
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
