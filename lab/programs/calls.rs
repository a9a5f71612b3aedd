//! System calls of known kinds, numbers and sizes: a write per line, small reads, opens that fail, a sleep, a pipe, a loopback socket.
//!
//! Run: `calls [LINES=2000] [FOLDER=a temporary one]`, with at most 30,000 lines: a pipe holds a quarter of them
//!
//! THE KNOWN ANSWER: `save_rows` writes LINES times 12 bytes to FOLDER/rows-PID.txt, `load_rows` reads them back 12 bytes at a time, plus one read
//! at the end of the file. `look_for` fails to open LINES / 2 files. `pass_on` writes LINES / 4 times 8 bytes to a pipe, `take_over` reads them.
//! `ask` sends LINES / 8 times 6 bytes to a loopback socket and `answer`, on another thread, receives them. `rest` sleeps for the time in `rest_us`.

use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

#[inline(never)]
fn save_rows(path: &Path, lines: usize) {
    let mut file = File::create(path).unwrap();
    for _ in 0..lines {
        file.write_all(b"a row of it\n").unwrap();
    }
}

#[inline(never)]
fn load_rows(path: &Path) -> usize {
    let mut file = File::open(path).unwrap();
    let (mut row, mut bytes) = ([0; 12], 0);
    loop {
        match file.read(&mut row).unwrap() {
            0 => return bytes,
            more => bytes += more,
        }
    }
}

#[inline(never)]
fn look_for(folder: &Path, files: usize) {
    for _ in 0..files {
        assert!(File::open(folder.join("not there")).is_err());
    }
}

#[inline(never)]
fn pass_on(mut into: PipeWriter, messages: usize) {
    for _ in 0..messages {
        into.write_all(b"eight by").unwrap();
    }
}

#[inline(never)]
fn take_over(mut from: PipeReader, messages: usize) {
    let mut message = [0; 8];
    for _ in 0..messages {
        from.read_exact(&mut message).unwrap();
    }
}

#[inline(never)]
fn ask(mut peer: TcpStream, messages: usize) {
    for _ in 0..messages {
        peer.write_all(b"asking").unwrap();
    }
}

#[inline(never)]
fn answer(mut peer: TcpStream) {
    let mut all = Vec::new();
    peer.read_to_end(&mut all).unwrap();
}

#[inline(never)]
fn rest(time: Duration) {
    let start = Instant::now();
    thread::sleep(time);
    println!("rest_us {}", start.elapsed().as_micros());
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let lines: usize = arguments.next().map_or(2000, |lines| lines.parse().expect("a number of lines"));
    let folder = arguments.next().map_or_else(std::env::temp_dir, Into::into);
    let path = folder.join(format!("rows-{}.txt", std::process::id()));
    save_rows(&path, lines);
    assert_eq!(load_rows(&path), 12 * lines);
    look_for(&folder, lines / 2);
    let (from, into) = pipe().unwrap();
    pass_on(into, lines / 4);
    take_over(from, lines / 4);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let other = thread::spawn(move || answer(listener.accept().unwrap().0));
    ask(TcpStream::connect(address).unwrap(), lines / 8);
    other.join().unwrap();
    rest(Duration::from_millis(50));
    std::fs::remove_file(&path).unwrap();
    println!("port {}", address.port());
}
