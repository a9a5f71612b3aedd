//! Notes of a recorder or importer about its recording, as facts. The text is written where a note is shown.
//!
//! ```text
//! note = { "id": name, field: value, … }     in the JSON of the file
//!      | "a sentence"                        in files of earlier versions
//! ```
//! A note that a later version has added reads as a [`Note::Text`] with its id and its fields.

mod causal;
mod heap;
mod import;
mod recording;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

pub use causal::CausalNote;
pub use heap::{HeapNote, NoLeakCheck, Unwatched, WhyLeftOut};
pub use import::{ImportNote, LeftOutSamples};
pub use recording::{IoCalls, NoSyscalls, RecordingNote};

/// A fact about a recording that its reader should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// About any recording.
    Recording(RecordingNote),
    /// About a heap recording.
    Heap(HeapNote),
    /// About the experiments of causal profiling.
    Causal(CausalNote),
    /// About another tool's recording.
    Import(ImportNote),
    /// A sentence from a file of another version.
    Text(String),
}

/// How a text is stored.
#[derive(Serialize, Deserialize)]
#[serde(tag = "id", rename_all = "kebab-case")]
enum Sentence {
    Text { text: String },
}

impl Serialize for Note {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Recording(note) => note.serialize(serializer),
            Self::Heap(note) => note.serialize(serializer),
            Self::Causal(note) => note.serialize(serializer),
            Self::Import(note) => note.serialize(serializer),
            Self::Text(text) => Sentence::Text { text: text.clone() }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Note {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let known = RecordingNote::deserialize(&value).map(Self::Recording);
        let known = known.or_else(|_| HeapNote::deserialize(&value).map(Self::Heap));
        let known = known.or_else(|_| CausalNote::deserialize(&value).map(Self::Causal));
        let known = known.or_else(|_| ImportNote::deserialize(&value).map(Self::Import));
        let known =
            known.or_else(|_| Sentence::deserialize(&value).map(|Sentence::Text { text }| Self::Text(text)));
        Ok(known.unwrap_or_else(|_| Self::Text(words_of_unknown(&value))))
    }
}

impl From<RecordingNote> for Note {
    fn from(note: RecordingNote) -> Self {
        Self::Recording(note)
    }
}

impl From<HeapNote> for Note {
    fn from(note: HeapNote) -> Self {
        Self::Heap(note)
    }
}

impl From<CausalNote> for Note {
    fn from(note: CausalNote) -> Self {
        Self::Causal(note)
    }
}

impl From<ImportNote> for Note {
    fn from(note: ImportNote) -> Self {
        Self::Import(note)
    }
}

/// Describes a fact that only a later version knows: `lost-comets (comets: 3)`.
pub(crate) fn words_of_unknown(value: &Value) -> String {
    let Value::Object(fields) = value else {
        return value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    };
    let id = fields.get("id").and_then(Value::as_str).unwrap_or("something");
    let others = fields.iter().filter(|(name, _)| *name != "id");
    let others = others.map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>();
    let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
    format!("a later version of whyslow has noted {id}{others}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Family;

    fn read(json: &str) -> Note {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn facts_are_stored_by_their_ids() {
        let note = Note::from(RecordingNote::LostMarks { marks: 3 });
        let json = serde_json::to_string(&note).unwrap();
        assert_eq!(json, r#"{"id":"lost-marks","marks":3}"#);
        assert_eq!(read(&json), note);
        let left_out = HeapNote::ProgramLeftOut {
            program: "app".to_owned(),
            why: WhyLeftOut::FewFiles { files: 3, enough: 8 },
        };
        let json = serde_json::to_string(&Note::from(left_out.clone())).unwrap();
        assert_eq!(
            json,
            r#"{"id":"program-left-out","program":"app","why":{"id":"few-files","files":3,"enough":8}}"#
        );
        assert_eq!(read(&json), Note::from(left_out));
    }

    #[test]
    fn keeps_sentences_of_earlier_versions() {
        let note = Note::Text("a sentence".to_owned());
        assert_eq!(read(r#""a sentence""#), note);
        let json = serde_json::to_string(&note).unwrap();
        assert_eq!((json.as_str(), read(&json)), (r#"{"id":"text","text":"a sentence"}"#, note));
    }

    #[test]
    fn describes_notes_of_later_versions_with_their_fields() {
        let text = |json| match read(json) {
            Note::Text(text) => text,
            note => panic!("{note:?}"),
        };
        assert_eq!(
            text(r#"{"id":"lost-comets","comets":3,"of":"x"}"#),
            r#"a later version of whyslow has noted lost-comets (comets: 3, of: "x")"#
        );
        let why = text(r#"{"id":"program-left-out","program":"app","why":{"id":"on-the-moon"}}"#);
        assert!(why.contains("program-left-out") && why.contains("on-the-moon"), "{why}");
        assert_eq!(text("7"), "7");
        assert_eq!(text("{}"), "a later version of whyslow has noted something");
    }

    #[test]
    fn no_id_is_used_twice() {
        let mut ids =
            [RecordingNote::IDS, HeapNote::IDS, CausalNote::IDS, ImportNote::IDS, &["text"]].concat();
        ids.sort_unstable();
        assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    }
}
