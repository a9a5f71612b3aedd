//! Tests of the server over real loopback connections.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::*;

/// The time for a request is long, so that a machine that stalls briefly changes nothing.
const SMALL: Limits = Limits { head_bytes: 1024, head_time: Duration::from_secs(60), ..LIMITS };

/// A server per test. It runs until the test's process exits.
struct Running {
    site: Arc<Site>,
    /// The user's configuration.
    _folder: tempfile::TempDir,
}

impl Running {
    fn start(limits: Limits) -> Self {
        let server = Server::bind(0).unwrap();
        let content = |query: &str| Content {
            page: format!("<!doctype html>page{query}"),
            script: "script",
            style: "style",
            payload: (0..3_000_000u32).map(|number| (number >> 3) as u8).collect(),
        };
        let folder = tempfile::tempdir().unwrap();
        let editor = Editor::in_file(folder.path().join("editor.json"));
        let site = Arc::new(Site::new(server.port(), editor, content).unwrap());
        let served = Arc::clone(&site);
        thread::spawn(move || server.serve(&served, limits));
        Self { site, _folder: folder }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.site.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Sends bytes and returns the whole answer.
    fn send(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect();
        // A server that has already refused may have closed the connection.
        let _ = stream.write_all(bytes);
        Answer::read(stream)
    }

    fn host(&self) -> String {
        format!("127.0.0.1:{}", self.site.port)
    }

    fn request(&self, method: &str, target: &str, headers: &str) -> Answer {
        self.send(format!("{method} {target} HTTP/1.1\r\n{headers}\r\n").as_bytes())
    }

    /// A request with the right host and token.
    fn get(&self, path: &str) -> Answer {
        self.request("GET", &self.with_token(path), &format!("Host: {}\r\n", self.host()))
    }

    fn token(&self) -> String {
        self.site.address().split_once("?token=").unwrap().1.to_owned()
    }

    /// The path and query of an address.
    fn target(&self, address: &str) -> String {
        address.strip_prefix(&format!("http://{}", self.host())).unwrap().to_owned()
    }

    fn with_token(&self, path: &str) -> String {
        format!("{path}?token={}", self.token())
    }
}

#[derive(Debug)]
struct Answer {
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn read(mut stream: TcpStream) -> Self {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").map_or(bytes.len(), |at| at + 4);
        let body = bytes.split_off(end);
        Self { head: String::from_utf8(bytes).unwrap(), body }
    }

    fn status(&self) -> u16 {
        self.head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(known, _)| *known == name).map(|(_, value)| value).next()
    }
}

#[test]
fn serves_the_viewer_and_the_profile() {
    let server = Running::start(LIMITS);
    for (path, kind, body) in [
        ("/", "text/html; charset=utf-8", server.site.content.page.as_bytes()),
        ("/viewer.js", "text/javascript; charset=utf-8", b"script"),
        ("/viewer.css", "text/css; charset=utf-8", b"style"),
        ("/profile", "application/octet-stream", &server.site.content.payload),
    ] {
        let answer = server.get(path);
        assert_eq!((answer.status(), answer.header("Content-Type")), (200, Some(kind)));
        assert!(answer.body == body, "{path}");
        assert_eq!(answer.header("Content-Length"), Some(body.len().to_string().as_str()));
    }
}

#[test]
fn every_answer_has_the_security_headers() {
    let server = Running::start(LIMITS);
    for answer in [server.get("/"), server.get("/profile"), server.get("/nothing"), server.send(b"?\r\n\r\n")]
    {
        assert_eq!(answer.header("Cache-Control"), Some("no-store"));
        assert_eq!(answer.header("X-Content-Type-Options"), Some("nosniff"));
        assert_eq!(answer.header("Referrer-Policy"), Some("no-referrer"));
        assert_eq!(answer.header("Content-Security-Policy"), Some(whyslow_render::html::served_policy()));
        assert!(answer.header("Access-Control-Allow-Origin").is_none());
    }
}

