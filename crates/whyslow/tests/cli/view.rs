//! `whyslow view`: the page as a file, and the server.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::harness::{Folder, outcome};

const STACKS: &str = "main@app.rs:3;parse@app.rs:10;std::read 60\nworker: main@app.rs:3;parse@app.rs:11 10";

/// A running `whyslow view`, killed at the end of the test.
struct Viewer {
    child: Child,
    address: String,
}

impl Viewer {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Self { child, address: address.trim_end().to_owned() }
    }

    /// `127.0.0.1:PORT` and `/?token=…`.
    fn parts(&self) -> (&str, &str) {
        split(&self.address)
    }

    fn get(&self, target: &str) -> Vec<u8> {
        let (host, _) = self.parts();
        get(host, target)
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn get(host: &str, target: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(stream, "GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

fn starts(answer: &[u8], with: &str) -> bool {
    answer.starts_with(with.as_bytes())
}

#[test]
fn writes_one_self_contained_file() {
    let folder = Folder::new();
    folder.profile("x.whyslow", STACKS);
    let outcome = folder.whyslow(["view", "x.whyslow", "-o", "x.html"]);
    assert_eq!(outcome.succeeds().stderr, "whyslow: wrote x.html\n");
    assert_eq!(
        (outcome.stdout.as_str(), folder.names()),
        ("", vec!["x.html".to_owned(), "x.whyslow".to_owned()])
    );
    let page = fs::read_to_string(folder.path().join("x.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert!(page.contains("<td>std::read</td>") && page.contains("class=\"payload\">H4sI"));
    let printed = folder.whyslow(["view", "x.whyslow", "-o", "-"]);
    assert_eq!((printed.succeeds().stdout.as_str(), printed.stderr.as_str()), (page.as_str(), ""));
}

#[test]
fn does_not_overwrite_programs_and_profiles() {
    let folder = Folder::new();
    folder.profile("x.whyslow", STACKS);
    folder.file("app", b"\x7fELF and more");
    for output in ["x.whyslow", "app"] {
        folder.whyslow(["view", "x.whyslow", "-o", output]).fails(125, &[output, "does not overwrite"]);
    }
    folder
        .whyslow(["view", "x.whyslow", "-o", "no/where.html"])
        .fails(125, &["no/where.html: cannot be written"]);
}

#[test]
fn refuses_server_options_for_a_file() {
    let folder = Folder::new();
    folder.profile("x.whyslow", STACKS);
    for option in [&["--no-open"][..], &["--port", "8080"]] {
        let outcome = folder.whyslow(["view", "x.whyslow", "-o", "x.html"].iter().chain(option));
        assert_eq!(outcome.code, Some(125), "{outcome:?}");
        assert!(outcome.stderr.contains("cannot be used with"), "{outcome:?}");
    }
}

#[test]
fn the_printed_address_serves_the_viewer() {
    let folder = Folder::new();
    folder.profile("x.whyslow", STACKS);
    let mut command = folder.command();
    command.args(["view", "x.whyslow", "--no-open"]);
    let viewer = Viewer::start(command);
    let (host, target) = viewer.parts();
    assert!(host.starts_with("127.0.0.1:") && target.starts_with("/?token="), "{}", viewer.address);
    let page = String::from_utf8(viewer.get(target)).unwrap();
    assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("<td>std::read</td>"), "{page}");
    let query = target.trim_start_matches('/');
    for part in ["viewer.js", "viewer.css", "profile"] {
        assert!(starts(&viewer.get(&format!("/{part}{query}")), "HTTP/1.1 200 "), "{part}");
        assert!(starts(&viewer.get(&format!("/{part}")), "HTTP/1.1 403 "), "{part}");
    }
    assert!(starts(&viewer.get(&format!("/../x.whyslow{query}")), "HTTP/1.1 404 "));
    assert!(starts(&viewer.get(&format!("/x.whyslow{query}")), "HTTP/1.1 404 "));
}

#[test]
fn ctrl_c_stops_the_server() {
    let folder = Folder::new();
    folder.profile("x.whyslow", STACKS);
    let mut command = folder.command();
    command.args(["view", "x.whyslow", "--no-open"]);
    let mut viewer = Viewer::start(command);
    let pid = viewer.child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(viewer.child.wait().unwrap().signal(), Some(2));
}

/// The host and the path of an address.
fn split(address: &str) -> (&str, &str) {
    let rest = address.strip_prefix("http://").unwrap();
    rest.split_at(rest.find('/').unwrap())
}

/// Whether another user could read a file. Without root, notes a skip and returns `None`.
fn others_can_read(path: &str) -> Option<bool> {
    let mut other = Command::new("setpriv");
    other.args(["--reuid=65534", "--regid=65534", "--clear-groups", "cat", path]);
    match other.output() {
        Ok(output) if !String::from_utf8_lossy(&output.stderr).contains("setpriv:") => {
            Some(output.status.success())
        }
        _ => {
            whyslow_lab_harness::skip("becoming another user needs root and setpriv");
            None
        }
    }
}

#[test]
fn only_the_owner_can_read_the_browsers_page() {
    let folder = Folder::new();
    folder.profile("x.whyslow", STACKS);
    // The folder itself is open to all.
    let place = folder.file("run/readable", "");
    for path in [folder.path(), place.parent().unwrap()] {
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
    folder.script("browser", "tr '\\0' ' ' < /proc/$$/cmdline > part && mv part opened; sleep 5");
    let mut command = folder.command();
    command.args(["-q", "view", "x.whyslow"]).env("BROWSER", folder.path().join("browser"));
    command.env("XDG_RUNTIME_DIR", place.parent().unwrap()).env("HOME", folder.path());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut messages = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let _viewer = Viewer { child, address: String::new() };
    let opened = folder.path().join("opened");
    crate::harness::appears(&opened);
    let command_line = fs::read_to_string(opened).unwrap();
    assert!(!command_line.contains("http:") && !command_line.contains("ticket"), "{command_line}");
    let page = command_line.split_whitespace().last().unwrap();
    let text = fs::read_to_string(page).unwrap();
    assert_ne!(others_can_read(place.to_str().unwrap()), Some(false));
    assert_ne!(others_can_read(page), Some(true));

    let address = text.split('"').find_map(|part| part.strip_prefix("0;url=")).unwrap();
    let (host, ticket) = split(address);
    assert!(ticket.starts_with("/?ticket="), "{text}");
    let answer = String::from_utf8(get(host, ticket)).unwrap();
    let token = answer.lines().find_map(|line| line.strip_prefix("Location: ")).expect(&answer).to_owned();
    assert!(answer.starts_with("HTTP/1.1 303 ") && starts(&get(host, &token), "HTTP/1.1 200 "), "{answer}");
    crate::harness::disappears(Path::new(page).parent().unwrap());

    // Another client uses the same ticket.
    assert!(starts(&get(host, ticket), "HTTP/1.1 403 "));
    let message = messages.next().unwrap();
    assert!(
        message.contains("used twice")
            && message.contains("the old address no longer works; try: open http://"),
        "{message}"
    );
    assert!(starts(&get(host, &token), "HTTP/1.1 403 "));
    let new = message.split(' ').find(|word| word.starts_with("http://")).unwrap();
    assert!(starts(&get(host, split(new).1), "HTTP/1.1 200 "), "{message}");
}

#[test]
fn without_a_browser_prints_the_address() {
    let folder = Folder::new();
    folder.profile("x.whyslow", STACKS);
    let mut command = folder.command();
    command.args(["view", "x.whyslow"]).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let printed: Vec<_> = lines.take(3).collect();
    let _viewer = Viewer { child, address: String::new() };
    assert!(printed[0].starts_with("whyslow: viewer: http://127.0.0.1:"), "{printed:?}");
    assert!(printed[1].contains("Ctrl-C"), "{printed:?}");
    assert!(
        printed[2].contains("$BROWSER is not set and there is no desktop; try: open http://127.0.0.1:"),
        "{printed:?}"
    );
}

#[test]
fn a_port_in_use_is_an_error() {
    let folder = Folder::new();
    folder.profile("x.whyslow", STACKS);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    folder
        .whyslow(["view", "x.whyslow", "--no-open", "--port", &port])
        .fails(125, &[&format!("cannot open port {port} of 127.0.0.1"), "try: another --port"]);
}

#[test]
fn shows_an_incomplete_profile_with_a_warning() {
    let folder = Folder::new();
    let mut profile = whyslow_analyze::testing::profile(STACKS);
    profile.sealed = false;
    folder.save("x.whyslow", &profile);
    let bytes = fs::read(folder.path().join("x.whyslow")).unwrap();
    folder.file("x.whyslow", bytes);
    let outcome = outcome(folder.command().args(["view", "x.whyslow", "-o", "x.html"]));
    assert!(outcome.succeeds().stderr.contains("x.whyslow: incomplete"), "{outcome:?}");
    let page = fs::read_to_string(folder.path().join("x.html")).unwrap();
    assert!(page.contains("recording incomplete"));
}

#[test]
fn writes_a_comparison_as_one_page() {
    let folder = Folder::new();
    folder.profile("old.whyslow", "main;parse 900\nmain;gone 90");
    folder.profile("new.whyslow", "main;parse 300");
    let outcome = folder.whyslow(["view", "--diff", "old.whyslow", "new.whyslow", "-o", "diff.html"]);
    assert_eq!(outcome.succeeds().stderr, "whyslow: wrote diff.html\n");
    let page = fs::read_to_string(folder.path().join("diff.html")).unwrap();
    assert!(page.contains("Undecided: cpu time 990 ms → 300 ms"), "{}", &page[page.len() - 2000..]);
    assert!(page.contains("<td>90.0 ms</td><td>0 ns</td><td>undecided</td><td>gone</td>"));
    // Several runs per side.
    for run in 1..=3 {
        folder.profile(&format!("old{run}.whyslow"), &format!("main;parse {}", 900 + run));
        folder.profile(&format!("new{run}.whyslow"), &format!("main;parse {}", 300 - run));
    }
    let old = ["old1.whyslow", "old2.whyslow", "old3.whyslow"];
    let new = ["new1.whyslow", "new2.whyslow", "new3.whyslow"];
    let several = [&["view", "-o", "-", "--before"][..], &old, &["--after"], &new].concat();
    let page = folder.whyslow(several).succeeds().stdout.clone();
    assert!(page.contains("Faster: cpu time 902 ms → 298 ms, ×0.33"), "{page}");
}

#[test]
fn serves_a_comparison() {
    let folder = Folder::new();
    folder.profile("old.whyslow", "main;parse 900");
    folder.profile("new.whyslow", "main;parse 300");
    let mut command = folder.command();
    command.args(["view", "--diff", "old.whyslow", "new.whyslow", "--no-open"]);
    let viewer = Viewer::start(command);
    let (_, target) = viewer.parts();
    let page = String::from_utf8(viewer.get(target)).unwrap();
    assert!(
        page.starts_with("HTTP/1.1 200 ") && page.contains("Undecided: cpu time 900 ms → 300 ms"),
        "{page}"
    );
    assert!(starts(&viewer.get(&format!("/profile{}", target.trim_start_matches('/'))), "HTTP/1.1 200 "));
}

#[test]
fn refuses_what_cannot_be_compared() {
    let folder = Folder::new();
    folder.profile("x.whyslow", STACKS);
    for (args, message) in [
        (&["view", "--diff", "x.whyslow"][..], "required"),
        (&["view"], "required"),
        (&["view", "--before", "x.whyslow"], "--after"),
        (
            &["view", "--before", "x.whyslow", "--after", "x.whyslow", "--diff", "x.whyslow"],
            "cannot be used with",
        ),
        (&["view", "--diff", "x.whyslow", "x.whyslow", "--metric", "allocations"], "no metric 'allocations'"),
        (&["view", "--diff", "nothing.whyslow", "x.whyslow"], "nothing.whyslow"),
    ] {
        let outcome = folder.whyslow(args);
        assert_eq!(outcome.code, Some(125), "{args:?}: {outcome:?}");
        assert!(outcome.stderr.contains(message), "{args:?}: {outcome:?}");
    }
}

#[test]
fn writes_bench_results_as_one_page() {
    let folder = Folder::new();
    let bench =
        ["bench", "-q", "--runs", "7", "--warmup", "0", "--export-json", "r.json", "true", "sleep 0.03"];
    folder.whyslow(bench).succeeds();
    assert_eq!(
        folder.whyslow(["view", "r.json", "-o", "r.html"]).succeeds().stderr,
        "whyslow: wrote r.html\n"
    );
    let page = fs::read_to_string(folder.path().join("r.html")).unwrap();
    assert!(page.contains("`sleep 0.03` is slower than `true`: +"), "{}", &page[page.len() - 2000..]);
    // A file of --save has only the runs.
    folder
        .whyslow(["bench", "-q", "--runs", "7", "--warmup", "0", "--save", "./kept.json", "true"])
        .succeeds();
    let page = folder.whyslow(["view", "kept.json", "-o", "-"]).succeeds().stdout.clone();
    assert!(page.contains("<title>true · whyslow</title>"), "{page}");
    folder
        .whyslow(["view", "r.json", "--metric", "wall-time", "-o", "x.html"])
        .fails(125, &["--metric", "for profiles"]);
}

#[test]
fn explains_json_that_is_not_a_result() {
    let folder = Folder::new();
    folder.file("other.json", b"{\"a\": [1, 2]}");
    folder.whyslow(["view", "other.json", "-o", "x.html"]).fails(
        125,
        &["other.json: this JSON is neither a result of whyslow bench nor a profile", "--export-json"],
    );
    folder.file("cut.json", b"{\"schema\": \"whyslow-bench/1\", \"commands\": [");
    folder.whyslow(["view", "cut.json", "-o", "x.html"]).fails(125, &["cut.json: it is damaged", "complete"]);
    folder.file("newer.json", b"{\"schema\": \"whyslow-bench/9\"}");
    folder
        .whyslow(["view", "newer.json", "-o", "x.html"])
        .fails(125, &["newer.json", "whyslow-bench/9", "newer whyslow"]);
    assert!(!folder.path().join("x.html").exists());
}
