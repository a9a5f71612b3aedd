//! Patterns of system calls.

use std::hint::black_box;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use crate::{Recorded, compute};

pub const PAIRS: &[Recorded] = &[
    ("small-transfers", "--syscalls", sends_every_byte, sends_the_message),
    ("syscall-per-item", "--syscalls", asks_every_time, asks_once),
];

#[inline(never)]
fn sends_every_byte() {
    let (mut one, mut other) = UnixStream::pair().expect("sockets");
    for _ in 0..100 {
        for byte in 0..100u8 {
            one.write_all(&[byte; 8]).expect("room"); // here: small-transfers
        }
        other.read_exact(&mut [0; 800]).expect("a message");
    }
}

#[inline(never)]
fn sends_the_message() {
    let (mut one, mut other) = UnixStream::pair().expect("sockets");
    for _ in 0..100 {
        let message = (0..100u8).flat_map(|byte| [byte; 8]).collect::<Vec<_>>();
        one.write_all(&message).expect("room");
        other.read_exact(&mut [0; 800]).expect("a message");
        black_box(compute(200_000));
    }
}

#[inline(never)]
fn asks_every_time() {
    for _ in 0..10_000 {
        black_box(std::fs::metadata("/proc/self/exe").is_ok()); // here: syscall-per-item
    }
}

#[inline(never)]
fn asks_once() {
    let is_there = std::fs::metadata("/proc/self/exe").is_ok();
    for _ in 0..10_000 {
        black_box(is_there);
        black_box(compute(200));
    }
}
