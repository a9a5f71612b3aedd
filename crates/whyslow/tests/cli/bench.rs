//! `whyslow bench`, from the command line.

use std::fs;
use std::time::Duration;

use crate::harness::Folder;

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A shell script that counts: its time grows with the number.
fn counting(folder: &Folder, name: &str, steps: u32) -> String {
    let script = format!("i=0; while [ $i -lt {steps} ]; do i=$((i+1)); done");
    folder.script(name, &script).display().to_string()
}

#[test]
fn a_slower_command_is_reported_in_every_format() {
    let folder = Folder::new();
    let (small, large) = (counting(&folder, "small", 5000), counting(&folder, "large", 60_000));
    let outcome = folder.whyslow([
        "bench",
        "--runs",
        "8",
        "--export-json",
        "all.json",
        "--export-csv",
        "all.csv",
        "--export-markdown",
        "all.md",
        "--export-asciidoc",
        "all.adoc",
        "--export-svg",
        "all.svg",
        "-n",
        "small",
        "-n",
        "large",
        &small,
        &large,
    ]);
    let outcome = outcome.succeeds();
    assert!(outcome.stdout.contains("`large` is slower than `small`"), "{outcome:#?}");
    let all = json(&folder.read("all.json"));
    assert_eq!(all["schema"], "whyslow-bench/1");
    let first = &all["comparisons"][0];
    assert_eq!(
        (&first["verdict"], &first["baseline"], &first["pairs"]),
        (&"slower".into(), &"small".into(), &8.into())
    );
    assert!(first["ratio"].as_f64().unwrap() > 1.3 && first["ratio_low"].as_f64().unwrap() > 1.0, "{first}");
    assert_eq!(all["commands"][1]["runs"].as_array().unwrap().len(), 8);
    assert_eq!(all["commands"][1]["warmup"].as_array().unwrap().len(), 1);
    assert!(all["commands"][0]["runs"][0]["wall_ns"].as_u64().unwrap() > 100_000);
    assert!(folder.read("all.csv").starts_with("command,mean,stddev,median,user,system,min,max"));
    assert!(folder.read("all.md").contains("| `large` |") && folder.read("all.adoc").contains("|==="));
    assert_eq!(folder.read("all.svg").matches("<circle").count(), 8);
}

#[test]
fn reports_what_cannot_be_measured() {
    let folder = Folder::new();
    let fails = |arguments: &[&str], code: i32, words: &[&str]| {
        let arguments = [&["bench", "--runs", "2"], arguments].concat();
        let outcome = folder.whyslow(arguments);
        outcome.fails(code, words);
        assert_eq!(outcome.stdout, "", "{outcome:#?}");
    };
    fails(&["sh -c 'echo why >&2; exit 3'"], 125, &["ended with exit code 3: why", "--ignore-failure"]);
    fails(&["./nothing"], 127, &["./nothing: not found"]);
    fails(&["echo a | cat"], 125, &["unquoted |", "--shell"]);
    fails(&["echo 'a"], 125, &["a quote is not closed"]);
    fails(&["--timeout", "50ms", "sleep 1000"], 125, &["took longer than 50", "--timeout"]);
    // On a busy machine it takes a while until the new process is `sleep`.
    let leaving = "setsid sleep 1000 & until [ \"$(cat /proc/$!/comm)\" = sleep ]; do :; done";
    fails(&["--shell", leaving], 125, &["left sleep", "they were killed"]);
    fails(&["--prepare", "echo no >&2; false", "true"], 125, &["--prepare", "ended with exit code 1: no"]);
    fails(&["--input", "missing", "true"], 125, &["missing: cannot be read"]);
    fails(&[], 125, &["no command to run"]);
    fails(&["-n", "a", "-n", "b", "true"], 125, &["2 names for 1 commands"]);
    fails(&["-P", "n", "4", "1", "true"], 125, &["--parameter-scan"]);
    fails(
        &["--baseline", "nothing", "true"],
        125,
        &["no results are saved under this name", "--save nothing"],
    );
    folder.file("cut.json", "{\"schema\": \"whyslow-bench/1\", \"comm");
    fails(&["--baseline", "cut.json", "true"], 125, &["cut.json: it is damaged"]);
    folder.file("new.json", "{\"schema\": \"whyslow-bench/9\"}");
    fails(&["--baseline", "new.json", "true"], 125, &["whyslow-bench/9", "a newer whyslow"]);
}

