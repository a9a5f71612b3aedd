//! The cases: small profiles that are hard to get right, and the selections to answer for.

use whyslow_analyze::testing;
use whyslow_profile::{Lengths, Metric, Profile, Syscalls, ThreadId};

use crate::scenes::{MS, Scene, US, Waker};

/// A profile, and what is asked.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) profile: Profile,
    pub(crate) selections: Vec<Wanted>,
    /// Functions whose lines are asked for.
    pub(crate) lines_of: &'static [&'static str],
}

/// A part of a profile.
#[derive(Debug, Default, Clone)]
pub(crate) struct Wanted {
    pub(crate) time_ns: Option<(u64, u64)>,
    /// Rows of threads; empty for all.
    pub(crate) threads: Vec<usize>,
}

/// All of it, two ranges, the first of these threads, and that in the second range.
fn parts(first: (u64, u64), second: (u64, u64), threads: &[usize]) -> Vec<Wanted> {
    let all = Wanted::default();
    let threads = threads.to_vec();
    vec![
        all.clone(),
        Wanted { time_ns: Some(first), ..all.clone() },
        Wanted { time_ns: Some(second), ..all.clone() },
        Wanted { threads: threads.clone(), ..all },
        Wanted { time_ns: Some(second), threads },
    ]
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "waits",
            profile: waits(),
            selections: parts((20 * MS + 7, 71 * MS), (33 * MS, 33 * MS + 500 * US), &[1]),
            lines_of: &["app::work"],
        },
        Case {
            name: "idle-first",
            profile: idle_first(),
            selections: parts((100 * MS, 300 * MS), (250 * MS, 900 * MS), &[0]),
            lines_of: &[],
        },
        Case {
            name: "locks",
            profile: locks(),
            selections: parts((0, 70 * MS), (82 * MS, 120 * MS), &[0, 1]),
            lines_of: &[],
        },
        Case {
            name: "tasks",
            profile: tasks(),
            selections: parts((0, 45 * MS), (60 * MS, 130 * MS), &[1]),
            lines_of: &[],
        },
        Case {
            name: "samples",
            profile: samples(),
            selections: parts((300 * US, 4 * MS), (4 * MS, 9 * MS), &[0, 2]),
            lines_of: &["app::work"],
        },
        Case {
            name: "folding",
            profile: folding(),
            selections: parts((0, 30 * MS), (10 * MS, 90 * MS), &[1]),
            lines_of: &[],
        },
        Case {
            name: "recursion",
            profile: recursion(),
            selections: parts((0, 4 * MS), (3 * MS, 8 * MS), &[0]),
            lines_of: &["app::f", "app::even"],
        },
        Case {
            name: "lines",
            profile: lines(),
            selections: parts((0, 9 * MS), (5 * MS, 20 * MS), &[1]),
            lines_of: &["app::sum", "app::walk", "core::add", "dep::hash"],
        },
        Case {
            name: "syscalls",
            profile: syscalls(),
            selections: parts((0, 50 * MS), (50 * MS, 91 * MS), &[1]),
            lines_of: &[],
        },
    ]
}

