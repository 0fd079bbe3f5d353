//! Pages: what a caller asks for, and the token that continues it.

use portico_kernel::{AccountId, Caller, Entropy, Problem, Timestamp, hex, seconds};
use portico_store::{Context, Keyring};
use serde::Deserialize;

use crate::input::{Fields, InputError, Node, fingerprint, read};
use crate::{Cursor, PageRequest, PageSize, Spec};

/// How long a token can be used.
const TOKEN_LIFE_SECONDS: u64 = 3 * 24 * 3600;

/// The fields that every list takes; the operations that are lists need not name them.
#[derive(Deserialize, Default)]
struct PageFields {
    page_size: Option<i32>,
    limit: Option<i32>,
    page_token: Option<String>,
}

/// Their names.
pub const PAGE_FIELDS: [&str; 3] = ["page_size", "page_token", "limit"];

/// The page that a caller asks for, and what its token is bound to.
pub(crate) struct Paging {
    pub(crate) request: PageRequest,
    binding: Binding,
}

/// A token continues the same list for the same account with the same parameters, or none.
struct Binding {
    operation: &'static str,
    account: String,
    parameters: [u8; 32],
}

impl Paging {
    /// Takes the paging fields out of a message; nothing means `default` items.
    pub(crate) fn take(
        (spec, caller, account): (&Spec, &Caller, Option<AccountId>),
        fields: &mut Fields,
        default: u16,
        keyring: &Keyring,
        now: Timestamp,
    ) -> Result<Self, InputError> {
        let token = fields.remove("page_token");
        let binding = Binding {
            operation: spec.name,
            account: account.map_or_else(|| caller.subject.clone(), |account| account.to_string()),
            parameters: fingerprint(fields),
        };
        let mut paging: Fields =
            PAGE_FIELDS.iter().filter_map(|name| Some(((*name).to_owned(), fields.remove(*name)?))).collect();
        paging.extend(token.map(|token| ("page_token".to_owned(), token)));
        let asked: PageFields = read(paging)?;
        let size = |name, size| {
            PageSize::asked(size, default).ok_or_else(|| InputError::of(name, "must not be negative"))
        };
        let (page_size, limit) = (size("page_size", asked.page_size)?, size("limit", asked.limit)?);
        // `limit` is the older name of `page_size`, which wins.
        let size = if asked.page_size.is_some() { page_size } else { limit };
        let token = asked.page_token.filter(|token| !token.is_empty());
        let after = token.map(|token| binding.open(&token, keyring, now)).transpose()?;
        Ok(Self { request: PageRequest { size, after }, binding })
    }

    /// The token of the page after `cursor`.
    pub(crate) fn seal(
        &self,
        cursor: &Cursor,
        keyring: &Keyring,
        entropy: &dyn Entropy,
        now: Timestamp,
    ) -> String {
        let until = now + seconds(TOKEN_LIFE_SECONDS);
        keyring.seal_token(entropy, self.binding.context(&self.binding.row()), until, cursor.0.as_bytes())
    }
}

impl Binding {
    fn row(&self) -> String {
        format!("{} {}", self.operation, hex(&self.parameters))
    }

    fn context<'a>(&'a self, row: &'a str) -> Context<'a> {
        Context { account: &self.account, row, purpose: "page_token" }
    }

    /// A token that is damaged, foreign, too old, or of a list with other parameters is one and the same refusal.
    fn open(&self, token: &str, keyring: &Keyring, now: Timestamp) -> Result<Cursor, InputError> {
        let open = || {
            let cursor = keyring.open_token(self.context(&self.row()), now, token).ok()?;
            String::from_utf8(cursor).ok().map(Cursor)
        };
        open()
            .ok_or_else(|| InputError::of("page_token", "does not continue this list with these parameters"))
    }
}

/// A fault of ours: a page is asked for in an operation whose `Spec` says no list.
pub(crate) fn missing() -> Problem {
    Problem::internal("a page was asked of an operation whose Spec says no list")
}

/// Puts the token into a query as it was sent, for the `Link` header.
pub fn next_query(fields: &Fields, token: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    flatten("", fields, &mut pairs);
    pairs.retain(|(name, _)| name != "page_token");
    pairs.push(("page_token".to_owned(), token.to_owned()));
    pairs
}

fn flatten(prefix: &str, fields: &Fields, pairs: &mut Vec<(String, String)>) {
    for (name, value) in fields {
        let name = format!("{prefix}{name}");
        match value {
            Node::Texts(words) => pairs.extend(words.iter().map(|word| (name.clone(), word.clone()))),
            Node::Object(fields) => flatten(&format!("{name}."), fields, pairs),
            // Only words and their groups come out of a query.
            _ => {}
        }
    }
}
