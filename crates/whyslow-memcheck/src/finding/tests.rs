//! Grouping: what is one cause, and what is not.

use super::*;
use crate::read;

const SAMPLE: &str = include_str!("../../tests/samples/errors.xml");

fn describe(frame: &Frame) -> (String, CodeKind) {
    let kind = match frame.object.contains("vgpreload") {
        true if ["malloc", "free"].contains(&frame.function.as_str()) => CodeKind::Allocator,
        true => CodeKind::Runtime,
        false => CodeKind::Yours,
    };
    (frame.function.clone(), kind)
}

fn answer(processes: &[Process]) -> Answer {
    findings(processes, &Judge { describe: &describe, hidden_by: &|_| None })
}

fn own(site: &Site) -> (&str, u32) {
    let place = site.own_place().unwrap();
    (place.name.as_str(), place.frame.line)
}

#[test]
fn a_finding_has_the_users_lines() {
    let answer = answer(&read(SAMPLE.as_bytes()));
    let [read, crash, leak] = &answer.findings[..] else { panic!("{:#?}", answer.findings) };
    assert_eq!(read.kind, Kind::UseAfterFree);
    assert_eq!(read.title, "read of 4 bytes, 4 bytes into a freed block of 40 bytes");
    assert_eq!(own(&read.at), ("parse", 20), "not Valgrind's strlen");
    let sites: Vec<_> = read.sites.iter().map(|site| (site.role.as_str(), own(site))).collect();
    assert_eq!(sites, [("freed", ("drop", 7)), ("allocated", ("make", 6))]);
    assert_eq!((read.times, read.is_at_least), (5, false));
    let at = Occurrence { pid: 100, thread: 2, thread_name: "reader".to_owned(), times: 5 };
    assert_eq!(read.occurrences, [at]);
    assert_eq!(crash.title, "killed by SIGSEGV: Access not within mapped region");
    assert_eq!(own(&crash.at), ("main", 30));
    assert_eq!(leak.title, "8 bytes definitely lost in 1 block, and 1,033 bytes that only it points to");
    assert!(answer.suppressed[0].why.as_ref().unwrap().contains("guard page"));
}

/// The access, then the signal with the same stack.
#[test]
fn a_crash_and_the_access_that_caused_it_are_one_finding() {
    let same = SAMPLE.replace("<ip>0x109300</ip>", "<ip>0x484</ip>");
    let answer = answer(&read(same.as_bytes()));
    let found: Vec<_> =
        answer.findings.iter().map(|finding| (finding.kind, finding.crash.as_deref())).collect();
    assert_eq!(found, [(Kind::UseAfterFree, Some("SIGSEGV")), (Kind::LeakDefinite, None)]);
}

#[test]
fn a_signal_from_outside_is_no_finding() {
    let answer = answer(&read(SAMPLE.replace("SIGSEGV", "SIGINT").as_bytes()));
    assert!(answer.findings.iter().all(|finding| finding.kind != Kind::Crash));
    assert_eq!(answer.processes[0].crash.as_deref(), Some("SIGINT"));
}

#[test]
fn reports_of_one_line_and_one_block_are_one_finding() {
    let start = SAMPLE.find("<error>").unwrap();
    let end = SAMPLE.find("</error>").unwrap() + "</error>".len();
    let error = &SAMPLE[start..end];
    let with = |other: &str| {
        let text = SAMPLE.replacen("</error>", &format!("</error>{other}"), 1);
        answer(&read(text.as_bytes()))
            .findings
            .into_iter()
            .filter(|finding| finding.kind == Kind::UseAfterFree)
            .collect::<Vec<_>>()
    };
    // The same through another caller, from another function of the library, of another size.
    let other = error
        .replace("<unique>0x0", "<unique>0x7")
        .replace("<line>9<", "<line>12<")
        .replace("strlen", "memchr")
        .replace("size 4", "size 1");
    let one = with(&other);
    assert_eq!(one.len(), 1);
    assert_eq!((one[0].times, one[0].reports), (6, 2));
    // Another line, another block, another place that frees it.
    for other in [
        error.replace("<line>20<", "<line>21<"),
        error.replace("<line>6<", "<line>5<"),
        error.replace("<line>7<", "<line>8<"),
    ] {
        assert_eq!(with(&other.replace("<unique>0x0", "<unique>0x7")).len(), 2);
    }
}

#[test]
fn a_forked_process_does_not_lose_its_parents_memory_again() {
    let parent = read(SAMPLE.as_bytes()).remove(0);
    let child = Process { pid: 101, parent: 100, is_forked: true, ..parent.clone() };
    let lost = |processes: &[Process]| answer(processes).findings.last().unwrap().leaked.unwrap().bytes;
    assert_eq!(lost(&[parent.clone(), child.clone()]), 1041);
    // One that executed the program lost its own.
    let other = Process { is_forked: false, ..child.clone() };
    assert_eq!(lost(&[parent.clone(), other]), 2082);
    let mut more = child;
    more.reports[1].leaked = Some(Leaked { bytes: 1050, blocks: 2, indirect: 1033 });
    assert_eq!(lost(&[parent, more]), 1050);
}

#[test]
fn a_report_without_its_counts_happened_at_least_once() {
    let cut = &SAMPLE[..SAMPLE.find("<errorcounts>").unwrap()];
    let answer = answer(&read(cut.as_bytes()));
    assert_eq!((answer.findings[0].times, answer.findings[0].is_at_least), (1, true));
    assert_eq!(answer.cut().count(), 1);
}

#[test]
fn the_own_frame_is_the_programs_before_a_librarys() {
    let place = |kind, object: &str| Place {
        frame: Frame { object: object.to_owned(), ..Frame::default() },
        name: String::new(),
        kind,
    };
    use CodeKind::{Allocator, Dependency, Runtime, Std, Unknown, Yours};
    for (kinds, expected) in [
        (&[Allocator, Std, Yours, Yours][..], Some(2)),
        (&[Runtime, Dependency, Unknown], Some(2)),
        (&[Allocator, Runtime, Dependency, Std], Some(2)),
        (&[Allocator, Runtime], Some(1)),
        (&[Allocator], Some(0)),
        (&[], None),
    ] {
        let stack: Vec<Place> = kinds.iter().map(|kind| place(*kind, "/app")).collect();
        assert_eq!(super::own(&stack, false), expected, "{kinds:?}");
    }
    // Code without a name in a library is not the program's.
    assert_eq!(super::own(&[place(Unknown, "/lib/x.so.1"), place(Unknown, "/app")], false), Some(1));
    // A function that allocates for others is not where a block is from, but it can be where an error is.
    let named = |name: &str| Place { name: name.to_owned(), ..place(Yours, "/app") };
    let stack = [named("xmalloc"), named("parse")];
    assert_eq!([super::own(&stack, true), super::own(&stack, false)], [Some(1), Some(0)]);
}
