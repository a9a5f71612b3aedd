//! The x86-64 part of recording.

mod cache;

pub(crate) use cache::fetch;
