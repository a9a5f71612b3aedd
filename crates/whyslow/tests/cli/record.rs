//! Recording: the program runs unchanged; whyslow writes the profile and the answer.

use std::fs;
use std::process::Command;

use whyslow_profile::Profile;

use crate::harness::{Folder, can_record, can_record_all, has_perf_events, outcome};

#[test]
fn keeps_the_programs_streams_and_exit_code() {
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    folder.script("app", "cat; echo out; echo err >&2; exit 3");
    folder.file("input", "typed\n");
    let mut command = folder.command();
    command.args(["-q", "./app"]).stdin(fs::File::open(folder.path().join("input")).unwrap());
    let outcome = outcome(&mut command);
    assert_eq!(
        (outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str()),
        (Some(3), "typed\nout\n", "err\n")
    );
    assert!(folder.names().contains(&"app.whyslow".to_owned()), "{:?}", folder.names());
}

#[test]
fn a_signal_exits_with_128_plus_its_number() {
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    folder.script("app", "kill -TERM $$");
    assert_eq!(folder.whyslow(["-q", "./app"]).code, Some(143));
}

#[test]
fn the_answer_goes_to_stderr() {
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    folder.script("app", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo done");
    let outcome = folder.whyslow(["./app"]);
    assert_eq!(outcome.succeeds().stdout, "done\n");
    assert!(outcome.stderr.contains("app.1.whyslow"), "{}", outcome.stderr);
}

/// The fields that a section of the page on the JSON of reports describes, by the first column of its tables.
fn described(section: &str) -> Vec<String> {
    let page = include_str!("../../../../docs/report-json.md");
    let section = page.split("\n## ").find(|part| part.starts_with(section)).unwrap();
    let section = section.split("\n### ").next().unwrap();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
    cells
        .flat_map(|cell| cell.split('`').map(str::to_owned).collect::<Vec<_>>())
        .filter(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == '_') && !word.is_empty())
        .collect()
}

/// The one-screen answer of a recording as JSON, which is all that is on stderr.
fn answer(folder: &Folder, options: &[&str]) -> serde_json::Value {
    let options = ["--format", "json", "-o", "run.whyslow"].iter().chain(options).chain(&["./app"]);
    let outcome = folder.whyslow(options);
    assert_eq!(outcome.succeeds().stdout, "out\n", "stdout is the program's own");
    let json: serde_json::Value = serde_json::from_str(&outcome.stderr).unwrap();
    let later = folder.whyslow(["report", "run.whyslow", "summary", "--format", "json"]);
    let later: serde_json::Value = serde_json::from_str(&later.succeeds().stdout).unwrap();
    assert_eq!(later, json, "the same question later");
    json
}