/// Five threads of two processes. Times are not whole microseconds; several things happen within one.
fn waits() -> Profile {
    let mut scene = Scene::new(
        "app::main@app.rs:5;app::compute@app.rs:40
         app::main@app.rs:5;app::locked@app.rs:20;std::lock_contended;sys_futex_wait
         app::main@app.rs:5;app::nap@app.rs:12;std::thread::sleep;sys_hrtimer_nanosleep
         app::work@app.rs:28;std::copy
         app::work@app.rs:28;app::read@app.rs:30;std::read;sys_folio_wait_bit
         app::work@app.rs:29;std::send;sys_futex_wake
         app::work@app.rs:28;[queued for a CPU]
         helper::run@helper.rs:3;helper::parse@helper.rs:9
         helper::run@helper.rs:3;std::read;sys_pipe_read
         app::idle@app.rs:60;rayon_core::sleep::sleep;sys_futex_wait
         [not sampled]
         app::main@app.rs:6;std::thread::join;sys_futex_wait",
        100 * MS,
    );
    let [compute, lock, nap, copy, read, wake, preempted, parse, pipe, pool, not_sampled, join] =
        std::array::from_fn(|at| at);
    let helper = scene.process(200, "helper", 30 * MS + 1);
    let main = scene.thread(0, 100, "main", 0, None);
    let worker = scene.thread(0, 101, "worker", 2 * MS + 123, Some(95 * MS + 40));
    let child = scene.thread(helper.0, 200, "helper", 30 * MS + 1, Some(90 * MS));
    let pooled = scene.thread(0, 102, "pool", 0, None);
    let _unseen = scene.thread(0, 103, "unseen", 0, None);

    // The worker ends a wait 300 ns before it wakes main, and 400 ns after that waits again.
    scene.woken(main, 10 * MS + 17, 40 * MS + 700, lock, Waker::thread(worker, wake));
    scene.waited(worker, 20 * MS + 3, 40 * MS + 400, read);
    scene.waited(worker, 40 * MS + 1_100, 45 * MS + 9, read);
    scene.woken(main, 50 * MS, 60 * MS + 1, nap, Waker::interrupt());
    scene.woken(main, 60 * MS + 1, 62 * MS + 2, preempted, Waker::unknown());
    // Without a length: at the place of another wait's end, and while the thread runs.
    scene.woken(main, 62 * MS + 2, 62 * MS + 2, lock, Waker::thread(worker, wake));
    scene.woken(main, 64 * MS, 64 * MS, lock, Waker::thread(worker, wake));
    scene.woken(main, 66 * MS + 5, 88 * MS + 5, join, Waker::thread(worker, copy));
    // A waker that waits itself at that time, and a thread that the end of a wait started.
    scene.woken(worker, 50 * MS + 11, 58 * MS, read, Waker::thread(main, compute));
    scene.woken(worker, 70 * MS, 80 * MS + 33, pipe, Waker::thread(child, parse));
    scene.waited(worker, 80 * MS + 33, 81 * MS + 34, preempted);
    scene.waited(child, 33 * MS + 400 * US, 60 * MS + 250, pipe);
    scene.waited(pooled, 0, 100 * MS, pool);

    for (from, to, stack) in [(0, 10, compute), (41, 50, compute), (62, 66, compute), (89, 100, compute)] {
        scene.ran(main, from * MS + 211, to * MS + 211, stack, 700 * US);
    }
    for (from, to) in [(3, 20), (46, 50), (59, 70), (82, 95)] {
        scene.ran(worker, from * MS + 77, to * MS, copy, 900 * US);
    }
    scene.sample(worker, 93 * MS, not_sampled, 2 * MS);
    scene.ran(child, 30 * MS + 1, 33 * MS, parse, 500 * US);
    scene.ran(child, 61 * MS, 90 * MS, parse, MS);
    // At the very moment at which a wait begins, and at which one ends.
    scene.sample(main, 50 * MS, compute, 300 * US);
    scene.sample(main, 88 * MS + 5, compute, 300 * US);
    // Spans of threads and of all, nested, overlapping, empty, and at the ends of waits.
    for (name, thread, from, to) in [
        ("request", Some(main), 2 * MS + 7, 40 * MS + 700),
        ("request", Some(main), 41 * MS, 50 * MS),
        ("request", Some(worker), 15 * MS, 45 * MS + 9),
        ("request", None, 88 * MS + 5, 90 * MS),
        ("part", Some(main), 42 * MS, 45 * MS),
        ("part", Some(main), 44 * MS, 60 * MS + 1),
        ("part", Some(main), 44 * MS, 44 * MS),
        ("all", None, 0, 100 * MS),
    ] {
        scene.span(name, thread, from, to);
    }
    scene.finish()
}

