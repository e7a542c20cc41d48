//! The statistics of a campaign: pure, and repeatable from the seed.

use std::ops::RangeInclusive;

/// Resamples behind an interval.
const RESAMPLES: usize = 10_000;

/// An interval that holds the true value in 95 of 100 campaigns.
const CONFIDENCE: RangeInclusive<f64> = 0.025..=0.975;

/// A small generator of pseudo-random numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Evenly out of 0 to `bound` - 1; `bound` is at least 1.
    pub fn below(&mut self, bound: usize) -> usize {
        // The high half of a 64 × 64-bit product.
        let product = u128::from(self.next()) * bound as u128;
        (product >> 64) as usize
    }
}

/// The quantile `at` (0 to 1) of the samples, linear between neighbours; 0 for no samples.
pub fn quantile(samples: &[f64], at: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    of_sorted(&sorted, at)
}

/// The middle of the samples; 0 for no samples.
pub fn median(samples: &[f64]) -> f64 {
    quantile(samples, 0.5)
}

fn of_sorted(sorted: &[f64], at: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let place = at.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// How far the second half of the samples, in the order taken, lies from the first:
/// median / median - 1. 0 for less than two samples.
pub fn drift(samples: &[f64]) -> f64 {
    let half = samples.len() / 2;
    let (first, second) = (&samples[..half], &samples[samples.len() - half..]);
    match median(first) {
        0.0 => 0.0,
        first => median(second) / first - 1.0,
    }
}

/// Bootstrap interval of the median.
pub fn median_interval(samples: &[f64], rng: &mut Rng) -> [f64; 2] {
    interval(rng, |rng| resampled_median(samples, rng))
}

/// Bootstrap interval of the ratio of two medians.
pub fn ratio_interval(above: &[f64], below: &[f64], rng: &mut Rng) -> [f64; 2] {
    interval(rng, |rng| {
        ratio(resampled_median(above, rng), resampled_median(below, rng))
    })
}

/// `above` / `below`; 0 when there is nothing to divide by.
pub fn ratio(above: f64, below: f64) -> f64 {
    if below == 0.0 { 0.0 } else { above / below }
}

fn resampled_median(samples: &[f64], rng: &mut Rng) -> f64 {
    let draw = |_| samples[rng.below(samples.len())];
    median(&(0..samples.len()).map(draw).collect::<Vec<_>>())
}

fn interval(rng: &mut Rng, mut statistic: impl FnMut(&mut Rng) -> f64) -> [f64; 2] {
    let mut values: Vec<f64> = (0..RESAMPLES).map(|_| statistic(rng)).collect();
    values.sort_unstable_by(f64::total_cmp);
    [CONFIDENCE.start(), CONFIDENCE.end()].map(|at| of_sorted(&values, *at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
    }

    #[test]
    fn quantiles_are_linear_between_samples() {
        let samples = [40.0, 10.0, 30.0, 20.0];
        close(median(&samples), 25.0);
        close(quantile(&samples, 0.0), 10.0);
        close(quantile(&samples, 1.0), 40.0);
        close(quantile(&samples, 0.9), 37.0);
        close(median(&[7.0]), 7.0);
        close(median(&[]), 0.0);
        close(quantile(&samples, 2.0), 40.0);
    }

    #[test]
    fn drift_compares_the_halves_in_order() {
        close(drift(&[10.0, 10.0, 12.0, 12.0]), 0.2);
        close(drift(&[12.0, 12.0, 9.0, 9.0]), -0.25);
        // The middle one of an odd number belongs to neither half.
        close(drift(&[10.0, 99.0, 10.0]), 0.0);
        close(drift(&[10.0]), 0.0);
        close(drift(&[]), 0.0);
    }

    #[test]
    fn intervals_are_repeatable_and_hold_the_median() {
        let samples: Vec<f64> = (1..=15).map(f64::from).collect();
        let [low, high] = median_interval(&samples, &mut Rng::new(1));
        assert_eq!([low, high], median_interval(&samples, &mut Rng::new(1)));
        assert!(low < 8.0 && high > 8.0, "{low} {high}");
        assert!(low >= 3.0 && high <= 13.0, "{low} {high}");
        assert_eq!(median_interval(&[5.0; 9], &mut Rng::new(1)), [5.0, 5.0]);
    }

    #[test]
    fn the_interval_covers_the_true_median_as_often_as_it_says() {
        let mut rng = Rng::new(7);
        let campaigns = 200;
        let mut covered = 0;
        for _ in 0..campaigns {
            // Evenly out of 0 to 1000, so that the true median is 500.
            let samples: Vec<f64> = (0..15).map(|_| rng.below(1001) as f64).collect();
            let [low, high] = median_interval(&samples, &mut rng.clone());
            covered += usize::from(low <= 500.0 && 500.0 <= high);
        }
        assert!((180..=199).contains(&covered), "{covered} of {campaigns}");
    }

    #[test]
    fn a_ratio_of_equal_arms_is_one_and_of_nothing_zero() {
        let samples: Vec<f64> = (90..110).map(f64::from).collect();
        let [low, high] = ratio_interval(&samples, &samples, &mut Rng::new(3));
        assert!(low < 1.0 && high > 1.0, "{low} {high}");
        close(ratio(3.0, 2.0), 1.5);
        close(ratio(3.0, 0.0), 0.0);
    }

    #[test]
    fn numbers_below_a_bound_are_even() {
        let mut rng = Rng::new(9);
        let mut counts = [0; 5];
        for _ in 0..50_000 {
            counts[rng.below(5)] += 1;
        }
        assert!(
            counts.iter().all(|n| (9_500..10_500).contains(n)),
            "{counts:?}"
        );
    }
}
