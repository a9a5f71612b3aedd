//! Not read yet.

use super::{Format, ImportError, ImportOptions, Imported};

pub(super) fn looks_like(_start: &[u8]) -> bool {
    false
}

pub(super) fn read(_bytes: &[u8], _options: &ImportOptions) -> Result<Imported, ImportError> {
    Err(ImportError::unusable(Format::PerfScript, "this version does not read it yet"))
}
