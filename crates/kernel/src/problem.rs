//! The one error of the platform.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use crate::Int64;

macro_rules! codes {
    ($($(#[doc = $meaning:literal])+ $variant:ident = $name:literal, $status:literal;)+) => {
        /// Why a call was refused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
        #[schemars(inline)]
        pub enum Code {
            $($(#[doc = $meaning])+ #[serde(rename = $name)] $variant,)+
        }

        impl Code {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The slug on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// The HTTP status that goes with it: the only place that says so.
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status),+ }
            }

            /// What it means, for a person.
            pub const fn description(self) -> &'static str {
                match self { $(Self::$variant => concat!($($meaning),+).trim_ascii()),+ }
            }
        }
    };
}

codes! {
    /// The request is malformed; a `field` detail names what is wrong.
    BadRequest = "bad_request", 400;
    /// The request is well formed, but the state of things does not allow it.
    FailedPrecondition = "failed_precondition", 400;
    /// There is no valid token.
    Unauthenticated = "unauthenticated", 401;
    /// The token does not allow this call.
    Forbidden = "forbidden", 403;
    /// There is no such thing here.
    NotFound = "not_found", 404;
    /// The path does not serve this method.
    MethodNotAllowed = "method_not_allowed", 405;
    /// It exists already.
    AlreadyExists = "already_exists", 409;
    /// Something else changed it, or the same call is still running.
    Conflict = "conflict", 409;
    /// The body is too large.
    PayloadTooLarge = "payload_too_large", 413;
    /// The body is not JSON.
    UnsupportedMediaType = "unsupported_media_type", 415;
    /// The same Idempotency-Key came with another request.
    Unprocessable = "unprocessable", 422;
    /// Too many calls; wait as long as `Retry-After` says.
    RateLimited = "rate_limited", 429;
    /// The allowance of units is spent.
    QuotaExceeded = "quota_exceeded", 429;
    /// The caller took the call back.
    Cancelled = "cancelled", 499;
    /// A fault of ours.
    Internal = "internal", 500;
    /// Not built yet.
    Unimplemented = "unimplemented", 501;
    /// A part of the platform is down; try again.
    Unavailable = "unavailable", 503;
    /// It took too long; try again.
    Timeout = "timeout", 504;
}

/// What a refusal is about, for a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Detail {
    /// A field of the request.
    Field {
        /// The path in the request.
        field: String,
        /// What is wrong with it.
        description: String,
    },
    /// A reason that a program can act on.
    Info {
        /// The reason, in capitals.
        reason: Cow<'static, str>,
        /// Who owns the reason.
        domain: Cow<'static, str>,
        /// Values that go with it.
        metadata: BTreeMap<String, String>,
    },
    /// When to try again.
    Retry {
        /// Whole seconds, rounded up.
        after_seconds: Int64,
    },
}

/// A refusal: a code, a sentence for a person, and details for a program. The cause is logged, never sent.
pub struct Problem(Box<Inner>);

struct Inner {
    code: Code,
    error: Cow<'static, str>,
    details: Vec<Detail>,
    cause: Option<Box<dyn Error + Send + Sync>>,
}

