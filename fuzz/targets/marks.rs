//! Marks: records in a program's pipe, and lines of marker files. Programs write anything there, in pieces of any size.
//!
//! The first two bytes are settings: where the input is cut into the pipe's bytes and the file's, and the size of a piece.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whyslow_capture::testing::read_marks;
use whyslow_mark::wire::Record;

fuzz_target!(|bytes: &[u8]| {
    let &[cut, piece, ref bytes @ ..] = bytes else { return };
    let (pipe, file) = bytes.split_at(bytes.len() * usize::from(cut) / 255);
    if let Ok(Some((record, length))) = Record::decode(pipe) {
        let header = record.header(record.name.len(), record.detail.len());
        // Two bytes of the header are unused.
        assert_eq!([&header[..14], &pipe[14..16], &header[16..], record.name, record.detail].concat(), &pipe[..length]);
    }
    let profile = read_marks(pipe, file, usize::from(piece) + 1);
    for span in &profile.spans {
        assert!(span.start_ns <= span.end_ns);
    }
    whyslow_fuzz::use_profile(&profile);
});
