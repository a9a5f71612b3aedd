//! A server on two tokio workers, with a slow handler and a fast one, and its clients.
//!
//! Run: `causal_tokio [--units N=500] [--seconds S] [--scale FUNCTION=FACTOR]…`; functions: slow_handler, fast_handler.
//!
//! THE KNOWN ANSWER: each of two clients asks for a slow answer, then for a fast one, over TCP. For the slow one the server computes
//! 1.5 ms in `slow_handler` and waits 2 ms for a timer, for the fast one it computes 0.3 ms in `fast_handler`. A unit is such a pair, so
//! what a faster handler saves is measured by `cargo xtask bench --causal`.

#[path = "../../../programs/causal/shared.rs"]
#[allow(dead_code)]
mod shared;

use std::sync::Arc;
use std::time::Duration;

use shared::{Plan, Work, progress_unit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const CLIENTS: u64 = 2;
const SLOW: u8 = b's';
const FAST: u8 = b'f';

#[inline(never)]
fn slow_handler(steps: u64) {
    compute!(steps, 1);
}

#[inline(never)]
fn fast_handler(steps: u64) {
    compute!(steps, 2);
}

/// Answers the requests of one client until it hangs up.
async fn serve(mut stream: TcpStream, slow: Work, fast: Work) {
    let mut request = [0; 9];
    while stream.read_exact(&mut request).await.is_ok() {
        let mut round = [0; 8];
        round.copy_from_slice(&request[1..]);
        let round = u64::from_le_bytes(round);
        if request[0] == SLOW {
            slow_handler(slow.steps(round));
            tokio::time::sleep(Duration::from_millis(2)).await;
        } else {
            fast_handler(fast.steps(round));
        }
        stream.write_all(&request[..1]).await.expect("the client waits for the answer");
    }
}

async fn ask(stream: &mut TcpStream, what: u8, round: u64) {
    let mut request = [what; 9];
    request[1..].copy_from_slice(&round.to_le_bytes());
    stream.write_all(&request).await.expect("the server reads");
    let mut answer = [0];
    stream.read_exact(&mut answer).await.expect("the server answers");
    assert_eq!(answer[0], what);
}

async fn all(plan: Arc<Plan>) {
    let (slow, fast) = (plan.work("slow_handler", 1500), plan.work("fast_handler", 300));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).expect("a socket option");
            tokio::spawn(serve(stream, slow, fast));
        }
    });
    let clients = (0..CLIENTS).map(|client| {
        let plan = Arc::clone(&plan);
        tokio::spawn(async move {
            let mut stream = TcpStream::connect(address).await.expect("the server listens");
            stream.set_nodelay(true).expect("a socket option");
            for round in (client..).step_by(CLIENTS as usize) {
                ask(&mut stream, SLOW, round).await;
                ask(&mut stream, FAST, round).await;
                if !plan.goes_on(progress_unit()) {
                    break;
                }
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.expect("no client panics");
    }
}

fn main() {
    let plan = Arc::new(Plan::from_arguments(&["slow_handler", "fast_handler"], 500));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(all(Arc::clone(&plan)));
    plan.print();
}
