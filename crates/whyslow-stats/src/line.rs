//! The straight line through weighted points.

/// The sums that least squares need.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sums {
    pub(crate) one: f64,
    pub(crate) x: f64,
    pub(crate) xx: f64,
    pub(crate) y: f64,
    pub(crate) xy: f64,
}

/// From points: x, y, weight.
impl FromIterator<(f64, f64, f64)> for Sums {
    fn from_iter<I: IntoIterator<Item = (f64, f64, f64)>>(points: I) -> Self {
        let mut sums = Self::default();
        for (x, y, weight) in points {
            sums.one += weight;
            sums.x += weight * x;
            sums.xx += weight * x * x;
            sums.y += weight * y;
            sums.xy += weight * x * y;
        }
        sums
    }
}

impl Sums {
    fn determinant(&self) -> f64 {
        self.one * self.xx - self.x * self.x
    }

    /// Intercept and slope. Both are not a number if all points have the same x.
    pub(crate) fn line(&self) -> (f64, f64) {
        let Self { one, x, xx, y, xy } = *self;
        ((xx * y - x * xy) / self.determinant(), (one * xy - x * y) / self.determinant())
    }

    /// The variance of the slope, if weights are one over variances.
    pub(crate) fn slope_variance(&self) -> f64 {
        self.one / self.determinant()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fits_points_on_a_line_exactly() {
        let sums = [(0.0, 3.0, 1.0), (1.0, 5.0, 2.0), (4.0, 11.0, 0.5)].into_iter().collect::<Sums>();
        let (at_zero, slope) = sums.line();
        assert!((at_zero - 3.0).abs() < 1e-12 && (slope - 2.0).abs() < 1e-12, "{at_zero} {slope}");
        assert!(sums.slope_variance() > 0.0);
        assert!([(1.0, 2.0, 1.0); 3].into_iter().collect::<Sums>().line().1.is_nan());
    }
}
