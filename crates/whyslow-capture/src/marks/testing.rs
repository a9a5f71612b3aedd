//! Reads marks from memory, for fuzzing.

use std::fs::File;
use std::io::Write as _;

use rustix::pipe::{PipeFlags, pipe_with};
use whyslow_numbers::{ClockNs, ProfileNs};
use whyslow_profile::{
    Builder, LocationId, Meta, Metric, Process, ProcessId, Profile, Sampler, Thread, ThreadId,
};

use super::Marks;
use super::file::MarkerFile;
use super::pipe::Pipe;

/// The marks of a program that writes these bytes to its pipe, and these to its marker file, both in pieces of this size.
/// Of its threads, those with odd numbers are known.
pub fn read_marks(pipe: &[u8], file: &[u8], piece: usize) -> Profile {
    const PID: u32 = 1;
    let mut builder = Builder::new();
    let name = builder.string("program");
    let process = builder.process(Process { pid: PID, parent: None, name, start_ns: 0, end_ns: None });
    let thread = builder.thread(Thread { process, tid: PID, name, start_ns: 0, end_ns: None, times: None });
    let stack = builder.stack(None, LocationId::TRUNCATED);
    let metric = builder.metric(Metric::cpu_time(Sampler::default()));
    builder.sample(metric, ProfileNs(0), thread, stack, 1);
    let known = (thread, process);
    let tasks = |tid: u32| -> Option<(ThreadId, ProcessId)> { (tid % 2 == 1).then_some(known) };

    let mut marks = Marks::default();
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).expect("a pipe");
    let mut writer = File::from(writer);
    marks.pipes.push(Pipe::new(reader.into(), PID));
    for (number, bytes) in pipe.chunks(piece).enumerate() {
        // A pipe with anything but records is closed.
        if marks.pipes.is_empty() {
            break;
        }
        writer.write_all(bytes).expect("room in the pipe");
        marks.collect();
        marks.add(ClockNs::new(1 << (number % 64)), &mut builder, &tasks);
    }
    marks.add(ClockNs::MAX, &mut builder, &tasks);
    let mut lines = MarkerFile::new("/marker-1.txt", Some(thread), 0);
    for mut appended in file.chunks(piece) {
        lines.read_from(&mut appended, |start, end, name| {
            marks.add_span(&mut builder, Some(thread), (start, end), name, "");
        });
    }
    let notes = marks.notes().into_iter().map(Into::into).collect();
    builder.into_profile(Meta { notes, ..Meta::default() }).expect("nothing was written")
}
