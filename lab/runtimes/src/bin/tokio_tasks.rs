//! Tasks on two tokio workers: some block their worker, one computes, the rest wait properly.
//!
//! Run: `tokio_tasks [MS=150]`
//!
//! THE KNOWN ANSWER: the lines `NAME_us N`: `sleep_on_worker` and `read_on_worker` block a worker for N microseconds, one in
//! `std::thread::sleep`, one in `std::fs::read` of an empty pipe. `inner` computes for N microseconds of CPU time, in the task `request`,
//! which awaits `middle`, which awaits it. The task `polite` waits for a timer, for a socket and for a blocking thread, and blocks no worker.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

fn timed<T>(name: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = work();
    println!("{name}_us {}", start.elapsed().as_micros());
    done
}

/// Blocks the worker that polls it.
async fn sleep_on_worker(time: Duration) {
    tokio::task::yield_now().await;
    timed("sleep_on_worker", || std::thread::sleep(time));
}

/// Blocks the worker that polls it, until another thread writes to the pipe.
async fn read_on_worker(pipe: PathBuf, time: Duration) -> usize {
    let writer = pipe.clone();
    let other = std::thread::spawn(move || {
        std::thread::sleep(time);
        std::fs::write(writer, b"x").unwrap();
    });
    tokio::task::yield_now().await;
    let read = timed("read_on_worker", || std::fs::read(&pipe).unwrap().len());
    other.join().unwrap();
    read
}

async fn request(time: Duration) -> u64 {
    tokio::task::yield_now().await;
    middle(time).await + 1
}

async fn middle(time: Duration) -> u64 {
    tokio::task::yield_now().await;
    inner(time).await ^ 1
}

async fn inner(time: Duration) -> u64 {
    let mut x = 1u64;
    let start = Instant::now();
    while start.elapsed() < time {
        x = spin(x);
        // Lets other tasks run.
        tokio::task::yield_now().await;
    }
    x
}

/// About a millisecond.
#[inline(never)]
fn spin(mut x: u64) -> u64 {
    for _ in 0..500_000 {
        x ^= x << 13;
        x ^= x >> 7;
    }
    black_box(x)
}

/// Waits without holding a worker.
async fn polite(time: Duration) {
    tokio::time::sleep(time).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let peer = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::time::sleep(time).await;
        stream.write_all(b"x").await.unwrap();
    });
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.read_exact(&mut [0]).await.unwrap();
    peer.await.unwrap();
    tokio::task::spawn_blocking(move || std::thread::sleep(time)).await.unwrap();
}

async fn all(pipe: &Path, time: Duration) {
    let tasks = [tokio::spawn(sleep_on_worker(time)), tokio::spawn(polite(time))];
    for task in tasks {
        task.await.unwrap();
    }
    let read = tokio::spawn(read_on_worker(pipe.to_owned(), time));
    assert_eq!(read.await.unwrap(), 1);
    black_box(tokio::spawn(request(time)).await.unwrap());
}

fn main() {
    let ms = std::env::args().nth(1).map_or(150, |a| a.parse().expect("milliseconds"));
    let pipe = std::env::temp_dir().join(format!("tokio_tasks-{}", std::process::id()));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(all(&pipe, Duration::from_millis(ms)));
    std::fs::remove_file(&pipe).unwrap();
}
