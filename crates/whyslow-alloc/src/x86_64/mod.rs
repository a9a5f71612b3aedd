//! What this crate knows of the processor: x86-64. Another one is a second folder with the same files.

mod walk;

pub(crate) use walk::walk;
