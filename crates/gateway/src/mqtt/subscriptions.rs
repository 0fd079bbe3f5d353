//! What a client has subscribed, how far it has come, and what is kept of that.

use portico_events::{Feed, SessionState, Start};
use portico_kernel::{Code, Problem};

use super::client::{Client, ClientEnd};
use super::encode;
use portico_mqtt::codec::{
    DisconnectReasonCode as Reason, SubackReasonCode as Suback, UnsubackReasonCode as Unsuback,
};
use portico_mqtt::packets::Version;

impl Client {
    pub(super) async fn subscribe(&mut self, id: u16, asked: Vec<(String, u8)>) -> Result<(), ClientEnd> {
        if !self.count_packet().await? {
            let codes = vec![Suback::QuotaExceeded; asked.len()];
            encode::suback(&mut self.out, self.version, id, &codes);
            return Ok(());
        }
        let registry = &self.calls.engine.registry;
        let is_type = |name: &str| registry.catalog().check_event_type("types", name).is_ok();
        let asked = asked.into_iter();
        let codes: Vec<_> = asked.map(|(filter, qos)| self.filters.add(filter, qos, is_type)).collect();
        self.refit(&Start::Now).await?;
        self.write_filters().await?;
        encode::suback(&mut self.out, self.version, id, &codes);
        Ok(())
    }

    pub(super) async fn unsubscribe(&mut self, id: u16, filters: &[String]) -> Result<(), ClientEnd> {
        if !self.count_packet().await? {
            if self.version == Version::V3 {
                // Its answer has no word for it.
                return Err(Reason::QuotaExceeded.into());
            }
            let codes = vec![Unsuback::ImplementationSpecificError; filters.len()];
            encode::unsuback(&mut self.out, self.version, id, &codes);
            return Ok(());
        }
        let remove = |filter: &String| {
            if self.filters.remove(filter) { Unsuback::Success } else { Unsuback::NoSubscriptionExisted }
        };
        let codes: Vec<_> = filters.iter().map(remove).collect();
        self.refit(&Start::Now).await?;
        self.write_filters().await?;
        encode::unsuback(&mut self.out, self.version, id, &codes);
        Ok(())
    }

    /// Counts a packet that changes subscriptions in the client's minute; returns false when that is used up.
    async fn count_packet(&mut self) -> Result<bool, ClientEnd> {
        let (credential, account) = (self.connection.credential(), self.connection.account());
        let counted = Box::pin(self.calls.count_subscription(credential, account)).await;
        self.connection.refusals.note(counted.is_err());
        match counted {
            Ok(()) => Ok(true),
            Err(problem) if problem.code() == Code::RateLimited => Ok(false),
            Err(problem) => {
                tracing::debug!(%problem, "Failed to count a subscription of an MQTT client");
                Err(Reason::ServerBusy.into())
            }
        }
    }

    /// Makes the feed carry what is subscribed. One that is open stays where it is; another begins at `start`.
    pub(super) async fn refit(&mut self, start: &Start) -> Result<(), ClientEnd> {
        let unreadable = |problem: Problem| {
            tracing::debug!(%problem, "Failed to subscribe an MQTT client to events");
            ClientEnd::Close(Reason::ServerBusy)
        };
        match (self.filters.wanted(), &mut self.feed) {
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
        let Some(feed) = &self.feed else { return self.settled };
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

    /// Writes down what the client has subscribed, if its session is to last and something has changed. Before it is
    /// answered: from then on the client counts on it, whatever happens to us.
    async fn write_filters(&mut self) -> Result<(), ClientEnd> {
        let all = self.filters.all();
        if self.session.as_ref().is_none_or(|session| session.kept().filters == all) {
            return Ok(());
        }
        self.write_down().await
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