#[test]
fn expected_failures_count_if_all_are_the_same() {
    let folder = Folder::new();
    let run = |first: &str, second: &str| {
        let arguments = ["bench", "--runs", "6", "--ignore-failure", "--format", "json", first, second];
        json(&folder.whyslow(arguments).succeeds().stdout)
    };
    let same = run("sh -c 'exit 3'", "sh -c 'exit 3; true'");
    assert!(same["remarks"].to_string().contains("all-runs-fail"), "{same}");
    let other = run("sh -c 'exit 3'", "sh -c 'sleep 0.02; exit 4'");
    assert!(other["remarks"].to_string().contains("exits-differ"), "{other}");
    assert_eq!(other["comparisons"][0]["verdict"], "undecided");
}

#[test]
fn each_command_gets_its_hooks_parameters_and_input() {
    let folder = Folder::new();
    folder.file("in", "four little words here\n");
    let log = |name: &str| folder.read(name).lines().map(str::to_owned).collect::<Vec<_>>();
    let outcome = folder.whyslow([
        "bench",
        "--runs",
        "3",
        "-L",
        "n",
        "1,2",
        "--setup",
        "echo setup {n} >> log",
        "--prepare",
        "echo prepare {n} >> log",
        "--conclude",
        "echo conclude {n} >> log",
        "--cleanup",
        "echo cleanup {n} >> log",
        "--input",
        "in",
        "--output",
        "out",
        "--format",
        "json",
        "--shell",
        "echo run {n} >> log; wc -w",
    ]);
    let all = json(&outcome.succeeds().stdout);
    assert_eq!(all["commands"][1]["name"], "echo run 2 >> log; wc -w");
    assert_eq!(all["commands"][1]["parameters"][0]["value"], "2");
    let log = log("log");
    // One warm-up round and three that count, of two commands.
    assert_eq!(log.len(), 2 + 8 * 3 + 2, "{log:?}");
    assert_eq!(
        (&log[..2], &log[26..]),
        (&["setup 1", "setup 2"].map(str::to_owned)[..], &["cleanup 1", "cleanup 2"].map(str::to_owned)[..])
    );
    for run in log[2..26].chunks(3) {
        let number = run[0].strip_prefix("prepare ").unwrap();
        assert_eq!(run[1..], [format!("run {number}"), format!("conclude {number}")]);
    }
    assert_eq!(folder.read("out").trim(), "4");
}

#[test]
fn a_saved_program_runs_again_next_to_the_new_one() {
    let folder = Folder::new();
    std::fs::copy("/bin/sleep", folder.path().join("app")).unwrap();
    folder.whyslow(["bench", "--runs", "3", "--save", "before", "./app 0.001"]).succeeds();
    assert!(folder.path().join(".whyslow/bench/before.json").is_file());
    // The program changes; its saved results do not.
    std::fs::copy("/bin/true", folder.path().join("app")).unwrap();
    let outcome =
        folder.whyslow(["bench", "--runs", "6", "--baseline", "before", "--format", "json", "./app 0.001"]);
    let all = json(&outcome.succeeds().stdout);
    let names = [&all["commands"][0]["name"], &all["commands"][1]["name"]];
    assert_eq!(names, ["before (kept)", "./app 0.001"]);
    assert_eq!(all["comparisons"][0]["pairs"], 6);
    // Without the copy there are no pairs, and a note says so.
    std::fs::remove_dir_all(folder.path().join(".whyslow/bench/before.programs")).unwrap();
    let outcome = folder.whyslow(["bench", "--runs", "6", "--baseline", "before", "./app 0.001"]);
    let outcome = outcome.succeeds();
    assert!(
        outcome.stdout.contains("cannot be paired")
            && outcome.stdout.contains("the copy of the program is missing"),
        "{outcome:#?}"
    );
}

