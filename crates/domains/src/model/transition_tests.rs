//! Every row of the table of states.

use std::time::Duration;

use portico_dns::Verdict;
use portico_kernel::Timestamp;
use proptest::prelude::*;

use super::*;

const START: Timestamp = Timestamp::from_seconds(1_750_000_000);
const MISSING: Verdict = Verdict::Gone { other_value: false };
const CHANGED: Verdict = Verdict::Gone { other_value: true };
const VERDICTS: [Verdict; 4] = [Verdict::Seen, MISSING, CHANGED, Verdict::Unclear];

fn hours(count: u64) -> Duration {
    Duration::from_hours(count)
}

fn found(verdict: Verdict) -> Finding {
    Finding { verdict, moved: false, chance: 0 }
}

/// A domain that was added at the start and stands so.
fn state(status: Status) -> State {
    let mut state = State::new(START);
    match status {
        Status::Pending => {}
        Status::Seen => {
            looked(&mut state, Cause::Check, found(Verdict::Seen), START);
        }
        Status::Verified => {
            looked(&mut state, Cause::Confirm, found(Verdict::Seen), START);
        }
        Status::Unverified => {
            looked(&mut state, Cause::Confirm, found(Verdict::Seen), START);
            looked(&mut state, Cause::Check, found(MISSING), START);
        }
    }
    assert_eq!(state.status, status);
    state
}

#[test]
fn what_is_not_verified_moves_between_pending_and_seen() {
    let at = START + hours(1);
    for cause in [Cause::Check, Cause::Job] {
        for verdict in VERDICTS {
            let seen = verdict == Verdict::Seen;
            for status in [Status::Pending, Status::Seen] {
                let mut state = state(status);
                assert_eq!(looked(&mut state, cause, found(verdict), at), Move::Silent);
                assert_eq!(state.status, if seen { Status::Seen } else { Status::Pending }, "{verdict:?}");
                assert_eq!((state.last_checked_at, state.reason), (Some(at), Reason::None));
                assert_eq!(state.next_look_at, Some(START + hours(2)));
            }
            let mut lost = state(Status::Unverified);
            let before = lost.reason;
            looked(&mut lost, cause, found(verdict), at);
            let after = if seen { (Status::Seen, Reason::None) } else { (Status::Unverified, before) };
            assert_eq!((lost.status, lost.reason), after, "{verdict:?}");
            assert_eq!(lost.next_look_at.is_some(), seen);
        }
    }
}

#[test]
fn a_token_ends_after_seven_days_whatever_is_seen() {
    let at = START + hours(7 * 24);
    for cause in [Cause::Check, Cause::Job, Cause::Confirm] {
        for verdict in VERDICTS {
            for status in [Status::Pending, Status::Seen] {
                let mut state = state(status);
                assert_eq!(looked(&mut state, cause, found(verdict), at), Move::Silent);
                assert_eq!((state.status, state.reason), (Status::Unverified, Reason::TokenExpired));
                assert_eq!(state.next_look_at, None);
            }
            let mut lost = state(Status::Unverified);
            looked(&mut lost, cause, found(verdict), at);
            assert_eq!((lost.status, lost.reason), (Status::Unverified, Reason::RecordMissing));
        }
    }
    let mut early = state(Status::Pending);
    looked(&mut early, Cause::Check, found(Verdict::Seen), at - Duration::from_micros(1));
    assert_eq!(early.status, Status::Seen);
}

#[test]
fn a_confirmation_verifies_whatever_was_before() {
    let at = START + hours(3);
    for status in [Status::Pending, Status::Seen, Status::Unverified] {
        let mut state = state(status);
        assert_eq!(looked(&mut state, Cause::Confirm, found(Verdict::Seen), at), Move::Verified);
        assert_eq!(
            (state.status, state.reason, state.verified_at),
            (Status::Verified, Reason::None, Some(at))
        );
        assert_eq!(state.next_look_at, Some(at + hours(20)));
        assert_eq!(looked(&mut state, Cause::Confirm, found(Verdict::Seen), at + hours(1)), Move::Silent);
        assert_eq!((state.verified_at, state.last_checked_at), (Some(at), Some(at + hours(1))));
    }
}

