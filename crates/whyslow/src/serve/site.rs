//! What is served, and to whom.

use std::sync::Mutex;

use super::request::Request;
use super::response::{Response, Status};
use super::token::Token;

/// Everything there is to get, all of it in memory.
#[derive(Debug)]
pub(crate) struct Site {
    /// The page.
    pub(crate) page: String,
    /// The viewer's script.
    pub(crate) script: &'static str,
    /// The viewer's style.
    pub(crate) style: &'static str,
    /// The profile.
    pub(crate) payload: Vec<u8>,
    /// What an address must have in it.
    pub(crate) token: Token,
    /// Opens the page once, in place of the token: the command line of a browser can be seen by other users.
    pub(crate) ticket: Mutex<Option<Token>>,
    /// The port it is served on.
    pub(crate) port: u16,
}

impl Site {
    /// The address for people.
    pub(crate) fn address(&self) -> String {
        format!("http://127.0.0.1:{}/?token={}", self.port, self.token.text())
    }

    /// An address that works once.
    pub(crate) fn address_with_ticket(&self) -> String {
        let ticket = self.ticket.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match ticket.as_ref() {
            Some(ticket) => format!("http://127.0.0.1:{}/?ticket={}", self.port, ticket.text()),
            None => self.address(),
        }
    }

    /// Answers a request. The order matters: those who may not ask do not learn what there is.
    pub(super) fn answer(&self, request: &Request<'_>) -> Response<'_> {
        if !self.is_ours(request.host) {
            return Response::refusal(Status::Forbidden, "this address is not served here");
        }
        let origin = request.origin.map(|origin| origin.strip_prefix("http://").unwrap_or(""));
        if origin.is_some_and(|origin| !self.is_ours(origin)) {
            return Response::refusal(Status::Forbidden, "other sites may not ask");
        }
        if !matches!(request.method, "GET" | "HEAD") {
            return Response::refusal(Status::MethodNotAllowed, "there is nothing to change here");
        }
        if self.is_ticket(request) {
            return Response::see_other(format!("/?token={}", self.token.text()));
        }
        if !request.parameter("token").is_some_and(|token| self.token.is(token)) {
            return Response::refusal(
                Status::Forbidden,
                "the token is missing or wrong; open the address that `whyslow view` printed",
            );
        }
        match request.path {
            "/" => Response::ok("text/html; charset=utf-8", self.page.as_bytes()),
            "/viewer.js" => Response::ok("text/javascript; charset=utf-8", self.script.as_bytes()),
            "/viewer.css" => Response::ok("text/css; charset=utf-8", self.style.as_bytes()),
            "/profile" => Response::ok("application/octet-stream", &self.payload),
            _ => Response::refusal(Status::NotFound, "there is only the viewer here"),
        }
    }

    /// Whether a host and port are this server's. A name from elsewhere that leads here is not.
    fn is_ours(&self, host: &str) -> bool {
        let Some((name, port)) = host.rsplit_once(':') else { return false };
        matches!(name.to_ascii_lowercase().as_str(), "127.0.0.1" | "localhost")
            && port == self.port.to_string()
    }

    /// Whether the request has the ticket, which is void from then on.
    fn is_ticket(&self, request: &Request<'_>) -> bool {
        let Some(shown) = request.parameter("ticket") else { return false };
        let mut ticket = self.ticket.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let fits = (request.method, request.path) == ("GET", "/")
            && ticket.as_ref().is_some_and(|ticket| ticket.is(shown));
        if fits {
            *ticket = None;
        }
        fits
    }
}
