//! Verifying a customer's token for a service that has a front of its own.

use std::sync::Arc;

use portico_engine::ports::{CallRate, TokenCheck, TokenVerdict, ValidToken};
use portico_engine::{Ctx, Operation, Spec};
use portico_kernel::{AccountId, Caller, Category, Int64, Problem, Secret};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::batch::{ShownProblem, call_name, number};
use crate::usage::price;
use crate::{Services, limits};

/// Have a customer's token verified, with its scopes, a place in its minute, and the units of the call taken, all as if the
/// call had come through the gateway. What the gateway would refuse is not valid, and charged nothing. Serve the call only
/// when it is valid; when this call itself fails, nobody knows.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct VerifyToken {
    /// The customer's token, without `Bearer`.
    #[schemars(example = &"eyJhbGciOi...")]
    token: String,
    /// The scopes that it must hold.
    #[serde(default)]
    #[schemars(length(max = 100))]
    scopes: Vec<String>,
    /// What the call costs, 0 to 1,000,000 units.
    #[serde(default)]
    units: Option<Int64>,
    /// What the call costs, as the price list says. Without `units` and this, `read` for the method GET or none, and `write` for others.
    #[serde(default)]
    category: Option<Category>,
    /// What usage and the customer's log call it, behind the name of the service and a dot; left out, `call`.
    #[serde(default)]
    #[schemars(example = &"getInvoice")]
    name: Option<String>,
    /// The method of the customer's call.
    #[serde(default)]
    #[schemars(example = &"GET")]
    method: Option<String>,
    /// The path of the customer's call.
    #[serde(default)]
    path: Option<String>,
}

/// Whether the call may be served, and for whom.
#[derive(Default, Serialize, JsonSchema)]
pub(crate) struct Verification {
    /// May the call be served?
    valid: bool,
    /// Why it may not.
    problem: Option<ShownProblem>,
    /// Who calls, where they may.
    caller: Option<Arc<Caller>>,
    /// The account that the call counts against.
    account_id: Option<AccountId>,
    /// The account's plan.
    plan: Option<String>,
    /// What is left of the account's units.
    units: Option<UnitsNow>,
    /// What is left of the caller's minute, where that is known.
    rate: Option<RateNow>,
}

/// Units that are left.
#[derive(Serialize, JsonSchema)]
pub(crate) struct UnitsNow {
    /// Units that remain of this month, as far as this server knows: what other servers used in the last seconds may be among them.
    remaining: Int64,
}

/// A minute of calls.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RateNow {
    /// Calls in 60 seconds.
    limit: i32,
    /// Calls that are left of them.
    remaining: i32,
    /// In how many seconds there are more.
    reset_s: i32,
}

impl From<CallRate> for RateNow {
    fn from(rate: CallRate) -> Self {
        Self {
            limit: number(rate.limit),
            remaining: number(rate.remaining),
            reset_s: number(rate.reset_seconds),
        }
    }
}

impl VerifyToken {
    fn check(&self) -> Result<(), Problem> {
        if self.scopes.len() > limits::SCOPES_MAX {
            return Err(Problem::field("scopes", format!("must be at most {}", limits::SCOPES_MAX)));
        }
        let is_method = |method: &str| {
            (1..=limits::METHOD_CHARACTERS_MAX).contains(&method.len())
                && method.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-')
        };
        if self.method.as_deref().is_some_and(|method| !is_method(method)) {
            return Err(Problem::field("method", "must be the method of an HTTP request"));
        }
        if self.path.as_ref().is_some_and(|path| path.len() > limits::PATH_BYTES_MAX) {
            return Err(Problem::field("path", format!("must be at most {} bytes", limits::PATH_BYTES_MAX)));
        }
        Ok(())
    }

    /// What the call costs.
    fn units(&self) -> Result<u32, Problem> {
        let by_method = match self.method.as_deref() {
            None | Some("GET" | "HEAD") => Category::Read,
            Some(_) => Category::Write,
        };
        let units = price(self.units, self.category)?.unwrap_or(by_method.units());
        u32::try_from(units).map_err(Problem::internal)
    }
}

impl Operation for VerifyToken {
    const SPEC: Spec = Spec::post("services.tokens.verify", "/v1/services/verify").service("service:verify");
    type Area = Services;
    type Answer = Verification;

    async fn run(self, services: &Services, ctx: &mut Ctx) -> Result<Verification, Problem> {
        let service = services.calling(ctx.caller())?;
        self.check()?;
        let check = TokenCheck {
            service: service.name.clone(),
            units: self.units()?,
            name: call_name(&service, self.name.as_deref(), "call")?,
            token: Secret::new(self.token),
            scopes: self.scopes,
            request_id: ctx.request_id().into(),
        };
        let TokenVerdict { result, rate } = services.verifier.verify(ctx.engine(), check).await?;
        services.counters.token(result.is_ok());
        let rate = rate.map(RateNow::from);
        Ok(match result {
            Ok(ValidToken { caller, account, plan, remaining }) => Verification {
                valid: true,
                caller: Some(caller),
                account_id: Some(account),
                plan: Some(plan.to_string()),
                units: Some(UnitsNow { remaining: Int64(remaining) }),
                rate,
                ..Verification::default()
            },
            Err(problem) => {
                let problem = Some(ShownProblem::new(ctx, &problem)?);
                Verification { problem, rate, ..Verification::default() }
            }
        })
    }
}