#[test]
fn a_commit_is_built_and_compared_with_the_working_tree() {
    let folder = Folder::new();
    let git = |arguments: &[&str]| {
        let status =
            std::process::Command::new("git").current_dir(folder.path()).args(arguments).output().unwrap();
        assert!(status.status.success(), "{status:?}");
    };
    git(&["init", "-q"]);
    folder.file("app.sh", "sleep 0.3\n");
    git(&["add", "app.sh"]);
    git(&["-c", "user.name=x", "-c", "user.email=x@localhost", "commit", "-q", "-m", "slow"]);
    folder.file("app.sh", "true\n");
    let arguments = [
        "bench",
        "--runs",
        "6",
        "--git",
        "HEAD",
        "--build",
        "cp app.sh built.sh",
        "--format",
        "json",
        "sh built.sh",
    ];
    let all = json(&folder.whyslow(arguments).succeeds().stdout);
    assert_eq!([&all["commands"][0]["name"], &all["commands"][1]["name"]], ["HEAD", "working tree"]);
    assert_eq!(all["comparisons"][0]["verdict"], "faster");
    // The repository is clean, and the file is unchanged.
    assert_eq!(folder.read("app.sh"), "true\n");
    let trees = std::process::Command::new("git")
        .current_dir(folder.path())
        .args(["worktree", "list"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&trees.stdout).lines().count(), 1);
    git(&["-c", "user.name=x", "-c", "user.email=x@localhost", "commit", "-q", "-a", "-m", "fast"]);
    folder.file("app.sh", "exit 3\n");
    for revisions in
        [&["--git", "HEAD~1..HEAD"][..], &["--git", "HEAD~1", "--git", "HEAD"], &["--git", "HEAD~1.."]]
    {
        let arguments = [
            &["bench", "-r", "1", "-w", "0", "--build", "true", "--format", "json"],
            revisions,
            &["sh app.sh"],
        ];
        let all = json(&folder.whyslow(arguments.concat()).succeeds().stdout);
        assert_eq!([&all["commands"][0]["name"], &all["commands"][1]["name"]], ["HEAD~1", "HEAD"]);
    }
    folder
        .whyslow(["bench", "--git", "nosuch", "true"])
        .fails(125, &["git rev-parse", "a commit, branch or tag"]);
}

