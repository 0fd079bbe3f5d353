//! Everything about an operation that is not its shape, said once.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use portico_kernel::{Category, Role, text_enum};

use crate::{Tool, input};

text_enum! {
    /// How an operation is called over HTTP.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Method {
        /// Reads.
        Get = "GET",
        /// Makes, or does.
        Post = "POST",
        /// Replaces.
        Put = "PUT",
        /// Changes.
        Patch = "PATCH",
        /// Removes.
        Delete = "DELETE",
    }
}

impl Method {
    /// Does the request come in a body? Otherwise it comes in the query.
    pub const fn takes_body(self) -> bool {
        matches!(self, Self::Post | Self::Put | Self::Patch)
    }
}

/// Who may call an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Anyone, without a token.
    Open,
    /// Any valid token.
    AnyToken,
    /// Keys, API tokens and apps that hold the scope of this name, and persons.
    Scope(&'static str),
    /// Keys, API tokens and apps that hold every scope of one of these lists, and persons.
    AnyOf(&'static [&'static [&'static str]]),
    /// Services alone, whose token holds the scope of this name.
    Service(&'static str),
    /// Persons alone, by their role.
    Person,
}

/// What the body of a request is to an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestBody {
    /// A JSON message, whose members are fields.
    Json,
    /// Anything at all: the operation reads [`Ctx::raw_request`](crate::Ctx::raw_request).
    Raw,
    /// Bytes, which the operation reads from [`Ctx::upload`](crate::Ctx::upload) as they arrive; its fields come in path
    /// and query.
    Upload,
}

/// A protocol that carries more than one call and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Server-sent events.
    Sse,
    /// The WebSocket of the platform's own frames.
    Socket,
    /// MQTT over a WebSocket; over TCP it has a listener of its own.
    Mqtt,
    /// Messages of assistants, of which each is answered by itself.
    Mcp,
}

/// Everything about an operation that is not its shape.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says one thing by itself, and a list of them is what this is"
)]
pub struct Spec {
    /// `area.nouns.verb`: the socket method, the span, the metric's label, the row of usage.
    pub name: &'static str,
    /// How it is called.
    pub method: Method,
    /// Where, with `{variables}`.
    pub path: &'static str,
    /// Who may call it.
    pub access: Access,
    /// May every service call it too, whatever its token holds?
    pub services: bool,
    /// The least role of a person in the account.
    pub role: Role,
    /// What a call costs; `None` for health and documents, which are free.
    pub category: Option<Category>,
    /// What a call costs where that is not the price of its category.
    pub units: Option<u32>,
    /// The plans whose accounts may call it; `None` where the plan does not matter.
    pub plans: Option<&'static [&'static str]>,
    /// Is an `Idempotency-Key` taken?
    pub idempotency_key: bool,
    /// The name of the list in the answer, when it is one.
    pub list: Option<&'static str>,
    /// Does the answer carry an `ETag`?
    pub etag: bool,
    /// What the body of its request is.
    pub body: RequestBody,
    /// The largest body that it takes, in bytes.
    pub body_limit: u64,
    /// How many values the JSON of its request may hold.
    pub values_max: usize,
    /// The longest that it may run, where that is not the limit of every operation.
    pub time_limit: Option<Duration>,
    /// Does it open a connection that stays, and of which kind?
    pub protocol: Option<Protocol>,
    /// Does it stand in the OpenAPI document?
    pub documented: bool,
    /// What it is to assistants, if it is one of their tools.
    pub tool: Option<Tool>,
}

/// The path variable and the field that names an account: whoever calls must belong to it.
pub const ACCOUNT_VARIABLE: &str = "org_id";

impl Spec {
    /// The largest body that an operation may take as JSON (SPEC.md, Limits).
    pub const BODY_LIMIT: u64 = 2 << 20;
    /// The largest that one takes unless it says otherwise: many times what the fields of most may hold.
    pub const USUAL_BODY_LIMIT: u64 = 64 << 10;

    const fn new(method: Method, name: &'static str, path: &'static str) -> Self {
        Self {
            name,
            method,
            path,
            access: Access::AnyToken,
            services: false,
            role: Role::Member,
            category: None,
            units: None,
            plans: None,
            idempotency_key: false,
            list: None,
            etag: false,
            body: RequestBody::Json,
            body_limit: Self::USUAL_BODY_LIMIT,
            values_max: input::VALUES_MAX,
            time_limit: None,
            protocol: None,
            documented: true,
            tool: None,
        }
    }

    /// An operation that reads.
    pub const fn get(name: &'static str, path: &'static str) -> Self {
        Self::new(Method::Get, name, path)
    }

    /// An operation that makes or does something.
    pub const fn post(name: &'static str, path: &'static str) -> Self {
        Self::new(Method::Post, name, path)
    }

    /// An operation that replaces something.
    pub const fn put(name: &'static str, path: &'static str) -> Self {
        Self::new(Method::Put, name, path)
    }

