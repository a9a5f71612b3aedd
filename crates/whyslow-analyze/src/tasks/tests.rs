use whyslow_profile::{Metric, Samples, ThreadId};

use super::*;
use crate::own::Charges;
use crate::testing::{self, SAMPLE_NS};

/// A tokio worker, which is itself a closure on a thread for blocking calls.
const WORKER: &str = "w: clone3;tokio::runtime::blocking::pool::Inner::run;tokio::runtime::task::raw::poll;\
    tokio::runtime::blocking::task::poll;tokio::runtime::scheduler::multi_thread::worker::run";
const POLL: &str = "tokio::runtime::task::harness::poll;tokio::runtime::task::core::poll";

fn names(profile: &Profile, labels: &[Label]) -> Vec<String> {
    labels.iter().map(|label| labels::name(profile, *label).into_owned()).collect()
}

#[test]
fn finds_tasks_with_their_await_chains() {
    let profile = testing::profile(&format!(
        "{WORKER};{POLL};async fn app::request;async fn app::middle;<app::Row as core::future::Future>::poll;app::spin 60
         {WORKER};{POLL};async fn app::request;async fn app::other;app::spin 20
         {WORKER};{POLL};dep::connection::{{{{closure}}}};dep::read 10
         {WORKER};tokio::runtime::scheduler::multi_thread::worker::steal 5
         b: clone3;tokio::runtime::blocking::pool::Inner::run;tokio::runtime::task::raw::poll;tokio::runtime::blocking::task::poll;app::compress 4
         main: app::main;tokio::runtime::park::CachedParkThread::block_on;async block in app::main;app::spin 3
         main: app::main;app::prepare 2"
    ));
    let table = TaskTable::build(&profile, &Selection::default());
    let rows: Vec<_> = table
        .rows
        .iter()
        .map(|row| (labels::name(&profile, row.task), row.cost.cpu_ns / SAMPLE_NS))
        .collect();
    assert_eq!(
        rows,
        [
            ("async fn app::request".into(), 80),
            ("dep::connection::{{closure}}".into(), 10),
            ("async block in app::main".into(), 3)
        ]
    );
    assert_eq!(
        names(&profile, &table.rows[0].chains[0].functions),
        ["async fn app::request", "async fn app::middle", "<app::Row as core::future::Future>::poll"]
    );
    assert_eq!(table.rows[0].chains[0].cost.samples, 60);
    let parts = (table.cpu_ns, table.executor_ns, table.blocking_ns, table.total_ns);
    assert_eq!(parts, (93 * SAMPLE_NS, 5 * SAMPLE_NS, 4 * SAMPLE_NS, 104 * SAMPLE_NS));
    assert!(!table.has_waits && table.rows.iter().all(|row| row.executor == "tokio"));
}

/// A server's library polls the user's handlers, each a task of its own.
#[test]
fn handlers_are_tasks_and_library_frames_around_them_are_left_out() {
    let serve = "async block in dep::axum::Serve::into_future;<dep::hyper::Connection as core::future::Future>::poll;<dep::tower::Oneshot as core::future::Future>::poll";
    let profile = testing::profile(&format!(
        "{WORKER};{POLL};{serve};async fn app::hash;async fn app::inner;app::spin 60
         {WORKER};{POLL};{serve};async fn app::fetch;<dep::h2::Client as core::future::Future>::poll;<dep::tls::Read as core::future::Future>::poll 20
         {WORKER};{POLL};{serve};dep::parse 10
         {WORKER};{POLL};std::sync::atomic::fetch_sub 5
         {WORKER};{POLL};sys_irq 4"
    ));
    let table = TaskTable::build(&profile, &Selection::default());
    let rows: Vec<_> = table
        .rows
        .iter()
        .map(|row| {
            let awaited = names(&profile, &row.chains[0].awaited(&profile, row.task));
            (labels::name(&profile, row.task).into_owned(), awaited.join(" "), row.cost.cpu_ns / SAMPLE_NS)
        })
        .collect();
    let row = |task: &str, awaited: &str, ms| (task.to_owned(), awaited.to_owned(), ms);
    assert_eq!(
        rows,
        [
            row("async fn app::hash", "async fn app::inner", 60),
            row("async fn app::fetch", "<dep::tls::Read as core::future::Future>::poll", 20),
            row(
                "async block in dep::axum::Serve::into_future",
                "<dep::tower::Oneshot as core::future::Future>::poll",
                10
            ),
        ]
    );
    assert_eq!(table.executor_ns, 9 * SAMPLE_NS, "references and interrupts are not tasks");
}

