//! Divides a range into parts without gap or overlap: why sizes add up.

use std::ops::Range;

/// Divides `whole` among claims that are sorted by their start. Where claims overlap, the earlier one wins; what
/// nobody claims goes to `rest`. The parts are in order, none is empty, and together they are `whole`.
pub(crate) fn partition<T>(
    whole: Range<u64>,
    claims: impl IntoIterator<Item = (Range<u64>, T)>,
    mut rest: impl FnMut(Range<u64>) -> T,
) -> Vec<(Range<u64>, T)> {
    let mut parts = Vec::new();
    let mut at = whole.start;
    for (claim, owner) in claims {
        let (start, end) = (claim.start.clamp(at, whole.end.max(at)), claim.end.min(whole.end));
        if start >= end {
            continue;
        }
        if at < start {
            parts.push((at..start, rest(at..start)));
        }
        parts.push((start..end, owner));
        at = end;
    }
    if at < whole.end {
        parts.push((at..whole.end, rest(at..whole.end)));
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn earlier_claims_win_and_gaps_have_an_owner() {
        let claims = [(2..5, 'a'), (3..4, 'b'), (4..8, 'c'), (90..99, 'd')];
        let parts = partition(0..10, claims, |_| '-');
        assert_eq!(parts, [(0..2, '-'), (2..5, 'a'), (5..8, 'c'), (8..10, '-')]);
        assert_eq!(partition(5..5, [(0..9, 'a')], |_| '-'), []);
    }

    proptest! {
        #[test]
        fn parts_are_the_whole(start in 0u64..50, len in 0u64..50, mut claims: Vec<(u8, u8)>) {
            claims.sort_unstable();
            let claims = claims.into_iter().map(|(start, end)| (u64::from(start)..u64::from(end), true));
            let whole = start..start + len;
            let parts = partition(whole.clone(), claims, |_| false);
            let mut at = whole.start;
            for (part, _) in parts {
                prop_assert!(part.start == at && part.start < part.end);
                at = part.end;
            }
            prop_assert_eq!(at, whole.end);
        }
    }
}
