//! What a client has subscribed, how far it has come, and what is kept of that.

use portico_events::{Feed, SessionState, Start};
use portico_kernel::Problem;

use super::client::{Client, ClientEnd};
use super::encode;
use portico_mqtt::codec::DisconnectReasonCode as Reason;

impl Client {
    pub(super) async fn subscribe(&mut self, id: u16, asked: Vec<(String, u8)>) -> Result<(), ClientEnd> {
        let codes: Vec<_> = asked.into_iter().map(|(filter, qos)| self.filters.add(filter, qos)).collect();
        self.refit(&Start::Now).await?;
        // Before it is answered: from then on the client counts on it, whatever happens to us.
        self.write_down().await?;
        encode::suback(&mut self.out, self.version, id, &codes);
        Ok(())
    }

    pub(super) async fn unsubscribe(&mut self, id: u16, filters: &[String]) -> Result<(), ClientEnd> {
        let known: Vec<_> = filters.iter().map(|filter| self.filters.remove(filter)).collect();
        self.refit(&Start::Now).await?;
        self.write_down().await?;
        encode::unsuback(&mut self.out, self.version, id, &known);
        Ok(())
    }

    /// Makes the feed carry what is subscribed. One that is open stays where it is; another begins at `start`.
    pub(super) async fn refit(&mut self, start: &Start) -> Result<(), ClientEnd> {
        let unreadable = |problem: Problem| {
            tracing::debug!(%problem, "Failed to subscribe an MQTT client to events");
            ClientEnd::Close(Reason::ServerBusy)
        };
        match (self.filters.wanted().map_err(unreadable)?, &mut self.feed) {
            (None, _) => {
                self.feed = None;
                self.waiting.clear();
            }
            (Some(filter), Some(feed)) => feed.set_filter(filter),
            (Some(filter), feed) => {
                let (hub, engine) = (&self.calls.connections.events.hub, &self.calls.engine);
                let opening = Box::pin(Feed::open(hub, engine, self.connection.account(), start, filter));
                let (opened, resync) = opening.await.map_err(unreadable)?;
                if resync.is_some() {
                    tracing::info!(
                        "MQTT session resumes at the oldest event that is kept: events were missed"
                    );
                }
                *feed = Some(opened);
                self.settled = self.taken();
            }
        }
        Ok(())
    }

    /// The number of the last event that the client has taken, with all before it.
    fn taken(&self) -> i64 {
        let kept = self.session.as_ref().map_or(0, |session| session.kept().taken);
        let Some(feed) = &self.feed else { return kept };
        let waiting = || self.waiting.front().map(|frame| frame.sequence);
        if let Some(first) = self.window.first().or_else(waiting) {
            return first - 1;
        }
        feed.position()
    }

    /// Something has left or was acknowledged.
    pub(super) fn note_taken(&mut self) {
        if self.session.is_none() || !self.wire.is_clear(&self.out) {
            return;
        }
        self.settled = self.taken();
        if let Some(session) = &mut self.session {
            session.note_taken(self.settled);
        }
    }

    pub(super) fn state(&mut self) -> SessionState {
        self.note_taken();
        SessionState { filters: self.filters.all().to_vec(), taken: self.settled, sent: self.sent }
    }

    /// Writes down what the session has come to; what cannot be written now is tried again.
    pub(super) async fn keep(&mut self) -> Result<(), ClientEnd> {
        match self.write_down().await {
            Err(ClientEnd::Close(Reason::ServerBusy)) => Ok(()),
            kept => kept,
        }
    }

    /// Writes down what the session has come to, or ends the connection: for what the client counts on from then on.
    async fn write_down(&mut self) -> Result<(), ClientEnd> {
        let state = self.state();
        let Some(session) = &mut self.session else { return Ok(()) };
        match Box::pin(session.keep(&self.calls.engine, state)).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Reason::SessionTakenOver.into()),
            Err(error) => {
                tracing::debug!(%error, "Failed to save an MQTT session");
                Err(Reason::ServerBusy.into())
            }
        }
    }
}
