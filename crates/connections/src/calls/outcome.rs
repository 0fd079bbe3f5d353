//! What a call that got no result is to the history, and to whoever called.

use std::time::Duration;

use portico_connectors::{Class, Failure, Fault};
use portico_egress::EgressError;
use portico_kernel::{Code, Problem, seconds};

use super::refresh::AccessError;
use super::send::SendError;
use crate::limits;
use crate::model::{ErrorClass, UseStatus};
use crate::refusals::{self, DOMAIN};

/// How long to wait where the provider failed and does not say.
const RETRY_SECONDS: u64 = 5;

/// A call that got no result.
pub(crate) struct CallError {
    pub(crate) status: UseStatus,
    pub(crate) class: ErrorClass,
    /// The status that the provider answered with; 0 where it did not.
    pub(crate) status_code: u16,
    pub(crate) problem: Problem,
}

impl CallError {
    /// Nothing was sent.
    pub(crate) fn refused(class: ErrorClass, problem: Problem) -> Self {
        Self { status: UseStatus::Refused, class, status_code: 0, problem }
    }

    fn failed(class: ErrorClass, status_code: u16, problem: Problem) -> Self {
        Self { status: UseStatus::Failed, class, status_code, problem }
    }

    /// Something of ours does not work.
    pub(crate) fn fault(problem: impl Into<Problem>) -> Self {
        Self::failed(ErrorClass::Network, 0, problem.into())
    }

    /// The parameters do not make a request.
    pub(crate) fn of_fault(fault: Fault) -> Self {
        Self::refused(ErrorClass::BadParams, refusals::fault(fault))
    }

    /// The provider answered, and it is no success.
    pub(crate) fn of_failure(failure: &Failure, class: Class) -> Self {
        let Failure { class: provider, status_code, .. } = *failure;
        let error_class = ErrorClass::from(provider);
        let problem = match error_class {
            ErrorClass::Auth => credential_refused(error_class, status_code),
            ErrorClass::RateLimited => rate_limited(failure.retry_after),
            ErrorClass::Provider5xx if class != Class::Read => outcome_unknown(error_class, status_code),
            // A success that cannot be read, and says of no error, is no refusal.
            ErrorClass::Provider4xx if class != Class::Read && is_unclear(failure) => {
                outcome_unknown(error_class, status_code)
            }
            ErrorClass::Redirect if class != Class::Read => redirected(status_code),
            ErrorClass::Provider5xx => provider_failed(failure.retry_after),
            _ => provider_refused(error_class, status_code, &failure.provider_message),
        };
        Self::failed(error_class, status_code, problem)
    }

    /// No whole answer came.
    pub(crate) fn of_send(error: SendError, class: Class) -> Self {
        let failure = match error {
            SendError::NotVerified(host) => {
                let problem = refusals::domain_not_verified(&host);
                return Self::refused(ErrorClass::DomainUnverified, problem);
            }
            SendError::Store(error) => return Self::fault(error),
            SendError::Egress(failure) => failure,
        };
        let error_class = class_of(failure.error);
        let is_unknown = class != Class::Read && failure.may_have_arrived;
        let problem = match error_class {
            ErrorClass::TooLarge => too_large(class),
            ErrorClass::BlockedAddress => provider_refused(error_class, 0, ""),
            _ if is_unknown => outcome_unknown(error_class, 0),
            ErrorClass::Timeout => timed_out(),
            _ => provider_failed(None),
        };
        Self::failed(error_class, 0, problem)
    }

    /// There is no credential that could be sent.
    pub(crate) fn of_access(error: AccessError) -> Self {
        match error {
            AccessError::Unreadable | AccessError::Dead | AccessError::Gone => {
                Self::refused(ErrorClass::NeedsReconnect, refusals::needs_reconnect())
            }
            AccessError::NoClient => Self::refused(ErrorClass::NeedsReconnect, refusals::no_client()),
            AccessError::NotVerified(host) => {
                Self::refused(ErrorClass::DomainUnverified, refusals::domain_not_verified(&host))
            }
            AccessError::Failed { class, wait } => {
                let wait = wait.map(|wait| u32::try_from(wait.as_secs()).unwrap_or(u32::MAX));
                Self::failed(class, 0, provider_failed(wait))
            }
            AccessError::Store(error) => Self::fault(error),
        }
    }
}

