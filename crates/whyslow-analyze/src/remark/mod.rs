//! The remarks of what recorders and importers note in a profile. Their types are those of another crate, so each
//! family is a function here instead of a [`Fact`](whyslow_words::Fact).

mod causal_notes;
mod heap_notes;
mod import_notes;
mod leak_check;
mod recording_notes;

pub(crate) use leak_check::leak_check_fix;
pub use leak_check::no_leak_check;
pub(crate) use recording_notes::is_refusal;
use whyslow_profile::Note;
use whyslow_words::{About, Remark};

/// The id of a free-text note in a file of another version.
pub(crate) const SENTENCE: &str = "recorder-note";

/// The remark for a note.
pub fn remark_of(note: &Note) -> Remark {
    match note {
        Note::Recording(note) => recording_notes::remark(note),
        Note::Heap(note) => heap_notes::remark(note),
        Note::Causal(note) => causal_notes::remark(note),
        Note::Import(note) => import_notes::remark(note),
        Note::Text(text) => Remark::note(SENTENCE, About::Recording, text.clone()),
    }
}
