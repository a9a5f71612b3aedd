//! The crate's code for x86-64. Another processor needs a second folder with the same files.

mod walk;

pub(crate) use walk::walk;
