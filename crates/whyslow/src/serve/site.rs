//! What the server serves, and the rules for access.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::access::{Access, Progress};
use super::editor::Editor;
use super::request::Request;
use super::response::{Response, Status};
use super::token::Token;

/// Everything that can be requested, all in memory.
#[derive(Debug)]
pub(crate) struct Content {
    /// The page.
    pub(crate) page: String,
    /// The viewer's script.
    pub(crate) script: &'static str,
    /// The viewer's style.
    pub(crate) style: &'static str,
    /// The profile.
    pub(crate) payload: Vec<u8>,
}

/// The content and its secrets.
#[derive(Debug)]
pub(crate) struct Site {
    pub(super) content: Content,
    /// The token in the page's addresses.
    page_token: Token,
    access: Mutex<Access>,
    /// Notified when the ticket is used.
    shown: Condvar,
    /// The port that serves it.
    pub(super) port: u16,
    /// The user's editor, the only thing that a page can change.
    editor: Editor,
}

impl Site {
    /// A site on a port, with new secrets. `content` gets the query that the addresses in the page end with.
    pub(crate) fn new(port: u16, editor: Editor, content: impl FnOnce(&str) -> Content) -> io::Result<Self> {
        let access = Access::new()?;
        let page_token = access.token().clone();
        let content = content(&format!("?token={}", page_token.text()));
        Ok(Self { content, page_token, access: Mutex::new(access), shown: Condvar::new(), port, editor })
    }

    /// The address for the user.
    pub(crate) fn address(&self) -> String {
        self.address_with("token", self.access().token())
    }

    /// An address that works once.
    pub(crate) fn address_with_ticket(&self) -> String {
        self.address_with("ticket", self.access().ticket())
    }

    fn address_with(&self, name: &str, secret: &Token) -> String {
        format!("http://127.0.0.1:{}/?{name}={}", self.port, secret.text())
    }

    /// Waits until the ticket was used that often. Returns false on timeout.
    pub(crate) fn wait_for(&self, progress: Progress, time: Duration) -> bool {
        let waited =
            self.shown.wait_timeout_while(self.access(), time, |access| access.progress() < progress);
        waited.unwrap_or_else(PoisonError::into_inner).0.progress() >= progress
    }

    fn access(&self) -> MutexGuard<'_, Access> {
        self.access.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers or refuses a request. The order matters: clients without access must not learn what exists.
    pub(super) fn answer(&self, request: &Request<'_>) -> Result<Response<'_>, Response<'_>> {
        let refuse = |status, why| Err(Response::refusal(status, why));
        if !self.is_this_server(request.host) {
            return refuse(Status::Forbidden, "this address is not served here");
        }
        let origin = request.origin.map(|origin| origin.strip_prefix("http://").unwrap_or(""));
        if origin.is_some_and(|origin| !self.is_this_server(origin)) {
            return refuse(Status::Forbidden, "requests from other sites are not allowed");
        }
        // Only a page of this server can change something: its requests name their origin.
        let keeps = (request.method, request.path) == ("POST", "/editor") && origin.is_some();
        if !keeps && !matches!(request.method, "GET" | "HEAD") {
            return refuse(Status::MethodNotAllowed, "only GET and HEAD are allowed");
        }
        let mut access = self.access();
        if let Some(ticket) = request.parameter("ticket")
            && (request.method, request.path) == ("GET", "/")
        {
            let progress = access.show(ticket);
            self.shown.notify_all();
            match progress {
                Some(Progress::Opened) => {
                    return Ok(Response::see_other(format!("/?token={}", access.token().text())));
                }
                Some(_) => {
                    return refuse(
                        Status::Forbidden,
                        "this one-time link was already used, so its address no longer works; the terminal where \
                         `whyslow view` runs shows a new one",
                    );
                }
                None => {}
            }
        }
        if !request.parameter("token").is_some_and(|token| access.token().is(token)) {
            return refuse(
                Status::Forbidden,
                "the token is missing or wrong; open the address that `whyslow view` printed last",
            );
        }
        if keeps {
            return match request.parameter("value").map(|value| self.editor.keep(value)) {
                Some(Ok(())) => Ok(Response::ok("application/json", self.editor.json())),
                _ => refuse(Status::BadRequest, "the choice of the editor cannot be kept"),
            };
        }
        match request.path {
            "/" => Ok(Response::ok("text/html; charset=utf-8", self.page(access.token()))),
            "/viewer.js" => {
                Ok(Response::ok("text/javascript; charset=utf-8", self.content.script.as_bytes()))
            }
            "/viewer.css" => Ok(Response::ok("text/css; charset=utf-8", self.content.style.as_bytes())),
            "/editor" => Ok(Response::ok("application/json", self.editor.json())),
            "/profile" => Ok(Response::ok("application/octet-stream", &*self.content.payload)),
            _ => Ok(Response::refusal(Status::NotFound, "this server has only the viewer")),
        }
    }

    /// The page with the user's editor; its parts are at addresses with this token.
    fn page(&self, token: &Token) -> Vec<u8> {
        const PLACE: &str = "<div id=\"app\"";
        let page = self.content.page.replacen(
            PLACE,
            &format!("{PLACE} data-editor=\"{}\"", self.editor.attribute()),
            1,
        );
        if *token == self.page_token {
            page.into_bytes()
        } else {
            page.replace(self.page_token.text(), token.text()).into_bytes()
        }
    }

    /// Whether a host and port are this server's. A foreign name that resolves to this machine is not.
    fn is_this_server(&self, host: &str) -> bool {
        let Some((name, port)) = host.rsplit_once(':') else { return false };
        matches!(name.to_ascii_lowercase().as_str(), "127.0.0.1" | "localhost")
            && port == self.port.to_string()
    }
}
