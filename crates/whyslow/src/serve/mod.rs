//! A small HTTP server for one viewer, on loopback only: one thread per request, everything in memory. The
//! only file is the one with the user's choice of an editor.

mod access;
mod clients;
mod doorway;
mod editor;
mod request;
mod response;
mod site;
#[cfg(test)]
mod tests;
mod token;

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use access::Progress;
use clients::{Clients, Place};
pub(crate) use doorway::Doorway;
pub(crate) use editor::Editor;
use request::Request;
use response::{Response, Status};
pub(crate) use site::{Content, Site};

/// Limits for clients.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Maximum bytes of a request.
    head_bytes: usize,
    /// Time to send a request.
    head_time: Duration,
    /// Time that an unauthenticated client has, even if others wait for its place.
    min_time: Duration,
    /// Time to receive the answer: a browser may be busy with the first part of a large profile.
    body_time: Duration,
    /// Concurrent clients that have not shown the token.
    unauthenticated: usize,
    /// Concurrent requests with the token.
    authenticated: usize,
    /// Stack of each client's thread, in bytes.
    stack: usize,
}

const LIMITS: Limits = Limits {
    head_bytes: 16 << 10,
    head_time: Duration::from_secs(3),
    min_time: Duration::from_millis(250),
    body_time: Duration::from_secs(300),
    unauthenticated: 64,
    authenticated: 64,
    stack: 2 << 20,
};

/// Time for a client to notice that its answer is complete.
const CLOSE_TIME: Duration = Duration::from_secs(5);

/// An open port that is not served yet.
#[derive(Debug)]
pub(crate) struct Server {
    listener: TcpListener,
    port: u16,
}

impl Server {
    /// Opens a port on loopback; 0 lets the system choose.
    pub(crate) fn bind(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    /// The port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Serves until the process exits.
    pub(crate) fn run(self, site: &Arc<Site>) -> ! {
        self.serve(site, LIMITS)
    }

    fn serve(self, site: &Arc<Site>, limits: Limits) -> ! {
        let clients = Arc::new(Clients::new(limits));
        loop {
            let Ok((stream, _)) = self.listener.accept() else {
                // Out of file descriptors, or the client has already disconnected.
                thread::sleep(Duration::from_millis(20));
                continue;
            };
            let stream = Arc::new(stream);
            let mut place = clients.admit(&stream);
            let thread = thread::Builder::new().name("whyslow-view".to_owned()).stack_size(limits.stack);
            let (served, client) = (Arc::clone(site), Arc::clone(&stream));
            // A client that breaks the protocol or disconnects is not an error of the server.
            let started = thread.spawn(move || {
                let _ = handle(&client, &mut place, &served, limits);
            });
            // Where no thread may be started, clients wait for each other.
            if started.is_err() {
                let _ = handle(&stream, &mut clients.admit(&stream), site, limits);
            }
        }
    }
}

fn handle(stream: &TcpStream, place: &mut Place, site: &Site, limits: Limits) -> io::Result<()> {
    let head = match read_head(stream, limits)? {
        Head::Whole(head) => head,
        Head::TooLong => {
            refuse(stream, &Response::refusal(Status::HeaderTooLarge, "the request is too long"), true);
            return Ok(());
        }
        Head::TooSlow => {
            refuse(stream, &Response::refusal(Status::Timeout, "the request took too long"), true);
            return Ok(());
        }
        Head::None => return Ok(()),
    };
    let Ok(request) = Request::parse(&head) else {
        refuse(stream, &Response::refusal(Status::BadRequest, "this is not a browser's request"), true);
        return Ok(());
    };
    let with_body = request.method != "HEAD";
    match site.answer(&request) {
        Err(refusal) => refuse(stream, &refusal, with_body),
        Ok(answer) if place.authenticate() => {
            send(stream, &answer, with_body, limits.body_time)?;
            finish(stream, CLOSE_TIME)?;
        }
        Ok(_) => {
            let busy = Response::refusal(Status::Busy, "too many requests at once; try again");
            refuse(stream, &busy, with_body);
        }
    }
    Ok(())
}

/// The result of reading a request.
enum Head {
    Whole(Vec<u8>),
    TooLong,
    TooSlow,
    /// The client disconnected before the end.
    None,
}

/// Reads up to the empty line. The time limit is for the whole request: single bytes do not extend it.
fn read_head(mut stream: &TcpStream, limits: Limits) -> io::Result<Head> {
    const END: &[u8] = b"\r\n\r\n";
    let deadline = Instant::now() + limits.head_time;
    let mut head = Vec::new();
    let mut buffer = [0; 2048];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Head::TooSlow);
        }
        stream.set_read_timeout(Some(left))?;
        let count = match stream.read(&mut buffer) {
            Ok(0) => return Ok(Head::None),
            Ok(count) => count,
            Err(error) if is_timeout(&error) => return Ok(Head::TooSlow),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        // The end marker may have started in an earlier read.
        let seen = head.len().saturating_sub(END.len() - 1);
        head.extend_from_slice(&buffer[..count]);
        if let Some(at) = head[seen..].windows(END.len()).position(|window| window == END) {
            head.truncate(seen + at + END.len());
            return Ok(if head.len() > limits.head_bytes { Head::TooLong } else { Head::Whole(head) });
        }
        if head.len() > limits.head_bytes {
            return Ok(Head::TooLong);
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Sends an answer. The time limit is for the whole answer.
fn send(mut stream: &TcpStream, response: &Response<'_>, with_body: bool, time: Duration) -> io::Result<()> {
    let deadline = Instant::now() + time;
    let body = if with_body { &*response.body } else { &[] };
    for mut rest in [response.head().as_bytes(), body] {
        while !rest.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            stream.set_write_timeout(Some(left))?;
            match stream.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Sends a refusal. Refusals are short, so a client gets little time to read them.
fn refuse(stream: &TcpStream, refusal: &Response<'_>, with_body: bool) {
    const TIME: Duration = Duration::from_secs(1);
    // If this fails, the client has disconnected.
    let _ = send(stream, refusal, with_body, TIME);
    let _ = finish(stream, TIME);
}

/// Closes a connection so that the answer arrives: reads what the client still sends, because closing with
/// unread bytes would discard the answer.
fn finish(mut stream: &TcpStream, time: Duration) -> io::Result<()> {
    const MAX: usize = 256 << 10;
    stream.shutdown(Shutdown::Write)?;
    let deadline = Instant::now() + time;
    let mut buffer = [0; 4096];
    let mut drained = 0;
    while drained < MAX {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer)? {
            0 => break,
            count => drained += count,
        }
    }
    Ok(())
}
