//! Fair execution: tenants take turns, so that one who floods the server waits in a line of their own.
//!
//! A call takes a turn when it begins to run and gives it back when it has ended. As long as one tenant alone calls, it may
//! have all turns that are of use to it. Once somebody else calls too, each has a few at once, and whoever has the fewest
//! goes first. Nothing is refused here. Reads and writes have turns of their own. A call that takes long mostly waits for
//! something else, so its turn ends before it does, as soon as somebody needs it.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use portico_engine::clock::Stopwatch;
use portico_engine::{Method, Metric};
use tokio::sync::oneshot;

use crate::party::Party;

/// A turn that lasts longer ends when somebody waits for one.
const TURN_TIME_MAX: Duration = Duration::from_millis(250);
/// For so long after the call of another tenant nobody has more than their share.
const SHARED_FOR: Duration = Duration::from_secs(1);

/// Writes of one account at once where the database is on another machine. The events of an account are numbered in the
/// order of their commits, so each holds the account's row until it is committed. More of them would stand in line for it in
/// the database, which slows the one that has it.
const REMOTE_WRITES: usize = 4;

/// How many turns there are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TurnSettings {
    /// In all.
    pub(crate) total: usize,
    /// Of one party that calls alone.
    pub(crate) alone: usize,
    /// Of one party, while others have some too.
    pub(crate) share: usize,
}

/// The turns of calls that read and of calls that write: a read does not stand in line behind its own tenant's writes, which
/// mostly wait for a disk.
pub(crate) struct CallTurns {
    reads: Turns,
    writes: Turns,
}

impl CallTurns {
    /// As many as keep this machine busy, and several times as many where the database is on another one. Of writes there
    /// are more, because those that wait for the disk share what they wait for. On another machine those of one account wait
    /// for each other instead, so few of them run at once.
    pub(crate) fn of_machine(database_is_remote: bool) -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let share = (2 * cores).max(4) * if database_is_remote { 4 } else { 1 };
        let turns = |shares: usize| TurnSettings { total: shares * share, alone: shares * share, share };
        let writes = if database_is_remote {
            TurnSettings { alone: REMOTE_WRITES, share: REMOTE_WRITES, ..turns(32) }
        } else {
            turns(32)
        };
        Self { reads: Turns::new(turns(8)), writes: Turns::new(writes) }
    }

    /// The turns of calls of that method.
    pub(crate) fn of(&self, method: Method) -> &Turns {
        if method == Method::Get { &self.reads } else { &self.writes }
    }

    /// What is counted.
    pub(crate) fn metrics(&self) -> Metric {
        let waited = [&self.reads, &self.writes].map(|turns| turns.0.waited.load(Ordering::Relaxed));
        Metric::counter("turns_waited", "Calls that waited for their tenant's turn", waited.iter().sum())
    }
}

/// Gives out turns.
#[derive(Clone)]
pub(crate) struct Turns(Arc<Shared>);

struct Shared {
    settings: TurnSettings,
    state: Mutex<State>,
    waited: AtomicU64,
}

#[derive(Default)]
struct State {
    running: Vec<Running>,
    next_id: u64,
    /// Those who wait, one line for each party, in the order in which they had their last turn.
    lines: VecDeque<Line>,
    /// Who took the last turn, and when somebody else did before.
    last: Option<Party>,
    other_at: Option<Stopwatch>,
}

struct Running {
    id: u64,
    party: Party,
    since: Stopwatch,
}

struct Line {
    party: Party,
    waiting: VecDeque<oneshot::Sender<Turn>>,
}

/// The right to run, until it is dropped.
pub(crate) struct Turn {
    turns: Turns,
    id: u64,
}

/// Turns that were given out, and whoever waits for them.
type Given = Vec<(oneshot::Sender<Turn>, Turn)>;

