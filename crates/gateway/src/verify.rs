//! Calls that a service serves with a front of its own: its customer's token is judged as if the call had come here.
//!
//! What a call through the gateway takes, this takes too, in the same order: the token, the scopes, the account, room in the
//! journal, a slot of the minute, the units. Nothing is written but the record in the journal.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use portico_engine::clock::Stopwatch;
use portico_engine::ports::{CallRate, Charge, TokenCheck, TokenVerdict, ValidToken, Verifier};
use portico_engine::{Engine, EntryPoint, Spec};
use portico_identity::verify::refused;
use portico_kernel::{AccountId, Caller, Code, Problem};
use portico_metering::{MeteredCall, ServedCall};

use crate::calls::NO_FIELDS;
use crate::credential::Credential;
use crate::tokens::Tokens;

/// What the engine is asked: may the caller act in their own account at all?
const ANY: Spec = Spec::post("services.calls.serve", "/");

impl Verifier for Tokens {
    fn verify<'a>(
        &'a self,
        engine: &'a Arc<Engine>,
        check: TokenCheck,
    ) -> BoxFuture<'a, Result<TokenVerdict, Problem>> {
        Box::pin(async move {
            let watch = Stopwatch::start();
            let credential = self.authenticate(engine, check.token.expose()).await;
            let credential = credential.and_then(|credential| credential.for_service(&check.service));
            let credential = match credential.and_then(customer) {
                Ok(credential) => credential,
                Err(problem) => return verdict(Err(problem), None),
            };
            let caller = credential.caller();
            let key = credential.rate_limit_key().cloned().ok_or_else(refused)?;
            let (name, request_id) = (check.name.as_str(), check.request_id.clone());
            let call = ServedCall { caller, key, name, units: check.units, request_id, watch };
            let metered = MeteredCall::of_service(&self.metering, engine, call)?;
            let admitted = admit(engine, &metered, caller, &check.scopes).await;
            let code = admitted.as_ref().err().map(Problem::code);
            metered.settle(code);
            metered.finish(code.map_or(200, Code::status), code);
            let rate = metered.rate_limit_status().map(|status| CallRate {
                limit: status.limit,
                remaining: status.remaining,
                reset_seconds: status.reset_seconds,
            });
            verdict(admitted.map(|account| valid(&metered, caller, account)), rate)
        })
    }
}

/// The holder of a token that counts against an account. A service's own does not.
fn customer(credential: Credential) -> Result<Credential, Problem> {
    if credential.caller().service().is_some() {
        return Err(Problem::new(
            Code::Forbidden,
            "The token is a service's own, and belongs to no account.",
        ));
    }
    Ok(credential)
}

/// Scopes, account, rate and units, in this order; returns the account.
async fn admit(
    engine: &Arc<Engine>,
    metered: &MeteredCall,
    caller: &Arc<Caller>,
    scopes: &[String],
) -> Result<AccountId, Problem> {
    let admission = match scopes.iter().find(|scope| !caller.holds(scope)) {
        Some(scope) => Err(Problem::new(Code::Forbidden, format!("The token lacks the scope `{scope}`."))
            .with_info("SCOPE_REQUIRED", "gateway", [("scope", scope.clone())])),
        None => engine.admit(&ANY, EntryPoint::Api, caller.clone(), &NO_FIELDS).await,
    };
    let account = admission.and_then(|admission| {
        let nowhere = || Problem::new(Code::Forbidden, "The token belongs to no account.");
        admission.account().ok_or_else(nowhere)
    });
    let account = match account {
        Ok(account) => account,
        Err(problem) => {
            metered.load_rate_limit().await;
            return Err(problem);
        }
    };
    metered.admit(Some(account)).await?;
    if let Some(paying) = metered.pay() {
        paying.await?;
    }
    Ok(account)
}

fn valid(metered: &MeteredCall, caller: &Arc<Caller>, account: AccountId) -> ValidToken {
    let (plan, remaining) = metered.account_status().unwrap_or_else(|| ("".into(), 0));
    ValidToken { caller: caller.clone(), account, plan, remaining }
}

/// A refusal is a verdict; that it cannot be told whether the call may go on is none.
fn verdict(result: Result<ValidToken, Problem>, rate: Option<CallRate>) -> Result<TokenVerdict, Problem> {
    match result {
        Err(problem) if problem.code().status() >= 500 => Err(problem),
        result => Ok(TokenVerdict { result, rate }),
    }
}