#[test]
fn a_check_ends_what_is_gone_and_nothing_that_is_unclear() {
    for (verdict, reason) in [(MISSING, Reason::RecordMissing), (CHANGED, Reason::RecordChanged)] {
        let mut state = state(Status::Verified);
        assert_eq!(looked(&mut state, Cause::Check, found(verdict), START + hours(1)), Move::Unverified);
        assert_eq!((state.status, state.reason, state.next_look_at), (Status::Unverified, reason, None));
    }
    let mut unclear = state(Status::Verified);
    let before = State { last_checked_at: Some(START + hours(1)), ..unclear.clone() };
    assert_eq!(looked(&mut unclear, Cause::Check, found(Verdict::Unclear), START + hours(1)), Move::Silent);
    assert_eq!(unclear, before);
}

/// Looks when it is time, always with the same finding, until the domain is no longer verified; returns after how long,
/// and what was told.
fn until_the_end(finding: Finding) -> (Duration, Vec<Move>, State) {
    let mut state = state(Status::Verified);
    let first = state.next_look_at.unwrap();
    let (mut at, mut told) = (first, Vec::new());
    loop {
        told.push(looked(&mut state, Cause::Job, finding, at));
        let Some(next) = state.next_look_at else { return (at.since(first), told, state) };
        assert!(next > at);
        at = next;
    }
}

#[test]
fn each_grace_ends_when_it_should() {
    let moved = Finding { moved: true, ..found(MISSING) };
    for (finding, grace, reason) in [
        (found(MISSING), hours(72), Reason::RecordMissing),
        (found(CHANGED), hours(72), Reason::RecordChanged),
        (moved, hours(24), Reason::RecordMissing),
        (found(Verdict::Unclear), hours(7 * 24), Reason::Unresolvable),
    ] {
        let (ended, told, state) = until_the_end(finding);
        assert_eq!((ended, state.status, state.reason), (grace, Status::Unverified, reason));
        let ends_at = START + hours(20) + grace;
        assert_eq!((told.first(), told.last()), (Some(&Move::Missing(ends_at)), Some(&Move::Unverified)));
        assert!(told[1..told.len() - 1].iter().all(|told| *told == Move::Silent));
        assert_eq!((state.misses, state.missed_since, state.gone_since), (0, None, None));
    }
}

#[test]
fn in_its_grace_a_domain_says_why_and_is_looked_at_more_often() {
    let mut state = state(Status::Verified);
    let mut at = START + hours(20);
    let mut gaps = Vec::new();
    for _ in 0..6 {
        looked(&mut state, Cause::Job, found(CHANGED), at);
        assert_eq!((state.status, state.reason), (Status::Verified, Reason::RecordChanged));
        let next = state.next_look_at.unwrap();
        gaps.push(next.since(at).as_secs() / 60);
        at = next;
    }
    assert_eq!(gaps, [15, 60, 360, 720, 720, 720]);
    assert_eq!(looked(&mut state, Cause::Job, found(Verdict::Seen), at), Move::Silent);
    assert_eq!((state.reason, state.misses, state.next_look_at), (Reason::None, 0, Some(at + hours(20))));
    // The next miss begins a grace of its own.
    let told = looked(&mut state, Cause::Job, found(MISSING), at + hours(24));
    assert_eq!(told, Move::Missing(at + hours(24 + 72)));
    assert_eq!(state.gone_since, Some(at + hours(24)));
}

