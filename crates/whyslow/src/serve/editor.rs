//! The editor that the viewer opens source locations in. It is kept in the user's configuration: each run of
//! the server has another port, so the browser's own storage would forget it.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// No choice is longer, in bytes.
const LONGEST: u64 = 4096;

/// The choice, as the viewer writes it.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Choice {
    /// An address with `{path}` and `{line}`; the viewer checks it before each use.
    address: String,
    /// The folder of relative paths.
    folder: String,
}

/// Where the choice is kept.
#[derive(Debug)]
pub(crate) struct Editor {
    file: Option<PathBuf>,
}

impl Editor {
    /// The file of this user: `$XDG_CONFIG_HOME/whyslow/editor.json` or `~/.config/whyslow/editor.json`.
    pub(crate) fn of_user() -> Self {
        let folder = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let config = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")));
        Self { file: config.map(|config| config.join("whyslow/editor.json")) }
    }

    #[cfg(test)]
    pub(super) fn in_file(file: PathBuf) -> Self {
        Self { file: Some(file) }
    }

    /// The choice as JSON; empty texts without one.
    pub(super) fn json(&self) -> Vec<u8> {
        let text =
            self.file.as_ref().filter(|file| fs::metadata(file).is_ok_and(|file| file.len() <= LONGEST));
        let choice: Option<Choice> =
            text.and_then(|file| fs::read(file).ok()).and_then(|text| serde_json::from_slice(&text).ok());
        serde_json::to_vec(&choice.unwrap_or_default()).unwrap_or_default()
    }

    /// The choice as the value of an attribute.
    pub(super) fn attribute(&self) -> String {
        let json = String::from_utf8_lossy(&self.json()).into_owned();
        json.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;")
    }

    /// Keeps a choice: JSON, each byte as two hexadecimal digits.
    pub(super) fn keep(&self, digits: &str) -> io::Result<()> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let choice: Choice = bytes(digits)
            .filter(|text| text.len() as u64 <= LONGEST)
            .and_then(|text| serde_json::from_slice(&text).ok())
            .ok_or_else(invalid)?;
        let file = self.file.as_ref().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        file.parent().map_or(Ok(()), fs::create_dir_all)?;
        // A reader never sees half of it.
        let new = file.with_extension("new");
        let mut out = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        out.write_all(&serde_json::to_vec(&choice)?)?;
        fs::rename(new, file)
    }
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some((digit(high)? << 4) | digit(low)?),
        _ => None,
    };
    digits.as_bytes().chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits(text: &str) -> String {
        text.bytes().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn a_choice_is_kept_for_the_next_run() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new/whyslow/editor.json");
        let text = r#"{"address":"zed://file/{path}:{line}","folder":"/home/mé"}"#;
        assert_eq!(Editor::in_file(file.clone()).json(), br#"{"address":"","folder":""}"#);
        Editor::in_file(file.clone()).keep(&digits(text)).unwrap();
        let editor = Editor::in_file(file);
        assert_eq!(String::from_utf8(editor.json()).unwrap(), text);
        assert!(editor.attribute().starts_with("{&quot;address&quot;:&quot;zed://file/{path}"));
    }

    #[test]
    fn only_a_choice_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let editor = Editor::in_file(folder.path().join("editor.json"));
        let long = format!(r#"{{"address":"{}","folder":""}}"#, "x".repeat(5000));
        for wrong in ["", "7", "zz", &digits("[]"), &digits(r#"{"address":1}"#), &digits(&long)] {
            assert!(editor.keep(wrong).is_err(), "{wrong}");
        }
        assert!(!folder.path().join("editor.json").exists());
        fs::write(folder.path().join("editor.json"), "damaged").unwrap();
        assert_eq!(editor.json(), br#"{"address":"","folder":""}"#);
    }
}
