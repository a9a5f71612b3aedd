//! One wait of each kind, one after the other. The program measures each of them.
//!
//! Run: `waits [MS=100]`
//!
//! THE KNOWN ANSWER: the lines `FUNCTION_us N`: the main thread waits N microseconds in FUNCTION, for
//! what its name says. It computes for a few milliseconds in between. The mutex is the variable `LOCK`,
//! and the one-time initialisation is `ONCE`. The reader-writer lock is on the heap and has no name.

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, Once, RwLock};
use std::thread::{self, sleep, spawn};
use std::time::{Duration, Instant};

/// Keeps the main thread busy until another thread has what it will wait for.
#[inline(never)]
fn compute(time: Duration) {
    let (start, mut x) = (Instant::now(), 1u64);
    while start.elapsed() < time {
        for _ in 0..1000 {
            x ^= x << 13;
            x ^= x >> 7;
        }
    }
    black_box(x);
}

const BEFORE: Duration = Duration::from_millis(5);

/// Set by the thread that holds what the main thread will wait for.
static HELD: AtomicBool = AtomicBool::new(false);

/// Computes until another thread holds what the main thread will wait for.
fn compute_until_held() {
    while !HELD.swap(false, Ordering::AcqRel) {
        compute(BEFORE);
    }
}

fn timed(name: &str, wait: impl FnOnce()) {
    let start = Instant::now();
    wait();
    println!("{name}_us {}", start.elapsed().as_micros());
}

#[inline(never)]
fn wait_sleep(time: Duration) {
    timed("wait_sleep", || sleep(time));
}

/// The lock with a name.
static LOCK: Mutex<u64> = Mutex::new(0);

#[inline(never)]
fn wait_lock(time: Duration) {
    let other = spawn(move || {
        let _held = LOCK.lock();
        HELD.store(true, Ordering::Release);
        sleep(time + BEFORE);
    });
    compute_until_held();
    timed("wait_lock", || *LOCK.lock().unwrap() += 1);
    other.join().unwrap();
}

#[inline(never)]
fn wait_rwlock(time: Duration) {
    let lock = Arc::new(RwLock::new(0));
    let writer = Arc::clone(&lock);
    let other = spawn(move || {
        let _held = writer.write();
        HELD.store(true, Ordering::Release);
        sleep(time + BEFORE);
    });
    compute_until_held();
    timed("wait_rwlock", || drop(lock.read().unwrap()));
    other.join().unwrap();
}

#[inline(never)]
fn wait_once(time: Duration) {
    static ONCE: Once = Once::new();
    let other = spawn(move || {
        ONCE.call_once(|| {
            HELD.store(true, Ordering::Release);
            sleep(time + BEFORE);
        });
    });
    compute_until_held();
    timed("wait_once", || ONCE.call_once(|| ()));
    other.join().unwrap();
}

#[inline(never)]
fn wait_condition(time: Duration) {
    let pair = Arc::new((Mutex::new(false), Condvar::new()));
    let signals = Arc::clone(&pair);
    let other = spawn(move || {
        sleep(time);
        *signals.0.lock().unwrap() = true;
        signals.1.notify_one();
    });
    timed("wait_condition", || {
        let mut done = pair.0.lock().unwrap();
        while !*done {
            done = pair.1.wait(done).unwrap();
        }
    });
    other.join().unwrap();
}

#[inline(never)]
fn wait_park(time: Duration) {
    let main = thread::current();
    let other = spawn(move || {
        sleep(time);
        main.unpark();
    });
    timed("wait_park", thread::park);
    other.join().unwrap();
}

#[inline(never)]
fn wait_join(time: Duration) {
    let other = spawn(move || sleep(time));
    timed("wait_join", || other.join().unwrap());
}

#[inline(never)]
fn wait_channel(time: Duration) {
    let (sender, receiver) = channel();
    let other = spawn(move || {
        sleep(time);
        sender.send(1).unwrap();
    });
    timed("wait_channel", || {
        black_box(receiver.recv().unwrap());
    });
    other.join().unwrap();
}

#[inline(never)]
fn wait_pipe(time: Duration) {
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    let other = spawn(move || {
        sleep(time);
        writer.write_all(b"x").unwrap();
    });
    timed("wait_pipe", || reader.read_exact(&mut [0]).unwrap());
    other.join().unwrap();
}

#[inline(never)]
fn wait_network(time: Duration) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let other = spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        sleep(time);
        peer.write_all(b"x").unwrap();
    });
    let mut stream = TcpStream::connect(address).unwrap();
    timed("wait_network", || stream.read_exact(&mut [0]).unwrap());
    other.join().unwrap();
}

#[inline(never)]
fn wait_child(time: Duration) {
    let mut child = Command::new("sleep").arg(time.as_secs_f64().to_string()).spawn().unwrap();
    timed("wait_child", || assert!(child.wait().unwrap().success()));
}

fn main() {
    let ms = std::env::args().nth(1).map_or(100, |a| a.parse().expect("milliseconds"));
    let time = Duration::from_millis(ms);
    for wait in [
        wait_sleep,
        wait_lock,
        wait_rwlock,
        wait_once,
        wait_condition,
        wait_park,
        wait_join,
        wait_channel,
        wait_pipe,
        wait_network,
        wait_child,
    ] {
        wait(time);
        compute(BEFORE);
    }
}