#[test]
fn ctrl_c_keeps_the_results_so_far() {
    let folder = Folder::new();
    folder.script("app", "echo >> $1; sleep 0.01");
    let mut child = folder
        .command()
        .args(["bench", "--runs", "1000", "--warmup", "0", "--format", "json", "./app one", "./app two"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let runs = || fs::read_to_string(folder.path().join("two")).map_or(0, |lines| lines.lines().count());
    while runs() < 4 {
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let all = json(&String::from_utf8_lossy(&output.stdout));
    assert!(all["remarks"].to_string().contains("bench-interrupted"), "{all}");
    let rounds = all["commands"][0]["runs"].as_array().unwrap().len();
    assert!((1..900).contains(&rounds), "{rounds}");
}

#[test]
fn aa_shows_what_this_machine_can_detect() {
    let folder = Folder::new();
    let all = json(
        &folder.whyslow(["bench", "--aa", "--runs", "10", "--format", "json", "true"]).succeeds().stdout,
    );
    assert_eq!(all["commands"].as_array().unwrap().len(), 2);
    assert_eq!(all["detectable"].as_array().unwrap().len(), 4, "{all}");
    folder.whyslow(["bench", "--aa", "true", "false"]).fails(125, &["--aa needs exactly one command"]);
}

#[test]
fn exact_counts_are_those_of_the_program() {
    let folder = Folder::new();
    let outcome = folder.whyslow(["bench", "--runs", "2", "--heap", "--format", "json", "ls /", "ls -l /"]);
    let all = json(&outcome.succeeds().stdout);
    let row =
        all["comparisons"].as_array().unwrap().iter().find(|row| row["metric"] == "allocations").unwrap();
    assert_eq!(row["verdict"], "more", "{row}");
    assert_eq!(row["ratio"], row["ratio_low"]);
}

#[test]
fn refuses_useless_sizes() {
    let folder = Folder::new();
    let fails = |arguments: &[&str], words: &[&str]| {
        folder.whyslow([&["scale"], arguments].concat()).fails(125, words);
    };
    fails(&["--sizes", "1k,2k,4k", "--", "true"], &["no argument of the program contains {n}"]);
    fails(&["--sizes", "1k,2k", "--", "echo", "{n}"], &["2 sizes are too few", "five"]);
    fails(&["--sizes", "1k,1000,4k", "--", "echo", "{n}"], &["the same size"]);
    fails(&["--files", "missing", "--", "cat", "{file}"], &["missing: No such file"]);
    fails(
        &["-q", "--sizes", "1,2,4", "--", "sh", "-c", "echo why >&2; exit {n}"],
        &["the program failed (exit status: ", "by hand"],
    );
}

#[test]
fn habits_of_hyperfine_work() {
    let folder = Folder::new();
    let arguments = [
        "bench",
        "-r",
        "2",
        "-u",
        "millisecond",
        "--sort",
        "mean-time",
        "--style",
        "basic",
        "-i=3",
        "--show-output",
    ];
    let files = ["--export-orgmode", "x.org", "--export-json", "x.json", "-P", "n", "-1", "1", "-D", "1"];
    // `bash` is the shell here, not a command.
    let outcome = folder.whyslow([&arguments[..], &files, &["-S", "bash", "echo is {n}; exit 3"]].concat());
    let printed = &outcome.succeeds().stdout;
    assert!(printed.contains("is -1") && printed.contains(" ms"), "{outcome:#?}");
    let all = json(&folder.read("x.json"));
    assert_eq!(all["commands"].as_array().unwrap().len(), 3);
    assert_eq!(all["commands"][0]["words"][0], "bash");
    assert!(all["remarks"].to_string().contains("shell-subtracted"), "{all}");
    // The fields that hyperfine's scripts read.
    let result = &all["results"][0];
    for field in ["mean", "median", "stddev", "user", "system", "min", "max"] {
        assert!(result[field].is_f64(), "{field}: {result}");
    }
    assert_eq!((result["times"].as_array().unwrap().len(), &result["exit_codes"][0]), (2, &3.into()));
    assert!(result["parameters"]["n"].is_string());
    assert!(folder.read("x.org").starts_with("| command |"));
    folder.whyslow(["bench", "-r", "2", "-i=4", "sh -c 'exit 3'"]).fails(125, &["exit code 3"]);
}

#[test]
fn a_baseline_with_several_results_is_that_of_the_command() {
    let folder = Folder::new();
    let result = |command: &str, time: f64| {
        format!("{{\"command\":\"{command}\",\"times\":[{time},{time},{time},{time},{time},{time},{time}]}}")
    };
    folder.file(
        "old.json",
        format!("{{\"results\":[{},{}]}}", result("sleep 100", 100.0), result("true", 0.5)),
    );
    let arguments = ["bench", "-r", "6", "--format", "json", "--baseline", "old.json"];
    let all = json(&folder.whyslow([&arguments[..], &["true"]].concat()).succeeds().stdout);
    assert_eq!(all["commands"][1]["runs"][0]["wall_ns"], 500_000_000);
    folder
        .whyslow([&arguments[..], &["false"]].concat())
        .fails(125, &["results of 2 commands: `sleep 100`, `true`", "-n"]);
}

/// Both sides of `--git` use one build of a dependency, and each its own build of the program.
#[test]
fn equal_dependencies_are_built_once() {
    let folder = Folder::new();
    let git = |arguments: &[&str]| {
        let mut git = folder.command_of("git");
        git.current_dir(folder.path().join("app")).args([
            "-c",
            "user.name=x",
            "-c",
            "user.email=x@localhost",
        ]);
        assert!(crate::harness::outcome(git.args(arguments)).code == Some(0), "{arguments:?}");
    };
    let package = |name: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n")
    };
    folder.file("dep/Cargo.toml", package("dep"));
    folder.file(
        "dep/src/lib.rs",
        "pub fn wait(ms: u64) { std::thread::sleep(std::time::Duration::from_millis(ms)) }",
    );
    let dep = folder.path().join("dep");
    folder.file("app/Cargo.toml", format!("{}[dependencies]\ndep = {{ path = {dep:?} }}\n", package("app")));
    folder.file("app/.gitignore", "target\n");
    folder.file("app/src/main.rs", "fn main() { dep::wait(1) }");
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "base"]);
    folder.file("app/src/main.rs", "fn main() { dep::wait(300) }");
    let wrapper = folder.script("wrapper", "for word; do [ \"$last\" = --crate-name ] && echo \"$word\" >> \"$LOG\"; last=$word; done\nexec \"$@\"");
    let log = folder.path().join("built");
    let mut bench = folder.command();
    bench.current_dir(folder.path().join("app")).env("RUSTC_WRAPPER", wrapper).env("LOG", &log);
    bench.args([
        "-q",
        "bench",
        "-r",
        "6",
        "--git",
        "HEAD",
        "--build",
        "cargo build --offline",
        "--format",
        "json",
        "target/debug/app",
    ]);
    let all = json(&crate::harness::outcome(&mut bench).succeeds().stdout);
    assert_eq!(all["comparisons"][0]["verdict"], "slower", "head is its own program: {all}");
    let built = std::fs::read_to_string(log).unwrap();
    let times = |name: &str| built.lines().filter(|line| *line == name).count();
    assert_eq!((times("dep"), times("app")), (1, 2), "{built}");
}