impl Turns {
    pub(crate) fn new(settings: TurnSettings) -> Self {
        let (state, waited) = (Mutex::default(), AtomicU64::new(0));
        Self(Arc::new(Shared { settings, state, waited }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is whole before anything can panic.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn of that party.
    pub(crate) async fn take(&self, party: Party) -> Turn {
        let mut waiting = match self.begin(party) {
            Ok(turn) => return turn,
            Err(waiting) => waiting,
        };
        self.0.waited.fetch_add(1, Ordering::Relaxed);
        loop {
            match tokio::time::timeout(TURN_TIME_MAX, &mut waiting).await {
                Ok(Ok(turn)) => return turn,
                // Nobody lets one wait who is in a line, so this is never seen.
                Ok(Err(_)) => return Turn { turns: self.clone(), id: 0 },
                Err(_) => self.end_long_ones(),
            }
        }
    }

    /// A turn, or the place in the party's line.
    fn begin(&self, party: Party) -> Result<Turn, oneshot::Receiver<Turn>> {
        let mut state = self.state();
        if state.last.as_ref() != Some(&party) && state.last.replace(party.clone()).is_some() {
            state.other_at = Some(Stopwatch::start());
        }
        let has_line = state.lines.iter().any(|line| line.party == party);
        if !has_line && state.has_room(self.0.settings, &party) {
            return Ok(state.run(self, party));
        }
        let (sender, receiver) = oneshot::channel();
        match state.lines.iter_mut().find(|line| line.party == party) {
            Some(line) => line.waiting.push_back(sender),
            None => state.lines.push_back(Line { party, waiting: VecDeque::from([sender]) }),
        }
        Err(receiver)
    }

    /// Takes back the turns that have lasted long, for those who wait.
    fn end_long_ones(&self) {
        self.give_out(|state| state.running.retain(|running| running.since.elapsed() < TURN_TIME_MAX));
    }

    /// Changes the state, and gives out what is free then.
    fn give_out(&self, change: impl FnOnce(&mut State)) {
        let mut given = Given::new();
        let mut state = self.state();
        change(&mut state);
        while let Some((party, sender)) = state.next(self.0.settings) {
            let turn = state.run(self, party);
            given.push((sender, turn));
        }
        drop(state);
        for (sender, turn) in given {
            // A turn for which nobody waits any more is dropped here, and goes to the next.
            drop(sender.send(turn));
        }
    }
}

impl State {
    /// Has that party room for one more turn?
    fn has_room(&self, settings: TurnSettings, party: &Party) -> bool {
        let is_shared = self.other_at.is_some_and(|at| at.elapsed() < SHARED_FOR);
        let most = if is_shared { settings.share } else { settings.alone };
        self.running.len() < settings.total && self.held(party) < most
    }

    fn held(&self, party: &Party) -> usize {
        self.running.iter().filter(|running| running.party == *party).count()
    }

    fn run(&mut self, turns: &Turns, party: Party) -> Turn {
        self.next_id += 1;
        self.running.push(Running { id: self.next_id, party, since: Stopwatch::start() });
        Turn { turns: turns.clone(), id: self.next_id }
    }

    /// Who runs next, if anybody may: of those who have the fewest turns the one whose last one is longest ago.
    fn next(&mut self, settings: TurnSettings) -> Option<(Party, oneshot::Sender<Turn>)> {
        loop {
            let may = |(_, line): &(usize, &Line)| self.has_room(settings, &line.party);
            let lines = self.lines.iter().enumerate().filter(may);
            let (index, _) = lines.min_by_key(|(_, line)| self.held(&line.party))?;
            let Line { party, mut waiting } = self.lines.remove(index)?;
            let next = std::iter::from_fn(|| waiting.pop_front()).find(|next| !next.is_closed());
            if !waiting.is_empty() {
                self.lines.push_back(Line { party: party.clone(), waiting });
            }
            if let Some(next) = next {
                return Some((party, next));
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let id = self.id;
        self.turns.give_out(|state| state.running.retain(|running| running.id != id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: TurnSettings = TurnSettings { total: 4, alone: 4, share: 2 };

    fn party(name: &str) -> Party {
        Party::Caller(name.to_owned())
    }

    fn turns() -> Turns {
        Turns::new(SETTINGS)
    }

    fn taken(turns: &Turns, name: &str) -> Turn {
        turns.begin(party(name)).unwrap_or_else(|_| panic!("{name} waits"))
    }

    fn waiting(turns: &Turns, name: &str) -> oneshot::Receiver<Turn> {
        turns.begin(party(name)).err().unwrap_or_else(|| panic!("{name} does not wait"))
    }

    #[test]
    fn whoever_is_alone_has_everything_and_shares_it_once_somebody_comes() {
        let turns = turns();
        let mut flood: Vec<_> = (0..4).map(|_| taken(&turns, "greedy")).collect();
        let mut line: Vec<_> = (0..3).map(|_| waiting(&turns, "greedy")).collect();
        let mut honest = waiting(&turns, "honest");
        drop(flood.pop());
        let held = honest.try_recv().expect("whoever has the fewest goes first");
        drop(flood.pop());
        assert!(line[0].try_recv().is_err(), "who has a share already waits, although there is room");
        let second = taken(&turns, "honest");
        drop(flood.pop());
        line.remove(0).try_recv().expect("and goes on once it has less");
        drop((held, second, flood));
    }

    #[test]
    fn whoever_is_alone_may_have_a_limit_too() {
        let turns = Turns::new(TurnSettings { total: 4, alone: 2, share: 1 });
        let mut held = vec![taken(&turns, "alone"), taken(&turns, "alone")];
        let mut next = waiting(&turns, "alone");
        drop(held.pop());
        next.try_recv().expect("there is room for it now");
    }

    #[test]
    fn a_turn_for_which_nobody_waits_goes_to_the_next() {
        let turns = turns();
        let flood: Vec<_> = (0..4).map(|_| taken(&turns, "greedy")).collect();
        drop(waiting(&turns, "greedy"));
        let mut next = waiting(&turns, "other");
        drop(flood);
        assert!(next.try_recv().is_ok());
        assert!(turns.state().running.is_empty() && turns.state().lines.is_empty());
    }

    #[tokio::test]
    async fn a_call_that_takes_long_keeps_nobody_waiting() {
        let turns = Turns::new(TurnSettings { total: 1, alone: 1, share: 1 });
        let long = turns.take(party("slow")).await;
        let next = turns.take(party("other")).await;
        drop(long);
        assert_eq!(turns.state().running.len(), 1, "what was taken back is not given back twice");
        drop(next);
        assert!(turns.state().running.is_empty());
    }
}
