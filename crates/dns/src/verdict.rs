//! What follows from what servers answered. Rules alone, without I/O.

use crate::{Authority, Outcome, Verdict};

/// How many of so many resolvers must say the same: all, all but one of three to five, all but two of six or more.
pub(crate) const fn quorum(resolvers: usize) -> usize {
    match resolvers {
        0..=2 => resolvers,
        3..=5 => resolvers - 1,
        _ => resolvers - 2,
    }
}

/// At how many resolvers' word a server is believed to be one of the zone's: two, so that one that lies cannot send us to a
/// server of its own.
pub(crate) const fn agreement(resolvers: usize) -> usize {
    if resolvers < 2 { resolvers } else { 2 }
}

/// What so many resolvers say at least; each is heard once for each thing. Sorted.
pub(crate) fn agreed<T: Ord>(ballots: impl IntoIterator<Item = Vec<T>>, needed: usize) -> Vec<T> {
    let mut said: Vec<T> = ballots
        .into_iter()
        .flat_map(|mut ballot| {
            ballot.sort();
            ballot.dedup();
            ballot
        })
        .collect();
    said.sort();
    let mut agreed = Vec::new();
    let mut count = 0;
    let mut said = said.into_iter().peekable();
    while let Some(thing) = said.next() {
        count += 1;
        if said.peek() != Some(&thing) {
            if count >= needed {
                agreed.push(thing);
            }
            count = 0;
        }
    }
    agreed
}

/// What the servers of the zone say together. Where the name leads out of the zone, they cannot say that it is not there.
pub(crate) fn authority(servers: &[Outcome], leads_elsewhere: bool) -> Authority {
    if servers.contains(&Outcome::Found) {
        Authority::Found
    } else if !leads_elsewhere && servers.iter().any(|outcome| is_no(*outcome)) {
        Authority::Lacking
    } else {
        Authority::NotReached
    }
}

/// What a look says, from the answers of the zone's own servers and of all resolvers. The resolvers are not asked, and not
/// looked at, where the zone's servers lack the record. `heard`: did a resolver answer anything before, on the way to those
/// servers? Then it is not our fault that none answers for the record's name: a zone can see to that.
pub(crate) fn verdict(
    authority: Authority,
    servers: &[Outcome],
    resolvers: &[Outcome],
    heard: bool,
) -> Verdict {
    if authority == Authority::Lacking {
        return Verdict::Gone { other_value: is_other(servers) };
    }
    let needed = quorum(resolvers.len());
    let count = |is: &dyn Fn(Outcome) -> bool| resolvers.iter().filter(|outcome| is(**outcome)).count();
    let found = count(&|outcome| outcome == Outcome::Found);
    if !heard && count(&is_answer) == 0 {
        Verdict::Unreachable
    } else if found >= needed {
        Verdict::Seen
    } else if authority == Authority::NotReached && found == 0 && count(&is_no) >= needed {
        Verdict::Gone { other_value: is_other(resolvers) }
    } else {
        Verdict::Unclear
    }
}

/// Does it say for sure that the record is not there?
pub(crate) const fn is_no(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::OtherValue | Outcome::NoRecord | Outcome::NxDomain)
}

/// Did the server answer at all?
const fn is_answer(outcome: Outcome) -> bool {
    !matches!(outcome, Outcome::Timeout | Outcome::Blocked | Outcome::NotAsked)
}

