//! `cargo xtask COMMAND`: the project's own tasks.

mod bench;
mod dist;
mod findings;
mod fuzz;
mod notes;
mod pictures;
mod process;
mod real_programs;
mod setup;
mod suites;
mod test;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask setup             install what the tests need (as root), or list what is missing
cargo xtask test              check format and lints, run all tests, build the documentation
cargo xtask suites            run test suites of real crates plain, with heap recording, and with timer sampling
cargo xtask fuzz [OPTIONS]    fuzz every parser of external data (needs cargo-fuzz and a nightly compiler)
    --minutes N               total time (default 6)
    --target NAME             only this target; may be repeated
cargo xtask findings [NAME…]  measure precision and recall of findings; writes docs/findings/accuracy.md (all programs)
cargo xtask dist              build the executables of a package into target/dist/package (needs objcopy)
cargo xtask pictures          draw docs/images from a recording of a real program (needs Chromium)
cargo xtask bench [OPTIONS]   compare whyslow with its peers; writes BENCHMARKS.md
    --formats                 only import, export and the viewer; prints only
    --heap                    only the heap; replaces its section in BENCHMARKS.md
    --samplers                only accuracy and cost of the two samplers; same
    --waits                   only the cost of recording waits; same
    --verdicts                only the error rate of `whyslow bench` and the cost of a run; same
    --answers                 only response times for large profiles and programs; same
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
        ["dist"] => dist::run(),
        ["pictures"] => pictures::run(),
        ["findings", names @ ..] => findings::run(names),
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
