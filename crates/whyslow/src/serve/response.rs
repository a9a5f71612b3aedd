//! The server's responses, and the headers of all of them.

use std::borrow::Cow;
use std::fmt::Write as _;

use whyslow_render::html::served_policy;

/// The status of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Ok,
    SeeOther,
    BadRequest,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    Timeout,
    HeaderTooLarge,
    Busy,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::SeeOther => "303 See Other",
            Self::BadRequest => "400 Bad Request",
            Self::Forbidden => "403 Forbidden",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::Timeout => "408 Request Timeout",
            Self::HeaderTooLarge => "431 Request Header Fields Too Large",
            Self::Busy => "503 Service Unavailable",
        }
    }
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Response<'a> {
    pub(super) status: Status,
    kind: &'static str,
    location: Option<String>,
    pub(super) body: Cow<'a, [u8]>,
}

impl<'a> Response<'a> {
    /// The requested content.
    pub(super) fn ok(kind: &'static str, body: impl Into<Cow<'a, [u8]>>) -> Self {
        Self { status: Status::Ok, kind, location: None, body: body.into() }
    }

    /// A redirect.
    pub(super) fn see_other(location: String) -> Self {
        Self { location: Some(location), ..Self::refusal(Status::SeeOther, "") }
    }

    /// A refusal with its reason.
    pub(super) fn refusal(status: Status, why: &str) -> Self {
        let text = if why.is_empty() { String::new() } else { format!("whyslow view: {why}\n") };
        Self { status, kind: "text/plain; charset=utf-8", location: None, body: text.into_bytes().into() }
    }

    /// Everything before the body.
    pub(super) fn head(&self) -> String {
        let mut head = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\
             Cache-Control: no-store\r\nContent-Security-Policy: {}\r\nX-Content-Type-Options: nosniff\r\n\
             Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n\
             Cross-Origin-Opener-Policy: same-origin\r\n",
            self.status.line(),
            self.kind,
            self.body.len(),
            served_policy()
        );
        if self.status == Status::MethodNotAllowed {
            head.push_str("Allow: GET, HEAD\r\n");
        }
        if let Some(location) = &self.location {
            let _ = write!(head, "Location: {location}\r\n");
        }
        head.push_str("\r\n");
        head
    }
}