#[test]
fn the_answer_as_json_has_every_documented_field() {
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    folder.script("app", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo out");
    let json = answer(&folder, &["--off-cpu", "--faults"]);
    let fields = json.as_object().unwrap();
    let (head, own) = (described("Every view"), described("`summary`"));
    assert!(own.len() > 10, "{own:?}");
    for name in
        head.iter().chain(&own).filter(|name| !["heap", "sites", "sites_left_out"].contains(&name.as_str()))
    {
        assert!(fields.contains_key(name), "{name} is missing: {json:#}");
    }
    for name in fields.keys() {
        assert!(head.contains(name) || own.contains(name), "{name} is not described");
    }
    assert_eq!((&json["schema"], &json["view"]), (&"whyslow-report/1".into(), &"summary".into()));
    assert_eq!((&json["thread_count"], &json["process_count"]), (&1.into(), &1.into()));
    let number = |name: &str| json[name].as_f64().unwrap();
    let cores = number("cpu_time_ns") / number("duration_ns");
    assert!((number("cores_busy") - cores).abs() < 1e-9 && cores > 0.0, "{json:#}");
    assert!(number("all_blocked_ns") <= number("duration_ns"), "{json:#}");
    assert_eq!((&json["spent"], &json["waits"]), (&"running".into(), &serde_json::json!([])));
    let shares = |list: &str, share: &str| {
        json[list].as_array().unwrap().iter().map(|row| row[share].as_f64().unwrap()).sum::<f64>()
    };
    for (list, share) in [("own", "own_share"), ("functions", "self_share")] {
        assert!(shares(list, share) > 0.0 && shares(list, share) < 1.0 + 1e-9, "{list}: {json:#}");
        assert!(json[list].as_array().unwrap().len() <= 10, "{list}");
    }
    let path = json["hot_path"].as_array().unwrap();
    let step = json["hot_path_own"]["step"].as_u64().unwrap() as usize;
    assert_eq!(path[step]["name"], json["own"][0]["name"], "{json:#}");
    assert_eq!(json["programs"][0]["processes"], 1, "{json:#}");
    assert!(json["findings"].is_array() && json["syscalls"].is_null(), "{json:#}");
    if has_perf_events() {
        let faults = &json["events"][0];
        assert_eq!(faults["metric"], serde_json::json!({ "name": "page-faults", "unit": "count" }));
        assert!(faults["value"].as_u64().unwrap() > 0, "{faults}");
        assert!(faults["function"].is_string() && faults["share"].as_f64().unwrap() > 0.0, "{faults}");
    }
    let together = &json["together"];
    let part = |name: &str| together[name].as_u64().unwrap();
    assert_eq!(part("ran_ns") + part("queued_ns") + part("blocked_ns"), part("elapsed_ns"), "{together}");
    assert!(part("ran_ns") > part("blocked_ns"), "{together}");

    folder.script("app", "echo out; exec sleep 0.3");
    let json = answer(&folder, &["--off-cpu"]);
    assert_eq!((&json["spent"], &json["metric"]["name"]), (&"waiting".into(), &"off-cpu-time".into()));
    let wait = &json["waits"][0];
    assert_eq!(wait["reason"], "sleep", "{json:#}");
    assert!(wait["total_ns"].as_u64().unwrap() >= 290_000_000, "{wait}");
    let reason = &json["together"]["reasons"][0];
    assert_eq!((&reason["reason"], &reason["total_ns"]), (&"sleep".into(), &wait["total_ns"]), "{json:#}");
}

#[test]
fn record_prints_the_next_command() {
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    let outcome = folder.whyslow(["record", "-o", "run.whyslow", "--", "sh", "-c", "echo hi"]);
    assert_eq!(outcome.succeeds().stdout, "hi\n");
    let verdict = outcome.stderr.strip_prefix(
        "whyslow: recorded run.whyslow; next: whyslow report run.whyslow   whyslow view run.whyslow\n",
    );
    let verdict = verdict.expect("the next command first");
    assert!(["good: ", "fair: ", "poor: "].iter().any(|grade| verdict.starts_with(grade)), "{verdict}");
    folder.whyslow(["report", "run.whyslow"]).succeeds();
}

#[test]
fn a_recording_of_waits_leads_to_their_view() {
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    let recorded = folder.whyslow(["record", "--off-cpu", "-o", "x.whyslow", "--", "sleep", "0.05"]);
    assert!(recorded.stderr.contains("whyslow report x.whyslow waits"), "{}", recorded.stderr);
    folder.whyslow(["report", "x.whyslow", "waits"]).succeeds();
}

#[test]
fn writes_a_flame_graph_with_the_recording() {
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    folder.script("app", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done");
    folder.whyslow(["-q", "--flame", "x.svg", "./app"]).succeeds();
    assert!(fs::read_to_string(folder.path().join("x.svg")).unwrap().starts_with('<'));
}

#[test]
fn every_recording_keeps_a_name_of_its_own() {
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    for number in 1..=3 {
        let said = folder.whyslow(["sh", "-c", &format!("exit 0 # {number}")]).succeeds().stderr.clone();
        assert!(said.contains(&format!("whyslow view sh.{number}.whyslow")), "{said}");
    }
    for number in 1..=3 {
        let profile = read(&folder, &format!("sh.{number}.whyslow"));
        assert_eq!(profile.meta.command[2], format!("exit 0 # {number}"));
    }
    assert_eq!(read(&folder, "sh.whyslow").meta.command[2], "exit 0 # 3", "the plain name is the latest");
    // The heap of the same program has a name of its own.
    folder.whyslow(["heap", "-q", "--", "sh", "-c", "exit 0"]).succeeds();
    assert!(read(&folder, "sh.heap.1.whyslow").meta.heap.is_some());
    assert_eq!(read(&folder, "sh.whyslow").meta.command[2], "exit 0 # 3");
    // A name that the user chose is not numbered, and the earlier profile of that name is kept.
    let said = folder.whyslow(["record", "-o", "sh.2.whyslow", "--", "true"]).succeeds().stderr.clone();
    assert!(said.contains("the earlier sh.2.whyslow is now sh.2.1.whyslow"), "{said}");
    assert_eq!(read(&folder, "sh.2.1.whyslow").meta.command[2], "exit 0 # 2");
    assert_eq!(read(&folder, "sh.2.whyslow").meta.command, ["true"]);
}

#[test]
fn an_unwritable_output_fails_before_the_program_starts() {
    let folder = Folder::new();
    folder.script("app", "touch started");
    folder
        .whyslow(["-o", "no/such/run.whyslow", "./app"])
        .fails(125, &["no/such/run.whyslow: cannot be written"]);
    folder.whyslow(["--flame", "no/such/x.svg", "./app"]).fails(125, &["no/such/x.svg: cannot be written"]);
    assert_eq!(folder.names(), ["app"]);
}

#[test]
fn attaching_records_a_running_process() {
    let folder = Folder::new();
    let mut busy = folder.command_of("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let pid = busy.id().to_string();
    // Before exec, it has its parent's name.
    while fs::read_to_string(format!("/proc/{pid}/comm")).unwrap().trim() != "sh" {
        std::thread::yield_now();
    }
    let outcome = folder.whyslow(["record", "-p", &pid, "--duration", "300ms"]);
    let still_runs = busy.try_wait().unwrap().is_none();
    busy.kill().unwrap();
    busy.wait().unwrap();
    assert!(outcome.succeeds().stderr.contains("sh.1.whyslow"), "{}", outcome.stderr);
    assert!(still_runs, "the process still runs");
    folder.whyslow(["export", "sh.whyslow", "--to", "folded"]).succeeds();
}

#[test]
fn a_full_disk_is_one_error_and_125() {
    if !can_record() || !std::path::Path::new("/dev/full").exists() {
        return;
    }
    let folder = Folder::new();
    folder.script("app", "echo hi");
    let outcome = folder.whyslow(["--flame", "/dev/full", "./app"]);
    assert_eq!(outcome.stdout, "hi\n");
    outcome.fails(125, &["/dev/full: cannot be written"]);
}

#[test]
fn the_lab_works_without_arguments() {
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    let outcome = folder.whyslow(["lab"]);
    assert!(outcome.succeeds().stderr.contains("What is wrong with it"), "{}", outcome.stderr);
    assert!(folder.names().contains(&"lab.whyslow".to_owned()));
}

/// A process with this name that sleeps until it is dropped.
struct Idle(std::process::Child);

impl Idle {
    fn new(folder: &Folder, name: &str) -> Self {
        let sleep =
            ["/bin/sleep", "/usr/bin/sleep"].into_iter().find(|path| fs::exists(path).unwrap()).unwrap();
        let link = folder.path().join(name);
        if !link.exists() {
            std::os::unix::fs::symlink(sleep, &link).unwrap();
        }
        let child = folder.command_of(format!("./{name}")).arg("1000").spawn().unwrap();
        let idle = Self(child);
        // Before exec, it has its parent's name.
        while fs::read_to_string(format!("/proc/{}/comm", idle.pid())).unwrap().trim() != name {
            std::thread::yield_now();
        }
        idle
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn pids(profile: &Profile) -> Vec<String> {
    let mut pids: Vec<String> = profile.processes.iter().map(|process| process.pid.to_string()).collect();
    pids.sort();
    pids
}

fn read(folder: &Folder, name: &str) -> Profile {
    whyslow_profile::file::read(&folder.path().join(name)).unwrap()
}

#[test]
fn records_several_processes_by_number_or_name() {
    let folder = Folder::new();
    let (one, two) = (Idle::new(&folder, "wst-idle"), Idle::new(&folder, "wst-idle"));
    let mut both = vec![one.pid(), two.pid()];
    both.sort();
    let with_comma = both.join(",");
    let ways: [&[&str]; 3] = [&["-p", &with_comma], &["-p", &both[0], "-p", &both[1]], &["-p", "wst-idle"]];
    for way in ways {
        let arguments = ["record", "-o", "both.whyslow", "--duration", "50ms"].iter().chain(way);
        let outcome = folder.whyslow(arguments);
        outcome.succeeds();
        assert_eq!(pids(&read(&folder, "both.whyslow")), both, "{way:?}");
    }
}

#[test]
fn an_unknown_name_suggests_similar_processes() {
    let folder = Folder::new();
    let idle = Idle::new(&folder, "wst-other");
    let there_is = format!("-p {} (wst-other)", idle.pid());
    folder.whyslow(["record", "-p", "wst-oth"]).fails(125, &["is called `wst-oth`", &there_is]);
    folder.whyslow(["record", "-p", "no-such-name"]).fails(125, &["is called `no-such-name`", "ps -e"]);
    folder.whyslow(["record", "-p", "4194305"]).fails(125, &["there is no process 4194305"]);
}

/// The number of a thread selects its process. No process with the thread's number appears.
#[test]
fn the_number_of_a_thread_selects_its_process() {
    let folder = Folder::new();
    let (sender, tid) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let link = fs::read_link("/proc/thread-self").unwrap();
        sender.send(link.file_name().unwrap().to_str().unwrap().to_owned()).unwrap();
        let _ = ended.recv();
    });
    let tid = tid.recv().unwrap();
    let own = std::process::id().to_string();
    let outcome = folder.whyslow(["record", "-o", "t.whyslow", "-p", &tid, "--duration", "50ms"]);
    drop(end);
    thread.join().unwrap();
    let message = format!("{tid} is a thread of process {own}");
    assert!(outcome.succeeds().stderr.contains(&message), "{}", outcome.stderr);
    let recorded = pids(&read(&folder, "t.whyslow"));
    assert!(recorded.contains(&own) && !recorded.contains(&tid), "{recorded:?}");
}

#[test]
fn records_the_whole_machine_while_a_program_runs() {
    if !can_record_all() {
        return;
    }
    let folder = Folder::new();
    let idle = Idle::new(&folder, "wst-idle-too");
    folder.script("app", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo out; exit 3");
    let outcome = folder.whyslow(["record", "-o", "all.whyslow", "-a", "--", "./app"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(3), "out\n"), "{}", outcome.stderr);
    let profile = read(&folder, "all.whyslow");
    assert!(pids(&profile).contains(&idle.pid()), "other processes are recorded");
    assert!(profile.processes.iter().any(|process| profile.text(process.name) == "app"));
    assert_eq!(profile.meta.exit, Some(whyslow_profile::ExitStatus::Code(3)));
}

#[test]
fn records_only_the_given_cpus() {
    if !has_perf_events() {
        return;
    }
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let first = online.split(['-', ',', '\n']).next().unwrap();
    folder.whyslow(["record", "-o", "c.whyslow", "-C", first, "--", "true"]).succeeds();
    assert_eq!(read(&folder, "c.whyslow").meta.only_cpus.as_deref(), Some(first));
    let quality = folder.whyslow(["report", "c.whyslow", "quality"]);
    assert!(
        quality.succeeds().stdout.contains("was recorded: time on other CPUs is missing"),
        "{}",
        quality.stdout
    );
    folder.whyslow(["-C", "64000", "true"]).fails(125, &["there is no CPU 64000; this machine has"]);
    let wrong = folder.whyslow(["-C", "x", "true"]);
    assert_eq!(wrong.code, Some(125));
    assert!(wrong.stderr.contains("`x` is not a list of CPUs such as 0,2-3"), "{}", wrong.stderr);
}

#[test]
fn reports_a_program_that_still_runs() {
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    folder.script("app", "echo $$ > pid; exec sleep 1000 >/dev/null 2>&1");
    let outcome = folder.whyslow(["--duration", "300ms", "./app"]);
    let pid = fs::read_to_string(folder.path().join("pid")).unwrap();
    folder.command_of("kill").arg(pid.trim()).status().unwrap();
    let note = "1 process was still running when the recording ended (sleep)";
    assert!(outcome.stderr.contains(note), "{}", outcome.stderr);
    let quality = folder.whyslow(["report", "app.whyslow", "quality", "--format", "json"]);
    assert!(quality.succeeds().stdout.contains("\"still-running\""), "{}", quality.stdout);
}

#[test]
fn reports_processes_that_the_program_leaves_behind() {
    // Without perf events a process announces itself, and a new process may not have done so yet.
    if !has_perf_events() {
        return;
    }
    let folder = Folder::new();
    folder.script("app", "sleep 1000 >/dev/null 2>&1 & echo $! > pid");
    let outcome = folder.whyslow(["./app"]);
    let pid = fs::read_to_string(folder.path().join("pid")).unwrap();
    folder.command_of("kill").arg(pid.trim()).status().unwrap();
    let note = "1 process was left running by the program when it ended";
    outcome.succeeds();
    // The answer shows only the three worst warnings.
    let quality = folder.whyslow(["report", "app.whyslow", "quality"]);
    let words = quality.succeeds().stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(note), "{words}");
    let none = folder.whyslow(["-q", "-o", "b.whyslow", "sh", "-c", "sleep 0 & wait"]);
    none.succeeds();
    assert!(read(&folder, "b.whyslow").meta.still_running.is_empty());
}

/// Samples reach the file well within the first second.
#[test]
fn a_killed_recorder_leaves_its_samples() {
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    folder.script("app", "echo $$ > pid; while :; do :; done");
    let mut recorder = folder.command().args(["record", "-o", "k.whyslow", "--", "./app"]).spawn().unwrap();
    let path = folder.path().join("k.whyslow");
    let has_samples = || {
        whyslow_profile::file::read(&path).is_ok_and(|profile| profile.samples.iter().any(|s| !s.is_empty()))
    };
    let mut tries = 0;
    while !has_samples() {
        assert!(recorder.try_wait().unwrap().is_none(), "it still records");
        std::thread::sleep(std::time::Duration::from_millis(10));
        tries += 1;
        assert!(tries < 6000, "no samples in the file after a minute");
    }
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    let pid = fs::read_to_string(folder.path().join("pid")).unwrap();
    folder.command_of("kill").arg(pid.trim()).status().unwrap();
    assert!(has_samples());
}

/// whyslow does not claim to have saved a profile that did not fit.
#[test]
fn a_full_disk_is_not_reported_as_saved() {
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    let whyslow = env!("CARGO_BIN_EXE_whyslow");
    let on_small_disk = |command: &str| {
        let script = format!(
            "mkdir -p small && mount -t tmpfs -o size=8k none small && cp app small/ && cd small && {command} -- ../app"
        );
        outcome(folder.command_of("unshare").args(["-m", "sh", "-c", &script]))
    };
    folder.script("app", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done");
    if !on_small_disk("true").stderr.is_empty() {
        whyslow_lab_harness::skip("mounting a small disk needs root");
        return;
    }
    for command in [format!("{whyslow} record"), whyslow.to_owned()] {
        let outcome = on_small_disk(&command);
        outcome.fails(125, &["cannot be written"]);
        assert!(!outcome.stderr.contains("saved:"), "{}", outcome.stderr);
        assert!(!outcome.stderr.contains("whyslow: recorded"), "{}", outcome.stderr);
    }
}

#[test]
fn prints_the_answer_for_a_running_process() {
    let folder = Folder::new();
    let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let outcome = folder.whyslow(["-p", &busy.id().to_string(), "--duration", "300ms"]);
    busy.kill().unwrap();
    busy.wait().unwrap();
    let answer = &outcome.succeeds().stderr;
    assert!(answer.contains(" CPU (") && answer.contains("saved: "), "{answer}");
    assert!(answer.contains("hottest path"), "{answer}");
}

#[test]
fn refuses_a_program_together_with_a_process() {
    let outcome = Folder::new().whyslow(["-p", "1", "./app"]);
    assert_eq!(outcome.code, Some(125));
    assert!(outcome.stderr.contains("does not start `./app`"), "{}", outcome.stderr);
}

#[test]
fn the_end_of_the_output_name_tells_the_kind_of_file() {
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    folder.script("app", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done");
    for (number, (file, start)) in
        [("x.svg", "<svg"), ("x.html", "<!"), ("x.json", "{"), ("x.folded", "")].into_iter().enumerate()
    {
        let said = folder.whyslow(["-o", file, "./app"]).succeeds().stderr.clone();
        assert!(folder.read(file).trim_start().to_lowercase().starts_with(start), "{file}: {said}");
        // The profile itself is kept, too.
        assert!(said.contains(&format!("saved: app.{}.whyslow", number + 1)), "{said}");
    }
    let json: serde_json::Value = serde_json::from_str(&folder.read("x.json")).unwrap();
    assert_eq!(json["view"], "functions");
    folder.whyslow(["import", "x.folded", "-o", "y.whyslow"]).succeeds();
    folder.whyslow(["-q", "-o", "no/such/x.svg", "./app"]).fails(125, &["no/such/x.svg: cannot be written"]);
}

#[test]
fn sleep_after_a_process_is_the_time_to_record() {
    let folder = Folder::new();
    let mut busy = folder.command_of("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let pid = busy.id().to_string();
    let outcome = folder.whyslow(["record", "-o", "x.whyslow", "-p", &pid, "--", "sleep", "0.2"]);
    let other = folder.whyslow(["record", "-p", &pid, "--", "touch", "started"]);
    busy.kill().unwrap();
    busy.wait().unwrap();
    if can_record() {
        outcome.succeeds();
        assert!(pids(&read(&folder, "x.whyslow")).contains(&pid));
    }
    other.fails(125, &["does not start `touch started`", "--duration 10s"]);
    assert!(!folder.names().contains(&"started".to_owned()));
}

#[test]
fn habits_of_other_profilers_are_answered_with_the_right_command() {
    let folder = Folder::new();
    folder.profile("x.whyslow", "main;parse 3");
    folder.whyslow(["heap", "-p", "4711"]).fails(125, &["heap cannot attach to 4711", "--snapshot PID"]);
    let sorted = folder.whyslow(["report", "x.whyslow", "--sort", "dso,sym"]);
    assert_eq!(sorted.code, Some(125));
    assert!(sorted.stderr.contains("try: whyslow report FILE modules"), "{}", sorted.stderr);
    folder.whyslow(["top"]).fails(125, &["there is no command `top`", "whyslow -p PID"]);
    folder.whyslow(["critical-path"]).fails(127, &["whyslow report FILE critical-path"]);
    assert_eq!(folder.names(), ["x.whyslow"]);
}