/// The first thread is idle; two threads of a server it started do the work.
fn idle_first() -> Profile {
    let mut scene = Scene::new(
        "app::main@app.rs:5;std::process::wait;sys_do_wait
         app::main@app.rs:6
         server::main@server.rs:4;server::handle@server.rs:30
         server::main@server.rs:4;std::read;sys_tcp_recvmsg
         server::worker@server.rs:50;server::handle@server.rs:31
         server::worker@server.rs:50;std::lock_contended;sys_futex_wait",
        1000 * MS,
    );
    let [wait, main_runs, handle, recv, handle_too, lock] = std::array::from_fn(|at| at);
    let server = scene.process(300, "server", 5 * MS);
    let main = scene.thread(0, 100, "main", 0, None);
    let first = scene.thread(server.0, 300, "server", 5 * MS, None);
    let second = scene.thread(server.0, 301, "worker", 8 * MS, None);
    scene.woken(main, 6 * MS, 469 * MS, wait, Waker::interrupt());
    scene.woken(main, 471 * MS, 990 * MS, wait, Waker::thread(first, handle));
    scene.sample(main, 5 * MS, main_runs, 5 * MS);
    for round in 0..9 {
        let at = (100 * round + 50) * MS;
        // main's signal ends the wait: that is not what delays the server.
        let by = if round == 4 { Waker::thread(main, main_runs) } else { Waker::interrupt() };
        scene.woken(first, at, at + 20 * MS + 1, recv, by);
        scene.woken(second, at + 5 * MS, at + 40 * MS, lock, Waker::thread(first, handle));
        scene.ran(first, at + 20 * MS + 1, at + 90 * MS, handle, 10 * MS);
        scene.ran(second, at + 40 * MS, at + 95 * MS, handle_too, 11 * MS);
    }
    scene.finish()
}

/// Two locks with addresses and one without, several holders of one wait, and instances of a generic function.
fn locks() -> Profile {
    const MUTEX: u64 = 0x7f00_1000;
    const OTHER: u64 = 0x7f00_2000;
    let mutex = "std::sys::sync::mutex::futex::Mutex::lock_contended;sys_futex_wait";
    let rwlock = "std::sys::sync::rwlock::futex::RwLock";
    let mut scene = Scene::new(
        &format!(
            "app::main@app.rs:3;{mutex}
             app::main@app.rs:4;{mutex}
             app::hold@app.rs:50;std::drop
             app::hold@app.rs:60;std::drop
             app::write@app.rs:70;{rwlock}::write_contended;sys_futex_wait
             app::read@app.rs:71;{rwlock}::read_contended;sys_futex_wait
             app::old@app.rs:80;std::lock_contended;sys_futex_wait
             app::twin@app.rs:90;{mutex}
             app::twin_b@app.rs:90;{mutex}
             app::main@app.rs:9
             app::queue@app.rs:95;std::thread::park;sys_futex_wait"
        ),
        200 * MS,
    );
    let [lock, lock_too, hold, hold_too, write, read, old, twin, twin_b, runs, park] =
        std::array::from_fn(|at| at);
    // Two instances of one generic function: same name, file and line, with places of their own.
    let instance = |profile: &Profile, name: &str| {
        profile.functions.iter().position(|function| profile.text(function.name) == name).unwrap()
    };
    let (first, second) = (instance(&scene.profile, "app::twin"), instance(&scene.profile, "app::twin_b"));
    scene.profile.functions[second].name = scene.profile.functions[first].name;
    let [a, b, c, d] =
        std::array::from_fn(|at| scene.thread(0, 100 + at as u32, ["main", "a", "b", "c"][at], 0, None));

    // b holds the lock until 80 ms and hands it to a, which holds it until 85 ms: main has waited for both.
    scene.woken(b, 5 * MS, 80 * MS + 1, lock_too, Waker::thread(c, hold).on(MUTEX));
    scene.woken(a, MS, 85 * MS + 2, lock, Waker::thread(b, hold_too).on(MUTEX));
    scene.woken(d, 84 * MS, 99 * MS, lock, Waker::thread(a, hold).on(MUTEX));
    // A release outside of any wait, two at the same time, one by the waiter itself, one without a stack.
    scene.woken(b, 100 * MS, 110 * MS, lock, Waker::thread(b, hold).on(MUTEX));
    scene.woken(c, 100 * MS, 110 * MS, lock, Waker::thread(a, hold).on(MUTEX));
    scene.woken(d, 101 * MS, 112 * MS, lock_too, Waker::unknown().on(MUTEX));
    scene.woken(d, 113 * MS, 113 * MS, lock_too, Waker::thread(a, hold).on(MUTEX));
    scene.woken(c, 111 * MS, 119 * MS, lock_too, Waker::thread(a, hold_too).on(MUTEX));
    scene.woken(a, 120 * MS, 130 * MS, write, Waker::thread(c, hold).on(OTHER + 4));
    scene.woken(b, 121 * MS, 129 * MS, read, Waker::interrupt().on(OTHER));
    scene.waited(c, 130 * MS, 140 * MS, old);
    scene.waited(d, 135 * MS, 150 * MS, old);
    scene.woken(a, 150 * MS, 160 * MS, twin, Waker::unknown().on(0x7f00_3000));
    scene.woken(b, 150 * MS, 165 * MS, twin_b, Waker::thread(a, hold).on(0x7f00_3000));
    scene.waited(c, 150 * MS, 199 * MS, park);
    scene.ran(a, 0, MS, runs, MS);
    scene.ran(c, 80 * MS, 90 * MS, hold, MS);
    scene.finish()
}

