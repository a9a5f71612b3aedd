//! Runs llvm-mca on the hottest loop: cycles per iteration if all data is cached, and what limits it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Stdio;

use whyslow_asm::{Flow, Listing, Processor, Syntax};

use crate::failure::{Failure, Result};

/// Runs llvm-mca on the instructions of the hottest innermost loop.
pub(super) fn report(listing: &Listing) -> Result<String> {
    let body = &listing.body;
    let weights = listing.weights.of_loops(body);
    let innermost = (0..body.loops.len()).filter(|&at| body.loops[at].is_innermost);
    let Some(hottest) = innermost.max_by_key(|&at| (weights[at], std::cmp::Reverse(at))) else {
        return Ok("\nllvm-mca: the function has no loop\n".to_owned());
    };
    let target = Target::of(body.processor);
    let texts = body.texts(Syntax::Att);
    let mut code = String::new();
    for index in body.loops[hottest].blocks.iter().flat_map(|&block| body.blocks[block].instructions.clone())
    {
        // llvm-mca ignores branch targets and does not model calls.
        match body.instructions[index].flow {
            Flow::Next => {
                let _ = writeln!(code, "{}", texts[index]);
            }
            Flow::Branch(_) | Flow::Jump(_) => {
                let _ = writeln!(code, "{} 1f\n1:", target.branch);
            }
            Flow::Call(_) | Flow::Return | Flow::Stop | Flow::Bad => {}
        }
    }
    let missing = |error: &dyn std::fmt::Display| {
        Failure::new(format!("cannot start llvm-mca: {error}"))
            .next("install it (package llvm), or leave out --mca")
    };
    let mut child = whyslow_capture::restored_command("llvm-mca")
        .args(target.arguments)
        .args(["-iterations=100", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| missing(&error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If it exits early, its stderr says why.
        let _ = stdin.write_all(code.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| missing(&error))?;
    let printed = if output.status.success() { output.stdout } else { output.stderr };
    let printed = String::from_utf8_lossy(&printed).into_owned();
    Ok(format!(
        "\nllvm-mca of L{}, for {}, if all data is in the L1 cache:\n{printed}",
        hottest + 1,
        target.words
    ))
}

/// llvm-mca's arguments for a processor.
struct Target {
    arguments: &'static [&'static str],
    /// A conditional branch.
    branch: &'static str,
    words: &'static str,
}

impl Target {
    fn of(processor: Processor) -> Self {
        match processor {
            Processor::X86_64 => Self {
                arguments: &["-mtriple=x86_64-unknown-linux-gnu"],
                branch: "jne",
                words: if Processor::HOST == Processor::X86_64 {
                    "this machine's processor"
                } else {
                    "x86-64 in general"
                },
            },
            // llvm-mca has no generic AArch64 model.
            Processor::Aarch64 => Self {
                arguments: &["-mtriple=aarch64-unknown-linux-gnu", "-mcpu=cortex-a76"],
                branch: "b.ne",
                words: "a Cortex-A76",
            },
        }
    }
}
