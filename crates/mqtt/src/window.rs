//! What was sent with quality of service 1 and is not acknowledged yet. The packets themselves are not kept: whoever
//! comes back without having acknowledged reads them from the log again.

use std::collections::VecDeque;

/// Packets under way at once, whatever the client would take.
const PACKETS_MAX: u16 = 64;
/// Packets that wait for an older one to be acknowledged, at most. A client that leaves out one waits for itself.
const SPAN_MAX: usize = 1024;
/// Bytes of events under way at once; one event may always be.
const BYTES_MAX: usize = 32 << 10;

/// The packets under way, in the order in which they were sent.
#[derive(Debug)]
pub struct Window {
    sent: VecDeque<InFlight>,
    packets_max: usize,
    /// Not yet acknowledged.
    packets: usize,
    bytes: usize,
    last_id: u16,
}

#[derive(Debug)]
struct InFlight {
    id: u16,
    /// The event's number; `None` for the answer to a call.
    sequence: Option<i64>,
    bytes: usize,
    acknowledged: bool,
}

impl Window {
    /// A window for a client that takes so many packets at once.
    pub fn new(receive_max: u16) -> Self {
        let packets_max = usize::from(receive_max.min(PACKETS_MAX));
        Self { sent: VecDeque::new(), packets_max, packets: 0, bytes: 0, last_id: 0 }
    }

    /// May another packet be sent?
    pub fn has_room(&self) -> bool {
        self.has_room_for_answer() && self.bytes < BYTES_MAX
    }

    /// May the answer to a call be sent? The bytes of events do not keep it.
    pub fn has_room_for_answer(&self) -> bool {
        self.packets < self.packets_max && self.sent.len() < SPAN_MAX
    }

    /// Gives a packet its number.
    pub fn send(&mut self, sequence: Option<i64>, bytes: usize) -> u16 {
        let bytes = sequence.map_or(0, |_| bytes);
        loop {
            self.last_id = self.last_id.checked_add(1).unwrap_or(1);
            // There are many more numbers than packets under way.
            if !self.sent.iter().any(|sent| sent.id == self.last_id) {
                break;
            }
        }
        self.sent.push_back(InFlight { id: self.last_id, sequence, bytes, acknowledged: false });
        self.packets += 1;
        self.bytes += bytes;
        self.last_id
    }

    /// The client has taken that packet. A number that is not under way is none of ours, and does no harm.
    pub fn acknowledge(&mut self, id: u16) {
        let Some(sent) = self.sent.iter_mut().find(|sent| sent.id == id && !sent.acknowledged) else {
            return;
        };
        sent.acknowledged = true;
        self.packets -= 1;
        self.bytes -= sent.bytes;
        while self.sent.front().is_some_and(|sent| sent.acknowledged) {
            self.sent.pop_front();
        }
        if self.sent.is_empty() && self.sent.capacity() > usize::from(PACKETS_MAX) / 4 {
            self.sent = VecDeque::new();
        }
    }

    /// The number of the first event that is not acknowledged.
    pub fn first(&self) -> Option<i64> {
        self.sent.iter().filter(|sent| !sent.acknowledged).find_map(|sent| sent.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_unacknowledged_event_holds_the_place_whatever_the_order() {
        let mut window = Window::new(u16::MAX);
        let ids: Vec<_> = [5, 7, 8].map(|sequence| window.send(Some(sequence), 10)).into();
        assert_eq!(window.first(), Some(5));
        window.acknowledge(ids[1]);
        assert_eq!(window.first(), Some(5));
        window.acknowledge(ids[0]);
        assert_eq!(window.first(), Some(8));
        // Again, and one that was never sent.
        window.acknowledge(ids[0]);
        window.acknowledge(999);
        assert_eq!(window.first(), Some(8));
        window.acknowledge(ids[2]);
        assert_eq!((window.first(), window.packets, window.bytes), (None, 0, 0));
    }

    #[test]
    fn it_is_bounded_by_packets_and_by_bytes_but_takes_one_of_any_size() {
        let mut window = Window::new(2);
        let first = window.send(Some(1), 1);
        assert!(window.has_room());
        window.send(Some(2), 1);
        assert!(!window.has_room() && !window.has_room_for_answer());
        window.acknowledge(first);
        assert!(window.has_room());

        let mut window = Window::new(u16::MAX);
        assert!(window.has_room());
        let large = window.send(Some(1), 10 << 20);
        assert!(!window.has_room() && window.has_room_for_answer());
        window.acknowledge(large);
        for sequence in 0..i64::from(PACKETS_MAX) {
            assert!(window.has_room());
            window.send(Some(sequence), 1);
        }
        assert!(!window.has_room());
    }

    #[test]
    fn an_answer_under_way_holds_no_place_in_the_log() {
        let mut window = Window::new(10);
        let answer = window.send(None, 100);
        let event = window.send(Some(3), 100);
        assert_eq!(window.first(), Some(3));
        window.acknowledge(event);
        assert_eq!(window.first(), None);
        window.acknowledge(answer);
        assert!(window.sent.is_empty());
    }

    #[test]
    fn a_client_that_leaves_out_one_waits_for_itself() {
        let mut window = Window::new(10);
        let first = window.send(Some(0), 1);
        let mut sent = 0;
        while window.has_room() {
            let id = window.send(Some(1), 1);
            window.acknowledge(id);
            sent += 1;
        }
        assert_eq!(sent, SPAN_MAX - 1);
        window.acknowledge(first);
        assert!(window.has_room() && window.first().is_none());
    }

    #[test]
    fn a_number_under_way_is_not_given_twice_and_none_is_zero() {
        let mut window = Window::new(10);
        let kept = window.send(Some(1), 1);
        for _ in 0..70_000 {
            window.sent.truncate(1);
            let id = window.send(Some(2), 1);
            assert!(id != kept && id != 0);
            window.acknowledge(id);
        }
    }
}