/// Do most of those who say no see other values?
fn is_other(outcomes: &[Outcome]) -> bool {
    let (no, other) = outcomes.iter().fold((0, 0), |(no, other), outcome| {
        (no + usize::from(is_no(*outcome)), other + usize::from(*outcome == Outcome::OtherValue))
    });
    2 * other > no
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// The verdict of resolvers that were not heard before.
    fn verdict(authority: Authority, servers: &[Outcome], resolvers: &[Outcome]) -> Verdict {
        super::verdict(authority, servers, resolvers, false)
    }

    /// What can come of a question to a resolver.
    const OUTCOMES: [Outcome; 7] = [
        Outcome::Found,
        Outcome::OtherValue,
        Outcome::NoRecord,
        Outcome::NxDomain,
        Outcome::ServFail,
        Outcome::Timeout,
        Outcome::Error,
    ];
    const AUTHORITIES: [Authority; 2] = [Authority::NotReached, Authority::Found];

    fn is_gone(verdict: Verdict) -> bool {
        matches!(verdict, Verdict::Gone { .. })
    }

    /// Every assignment of outcomes to `count` resolvers.
    fn assignments(count: usize) -> impl Iterator<Item = Vec<Outcome>> {
        let all = OUTCOMES.len().pow(u32::try_from(count).unwrap());
        (0..all).map(move |mut number| {
            let mut digit = || {
                let outcome = OUTCOMES[number % OUTCOMES.len()];
                number /= OUTCOMES.len();
                outcome
            };
            (0..count).map(|_| digit()).collect()
        })
    }

    /// The resolver at `liar` says whatever it likes, and the verdict must not go from one side to the other.
    fn one_liar_decides_nothing(honest: &[Outcome], liar: usize) {
        for authority in AUTHORITIES {
            let verdicts = OUTCOMES.map(|lie| {
                let mut said = honest.to_vec();
                said[liar] = lie;
                verdict(authority, &[], &said)
            });
            let seen = verdicts.contains(&Verdict::Seen);
            assert!(!seen || !verdicts.iter().any(|verdict| is_gone(*verdict)), "{honest:?} {liar}");
            let others: Vec<_> =
                honest.iter().enumerate().filter(|(at, _)| *at != liar).map(|(_, said)| *said).collect();
            if others.iter().all(|said| *said == Outcome::Found) {
                assert_eq!(verdicts, [Verdict::Seen; OUTCOMES.len()], "it hides nothing: {honest:?} {liar}");
            }
            if others.iter().all(|said| is_no(*said)) {
                assert!(!seen, "it shows nothing: {honest:?} {liar}");
                let denied = verdicts.iter().any(|verdict| is_gone(*verdict));
                assert_eq!(denied, authority == Authority::NotReached, "{honest:?} {liar}");
            }
        }
    }

    #[test]
    fn one_liar_decides_nothing_whatever_the_others_say() {
        for count in 3..=5 {
            for honest in assignments(count) {
                for liar in 0..count {
                    one_liar_decides_nothing(&honest, liar);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn nor_among_more_resolvers(honest in vec(proptest::sample::select(&OUTCOMES[..]), 6..=8), liar in 0..6_usize) {
            one_liar_decides_nothing(&honest, liar);
        }

        #[test]
        fn the_order_of_resolvers_does_not_matter(
            (said, other) in vec(proptest::sample::select(&OUTCOMES[..]), 1..=8)
                .prop_flat_map(|said| (Just(said.clone()), Just(said).prop_shuffle())),
        ) {
            for authority in AUTHORITIES {
                prop_assert_eq!(verdict(authority, &[], &said), verdict(authority, &[], &other));
            }
        }
    }

    #[test]
    fn the_quorum_is_met_or_just_missed() {
        for (resolvers, needed) in [(1, 1), (2, 2), (3, 2), (4, 3), (5, 4), (6, 4), (7, 5), (8, 6)] {
            assert_eq!(quorum(resolvers), needed);
            for other in [Outcome::NoRecord, Outcome::ServFail, Outcome::Timeout, Outcome::Error] {
                let said = |found: usize| {
                    let mut said = vec![Outcome::Found; found];
                    said.resize(resolvers, other);
                    said
                };
                for authority in AUTHORITIES {
                    assert_eq!(
                        verdict(authority, &[], &said(needed)),
                        Verdict::Seen,
                        "{resolvers} {other:?}"
                    );
                    assert_ne!(verdict(authority, &[], &said(needed - 1)), Verdict::Seen, "{resolvers}");
                }
            }
            let said = |no: usize| {
                let mut said = vec![Outcome::NoRecord; no];
                said.resize(resolvers, Outcome::ServFail);
                said
            };
            let gone = Verdict::Gone { other_value: false };
            assert_eq!(verdict(Authority::NotReached, &[], &said(needed)), gone);
            assert_eq!(verdict(Authority::NotReached, &[], &said(needed - 1)), Verdict::Unclear);
            assert_eq!(verdict(Authority::Found, &[], &said(resolvers)), Verdict::Unclear);
        }
    }

    #[test]
    fn one_found_forbids_gone() {
        let said = [Outcome::NoRecord, Outcome::NoRecord, Outcome::NoRecord, Outcome::Found];
        assert_eq!(verdict(Authority::NotReached, &[], &said), Verdict::Unclear);
    }

    #[test]
    fn the_zone_itself_has_the_last_word_of_absence() {
        let nobody = [Outcome::NotAsked; 4];
        for (servers, other_value) in [
            (&[Outcome::NoRecord][..], false),
            (&[Outcome::NxDomain, Outcome::Timeout], false),
            (&[Outcome::OtherValue], true),
            (&[Outcome::OtherValue, Outcome::Timeout, Outcome::OtherValue, Outcome::NoRecord], true),
            (&[Outcome::OtherValue, Outcome::NoRecord], false),
        ] {
            let lacking = authority(servers, false);
            assert_eq!(lacking, Authority::Lacking);
            assert_eq!(verdict(lacking, servers, &nobody), Verdict::Gone { other_value }, "{servers:?}");
        }
        let mixed = [Outcome::OtherValue, Outcome::OtherValue, Outcome::NoRecord, Outcome::ServFail];
        let expected = Verdict::Gone { other_value: true };
        assert_eq!(verdict(Authority::NotReached, &[], &mixed), expected);
    }

    #[test]
    fn what_servers_of_the_zone_say_together() {
        use Authority::{Found, Lacking, NotReached};
        for (servers, elsewhere, expected) in [
            (&[][..], false, NotReached),
            (&[Outcome::Timeout, Outcome::ServFail, Outcome::Error, Outcome::Blocked], false, NotReached),
            (&[Outcome::Timeout, Outcome::NoRecord], false, Lacking),
            (&[Outcome::NoRecord, Outcome::Found], false, Found),
            (&[Outcome::Error], true, NotReached),
            (&[Outcome::Error, Outcome::NoRecord], true, NotReached),
            (&[Outcome::Error, Outcome::Found], true, Found),
        ] {
            assert_eq!(authority(servers, elsewhere), expected, "{servers:?}");
        }
    }

    #[test]
    fn nobody_at_all_is_our_fault() {
        for authority in AUTHORITIES {
            let nobody = [Outcome::Timeout; 4];
            assert_eq!(verdict(authority, &[], &nobody), Verdict::Unreachable);
            let heard = super::verdict(authority, &[], &nobody, true);
            assert_eq!(heard, Verdict::Unclear, "they answer, but not for this name");
            let one = [Outcome::Timeout, Outcome::Timeout, Outcome::Timeout, Outcome::ServFail];
            assert_eq!(verdict(authority, &[], &one), Verdict::Unclear, "SERVFAIL is an answer");
        }
    }

    #[test]
    fn what_one_resolver_says_alone_is_not_agreed() {
        assert_eq!([0, 1, 2, 3, 8].map(agreement), [0, 1, 2, 2, 2]);
        let ballots = || [vec!["b", "a"], vec!["a", "liar", "liar"], vec!["b", "a"], vec![]];
        assert_eq!(agreed(ballots(), 2), ["a", "b"]);
        assert_eq!(agreed(ballots(), 1), ["a", "b", "liar"]);
        assert_eq!(agreed(ballots(), 4), [""; 0]);
    }
}
