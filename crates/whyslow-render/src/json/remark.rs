//! The JSON form of all remarks.

use serde::Serialize;
use whyslow_words::Remark;

/// A remark: `id`, `about`, `severity`, `message`, `fix`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RemarkJson {
    id: &'static str,
    about: &'static str,
    severity: &'static str,
    message: String,
    fix: Option<String>,
}

impl From<Remark> for RemarkJson {
    fn from(remark: Remark) -> Self {
        let Remark { id, about, severity, text, fix } = remark;
        Self { id, about: about.label(), severity: severity.label(), message: text, fix }
    }
}