#[test]
fn what_is_gone_must_be_gone_at_every_look() {
    let mut state = state(Status::Verified);
    let at = START + hours(20);
    looked(&mut state, Cause::Job, found(MISSING), at);
    looked(&mut state, Cause::Job, found(Verdict::Unclear), at + hours(40));
    assert_eq!((state.reason, state.gone_since), (Reason::Unresolvable, None));
    looked(&mut state, Cause::Job, found(MISSING), at + hours(71));
    assert_eq!(looked(&mut state, Cause::Job, found(MISSING), at + hours(73)), Move::Silent);
    assert_eq!(state.status, Status::Verified, "its 72 hours began at the 71st");
    assert_eq!(looked(&mut state, Cause::Job, found(MISSING), at + hours(71 + 72)), Move::Unverified);
}

#[test]
fn what_is_never_seen_ends_though_no_two_looks_agree() {
    let mut state = state(Status::Verified);
    let (mut at, mut turn) = (START + hours(20), 0);
    while state.status == Status::Verified {
        let verdict = if turn % 2 == 0 { Verdict::Unclear } else { MISSING };
        looked(&mut state, Cause::Job, found(verdict), at);
        at = state.next_look_at.unwrap_or(at);
        turn += 1;
    }
    assert!(at.since(START + hours(20)) <= hours(7 * 24 + 24));
}

#[test]
fn the_time_without_resolvers_does_not_count() {
    let mut state = state(Status::Verified);
    let at = START + hours(20);
    looked(&mut state, Cause::Job, found(Verdict::Unclear), at);
    state.unreachable_since = Some(at + hours(1));
    looked(&mut state, Cause::Job, found(Verdict::Unclear), at + hours(101));
    assert_eq!((state.missed_since, state.unreachable_since), (Some(at + hours(100)), None));
    looked(&mut state, Cause::Job, found(Verdict::Unclear), at + hours(100 + 7 * 24 - 1));
    assert_eq!(state.status, Status::Verified);
    looked(&mut state, Cause::Job, found(Verdict::Unclear), at + hours(100 + 7 * 24));
    assert_eq!((state.status, state.reason), (Status::Unverified, Reason::Unresolvable));
}

#[test]
fn a_transferred_domain_can_be_proven_again_while_its_token_lives() {
    let mut state = state(Status::Verified);
    transfer(&mut state);
    assert_eq!(
        (state.status, state.reason, state.next_look_at),
        (Status::Unverified, Reason::Transferred, None)
    );
    let mut again = state.clone();
    assert_eq!(looked(&mut again, Cause::Confirm, found(Verdict::Seen), START + hours(1)), Move::Verified);
    looked(&mut state, Cause::Confirm, found(Verdict::Seen), START + hours(7 * 24));
    assert_eq!(state.status, Status::Unverified);
}

proptest! {
    /// Whatever looks find in whichever order: a verified domain ends only by a check or a grace that ran out, a look is due
    /// for whatever is not unverified, and for nothing else.
    #[test]
    fn nothing_moves_that_should_not(looks in prop::collection::vec((0..4usize, any::<bool>(), 1..2_000u64), 1..80)) {
        let mut state = state(Status::Verified);
        let mut at = START;
        let mut not_seen_since: Option<Timestamp> = None;
        for (verdict, moved, minutes) in looks {
            at = at + Duration::from_mins(minutes);
            let finding = Finding { verdict: VERDICTS[verdict], moved, chance: 7 };
            if finding.verdict == Verdict::Seen {
                not_seen_since = None;
            } else {
                not_seen_since.get_or_insert(at);
            }
            let told = looked(&mut state, Cause::Job, finding, at);
            prop_assert_eq!(state.next_look_at.is_some(), state.status != Status::Unverified);
            if told == Move::Unverified {
                let missed = at.since(not_seen_since.unwrap());
                prop_assert!(missed >= if moved { hours(24) } else { hours(72) }, "{:?}", missed);
                break;
            }
            prop_assert_eq!(state.status, Status::Verified);
            prop_assert_eq!(state.reason == Reason::None, finding.verdict == Verdict::Seen);
            prop_assert!(state.next_look_at.unwrap() > at);
        }
    }
}
