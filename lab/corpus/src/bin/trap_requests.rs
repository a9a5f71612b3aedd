//! A client that sends a request and waits for its reply, and a server that does the reverse.
//! planted: nothing
//! record: --syscalls
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

fn main() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let mut peer = listener.accept().unwrap().0;
        let mut request = [0; 64];
        while let Ok(bytes @ 1..) = peer.read(&mut request) {
            request[..bytes].reverse();
            peer.write_all(&request[..bytes]).unwrap();
        }
    });
    let mut client = TcpStream::connect(address).unwrap();
    client.set_nodelay(true).unwrap();
    let mut reply = [0; 64];
    let mut sum = 0;
    for number in 0..25_000 {
        let request = format!("get {number}");
        client.write_all(request.as_bytes()).unwrap();
        let bytes = client.read(&mut reply).unwrap();
        sum += bytes;
    }
    drop(client);
    server.join().unwrap();
    println!("{sum}");
}