/// What a failed call is called.
pub(crate) fn class_of(error: EgressError) -> ErrorClass {
    match error {
        EgressError::BadAddress | EgressError::Blocked => ErrorClass::BlockedAddress,
        EgressError::TooLarge => ErrorClass::TooLarge,
        EgressError::Timeout => ErrorClass::Timeout,
        EgressError::Dns | EgressError::Connection | EgressError::Tls | EgressError::Protocol => {
            ErrorClass::Network
        }
    }
}

fn metadata(class: ErrorClass, status_code: u16) -> [(&'static str, String); 2] {
    [("error_class", class.name().to_owned()), ("status_code", status_code.to_string())]
}

pub(crate) fn credential_refused(class: ErrorClass, status_code: u16) -> Problem {
    let words = "The provider refuses the credential.";
    Problem::failed_precondition("CREDENTIAL_REFUSED", DOMAIN, words, metadata(class, status_code))
}

fn provider_refused(class: ErrorClass, status_code: u16, message: &str) -> Problem {
    let [class, status] = metadata(class, status_code);
    let message: String = message.chars().take(limits::PROVIDER_MESSAGE_CHARACTERS_MAX).collect();
    let words = "The provider did not do it.";
    let metadata = [class, status, ("provider_message", message)];
    Problem::failed_precondition("PROVIDER_REFUSED", DOMAIN, words, metadata)
}

/// Is it a success by its status, which says of no error?
fn is_unclear(failure: &Failure) -> bool {
    (200..300).contains(&failure.status_code) && failure.provider_message.is_empty()
}

/// A write that was answered with another address: many a service says so that it is done.
fn redirected(status_code: u16) -> Problem {
    let words = "The provider's answer leads elsewhere. It may have done it: look before you repeat it.";
    let [class, status] = metadata(ErrorClass::Redirect, status_code);
    let metadata = [class, status, ("provider_message", String::new())];
    Problem::failed_precondition("PROVIDER_REFUSED", DOMAIN, words, metadata)
}

/// An answer that is too large to be read: whatever was asked for was done.
fn too_large(class: Class) -> Problem {
    let words = if class == Class::Read {
        "The provider's answer is too large."
    } else {
        "The provider's answer is too large to be read. It may have done it: look before you repeat it."
    };
    let [class, status] = metadata(ErrorClass::TooLarge, 0);
    let metadata = [class, status, ("provider_message", String::new())];
    Problem::failed_precondition("PROVIDER_REFUSED", DOMAIN, words, metadata)
}

/// A write that the provider may have done or not: whoever repeats it may do it twice.
pub(crate) fn outcome_unknown(class: ErrorClass, status_code: u16) -> Problem {
    let words = "Nobody knows whether the provider did it: no clear answer came. Look before you repeat it.";
    Problem::failed_precondition("OUTCOME_UNKNOWN", DOMAIN, words, metadata(class, status_code))
}

fn bounded(retry_after: Option<u32>, default: u64) -> Duration {
    let (least, most) = (*limits::RETRY_AFTER_SECONDS.start(), *limits::RETRY_AFTER_SECONDS.end());
    seconds(retry_after.map_or(default, u64::from).clamp(least, most))
}

fn rate_limited(retry_after: Option<u32>) -> Problem {
    Problem::new(Code::RateLimited, "The provider takes no more calls for now.")
        .with_info("PROVIDER_RATE_LIMITED", DOMAIN, [])
        .retry_after(bounded(retry_after, 60))
}

pub(crate) fn provider_failed(retry_after: Option<u32>) -> Problem {
    Problem::unavailable("The provider failed, or cannot be reached.", bounded(retry_after, RETRY_SECONDS))
        .with_info("PROVIDER_FAILED", DOMAIN, [])
}

fn timed_out() -> Problem {
    Problem::new(Code::Timeout, "The provider did not answer in time.")
        .with_info("PROVIDER_TIMEOUT", DOMAIN, [])
        .retry_after(seconds(RETRY_SECONDS))
}
