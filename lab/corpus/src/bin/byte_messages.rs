//! Sends messages over a socket byte by byte.
//! planted: small-transfers, unbuffered-writes, unbuffered-reads
//! also: small-transfers
//! record: --syscalls
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

fn main() {
    let slow = lab_corpus::is_slow();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut receiver = listener.accept().unwrap().0;
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        receiver.read_to_end(&mut all).unwrap();
        all.iter().map(|byte| u64::from(*byte)).sum::<u64>()
    });
    for message in 0..6_000 {
        let text = format!("event {message} of the day\n");
        if slow {
            text.as_bytes().iter().for_each(|byte| sender.write_all(&[*byte]).unwrap());
        } else {
            sender.write_all(text.as_bytes()).unwrap();
        }
    }
    drop(sender);
    println!("{}", reader.join().unwrap());
}