/// Tasks that move between threads, through a library of others, block their worker, or await.
fn tasks() -> Profile {
    let worker = "clone3;tokio::runtime::scheduler::multi_thread::worker::run";
    let poll = "tokio::runtime::task::harness::poll;tokio::runtime::task::core::poll";
    let mut scene = Scene::new(
        &format!(
            "{worker};{poll};async fn app::request@app.rs:3;async fn app::middle@app.rs:9;app::spin@app.rs:12
             {worker};{poll};async fn app::request@app.rs:4;async fn app::other@app.rs:20;app::spin@app.rs:12
             {worker};{poll};async fn app::request@app.rs:5;std::fs::read;sys_folio_wait_bit
             {worker};tokio::runtime::scheduler::multi_thread::worker::steal
             clone3;tokio::runtime::blocking::pool::Inner::run;tokio::runtime::task::raw::poll;app::compress@app.rs:50
             {worker};{poll};async block in dep::serve@dep.rs:7;async fn app::handler@app.rs:30;app::spin@app.rs:13
             {worker};{poll};async block in dep::serve@dep.rs:7;dep::flush@dep.rs:9
             {worker};{poll};async fn app::request@app.rs:5;[queued for a CPU]
             app::main@app.rs:1
             {worker};{poll};async block in dep::serve@dep.rs:7;async fn app::handler@app.rs:31;std::thread::sleep;sys_hrtimer_nanosleep
             {worker};std::park;sys_futex_wait
             [not sampled]
             {worker};{poll};async fn app::request@app.rs:3;async block in dep::call@dep.rs:3;async fn app::inner@app.rs:60;async block in dep::last@dep.rs:8"
        ),
        200 * MS,
    );
    let [deep, flat, read, steal, blocking, handler, flush, queued, outside, sleep, park, missing, library] =
        std::array::from_fn(|at| at);
    let main = scene.thread(0, 100, "main", 0, None);
    let [w1, w2] = std::array::from_fn(|at| scene.thread(0, 101 + at as u32, ["w1", "w2"][at], 0, None));
    let other = scene.thread(0, 103, "blocking", 0, None);
    scene.ran(main, 0, 5 * MS, outside, MS);
    scene.ran(w1, 0, 60 * MS, deep, MS);
    scene.ran(w2, 0, 20 * MS, deep, MS);
    scene.ran(w2, 20 * MS, 40 * MS, flat, MS);
    scene.ran(w1, 60 * MS, 70 * MS, steal, MS);
    scene.ran(w2, 100 * MS, 130 * MS, handler, MS);
    scene.ran(w2, 130 * MS, 133 * MS, flush, MS);
    scene.ran(other, 0, 4 * MS, blocking, MS);
    scene.sample(w2, 140 * MS, missing, 2 * MS);
    scene.ran(w2, 141 * MS, 143 * MS, library, MS);
    scene.waited(w1, 70 * MS + 5, 110 * MS, read);
    scene.waited(w1, 112 * MS, 112 * MS + 900 * US, read);
    scene.waited(w1, 120 * MS, 160 * MS + 7, read);
    scene.waited(w1, 161 * MS, 166 * MS, queued);
    scene.waited(w2, 40 * MS, 53 * MS, sleep);
    scene.waited(w2, 60 * MS, 62 * MS, read);
    scene.waited(w2, 150 * MS, 200 * MS, park);
    scene.finish()
}

