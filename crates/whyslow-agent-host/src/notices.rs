//! Collects notes for the reader of the profile, each once.

use whyslow_profile::{HeapNote, WhyLeftOut};

/// The notes so far.
#[derive(Debug, Default)]
pub struct Notices {
    /// Names of hooked allocators.
    allocators: Vec<String>,
    notes: Vec<HeapNote>,
    /// Number of programs that were started but are not recorded. Each has a note.
    programs_left_out: u64,
}

impl Notices {
    /// Adds hooked allocators and notes.
    pub fn add(&mut self, allocators: Vec<String>, notes: Vec<HeapNote>) {
        push_new(&mut self.allocators, allocators);
        push_new(&mut self.notes, notes);
    }

    /// Adds a program that was started but is not recorded.
    pub(crate) fn left_out(&mut self, program: String, why: WhyLeftOut) {
        self.note_left_out(HeapNote::ProgramLeftOut { program, why });
    }

    /// The same, as a note. The notes of one program are one.
    pub(crate) fn note_left_out(&mut self, note: HeapNote) {
        let before = self.notes.len();
        push_new(&mut self.notes, vec![note]);
        self.programs_left_out += (self.notes.len() - before) as u64;
    }

    /// The names of the hooked allocators.
    pub fn allocators(&self) -> &[String] {
        &self.allocators
    }

    /// The notes so far.
    pub fn notes(&self) -> &[HeapNote] {
        &self.notes
    }

    /// Number of programs that were started but are not recorded.
    pub fn programs_left_out(&self) -> u64 {
        self.programs_left_out
    }
}

/// Adds the items that are not in the list yet.
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
    fn a_program_is_counted_once_however_often_it_is_reported() {
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