impl Problem {
    /// A refusal with this message.
    pub fn new(code: Code, error: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner { code, error: error.into(), details: Vec::new(), cause: None }))
    }

    /// 400, naming the field.
    pub fn field(field: impl Into<String>, description: impl Into<String>) -> Self {
        let (field, description) = (field.into(), description.into());
        Self::new(Code::BadRequest, format!("The request's `{field}` {description}."))
            .with(Detail::Field { field, description })
    }

    /// 400 about several fields, each with what is wrong with it; `None` where none is wrong.
    pub fn fields(faults: impl IntoIterator<Item = (String, String)>) -> Option<Self> {
        let mut faults = faults.into_iter();
        let (field, description) = faults.next()?;
        Some(faults.fold(Self::field(field, description), |problem, (field, description)| {
            problem.with(Detail::Field { field, description })
        }))
    }

    /// 404 for one thing.
    pub fn not_found(what: &str, id: impl fmt::Display) -> Self {
        // An id that a caller made up may be long.
        let id: String = id.to_string().chars().take(100).collect();
        Self::new(Code::NotFound, format!("There is no {what} {id} here."))
    }

    /// 400, because the state of things does not allow it.
    pub fn failed_precondition<const N: usize>(
        reason: &'static str,
        domain: &'static str,
        error: impl Into<Cow<'static, str>>,
        metadata: [(&str, String); N],
    ) -> Self {
        Self::new(Code::FailedPrecondition, error).with_info(reason, domain, metadata)
    }

    /// 400, because a limit is reached; `error` should say the number.
    pub fn limit_reached(
        domain: &'static str,
        error: impl Into<Cow<'static, str>>,
        limit: impl fmt::Display,
    ) -> Self {
        Self::failed_precondition("LIMIT_REACHED", domain, error, [("limit", limit.to_string())])
    }

    /// 500; `cause` goes to the log.
    pub fn internal(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(Code::Internal, "Something went wrong on our side.").because(cause)
    }

    /// 503; the caller may try again after `wait`.
    pub fn unavailable(error: impl Into<Cow<'static, str>>, wait: Duration) -> Self {
        Self::new(Code::Unavailable, error).retry_after(wait)
    }

    /// Adds a detail.
    #[must_use]
    pub fn with(mut self, detail: Detail) -> Self {
        self.0.details.push(detail);
        self
    }

    /// Adds an `info` detail.
    #[must_use]
    pub fn with_info<const N: usize>(
        self,
        reason: &'static str,
        domain: &'static str,
        metadata: [(&str, String); N],
    ) -> Self {
        let metadata = metadata.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        self.with(Detail::Info { reason: reason.into(), domain: domain.into(), metadata })
    }

    /// Adds a `retry` detail, rounded up to whole seconds.
    #[must_use]
    pub fn retry_after(self, wait: Duration) -> Self {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        self.with(Detail::Retry { after_seconds: Int64(i64::try_from(seconds).unwrap_or(i64::MAX)) })
    }

    /// Keeps the cause for the log.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.0.cause = Some(cause.into());
        self
    }

    /// The code.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The sentence for a person.
    pub fn error(&self) -> &str {
        &self.0.error
    }

    /// The details for a program.
    pub fn details(&self) -> &[Detail] {
        &self.0.details
    }

    /// The cause, for the log.
    pub fn cause(&self) -> Option<&(dyn Error + Send + Sync)> {
        self.0.cause.as_deref()
    }

    /// Is there an info detail of this reason?
    pub fn has_reason(&self, reason: &str) -> bool {
        self.details()
            .iter()
            .any(|detail| matches!(detail, Detail::Info { reason: said, .. } if said == reason))
    }

    /// The value of the `Retry-After` header.
    pub fn retry_seconds(&self) -> Option<i64> {
        self.0.details.iter().find_map(|detail| match detail {
            Detail::Retry { after_seconds } => Some(after_seconds.0),
            _ => None,
        })
    }

    /// The envelope, as it goes out for the call `request_id`.
    pub fn to_json(&self, request_id: &str) -> Vec<u8> {
        #[derive(Serialize)]
        struct Envelope<'a> {
            code: Code,
            error: &'a str,
            details: &'a [Detail],
            request_id: &'a str,
        }
        let envelope =
            Envelope { code: self.0.code, error: &self.0.error, details: &self.0.details, request_id };
        serde_json::to_vec(&envelope).unwrap_or_default()
    }
}

impl fmt::Debug for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Problem")
            .field("code", &self.0.code)
            .field("error", &self.0.error)
            .field("details", &self.0.details)
            .field("cause", &self.0.cause)
            .finish()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.error)
    }
}

impl Error for Problem {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.cause.as_deref().map(|cause| cause as &(dyn Error + 'static))
    }
}
