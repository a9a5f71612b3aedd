//! Tasks of async Rust reach the viewer: their chains, and the task of each stack.

use whyslow_analyze::testing;
use whyslow_profile::{Metric, Profile, Samples, StackId, ThreadId};
use whyslow_render::html::{Page, write_payload};

use crate::decoder::Payload;

const WORKER: &str = "w: clone3;tokio::runtime::scheduler::multi_thread::worker::run";
const POLL: &str = "tokio::runtime::task::harness::poll;tokio::runtime::task::core::poll";

fn payload(profile: &Profile) -> Payload {
    let mut bytes = Vec::new();
    write_payload(&Page::new(profile, "run.whyslow"), &mut bytes).unwrap();
    Payload::decode(&bytes)
}

/// A task that awaits, one that reads a file on its worker thread, the executor itself, a call that may
/// block, and unrelated code.
fn tasks() -> (Profile, Vec<StackId>) {
    let mut profile = testing::profile(&format!(
        "{WORKER};{POLL};async fn app::request;async fn app::middle;app::spin 1
         {WORKER};{POLL};async fn app::request;std::fs::read;sys_folio_wait_bit 1
         {WORKER};tokio::runtime::scheduler::multi_thread::worker::steal 1
         b: clone3;tokio::runtime::blocking::pool::Inner::run;tokio::runtime::task::raw::poll;app::compress 1
         main: app::main 1"
    ));
    let stacks = profile.samples[0].stack.clone();
    let mut waits = Samples::default();
    waits.push(40_000_000, ThreadId(0), stacks[1], 30_000_000);
    profile.set_metric(Metric::off_cpu_time(), waits);
    (profile, stacks)
}

#[test]
fn every_stack_names_its_task() {
    let (profile, stacks) = tasks();
    let payload = payload(&profile);
    let places = payload.u32("stacks.place");
    let place = |row: usize| places[stacks[row].index()];
    assert_eq!([place(2), place(3), place(4)], [1, 2, 0], "executor, thread that may block, neither");
    let (names, chains) = (payload.texts("functions.name"), payload.u32("chains.functions"));
    let functions = payload.u32("chain_functions.function");
    let chain = |row: usize| {
        let chain = (place(row) - 3) as usize;
        let of_chain = &functions[chains[chain] as usize..chains[chain + 1] as usize];
        of_chain.iter().map(|function| names[*function as usize].clone().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(chain(0), ["async fn app::request", "async fn app::middle"]);
    assert_eq!(chain(1), ["async fn app::request"]);
    assert_eq!(payload.texts("tasks.executor"), [Some("tokio".to_owned())], "both are of one task");
    assert_eq!(payload.u32("chains.task"), [0, 0]);
}

#[test]
fn waits_that_block_a_worker_name_the_callee() {
    let (profile, stacks) = tasks();
    let payload = payload(&profile);
    assert_eq!(payload.u32("blocking.stack"), [stacks[1].0]);
    let call = payload.u32("blocking.call")[0] as usize;
    assert_eq!(payload.texts("functions.name")[call].as_deref(), Some("std::fs::read"));
}

#[test]
fn without_tasks_there_is_nothing() {
    let payload = payload(&testing::profile("main;f 1"));
    assert!(!payload.names().iter().any(|name| name.starts_with("tasks.") || *name == "stacks.place"));
}
