//! Answer times in steps, each a fifth longer than the one before, so that hours of them can be added up.

/// The longest time of each step, in milliseconds.
const EDGES: [u32; 52] = edges();

const fn edges() -> [u32; 52] {
    let mut edges = [1; 52];
    let mut at = 1;
    while at < edges.len() {
        let longer = edges[at - 1] + edges[at - 1] / 5;
        edges[at] = if longer > edges[at - 1] { longer } else { edges[at - 1] + 1 };
        at += 1;
    }
    edges
}

/// The step that holds so many milliseconds; the last one holds all that are longer.
pub(crate) fn step_of(ms: i64) -> i64 {
    let step = EDGES.partition_point(|edge| i64::from(*edge) < ms).min(EDGES.len() - 1);
    i64::try_from(step).unwrap_or(0)
}

/// The longest time of the step, in milliseconds.
fn edge(step: i64) -> u32 {
    let step = usize::try_from(step).unwrap_or(0).min(EDGES.len() - 1);
    EDGES[step]
}

/// The time within which that many of a hundred lie, of counts by step; 0 when there are none.
pub(crate) fn quantile(counts: &[(i64, i64)], percent: i64) -> u32 {
    let mut counts = counts.to_vec();
    counts.sort_unstable();
    let all: i64 = counts.iter().map(|(_, count)| count).sum();
    let mut left = (all * percent + 99) / 100;
    for (step, count) in counts {
        left -= count;
        if left <= 0 && all > 0 {
            return edge(step);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_has_its_step() {
        assert_eq!((step_of(0), step_of(1), step_of(2), edge(step_of(2))), (0, 0, 1, 2));
        assert!(edge(51) >= 15_000, "an attempt's longest time: {}", edge(51));
        for ms in 1..i64::from(edge(51)) {
            let step = step_of(ms);
            assert!(i64::from(edge(step)) >= ms && (step == 0 || i64::from(edge(step - 1)) < ms), "{ms}");
            assert!(i64::from(edge(step)) <= ms + 1 + ms / 5, "{ms} is not said to be much longer");
        }
        assert_eq!(step_of(1_000_000), 51);
    }

    #[test]
    fn quantiles_are_read_off() {
        assert_eq!(quantile(&[], 50), 0);
        assert_eq!(quantile(&[(0, 1)], 50), 1);
        let counts = [(step_of(100), 5), (step_of(10), 94), (step_of(1_000), 1)];
        assert_eq!(quantile(&counts, 50), edge(step_of(10)));
        assert_eq!(quantile(&counts, 95), edge(step_of(100)));
        assert_eq!(quantile(&counts, 100), edge(step_of(1_000)));
    }
}
