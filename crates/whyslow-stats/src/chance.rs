//! The probability distributions of this crate, with their edge cases handled.

use statrs::distribution::{ContinuousCDF as _, FisherSnedecor, Normal, StudentsT};

/// The quantile of the normal distribution.
pub fn normal_quantile(probability: f64) -> f64 {
    Normal::standard().inverse_cdf(probability)
}

/// The probability that a normal deviate is at least this far from 0.
pub fn normal_two_sided(z: f64) -> f64 {
    2.0 * Normal::standard().sf(z.abs())
}

/// The quantile of Student's t; with infinite degrees of freedom that of the normal distribution.
pub fn student_quantile(probability: f64, freedom: f64) -> f64 {
    student(freedom).map_or_else(|| normal_quantile(probability), |student| student.inverse_cdf(probability))
}

/// The probability that Student's t is at least this far from 0.
pub fn student_two_sided(t: f64, freedom: f64) -> f64 {
    student(freedom).map_or_else(|| normal_two_sided(t), |student| 2.0 * student.sf(t.abs()))
}

/// The probability that the ratio of two variances is at least this large.
pub fn fisher_tail(ratio: f64, freedoms: [f64; 2]) -> f64 {
    FisherSnedecor::new(freedoms[0], freedoms[1]).map_or(0.0, |fisher| fisher.sf(ratio))
}

fn student(freedom: f64) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, freedom).ok().filter(|_| freedom.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_match_the_tables() {
        for (z, expected) in
            [(0.0, 1.0), (1.0, 0.317_310_5), (1.959_964, 0.05), (3.0, 0.002_699_8), (6.0, 1.973_2e-9)]
        {
            let found = normal_two_sided(z);
            assert!((found - expected).abs() <= expected * 1e-4, "{z}: {found}");
        }
        assert!((student_quantile(0.975, 3.0) - 3.182_446).abs() < 1e-5);
        assert!((student_quantile(0.975, f64::INFINITY) - 1.959_964).abs() < 1e-5);
        assert!((student_two_sided(3.182_446, 3.0) - 0.05).abs() < 1e-6);
        assert!((fisher_tail(3.708_265, [3.0, 10.0]) - 0.05).abs() < 1e-5);
    }
}
