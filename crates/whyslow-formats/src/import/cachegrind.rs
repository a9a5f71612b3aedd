//! Imports cachegrind.out, the costs per line that Valgrind's cachegrind counts.
//!
//! The lines are the same as callgrind's, without calls: `fl=file`, `fn=function`, then a line number and its
//! costs.

use whyslow_profile::ImportNote;

use super::assemble::Assembly;
use super::{Format, ImportError, ImportOptions, Imported, callgrind, lines};

pub(super) fn looks_like(start: &[u8]) -> bool {
    let start = lines::whole(start);
    if !lines::is_text(start) || callgrind::looks_like(start) {
        return false;
    }
    let mut head = lines::numbered(start).take(50).map(|(_, line)| line);
    let first = head.next().unwrap_or_default();
    (first.starts_with("desc:") || first.starts_with("cmd:")) && head.any(|line| line.starts_with("events:"))
}

pub(super) fn read(bytes: &[u8], _options: &ImportOptions) -> Result<Imported, ImportError> {
    let costs = callgrind::parse(Format::Cachegrind, bytes)?;
    let mut assembly = Assembly::new("cachegrind");
    assembly.note(ImportNote::CachegrindLines);
    callgrind::assemble(assembly, costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "\
desc: I1 cache: 32768 B, 64 B, 8-way associative
cmd: ./app -x
events: Ir I1mr
fl=/home/me/main.c
fn=main
10 5 1
11 7 .
fn=work
20 100 2
fl=/home/me/util.h
20 30 0
summary: 142 3
";

    #[test]
    fn lines_have_their_costs_per_event() {
        assert!(looks_like(SAMPLE.as_bytes()));
        let imported = read(SAMPLE.as_bytes(), &ImportOptions::default()).expect("it is cachegrind's");
        let profile = &imported.profile;
        let sums: Vec<u64> = profile.samples.iter().map(|samples| samples.value.iter().sum()).collect();
        assert_eq!(sums, [142, 3]);
        assert_eq!(profile.meta.command, ["./app", "-x"]);
        let mut lines: Vec<(String, String, u32, u64)> = (0..profile.samples[0].len())
            .map(|row| {
                let stack = profile.samples[0].stack[row];
                assert_eq!(profile.stacks.parent(stack), None);
                let frame = profile.frames.of(profile.stacks.location(stack))[0];
                let name = profile.text(profile.functions[frame.function.index()].name).to_owned();
                let file = frame.file.map_or("", |file| profile.text(file)).to_owned();
                (name, file, frame.line, profile.samples[0].value[row])
            })
            .collect();
        lines.sort();
        let main = |line, value| ("main".to_owned(), "/home/me/main.c".to_owned(), line, value);
        let work = |file: &str, value| ("work".to_owned(), file.to_owned(), 20, value);
        assert_eq!(
            lines,
            [main(10, 5), main(11, 7), work("/home/me/main.c", 100), work("/home/me/util.h", 30)]
        );
    }

    #[test]
    fn a_broken_line_is_named() {
        let error = read(b"desc: x\nevents: Ir\nfn=f\n1 2 3\n", &ImportOptions::default());
        let error = error.expect_err("two costs").to_string();
        assert_eq!(error, "cannot be read as cachegrind output: line 4: more costs than events");
    }
}
