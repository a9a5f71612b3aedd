//! A table that grows without moving its rows: a large table is never copied, and never has twice the
//! capacity that it needs.

/// Rows per piece.
const PIECE: usize = 128;

/// Rows by number.
#[derive(Debug)]
pub(crate) struct Shelf<T> {
    /// All pieces are full except the last.
    pieces: Vec<Vec<T>>,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self { pieces: Vec::new() }
    }
}

impl<T> Shelf<T> {
    /// Adds a row and returns its number.
    pub(crate) fn push(&mut self, row: T) -> usize {
        let number = self.len();
        if number.is_multiple_of(PIECE) {
            self.pieces.push(Vec::with_capacity(PIECE));
        }
        self.pieces[number / PIECE].push(row);
        number
    }

    pub(crate) fn len(&self) -> usize {
        self.pieces.last().map_or(0, |last| (self.pieces.len() - 1) * PIECE + last.len())
    }

    pub(crate) fn get(&self, number: usize) -> Option<&T> {
        self.pieces.get(number / PIECE)?.get(number % PIECE)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().flatten()
    }

    /// Takes all rows out. The memory of each piece is freed once its rows are taken.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = T> + use<T> {
        std::mem::take(&mut self.pieces).into_iter().flatten()
    }
}

impl<T> std::ops::Index<usize> for Shelf<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: usize) -> &T {
        &self.pieces[number / PIECE][number % PIECE]
    }
}

impl<T> std::ops::IndexMut<usize> for Shelf<T> {
    #[inline]
    fn index_mut(&mut self, number: usize) -> &mut T {
        &mut self.pieces[number / PIECE][number % PIECE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_their_numbers_and_places() {
        let mut shelf = Shelf::default();
        assert_eq!(shelf.len(), 0);
        shelf.push(0);
        let first: *const usize = &shelf[0];
        for row in 1..3 * PIECE {
            assert_eq!(shelf.push(row), row);
        }
        assert!(std::ptr::eq(first, &shelf[0]));
        shelf[PIECE] = 7;
        assert_eq!((shelf[PIECE], shelf.len(), shelf.iter().count()), (7, 3 * PIECE, 3 * PIECE));
        assert_eq!((shelf.get(3 * PIECE - 1), shelf.get(3 * PIECE)), (Some(&(3 * PIECE - 1)), None));
        assert_eq!(shelf.take().last(), Some(3 * PIECE - 1));
        assert_eq!((shelf.len(), shelf.push(1)), (0, 0));
    }
}
