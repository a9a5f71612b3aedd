//! XML as memcheck writes it, cut off, mixed and hostile.

use proptest::prelude::*;

use super::*;

const SAMPLE: &str = include_str!("../../tests/samples/errors.xml");

fn frame(address: u64, function: &str, file: &str, line: u32) -> Frame {
    Frame {
        address,
        object: "/src/app".to_owned(),
        function: function.to_owned(),
        folder: "/src".to_owned(),
        file: file.to_owned(),
        line,
    }
}

#[test]
fn a_report_has_everything_that_memcheck_says() {
    let processes = read(SAMPLE.as_bytes());
    let [process] = &processes[..] else { panic!("{processes:?}") };
    assert_eq!((process.pid, process.parent, process.version.as_str()), (100, 99, "3.19.0"));
    assert_eq!(process.command, ["./app", "--in", "a<b"]);
    assert!(!process.is_forked && process.state == State::Finished);
    let [read, leak] = &process.reports[..] else { panic!("{:?}", process.reports) };
    assert_eq!((read.kind.as_str(), read.thread, read.thread_name.as_str()), ("InvalidRead", 2, "reader"));
    assert_eq!(
        read.stack[1..],
        [frame(0x1091dc, "parse", "parse.c", 20), frame(0x1091ff, "main", "main.c", 9)]
    );
    assert_eq!(read.notes.len(), 2);
    assert_eq!(read.notes[0].stack[1].function, "drop");
    assert_eq!(read.notes[1].stack[1].function, "make");
    assert!(
        read.suppression.starts_with("{\n") && read.suppression.ends_with("fun:main\n}"),
        "{}",
        read.suppression
    );
    assert_eq!(leak.leaked, Some(Leaked { bytes: 1041, blocks: 1, indirect: 1033 }));
    assert_eq!(process.counts.get(&0), Some(&5));
    assert_eq!(process.suppressed, [("whyslow: guard pages of Rust's threads".to_owned(), 2)]);
    let crash = process.crash.as_ref().unwrap();
    assert_eq!((crash.signal.as_str(), crash.address, crash.stack[0].line), ("SIGSEGV", Some(0), 30));
}

/// Wherever it is cut off: what is whole is there, and it is not complete before the last count.
#[test]
fn a_report_that_is_cut_off_anywhere_keeps_what_is_whole() {
    let whole = read(SAMPLE.as_bytes()).remove(0);
    let end_of = |text: &str| SAMPLE.find(text).unwrap() + text.len();
    let (first, last) = (end_of("</error>"), end_of("</suppcounts>"));
    for length in 0..SAMPLE.len() {
        let processes = read(&SAMPLE.as_bytes()[..length]);
        assert!(processes.len() <= 1, "{length}");
        let Some(process) = processes.first() else {
            assert!(length < end_of("<valgrindoutput>"), "{length}");
            continue;
        };
        assert_eq!(process.state == State::Finished, length >= last, "{length}");
        if length >= first {
            assert_eq!(process.reports[0], whole.reports[0], "{length}");
        }
        for (report, whole) in process.reports.iter().zip(&whole.reports) {
            assert_eq!(report.kind, whole.kind, "{length}");
            assert!(whole.stack.starts_with(&report.stack), "{length}");
        }
    }
}

#[test]
fn a_process_that_executes_a_program_is_two_reports() {
    let cut = &SAMPLE[..SAMPLE.find("<fatal_signal>").unwrap()];
    let processes = read(format!("{cut}{SAMPLE}").as_bytes());
    let states: Vec<State> = processes.iter().map(|process| process.state).collect();
    assert_eq!(states, [State::Replaced, State::Finished]);
    assert_eq!(processes.iter().map(|process| process.reports.len()).collect::<Vec<_>>(), [2, 2]);
}

/// Valgrind 3.19 writes no head for a process that was forked.
#[test]
fn a_forked_process_has_no_head() {
    let start = SAMPLE.find("<error>").unwrap();
    let processes = read(&SAMPLE.as_bytes()[start..]);
    let [process] = &processes[..] else { panic!("{processes:?}") };
    assert!(process.is_forked && process.state == State::Finished);
    assert_eq!((process.pid, process.reports.len()), (0, 2));
}

/// In files, it writes into the report of its parent.
#[test]
fn a_report_inside_another_is_a_process_of_its_own() {
    let inner = SAMPLE.replace("<pid>100</pid>", "<pid>101</pid>").replace("<ppid>99", "<ppid>100");
    let at = SAMPLE.find("<fatal_signal>").unwrap();
    let processes = read(format!("{}{inner}{}", &SAMPLE[..at], &SAMPLE[at..]).as_bytes());
    let pids: Vec<(u32, State)> = processes.iter().map(|process| (process.pid, process.state)).collect();
    assert_eq!(pids, [(100, State::Finished), (101, State::Finished)]);
}

#[test]
fn foreign_text_spoils_only_what_it_hits() {
    let spoilt = SAMPLE.replacen("<tid>2</tid>", "<tid>mixed & <<>> 2</tid>", 1);
    let process = read(spoilt.as_bytes()).remove(0);
    assert_eq!((process.reports[0].thread, process.reports[0].stack.len()), (0, 3));
    assert_eq!(read(b"ELF\0\xff<?xml"), []);
    assert_eq!(read(b""), []);
}

#[test]
fn numbers_that_no_process_has_are_none() {
    let huge = SAMPLE
        .replace("<pid>100</pid>", "<pid>99999999999</pid>")
        .replace("<line>20</line>", "<line>-1</line>")
        .replace("<leakedbytes>1041", "<leakedbytes>18446744073709551616")
        .replace("<count>5</count>", "<count>18446744073709551615</count>");
    let process = read(huge.as_bytes()).remove(0);
    assert_eq!((process.pid, process.reports[0].stack[1].line), (0, 0));
    assert_eq!(process.reports[1].leaked, None);
    assert_eq!(process.counts.get(&0), Some(&u64::MAX));
}

#[test]
fn open_descriptors_get_the_stacks_in_their_order() {
    let stack = "<stack><frame><ip>0x1</ip><fn>open</fn></frame></stack>";
    let xml = SAMPLE.replace("<errorcounts>", &format!("{stack}<errorcounts>"));
    let open = [OpenDescriptor { number: 5, what: "/dev/null".to_owned() }];
    let mut process = read(xml.as_bytes()).remove(0);
    process.add_descriptors(&open);
    let report = process.reports.last().unwrap();
    assert_eq!((report.kind.as_str(), report.stack[0].function.as_str()), ("FdNotClosed", "open"));
    // Without as many stacks, it is not known whose they are.
    let mut process = read(SAMPLE.as_bytes()).remove(0);
    process.add_descriptors(&open);
    assert_eq!(process.reports.last().unwrap().stack, []);
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = read(&bytes);
    }

    #[test]
    fn any_mix_of_tags_is_read(tags in prop::collection::vec("</?(valgrindoutput|error|stack|frame|xwhat|what|kind|pair|pid|suppcounts)>|x|<!\\[CDATA\\[|]]>|0x1|&lt;", 0..60)) {
        let _ = read(tags.concat().as_bytes());
    }

    #[test]
    fn a_sample_with_a_part_elsewhere_is_read(from in 0..SAMPLE.len(), length in 0..400_usize, to in 0..SAMPLE.len()) {
        let bytes = SAMPLE.as_bytes();
        let part = &bytes[from..(from + length).min(bytes.len())];
        let mixed = [&bytes[..to], part, &bytes[to..]].concat();
        let _ = read(&mixed);
    }
}