/// CPU samples alone: one thread, then three, with a pause, and a row of time without samples.
fn samples() -> Profile {
    let mut scene = Scene::new(
        "app::parse@app.rs:12
         app::work@app.rs:20;std::copy
         app::work@app.rs:21;+core::add@num.rs:5
         app::log@app.rs:30
         [not sampled]
         [truncated];app::work@app.rs:21
         [libz.so];[libz.so]
         [unknown]",
        12 * MS,
    );
    let [parse, copy, add, log, not_sampled, cut, library, unknown] = std::array::from_fn(|at| at);
    let [a, b, c] =
        std::array::from_fn(|at| scene.thread(0, 100 + at as u32, ["main", "a", "b"][at], 0, None));
    scene.ran(a, 0, 4 * MS, parse, 500 * US);
    scene.ran(b, 4 * MS, 9 * MS, copy, MS);
    scene.ran(b, 9 * MS, 10 * MS, log, 250 * US);
    scene.ran(c, 4 * MS + 300 * US, 9 * MS, add, 700 * US);
    scene.ran(a, 6 * MS, 7 * MS, cut, 500 * US);
    scene.sample(a, 9 * MS, not_sampled, 1_500 * US);
    scene.sample(c, 11 * MS, library, MS);
    scene.sample(c, 12 * MS, unknown, 10 * US);
    // More than the time since the sample before.
    scene.sample(b, 10 * MS + 100 * US, log, 2 * MS);
    scene.finish()
}

/// Start-up, thread starts, an executor on many paths, plumbing and panic catching, some of them notable.
fn folding() -> Profile {
    let start = "_start;__libc_start_main;__libc_start_call_main;std::rt::lang_start;__rust_try";
    let worker =
        "clone3;start_thread;std::thread::lifecycle::spawn;__rust_try;rayon_core::registry::main_loop";
    let join = "rayon_core::join::join;rayon_core::unwind::halt;rayon::iter::helper";
    let other = "rayon_core::join::join;rayon_core::job::execute;rayon::iter::helper";
    let tokio = "tokio::runtime::context::enter";
    let plumbing = "<core::iter::Map as core::iter::Iterator>::fold;core::iter::Iterator::for_each;+core::ops::FnMut::call_mut";
    testing::profile(&format!(
        "{start};app::main;app::load 10
         {start};app::main;{plumbing};app::load 5
         {start};std::rt::cleanup 1
         {start};app::main;std::panicking::try;__rust_try;app::risky 4
         w: {worker};{join};{other};app::render 20
         w: {worker};{other};{join};{join};app::render 25
         w: {worker};{other};app::left 10
         w: {worker};{other};{other} 2
         w: {worker};{join};{join};{join};{join};app::render;{join};app::inner;app::inner;app::inner 6
         v: {worker};std::thread::park;sys_futex_wait 3
         v: clone3;start_thread;app::c_thread 7
         v: {worker};{join};dep::alone;{join};{other};app::deep 3
         [truncated];{join};app::render 2
         w: {worker};{tokio};{join};{tokio};{join};app::mixed 3
         v: app::top;{tokio};rayon_core::join::join;rayon::iter::helper;app::p 5
         v: app::top;{tokio};app::q 5"
    ))
}

/// Recursion of one function and of several, with frames left out, without names, and where it is none.
fn recursion() -> Profile {
    let f = |times| ";app::f@app.rs:3".repeat(times);
    let turns = |times| ";app::even@app.rs:7;app::odd@app.rs:9".repeat(times);
    testing::profile(&format!(
        "app::main{};app::work 3
         app::main{};[recursion left out]{};app::work 2
         app::main;app::f@app.rs:3;app::f@app.rs:4 1
         app::main{};[recursion left out];app::odd@app.rs:9{};app::work 1
         app::main{} 1
         app::main;[libz.so];[libz.so];[libz.so];app::work 1
         app::call;app::main;app::call;app::run 1
         app::main;[recursion left out];app::work 1
         app::main;app::a;app::b;app::c;app::d;app::a;app::b;app::c;app::d;app::work 1
         app::main;app::a;app::b;app::c;app::d;app::e;app::a;app::b;app::c;app::d;app::e 1
         app::main;app::f@app.rs:3;+app::f@app.rs:5;+app::f@app.rs:5 2",
        f(50),
        f(11),
        f(4),
        turns(6),
        turns(3),
        turns(2)
    ))
}

