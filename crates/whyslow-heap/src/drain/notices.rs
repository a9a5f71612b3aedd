//! What the reader should know, each thing once.

use whyslow_profile::{HeapNote, WhyLeftOut};

use crate::area::Area;
use crate::left_out;

/// What was said so far.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// Allocators that are watched.
    allocators: Vec<String>,
    notes: Vec<HeapNote>,
    /// Programs that were started and are not recorded. Each has a note.
    programs_left_out: u64,
}

impl Notices {
    /// Adds allocators that are watched, and what the reader should know.
    pub(crate) fn add(&mut self, allocators: Vec<String>, notes: Vec<HeapNote>) {
        push_new(&mut self.allocators, allocators);
        push_new(&mut self.notes, notes);
    }

    /// Adds a program that was started and is not recorded.
    pub(crate) fn left_out(&mut self, program: String, why: WhyLeftOut) {
        self.note_left_out(HeapNote::ProgramLeftOut { program, why });
    }

    fn note_left_out(&mut self, note: HeapNote) {
        let before = self.notes.len();
        push_new(&mut self.notes, vec![note]);
        self.programs_left_out += (self.notes.len() - before) as u64;
    }

    /// Adds all those that an area's agents could only write there.
    pub(crate) fn left_out_of(&mut self, area: &Area) {
        for note in left_out::told(area) {
            self.note_left_out(note);
        }
    }

    pub(crate) fn allocators(&self) -> &[String] {
        &self.allocators
    }

    pub(crate) fn notes(&self) -> &[HeapNote] {
        &self.notes
    }

    pub(crate) fn programs_left_out(&self) -> u64 {
        self.programs_left_out
    }
}

/// Adds what is not in the list yet.
fn push_new<T: PartialEq>(list: &mut Vec<T>, more: Vec<T>) {
    for one in more {
        if !list.contains(&one) {
            list.push(one);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_left_out_once_however_often_it_is_told() {
        let mut notices = Notices::default();
        for _ in 0..2 {
            notices.left_out("app".to_owned(), WhyLeftOut::OtherUser);
            notices.add(vec!["malloc".to_owned()], Vec::new());
        }
        assert_eq!(
            (notices.programs_left_out(), notices.notes().len(), notices.allocators().len()),
            (1, 1, 1)
        );
    }
}
