//! Parses the head of an HTTP/1 request. Refuses everything unusual: only browsers are expected.

/// A parsed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    /// As received: it is not decoded, so it cannot hide anything.
    pub(super) path: &'a str,
    query: &'a str,
    pub(super) host: &'a str,
    pub(super) origin: Option<&'a str>,
}

/// The error for a request that this server does not understand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

impl<'a> Request<'a> {
    /// Parses everything up to the empty line.
    pub(super) fn parse(head: &'a [u8]) -> Result<Self, Malformed> {
        let head = std::str::from_utf8(head).map_err(|_| Malformed)?;
        let head = head.strip_suffix("\r\n\r\n").ok_or(Malformed)?;
        if head.contains(|c: char| !matches!(c, ' '..='~' | '\r' | '\n' | '\t')) {
            return Err(Malformed);
        }
        let mut lines = head.split("\r\n");
        let (method, target) = request_line(lines.next().ok_or(Malformed)?)?;
        let (mut host, mut origin) = (None, None);
        for line in lines {
            let (name, value) = line.split_once(':').ok_or(Malformed)?;
            if name.is_empty() || !name.bytes().all(is_name_byte) || value.contains(['\r', '\n']) {
                return Err(Malformed);
            }
            let known = match name.to_ascii_lowercase().as_str() {
                "host" => &mut host,
                "origin" => &mut origin,
                _ => continue,
            };
            // Readers could disagree about which of two counts.
            if known.replace(value.trim_matches([' ', '\t'])).is_some() {
                return Err(Malformed);
            }
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Ok(Self { method, path, query, host: host.ok_or(Malformed)?, origin })
    }

    /// The value of a parameter in the address.
    pub(super) fn parameter(&self, name: &str) -> Option<&'a str> {
        self.query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|pair| pair.0 == name)
            .map(|pair| pair.1)
    }
}

fn request_line(line: &str) -> Result<(&str, &str), Malformed> {
    let mut words = line.split(' ');
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some(method), Some(target), Some("HTTP/1.0" | "HTTP/1.1"), None)
            if !method.is_empty() && method.bytes().all(is_name_byte) && target.starts_with('/') =>
        {
            Ok((method, target))
        }
        _ => Err(Malformed),
    }
}

/// Whether a byte may be in a method or a header name.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(head: &str) -> Result<Request<'_>, Malformed> {
        Request::parse(head.as_bytes())
    }

    #[test]
    fn parses_an_ordinary_request() {
        let head = "GET /profile?a=1&token=x&token=y HTTP/1.1\r\nhOST: 127.0.0.1:80 \r\nOrigin:http://a\r\nX: \r\n\r\n";
        let request = parse(head).unwrap();
        assert_eq!((request.method, request.path), ("GET", "/profile"));
        assert_eq!((request.host, request.origin), ("127.0.0.1:80", Some("http://a")));
        assert_eq!((request.parameter("token"), request.parameter("b")), (Some("x"), None));
    }

    #[test]
    fn nothing_is_decoded() {
        let request = parse("GET /%2e%2e/../viewer.js HTTP/1.0\r\nHost: h\r\n\r\n").unwrap();
        assert_eq!(request.path, "/%2e%2e/../viewer.js");
    }

    #[test]
    fn refuses_unusual_requests() {
        for head in [
            "",
            "\r\n\r\n",
            "GET\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a",
            "GET / HTTP/2\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
            "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET * HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nOrigin: a\r\nOrigin: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\0\r\n\r\n",
            "GET /\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n",
        ] {
            assert_eq!(parse(head), Err(Malformed), "{head:?}");
        }
        assert_eq!(Request::parse(b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n"), Err(Malformed));
    }
}
