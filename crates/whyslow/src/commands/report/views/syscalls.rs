//! System calls by line: count, time, bytes, files.

use whyslow_analyze::has_syscalls;
use whyslow_profile::RecordingNote;
use whyslow_render::{json, text};

use super::waits::not_recorded;
use super::{Needs, View};
use crate::commands::report::request::ROWS;

pub(super) const VIEW: View = View {
    name: "syscalls",
    help: &[("syscalls", "system calls by line and file (record --syscalls)")],
    function: Needs::Nothing,
    states_quality: false,
    of_samples: false,
    of_waits: false,
    refusal: |args, profile| {
        let asked = |note: &RecordingNote| matches!(note, RecordingNote::SyscallsNotRecorded { .. });
        let what = "system calls were not recorded";
        (!has_syscalls(profile))
            .then(|| not_recorded(args, profile, what, asked, "sudo whyslow record --syscalls -- PROGRAM"))
    },
    text: |request, _, page| {
        Ok(text::syscalls(&request.syscalls(), request.profile, request.limit(ROWS), page))
    },
    json: |request, context| {
        let syscalls = request.syscalls();
        request.written(json::to_string(&json::syscalls(context, &syscalls, request.limit(usize::MAX))))
    },
};
