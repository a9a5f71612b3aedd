//! Where the rectangles of a tree map are: squarified, so that areas are compared by eye.
//!
//! Bruls, Huizing and van Wijk, "Squarified Treemaps", 2000. Rows of rectangles fill the shorter side of what is
//! left. A row takes another rectangle as long as that makes its worst one squarer.

/// A rectangle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rect {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

impl Rect {
    pub(crate) fn area(&self) -> f64 {
        self.width * self.height
    }

    /// The same without a border, and without a strip at the top.
    pub(crate) fn inside(&self, border: f64, strip: f64) -> Self {
        Self {
            x: self.x + border,
            y: self.y + border + strip,
            width: (self.width - 2.0 * border).max(0.0),
            height: (self.height - 2.0 * border - strip).max(0.0),
        }
    }
}

/// A rectangle for each value, with an area in proportion; together they are `whole`. Values should be sorted, largest
/// first. Values that are not above 0 get empty rectangles.
pub(crate) fn squarify(values: &[f64], whole: Rect) -> Vec<Rect> {
    let sum: f64 = values.iter().filter(|value| **value > 0.0).sum();
    let mut placed = Vec::with_capacity(values.len());
    let mut left = whole;
    if sum <= 0.0 || whole.area() <= 0.0 {
        let empty = Rect { width: 0.0, height: 0.0, ..whole };
        return vec![empty; values.len()];
    }
    let scale = whole.area() / sum;
    let areas: Vec<f64> = values.iter().map(|value| value.max(0.0) * scale).collect();
    let mut from = 0;
    while from < areas.len() {
        let side = left.width.min(left.height);
        let mut to = from + 1;
        let mut row: f64 = areas[from];
        let mut worst = worst_ratio(&areas[from..to], row, side);
        while to < areas.len() {
            let next = worst_ratio(&areas[from..=to], row + areas[to], side);
            if next > worst {
                break;
            }
            row += areas[to];
            worst = next;
            to += 1;
        }
        left = place(&areas[from..to], row, left, &mut placed);
        from = to;
    }
    placed
}

/// How far the least square rectangle of a row is from a square.
fn worst_ratio(areas: &[f64], row: f64, side: f64) -> f64 {
    if row <= 0.0 || side <= 0.0 {
        return f64::INFINITY;
    }
    let thickness = row / side;
    let ratio = |area: &f64| {
        let length = area / thickness;
        if length <= 0.0 { f64::INFINITY } else { (thickness / length).max(length / thickness) }
    };
    areas.iter().map(ratio).fold(0.0, f64::max)
}

/// Places a row along the shorter side, and returns what is left.
fn place(areas: &[f64], row: f64, left: Rect, placed: &mut Vec<Rect>) -> Rect {
    let is_column = left.width >= left.height;
    let side = if is_column { left.height } else { left.width };
    let room = if is_column { left.width } else { left.height };
    let thickness = if side > 0.0 { (row / side).min(room) } else { 0.0 };
    let mut at = 0.0;
    for area in areas {
        let length = if thickness > 0.0 { (area / thickness).min(side - at).max(0.0) } else { 0.0 };
        placed.push(match is_column {
            true => Rect { x: left.x, y: left.y + at, width: thickness, height: length },
            false => Rect { x: left.x + at, y: left.y, width: length, height: thickness },
        });
        at += length;
    }
    match is_column {
        true => Rect { x: left.x + thickness, width: left.width - thickness, ..left },
        false => Rect { y: left.y + thickness, height: left.height - thickness, ..left },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WHOLE: Rect = Rect { x: 0.0, y: 0.0, width: 6.0, height: 4.0 };

    #[test]
    fn the_example_of_the_paper() {
        let placed = squarify(&[6.0, 6.0, 4.0, 3.0, 2.0, 2.0, 1.0], WHOLE);
        let first = [(0.0, 0.0, 3.0, 2.0), (0.0, 2.0, 3.0, 2.0)];
        for (rect, (x, y, width, height)) in placed.iter().zip(first) {
            assert_eq!(*rect, Rect { x, y, width, height });
        }
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(placed[2].width, 12.0 / 7.0) && near(placed[2].height, 7.0 / 3.0), "{:?}", placed[2]);
    }

    #[test]
    fn nothing_has_no_area() {
        assert!(squarify(&[0.0, -1.0], WHOLE).iter().all(|rect| rect.area() == 0.0));
        assert!(squarify(&[], WHOLE).is_empty());
        assert_eq!(squarify(&[1.0], Rect { width: 0.0, ..WHOLE })[0].area(), 0.0);
    }

    proptest! {
        #[test]
        fn areas_are_in_proportion_inside_the_whole(mut values in prop::collection::vec(0.01f64..1000.0, 1..60)) {
            values.sort_by(|a, b| b.total_cmp(a));
            let sum: f64 = values.iter().sum();
            let placed = squarify(&values, WHOLE);
            prop_assert_eq!(placed.len(), values.len());
            for (rect, value) in placed.iter().zip(&values) {
                let wanted = value / sum * WHOLE.area();
                prop_assert!((rect.area() - wanted).abs() < 1e-6 * WHOLE.area(), "{rect:?} {wanted}");
                prop_assert!(rect.x >= -1e-9 && rect.x + rect.width <= WHOLE.width + 1e-9);
                prop_assert!(rect.y >= -1e-9 && rect.y + rect.height <= WHOLE.height + 1e-9);
            }
        }
    }
}
