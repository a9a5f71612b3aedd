//! `cargo xtask COMMAND`: what the project does to itself.

mod bench;
mod fuzz;
mod notes;
mod process;
mod setup;
mod suites;
mod test;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask setup             install what the tests need, as far as this user may
cargo xtask test              format, lints, tests, documentation, browser tests
cargo xtask suites            test suites of real crates, plain, while their heap is recorded and while they sample themselves
cargo xtask fuzz [OPTIONS]    every reader of foreign bytes, by cargo-fuzz with a nightly compiler
    --minutes N               time in all (default 6)
    --target NAME             only this reader; may be repeated
cargo xtask bench [OPTIONS]   whyslow and its peers side by side; writes BENCHMARKS.md
    --formats                 only other tools' files and the viewer; prints only
    --heap                    only the heap; takes the place of its section in BENCHMARKS.md
    --samplers                only the two samplers, how true they are and what they cost; likewise
    --waits                   only what recording waits costs; likewise
    --verdicts                only how often verdicts of `whyslow bench` are wrong, and what a run costs; likewise
    --answers                 only how long answers from large profiles and programs take; likewise
    --quick                   few rounds, short programs; prints only
    --rounds N                rounds per program (default 7)
    --program NAME            only this program; may be repeated
    --tool NAME               only this tool; may be repeated";

fn main() -> ExitCode {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let arguments = arguments.iter().map(String::as_str).collect::<Vec<_>>();
    let done = match arguments.as_slice() {
        ["setup"] => setup::run(),
        ["test"] => test::run(),
        ["suites"] => suites::run(),
        ["fuzz", options @ ..] => fuzz::run(options),
        ["bench", options @ ..] => bench::run(options).map(|()| true),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
