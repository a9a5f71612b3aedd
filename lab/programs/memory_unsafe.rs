//! One memory error of each class that unsafe Rust makes easily.
//!
//! Run: `memory_unsafe CLASS`. `clean` has none, although it uses threads, a detached one too, panics that are caught,
//! files, programs that it starts, and exits through `process::exit`.
//!
//! THE KNOWN ANSWER: the error is at the line marked `at: CLASS`; the block it is about was allocated in the function
//! marked `allocated: CLASS`.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::{Arc, Mutex, mpsc};
use std::{fs, process, thread};

#[inline(never)]
fn make(length: usize) -> Vec<u32> {
    black_box((0..length as u32).collect())
}

#[inline(never)]
fn invalid_read() {
    let numbers = make(10);
    // SAFETY: none, that is the error.
    black_box(unsafe { *numbers.as_ptr().add(12) }); // at: invalid-read
}

#[inline(never)]
fn use_after_free() {
    let numbers = make(6);
    let pointer = black_box(numbers.as_ptr());
    drop(numbers);
    // SAFETY: none, that is the error.
    black_box(unsafe { *pointer.add(1) }); // at: use-after-free
}

#[inline(never)]
fn decision() {
    // SAFETY: the layout is not empty.
    let block = black_box(unsafe { alloc(Layout::new::<u64>()) }.cast::<u64>());
    // SAFETY: none, that is the error.
    if unsafe { block.read() } == 3 { // at: decision
        println!("three");
    }
    // SAFETY: allocated above.
    unsafe { dealloc(block.cast(), Layout::new::<u64>()) };
}

#[inline(never)]
fn double_free() {
    let text = black_box(String::from("twice"));
    // SAFETY: none, that is the error.
    let copy = unsafe { std::ptr::read(&text) };
    drop(black_box(text));
    drop(black_box(copy)); // at: double-free
}

#[inline(never)]
fn leak_definite() {
    std::mem::forget(black_box(vec![1_u8; 100])); // at: leak-definite
}

fn clean() {
    let total = Arc::new(Mutex::new(0));
    let adders: Vec<_> = (0..4)
        .map(|number| {
            let total = Arc::clone(&total);
            thread::Builder::new().name(format!("adder {number}")).spawn(move || *total.lock().unwrap() += number)
        })
        .collect();
    adders.into_iter().for_each(|adder| adder.unwrap().join().unwrap());
    let (sender, receiver) = mpsc::channel();
    let reader = thread::spawn(move || receiver.iter().sum::<i32>());
    (0..100).for_each(|number| sender.send(number).unwrap());
    drop(sender);
    println!("{} {} {:?}", total.lock().unwrap(), reader.join().unwrap(), thread::current().name());
    let squares: HashMap<u32, String> = (0..50).map(|number| (number, (number * number).to_string())).collect();
    println!("{}", squares.len());
    // A map keeps a pointer into the middle of its block only: what is alive at the exit is possibly lost.
    drop(squares);
    println!("{}", fs::metadata("/no/such/file").is_err());
    println!("{}", fs::read_dir("/").unwrap().count() > 0);
    println!("{}", process::Command::new("true").status().unwrap().success());
    println!("{}", std::panic::catch_unwind(|| panic!("caught")).is_err());
    thread::spawn(|| thread::park());
    thread::sleep(std::time::Duration::from_millis(50));
    process::exit(0);
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("invalid-read") => invalid_read(),
        Some("use-after-free") => use_after_free(),
        Some("decision") => decision(),
        Some("double-free") => double_free(),
        Some("leak-definite") => leak_definite(),
        _ => clean(),
    }
}
