//! What recording does in words of x86-64.

mod cache;

pub(crate) use cache::fetch;