/// Inlined functions of other files, a macro's lines, calls and recursion within a location.
fn lines() -> Profile {
    testing::profile(
        "app::main@main.rs:2;app::sum@sum.rs:12 3
         app::main@main.rs:2;app::sum@sum.rs:13;+core::add@num.rs:52 4
         app::main@main.rs:2;app::sum@sum.rs:14;dep::hash@hash.rs:4 2
         app::main@main.rs:2;app::sum@macro.rs:3;+core::add@num.rs:52;+core::wrap@num.rs:60 1
         app::main@main.rs:3;app::walk@walk.rs:7;app::walk@walk.rs:7;app::walk@walk.rs:6 5
         app::main@main.rs:3;app::walk@walk.rs:7;+app::sum@sum.rs:12;dep::hash@hash.rs:5 2
         app::main@main.rs:3;app::walk@walk.rs:6;+app::walk@walk.rs:6 1
         worker: app::job@main.rs:9;+app::sum@sum.rs:13;+core::add@num.rs:52;malloc 3
         worker: app::job@main.rs:9;app::sum 1
         worker: [truncated];app::walk@walk.rs:6 1",
    )
}

/// Calls of several kinds, on files, with errors, from several threads.
fn syscalls() -> Profile {
    let mut scene = Scene::new(
        "app::main@app.rs:3;std::write;sys_write
         app::load@app.rs:9;std::read;sys_read
         app::load@app.rs:9;std::poll;sys_poll
         dep::log@dep.rs:4;std::write;sys_write",
        100 * MS,
    );
    let main = scene.thread(0, 100, "main", 0, None);
    let other = scene.thread(0, 101, "other", 0, None);
    scene.ran(main, 0, 5 * MS, 0, MS);
    let stacks = scene.stacks();
    let mut call = |thread: ThreadId,
                    ms: u64,
                    at: usize,
                    name: &str,
                    file: Option<&str>,
                    error: Option<&str>,
                    times: &[u64]| {
        let profile = &mut scene.profile;
        let text = |profile: &mut Profile, text: &str| {
            let known = profile.strings.iter().position(|known| known == text);
            known.map_or_else(|| profile.strings.push(text), Into::into)
        };
        let mut lengths = Lengths::default();
        times.iter().for_each(|time| lengths.add(*time));
        let row = Syscalls {
            time_ns: ms * MS,
            thread,
            stack: stacks[at],
            call: text(profile, name),
            file: file.map(|file| text(profile, file)),
            error: error.map(|error| text(profile, error)),
            count: times.len() as u64,
            spread: 0,
            total_ns: times.iter().sum(),
            max_ns: times.iter().copied().max().unwrap_or(0),
            bytes: if error.is_some() { 0 } else { 10 * times.len() as u64 },
            lengths,
        };
        profile.syscalls.push(row);
    };
    call(main, 10, 0, "write", Some("/tmp/log"), None, &[100, 200, 5_000, 7]);
    call(main, 90, 0, "write", Some("/tmp/log"), None, &[1_000_000]);
    call(main, 40, 0, "write", Some("pipe"), Some("EAGAIN"), &[50, 60]);
    call(other, 50, 1, "read", Some("/tmp/data"), None, &[1_000, 1_100, 1_200]);
    call(other, 60, 1, "read", Some("/tmp/data"), Some("EINTR"), &[9]);
    call(other, 60, 2, "poll", None, None, &[40_000_000]);
    call(main, 91, 3, "write", None, None, &[300]);
    let mut profile = scene.finish();
    let rows = profile.syscalls.clone();
    let values: [fn(&Syscalls) -> u64; 3] = [|row| row.count, |row| row.total_ns, |row| row.bytes];
    for (metric, value) in Metric::of_syscalls().into_iter().zip(values) {
        let mut samples = whyslow_profile::Samples::default();
        rows.iter().for_each(|row| samples.push(row.time_ns, row.thread, row.stack, value(row)));
        profile.set_metric(metric, samples);
    }
    profile
}