    /// An operation that changes something.
    pub const fn patch(name: &'static str, path: &'static str) -> Self {
        Self::new(Method::Patch, name, path)
    }

    /// An operation that removes something.
    pub const fn delete(name: &'static str, path: &'static str) -> Self {
        Self::new(Method::Delete, name, path)
    }

    /// For tokens that hold the scope of that name, which an area must bring.
    #[must_use]
    pub const fn scope(mut self, scope: &'static str) -> Self {
        self.access = Access::Scope(scope);
        self
    }

    /// For services alone, whose token holds the scope of that name, which an area must bring.
    #[must_use]
    pub const fn service(mut self, scope: &'static str) -> Self {
        self.access = Access::Service(scope);
        self
    }

    /// For services too, whatever their token holds: the operation acts in no account.
    #[must_use]
    pub const fn also_services(mut self) -> Self {
        self.services = true;
        self
    }

    /// Takes JSON of so many values over REST.
    #[must_use]
    pub const fn values_max(mut self, values_max: usize) -> Self {
        self.values_max = values_max;
        self
    }

    /// For everyone, without a token.
    #[must_use]
    pub const fn open(mut self) -> Self {
        self.access = Access::Open;
        self
    }

    /// For persons alone; keys, API tokens and apps are refused.
    #[must_use]
    pub const fn persons(mut self) -> Self {
        self.access = Access::Person;
        self
    }

    /// Of persons, for those with at least this role in the account.
    #[must_use]
    pub const fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// Counted in this category.
    #[must_use]
    pub const fn category(mut self, category: Category) -> Self {
        self.category = Some(category);
        self
    }

    /// Takes an `Idempotency-Key`.
    #[must_use]
    pub const fn accepts_idempotency_key(mut self) -> Self {
        self.idempotency_key = true;
        self
    }

    /// Answers pages of a list of this name.
    #[must_use]
    pub const fn list(mut self, name: &'static str) -> Self {
        self.list = Some(name);
        self
    }

    /// Answers with an `ETag`, and 304 to whoever has it.
    #[must_use]
    pub const fn etag(mut self) -> Self {
        self.etag = true;
        self
    }

    /// Takes JSON of at most this many bytes over REST, up to [`BODY_LIMIT`](Self::BODY_LIMIT).
    #[must_use]
    pub const fn body_limit(mut self, bytes: u64) -> Self {
        self.body_limit = bytes;
        self
    }

    /// Takes whatever is posted, of at most this many bytes, as [`Ctx::raw_request`](crate::Ctx::raw_request).
    #[must_use]
    pub const fn raw_body(mut self, limit: u64) -> Self {
        self.body = RequestBody::Raw;
        self.body_limit = limit;
        self
    }

    /// Takes an upload of at most this many bytes, which [`Ctx::upload`](crate::Ctx::upload) reads as it arrives.
    #[must_use]
    pub const fn upload(mut self, limit: u64) -> Self {
        self.body = RequestBody::Upload;
        self.body_limit = limit;
        self
    }

    /// May run so long, instead of as long as every operation.
    #[must_use]
    pub const fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// Opens a connection that stays, instead of answering.
    #[must_use]
    pub const fn opens(mut self, protocol: Protocol) -> Self {
        self.protocol = Some(protocol);
        self
    }

    /// Is it a document for everybody? Then pages of every origin may read it: it holds nothing of whoever asks.
    pub const fn is_public_document(&self) -> bool {
        matches!(self.access, Access::Open) && self.etag
    }

    /// Leaves it out of the OpenAPI document.
    #[must_use]
    pub const fn undocumented(mut self) -> Self {
        self.documented = false;
        self
    }

    /// The scope that a key must hold, where it is one.
    pub const fn required_scope(&self) -> Option<&'static str> {
        match self.access {
            Access::Scope(scope) => Some(scope),
            Access::Open | Access::AnyToken | Access::AnyOf(_) | Access::Service(_) | Access::Person => None,
        }
    }

    /// What a call costs, in units.
    pub fn price(&self) -> u32 {
        let by_category =
            || self.category.map_or(0, |category| u32::try_from(category.units()).unwrap_or(u32::MAX));
        self.units.unwrap_or_else(by_category)
    }

    /// May accounts of that plan call it?
    pub fn is_for_plan(&self, plan: &str) -> bool {
        self.plans.is_none_or(|plans| plans.contains(&plan))
    }

    /// The same description, for as long as the process lives; asked twice for equal ones it returns the same one. A
    /// service that is read anew, without a change, takes no memory.
    pub fn intern(self) -> &'static Self {
        static KNOWN: Mutex<BTreeMap<&'static str, Vec<&'static Spec>>> = Mutex::new(BTreeMap::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let of_name = known.entry(self.name).or_default();
        if let Some(same) = of_name.iter().find(|known| ***known == self) {
            return same;
        }
        let spec: &'static Self = Box::leak(Box::new(self));
        of_name.push(spec);
        spec
    }

    /// The names of the path's variables.
    pub fn variables(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
    }
}