#[test]
fn refuses_everything_without_the_token() {
    let server = Running::start(LIMITS);
    let headers = format!("Host: {}\r\n", server.host());
    let token = &*server.token();
    for target in [
        "/".to_owned(),
        "/profile".to_owned(),
        "/nothing".to_owned(),
        "/?token=".to_owned(),
        format!("/?token={}", &token[1..]),
        format!("/?token={token}0"),
        format!("/?token={}", "0".repeat(32)),
        format!("/{token}/"),
        format!("/?x={token}"),
    ] {
        let answer = server.request("GET", &target, &headers);
        assert_eq!(answer.status(), 403, "{target}");
        assert!(!String::from_utf8_lossy(&answer.body).contains(token));
    }
}

#[test]
fn refuses_foreign_hosts() {
    let server = Running::start(LIMITS);
    let port = server.site.port;
    let status =
        |host: &str| server.request("GET", &server.with_token("/"), &format!("Host: {host}\r\n")).status();
    for host in [format!("127.0.0.1:{port}"), format!("localhost:{port}"), format!("LocalHost:{port}")] {
        assert_eq!(status(&host), 200, "{host}");
    }
    let wrong = [
        "127.0.0.1".to_owned(),
        format!("127.0.0.1:{}", port ^ 1),
        format!("127.0.0.1:0{port}"),
        format!("evil.example:{port}"),
        format!("127.0.0.1.evil.example:{port}"),
        format!("evil@127.0.0.1:{port}"),
        format!("[::1]:{port}"),
        format!("127.0.0.1:{port},evil.example"),
        String::new(),
    ];
    for host in wrong {
        assert_eq!(status(&host), 403, "{host}");
    }
    assert_eq!(server.request("GET", &server.with_token("/"), "").status(), 400);
}

#[test]
fn refuses_foreign_origins() {
    let server = Running::start(LIMITS);
    let status = |origin: &str| {
        let headers = format!("Host: {}\r\nOrigin: {origin}\r\n", server.host());
        server.request("GET", &server.with_token("/profile"), &headers).status()
    };
    let port = server.site.port;
    assert_eq!(status(&format!("http://127.0.0.1:{port}")), 200);
    assert_eq!(status(&format!("http://localhost:{port}")), 200);
    for origin in [
        "https://evil.example".to_owned(),
        "null".to_owned(),
        String::new(),
        format!("https://127.0.0.1:{port}"),
        format!("http://127.0.0.1:{}", port ^ 1),
        format!("http://127.0.0.1:{port}.evil.example"),
    ] {
        assert_eq!(status(&origin), 403, "{origin}");
    }
}

#[test]
fn serves_no_files() {
    let server = Running::start(LIMITS);
    for path in [
        "/../../../../etc/passwd",
        "/viewer.js/../../etc/passwd",
        "/..%2f..%2fetc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/etc/passwd",
        "/Cargo.toml",
        "/viewer.js/",
        "/./viewer.js",
        "/%2fprofile",
        "/profile%00",
        "/favicon.ico",
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status(), 404, "{path}");
        assert!(answer.body.len() < 100);
    }
}

#[test]
fn refuses_methods_other_than_get_and_head() {
    let server = Running::start(LIMITS);
    let headers = format!("Host: {}\r\nContent-Length: 100000\r\n", server.host());
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "get", "CONNECT"] {
        let request =
            format!("{method} {} HTTP/1.1\r\n{headers}\r\n{}", server.with_token("/"), "x".repeat(100_000));
        let answer = server.send(request.as_bytes());
        assert_eq!((answer.status(), answer.header("Allow")), (405, Some("GET, HEAD")), "{method}");
    }
}

#[test]
fn head_is_get_without_a_body() {
    let server = Running::start(LIMITS);
    let answer =
        server.request("HEAD", &server.with_token("/profile"), &format!("Host: {}\r\n", server.host()));
    assert_eq!((answer.status(), answer.header("Content-Length")), (200, Some("3000000")));
    assert!(answer.body.is_empty());
}

#[test]
fn refuses_long_requests() {
    let server = Running::start(SMALL);
    let long = format!("GET / HTTP/1.1\r\nHost: {}\r\nX: {}\r\n\r\n", server.host(), "x".repeat(5000));
    assert_eq!(server.send(long.as_bytes()).status(), 431);
    assert_eq!(server.send(&vec![b'x'; 200_000]).status(), 431);
    assert_eq!(server.get("/").status(), 200);
}

