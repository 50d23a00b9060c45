//! Positions on a line: as near as possible to the wanted ones, at least 1 apart, in order.

/// Returns the positions with the least sum of squared distances to `wanted` that are at least 1 apart and in the
/// given order (pool adjacent violators).
pub(super) fn spread(wanted: &[f64]) -> Vec<f64> {
    // After subtraction of its index, a position must only not be less than the previous one.
    let mut pools: Vec<(f64, usize)> = Vec::with_capacity(wanted.len());
    for (at, wish) in wanted.iter().enumerate() {
        let mut pool = (wish - at as f64, 1);
        while let Some(&(sum, count)) = pools.last()
            && sum / count as f64 > pool.0 / pool.1 as f64
        {
            pools.pop();
            pool = (pool.0 + sum, pool.1 + count);
        }
        pools.push(pool);
    }
    let levels = pools.iter().flat_map(|(sum, count)| std::iter::repeat_n(sum / *count as f64, *count));
    levels.enumerate().map(|(at, level)| level + at as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_keeps_distant_positions() {
        assert_eq!(spread(&[0.0, 2.0, 5.0]), [0.0, 2.0, 5.0]);
    }

    #[test]
    fn spread_separates_equal_positions() {
        assert_eq!(spread(&[1.0, 1.0, 1.0]), [0.0, 1.0, 2.0]);
        assert_eq!(spread(&[5.0, 0.0]), [2.0, 3.0]);
    }
}