/// Waits at these stacks, each of the given milliseconds.
fn waits(folded: &str) -> Profile {
    let mut profile = testing::profile(folded);
    let cpu = std::mem::take(&mut profile.samples[0]);
    let mut samples = Samples::default();
    for row in 0..cpu.len() {
        if row > 0 && cpu.stack[row] == cpu.stack[row - 1] {
            let last = samples.value.len() - 1;
            samples.value[last] += SAMPLE_NS;
        } else {
            samples.push(cpu.time_ns[row], ThreadId(0), cpu.stack[row], SAMPLE_NS);
        }
    }
    profile.set_metric(Metric::off_cpu_time(), samples);
    profile
}

fn blocked(folded: &str) -> Vec<String> {
    let profile = waits(folded);
    let charges = Charges::new(&profile, true);
    let found = BlockedWorker::find(&profile, &Selection::default(), &charges);
    let name = |label| labels::name(&profile, label);
    let words = |row: &BlockedWorker| {
        let call = (name(row.call), name(row.function), row.line);
        format!("{}: {} ms in {} from {}:{}", row.executor, row.total_ns / SAMPLE_NS, call.0, call.1, call.2)
    };
    found.iter().map(words).collect()
}

#[test]
fn a_blocking_call_is_listed_with_its_line() {
    assert_eq!(
        blocked(&format!(
            "{WORKER};{POLL};async fn app::handle@src/app.rs:40;std::fs::read;std::io::read;sys_pipe_read 812"
        )),
        ["tokio: 812 ms in std::fs::read from async fn app::handle:40"]
    );
    let profile = waits(&format!(
        "{WORKER};{POLL};async fn app::handle@src/app.rs:40;std::thread::sleep;sys_nanosleep 30"
    ));
    let table = TaskTable::build(&profile, &Selection::default());
    assert_eq!((table.rows[0].cost.blocked_ns, table.has_waits), (30 * SAMPLE_NS, true));
}

#[test]
fn idle_workers_short_locks_and_blocking_threads_block_no_worker() {
    let blocking = "b: clone3;tokio::runtime::blocking::pool::Inner::run;tokio::runtime::task::raw::poll;tokio::runtime::blocking::task::poll";
    for (why, folded) in [
        ("parked", format!("{WORKER};tokio::runtime::scheduler::multi_thread::worker::Context::park;std::Condvar::wait;sys_futex_wait 500")),
        ("its driver", format!("{WORKER};tokio::runtime::scheduler::multi_thread::park::x;dep::mio::poll;sys_ep_poll 500")),
        ("short in all", format!("{WORKER};{POLL};async fn app::handle;std::lock_contended;sys_futex_wait 9")),
        ("may block", format!("{blocking};app::compress;std::fs::read;sys_pipe_read 500")),
        ("asked for", format!("{WORKER};{POLL};async fn app::handle;tokio::task::blocking::block_in_place;app::f;std::fs::read;sys_pipe_read 500")),
        ("no worker", "main: app::main;tokio::runtime::park::CachedParkThread::block_on;async block in app::main;std::thread::sleep;sys_nanosleep 500".to_owned()),
        ("no executor", "main: app::main;std::thread::sleep;sys_nanosleep 500".to_owned()),
    ] {
        assert_eq!(blocked(&folded), Vec::<String>::new(), "{why}");
    }
    let current = "main: app::main;tokio::runtime::scheduler::current_thread::CoreGuard::block_on;tokio::task::coop::budget";
    assert_eq!(
        blocked(&format!("{current};async block in app::main;std::thread::sleep;sys_nanosleep 500")).len(),
        1
    );
}

#[test]
fn recognises_workers_of_other_executors() {
    let found = blocked(
        "w: std::thread::spawn;dep::x;async_executor::Executor::run;async_task::raw::RawTask::run;async fn app::handle;std::fs::read;sys_pipe_read 50",
    );
    assert_eq!(found, ["async-executor: 50 ms in std::fs::read from async fn app::handle:0"]);
}