#[test]
fn closes_slow_clients() {
    let server = Running::start(Limits { head_time: Duration::from_millis(300), ..LIMITS });
    let mut stream = server.connect();
    stream.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    let mut writer = stream.try_clone().unwrap();
    // Single bytes must not keep the connection open.
    let dripping = thread::spawn(move || {
        for _ in 0..3000 {
            if writer.write_all(b"x").is_err() {
                return true;
            }
            thread::sleep(Duration::from_millis(20));
        }
        false
    });
    assert_eq!(Answer::read(stream).status(), 408);
    assert!(dripping.join().unwrap(), "the connection is closed");
    assert_eq!(Answer::read(server.connect()).status(), 408, "a silent client");
}

#[test]
fn clients_that_do_not_read_do_not_block_others() {
    let server = Running::start(Limits { body_time: Duration::from_millis(200), ..LIMITS });
    let idle: Vec<_> = (0..10)
        .map(|_| {
            let mut stream = server.connect();
            let request =
                format!("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", server.with_token("/profile"), server.host());
            stream.write_all(request.as_bytes()).unwrap();
            stream
        })
        .collect();
    // On a slow machine an answer may time out as well, but not every time.
    assert!((0..100).any(|_| server.get("/").status() == 200));
    drop(idle);
}

#[test]
fn survives_garbage() {
    let server = Running::start(SMALL);
    for garbage in [
        &b"\r\n\r\n"[..],
        b"\0\0\0\0\r\n\r\n",
        b"GET\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
    ] {
        assert_eq!(server.send(garbage).status(), 400);
    }
    // Connections that close at once, or in the middle.
    drop(server.connect());
    server.connect().write_all(b"GET / HT").unwrap();
    assert_eq!(server.get("/").status(), 200);
}

#[test]
fn answers_concurrent_requests() {
    let server = Running::start(LIMITS);
    thread::scope(|scope| {
        for _ in 0..24 {
            scope.spawn(|| {
                let answer = server.get("/profile");
                assert!(answer.status() == 200 && answer.body == server.site.content.payload);
            });
        }
    });
}

#[test]
fn slow_unauthenticated_clients_do_not_block_others() {
    let server = Running::start(LIMITS);
    let begin = || {
        let mut stream = server.connect();
        stream.write_all(b"GET / HTTP/1.1\r\nX: ").unwrap();
        stream
    };
    let slow: Vec<_> = (0..2 * LIMITS.unauthenticated).map(|_| begin()).collect();
    thread::scope(|scope| {
        let honest: Vec<_> = (0..48).map(|_| scope.spawn(|| server.get("/profile").status())).collect();
        for request in honest {
            assert_eq!(request.join().unwrap(), 200);
        }
    });
    drop(slow);
}

#[test]
fn new_connections_do_not_drop_authenticated_clients() {
    let server = Running::start(Limits { unauthenticated: 1, min_time: Duration::ZERO, ..SMALL });
    let mut authenticated = server.connect();
    let target = server.with_token("/profile");
    write!(authenticated, "GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n", server.host()).unwrap();
    let mut first = [0; 12];
    authenticated.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    // Each connection drops the one before.
    let others: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for other in &others[..19] {
        assert_eq!(Answer::read(other.try_clone().unwrap()).head, "");
    }
    assert_eq!(Answer::read(authenticated).body, server.site.content.payload);
}

#[test]
fn too_many_requests_get_503_and_later_ones_are_served() {
    let server = Running::start(Limits { authenticated: 2, ..SMALL });
    let begin = || {
        let mut stream = server.connect();
        let target = server.with_token("/profile");
        write!(stream, "GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n", server.host()).unwrap();
        stream.read_exact(&mut [0; 12]).unwrap();
        stream
    };
    // Their answers do not fit the socket buffers, so sending blocks until they are read.
    let waiting = [begin(), begin()];
    assert_eq!(server.get("/").status(), 503);
    drop(waiting);
    let served = (0..3000).any(|_| {
        thread::sleep(Duration::from_millis(20));
        server.get("/").status() == 200
    });
    assert!(served);
}

