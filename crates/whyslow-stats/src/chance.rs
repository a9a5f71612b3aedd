//! The probability distributions of this crate, with their edge cases handled.

use statrs::distribution::{ContinuousCDF as _, FisherSnedecor, Normal, StudentsT};
use statrs::function::gamma::gamma_lr;

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

/// The quantile of the gamma distribution with this shape (at least 1) and scale 1, by Wilson and Hilferty's
/// approximation: `z` is the same quantile of the normal distribution.
///
/// If n events of a Poisson process were seen, the ends of its mean's interval are `gamma_quantile(n, -z)` and
/// `gamma_quantile(n + 1, z)`.
pub fn gamma_quantile(shape: f64, z: f64) -> f64 {
    let root = 1.0 - 1.0 / (9.0 * shape) + z / (3.0 * shape.sqrt());
    shape * root.max(0.0).powi(3)
}

/// The least mean that explains this many Poisson events, if nothing would be known of it without an event: with it,
/// so many or more are seen with this probability among the cases in which at least one is seen.
///
/// ```text
/// P(n or more | mean) = probability × (1 - e^-mean)
/// ```
pub fn least_mean_if_seen(events: f64, probability: f64) -> f64 {
    /// With more events, a case without any is too rare to matter.
    const MANY: f64 = 40.0;
    if events <= 1.0 {
        return 0.0;
    }
    if events >= MANY {
        return gamma_quantile(events, normal_quantile(probability));
    }
    let (mut low, mut high) = (0.0, events);
    for _ in 0..60 {
        let mean = (low + high) / 2.0;
        match gamma_lr(events, mean) < probability * -(-mean).exp_m1() {
            true => low = mean,
            false => high = mean,
        }
    }
    low
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

    #[test]
    fn ends_of_poisson_means_match_the_tables() {
        // The exact 95 % intervals of 1, 3, 10 and 100 events.
        let z = normal_quantile(0.975);
        for (events, low, high) in
            [(1.0, 0.0253, 5.572), (3.0, 0.6187, 8.767), (10.0, 4.795, 18.39), (100.0, 81.36, 121.6)]
        {
            let found = [gamma_quantile(events, -z), gamma_quantile(events + 1.0, z)];
            assert!((found[0] - low).abs() < 0.02, "{events}: {found:?}");
            assert!((found[1] / high - 1.0).abs() < 0.01, "{events}: {found:?}");
        }
        assert!((gamma_quantile(1e12, 1.96) / 1e12 - 1.0).abs() < 1e-5);
    }

    #[test]
    fn a_mean_that_was_only_seen_by_chance_may_be_small() {
        assert_eq!(least_mean_if_seen(1.0, 0.025), 0.0);
        // P(2 or more | mean 0.05042) = 0.001229 = 0.025 × P(1 or more).
        assert!((least_mean_if_seen(2.0, 0.025) - 0.050_424).abs() < 1e-6);
        // Without the condition: 4.795.
        assert!((least_mean_if_seen(10.0, 0.025) - 4.788_557).abs() < 1e-4);
        let (few, many) = (least_mean_if_seen(39.999, 0.025), least_mean_if_seen(40.0, 0.025));
        assert!((few / many - 1.0).abs() < 1e-3, "{few} {many}");
    }
}
