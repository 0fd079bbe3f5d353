//! Addresses of endpoints.

use portico_egress::EgressError;
use portico_kernel::{AccountId, InboxId, Problem, Timestamp};
use portico_store::Tx;
use url::Url;

use crate::{Webhooks, limits, sql};

/// The parts of an inbox's path before and after its id.
const INBOX_PATH: (&str, &str) = ("/v1/webhooks/inboxes/", "/receive");

/// An address that an endpoint may have.
pub(crate) struct Address {
    pub(crate) url: String,
    /// The account's own inbox, when the address is that of an inbox.
    pub(crate) inbox: Option<InboxId>,
}

/// The host of an address, without the port.
pub(crate) fn host(url: &str) -> Option<String> {
    Url::parse(url).ok()?.host_str().map(str::to_owned)
}

impl Webhooks {
    /// The address of an inbox.
    pub(crate) fn inbox_address(&self, inbox: InboxId) -> String {
        let (before, after) = INBOX_PATH;
        format!("{}{before}{inbox}{after}", self.base_url)
    }

    /// Checks an address without a lookup of its name, which is done at every delivery.
    pub(crate) async fn address(
        &self,
        tx: &mut Tx,
        account: AccountId,
        text: &str,
        now: Timestamp,
    ) -> Result<Address, Problem> {
        let refusal = |message: String| Problem::field("url", message);
        if text.chars().count() > limits::URL_CHARACTERS_MAX {
            return Err(refusal(format!("must have at most {} characters", limits::URL_CHARACTERS_MAX)));
        }
        if let Some(inbox) = self.inbox_at(text) {
            let own = sql::inbox(tx, inbox, now).await?.filter(|row| row.account_id == account);
            if own.is_some() {
                return Ok(Address { url: self.inbox_address(inbox), inbox: Some(inbox) });
            }
        }
        match self.egress.check(text) {
            Ok(()) => Ok(Address { url: text.to_owned(), inbox: None }),
            Err(EgressError::Blocked) => Err(refusal(
                "must be a public https address: it must not lead to this machine or a private network"
                    .to_owned(),
            )),
            Err(_) => Err(refusal(
                "must be a public https address, without a user, a password or a fragment".to_owned(),
            )),
        }
    }

    /// The inbox that the address names; `None` when it is not an inbox of this server.
    fn inbox_at(&self, text: &str) -> Option<InboxId> {
        let url = Url::parse(text).ok()?;
        let base = Url::parse(&self.base_url).ok()?;
        let has_user = !url.username().is_empty() || url.password().is_some();
        let same =
            url.origin() == base.origin() && !has_user && url.query().is_none() && url.fragment().is_none();
        let path = url.path().strip_prefix(base.path().trim_end_matches('/'))?;
        let id = path.strip_prefix(INBOX_PATH.0)?.strip_suffix(INBOX_PATH.1)?;
        id.parse().ok().filter(|_| same)
    }
}