#[test]
fn a_ticket_opens_the_page_once() {
    let server = Running::start(LIMITS);
    let target = server.target(&server.site.address_with_ticket());
    let headers = format!("Host: {}\r\n", server.host());
    assert!(!target.contains(&server.token()));
    assert_eq!(server.request("HEAD", &target, &headers).status(), 403);
    assert!(!server.site.wait_for(Progress::Opened, Duration::ZERO));
    let answer = server.request("GET", &target, &headers);
    assert_eq!((answer.status(), answer.header("Location")), (303, Some(server.with_token("/").as_str())));
    assert!(server.site.wait_for(Progress::Opened, Duration::ZERO));
    assert_eq!(server.get("/").status(), 200);
}

#[test]
fn using_a_ticket_twice_revokes_the_token() {
    let server = Running::start(LIMITS);
    let target = server.target(&server.site.address_with_ticket());
    let headers = format!("Host: {}\r\n", server.host());
    let stolen = server.request("GET", &target, &headers).header("Location").unwrap().to_owned();
    assert_eq!(server.request("GET", &stolen, &headers).status(), 200);
    assert!(!server.site.wait_for(Progress::Revoked, Duration::ZERO));
    let second = server.request("GET", &target, &headers);
    assert_eq!((second.status(), second.header("Location")), (403, None));
    assert!(String::from_utf8(second.body).unwrap().contains("the terminal"));
    assert!(server.site.wait_for(Progress::Revoked, Duration::ZERO));
    for part in ["/", "/profile", "/viewer.js"] {
        let old = stolen.replacen('/', part, 1);
        assert_eq!(server.request("GET", &old, &headers).status(), 403, "{old}");
    }
    // The new address works, and so do the addresses in its page.
    let page = server.get("/");
    assert_eq!(page.status(), 200);
    assert_eq!(page.body, format!("<!doctype html>page?token={}", server.token()).into_bytes());
    assert_ne!(server.target(&server.site.address()), stolen);
    assert_eq!(server.request("GET", &target, &headers).status(), 403);
}

#[test]
fn listens_on_loopback_only() {
    let server = Server::bind(0).unwrap();
    assert_eq!(server.listener.local_addr().unwrap(), SocketAddr::from((Ipv4Addr::LOCALHOST, server.port())));
    // Other addresses of this machine do not answer.
    assert!(TcpStream::connect(("127.0.0.2", server.port())).is_err());
}

#[test]
fn a_page_of_this_server_keeps_the_editor_and_nobody_else_does() {
    let server = Running::start(SMALL);
    let value: String =
        br#"{"address":"zed:{path}","folder":""}"#.iter().map(|byte| format!("{byte:02x}")).collect();
    let keep = |query: &str, headers: &str| {
        let host = format!("Host: {}\r\n", server.host());
        server
            .request("POST", &format!("/editor{query}"), &format!("{host}{headers}Content-Length: 0\r\n"))
            .status()
    };
    let (token, own) = (server.token(), format!("Origin: http://{}\r\n", server.host()));
    let right = format!("?token={token}&value={value}");
    assert_eq!(keep(&format!("?value={value}"), &own), 403, "without the token");
    assert_eq!(keep(&right, "Origin: http://evil.example\r\n"), 403, "another site");
    assert_eq!(keep(&right, ""), 405, "without an origin");
    assert_eq!(keep(&format!("?token={token}&value=7b"), &own), 400, "not a choice");
    assert_eq!(server.get("/editor").body, br#"{"address":"","folder":""}"#);
    assert_eq!(keep(&right, &own), 200);
    assert_eq!(server.get("/editor").body, br#"{"address":"zed:{path}","folder":""}"#);
}

#[test]
fn without_threads_clients_are_served_in_turn() {
    let server = Running::start(Limits { stack: 1 << 60, ..SMALL });
    assert_eq!([server.get("/").status(), server.get("/profile").status()], [200, 200]);
}
