//! One file or folder per command.

pub(crate) mod cargo;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod flame;
pub(crate) mod heap;
pub(crate) mod import;
pub(crate) mod lab;
pub(crate) mod merge;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod view;
