//! System calls by line: count, time, bytes, files.

use whyslow_analyze::has_syscalls;
use whyslow_render::{json, text};

use super::{Needs, View};
use crate::commands::report::request::ROWS;
use crate::failure::Failure;

pub(super) const VIEW: View = View {
    name: "syscalls",
    help: &[("syscalls", "system calls by line and file (record --syscalls)")],
    function: Needs::Nothing,
    states_quality: false,
    of_samples: false,
    of_waits: false,
    refusal: |args, profile| {
        (!has_syscalls(profile)).then(|| {
            Failure::new(format!("{}: system calls were not recorded", args.profile.file.display()))
                .next("whyslow record --syscalls PROGRAM")
        })
    },
    text: |request, _, page| {
        Ok(text::syscalls(&request.syscalls(), request.profile, request.limit(ROWS), page))
    },
    json: |request, context| {
        let syscalls = request.syscalls();
        request.written(json::to_string(&json::syscalls(context, &syscalls, request.limit(usize::MAX))))
    },
};
