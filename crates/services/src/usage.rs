//! Reporting usage.

use std::collections::HashMap;

use portico_engine::input::Element;
use portico_engine::ports::ReportedUsage;
use portico_engine::{Ctx, Operation, Spec};
use portico_kernel::{AccountId, Category, Int64, KeyId, Problem, Timestamp, TokenId};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::batch::{Batch, BatchResult, Checked, ElementKind, call_name, check_id, check_time};
use crate::table::ServiceDefinition;
use crate::{Services, limits};

/// Report what accounts used elsewhere than through the gateway. Each record counts as one call, once by its id, on the day
/// on which it was used, and is never refused for lack of units: it has happened already.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportUsage {
    /// The records, 1 to 500.
    #[schemars(length(min = 1, max = 500))]
    records: Vec<Element<SentRecord>>,
}

/// What was used.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SentRecord {
    /// The service's own id, 1 to 128 characters. One that was accepted within 32 days makes nothing.
    #[schemars(example = &"export-17", length(min = 1, max = 128))]
    id: String,
    /// The account that used it.
    #[schemars(example = &"acc_01KN3X3A205MPQMPQMPQMPQMPQ")]
    account_id: AccountId,
    /// The key or API token that used it; left out where only the account is known.
    #[serde(default)]
    key_id: Option<String>,
    /// What it costs, as the price list says. Either this or `units` is given.
    #[serde(default)]
    category: Option<Category>,
    /// What it costs, 0 to 1,000,000 units.
    #[serde(default)]
    #[schemars(example = &"11")]
    units: Option<Int64>,
    /// How many times that price; left out, once. The product is at most 1,000,000,000.
    #[serde(default)]
    quantity: Option<Int64>,
    /// When it was used: at most 32 days back and 5 minutes ahead; left out, now.
    #[serde(default)]
    at: Option<Timestamp>,
    /// What usage calls it, behind the name of the service and a dot; left out, `usage`.
    #[serde(default)]
    #[schemars(example = &"pages")]
    name: Option<String>,
}

/// A record that can be counted.
struct CheckedRecord {
    id: String,
    usage: ReportedUsage,
}

impl Checked for CheckedRecord {
    fn id(&self) -> &str {
        &self.id
    }

    fn account(&self) -> AccountId {
        self.usage.account
    }
}

/// The price of one call in units, where one of the two says it.
pub(crate) fn price(units: Option<Int64>, category: Option<Category>) -> Result<Option<i64>, Problem> {
    match (units, category) {
        (Some(_), Some(_)) => Err(Problem::field("units", "must not be given beside `category`")),
        (Some(Int64(units)), None) if !(0..=limits::UNITS_MAX).contains(&units) => {
            Err(Problem::field("units", format!("must be 0 to {}", limits::UNITS_MAX)))
        }
        (Some(Int64(units)), None) => Ok(Some(units)),
        (None, category) => Ok(category.map(Category::units)),
    }
}

impl SentRecord {
    fn check(self, service: &ServiceDefinition, now: Timestamp) -> Result<CheckedRecord, Problem> {
        check_id(&self.id)?;
        let at = check_time("at", self.at, now)?;
        let missing = || Problem::field("units", "or `category` is required");
        let price = price(self.units, self.category)?.ok_or_else(missing)?;
        let Int64(quantity) = self.quantity.unwrap_or(Int64(1));
        if quantity < 1 {
            return Err(Problem::field("quantity", "must be 1 or more"));
        }
        let most = limits::ELEMENT_UNITS_MAX;
        let units = price.checked_mul(quantity).filter(|units| *units <= most);
        let units = units.and_then(|units| u32::try_from(units).ok());
        let units = units.ok_or_else(|| {
            Problem::field("quantity", format!("comes to more than {most} units, the maximum of a record"))
        })?;
        let is_credential = |id: &String| id.parse::<KeyId>().is_ok() || id.parse::<TokenId>().is_ok();
        if self.key_id.as_ref().is_some_and(|id| !is_credential(id)) {
            return Err(Problem::field("key_id", "must be the id of a key or API token"));
        }
        let name = call_name(service, self.name.as_deref(), "usage")?;
        let usage = ReportedUsage { account: self.account_id, credential: self.key_id, name, units, at };
        Ok(CheckedRecord { id: self.id, usage })
    }
}

impl Batch<CheckedRecord> {
    /// Refuses keys and API tokens of other accounts.
    async fn check_keys(&mut self, services: &Services, ctx: &mut Ctx) -> Result<(), Problem> {
        let mut ids: Vec<_> =
            self.elements.iter().filter_map(|(_, record)| record.usage.credential.clone()).collect();
        if ids.is_empty() {
            return Ok(());
        }
        ids.sort_unstable();
        ids.dedup();
        let known = services.directory.accounts_of_credentials(ctx.tx().await?, ids).await?;
        let known: HashMap<_, _> = known.into_iter().collect();
        self.refuse(|record| {
            let id = record.usage.credential.as_ref()?;
            let own = known.get(id) == Some(&record.usage.account);
            (!own).then(|| Problem::field("key_id", "is not a key or API token of the account"))
        });
        Ok(())
    }
}

impl Operation for ReportUsage {
    const SPEC: Spec = Spec::post("services.usage.report", "/v1/services/usage")
        .service("service:usage")
        .body_limit(Spec::BODY_LIMIT)
        .values_max(limits::VALUES_MAX);
    type Area = Services;
    type Answer = BatchResult;

    async fn run(self, services: &Services, ctx: &mut Ctx) -> Result<BatchResult, Problem> {
        let (service, now) = (services.calling(ctx.caller())?, ctx.now());
        let check = |record: SentRecord| record.check(&service, now);
        let mut batch = Batch::check(ElementKind::Usage, "records", self.records, check)?;
        batch.check_accounts(ctx).await?;
        batch.check_keys(services, ctx).await?;
        batch.claim(ctx, &service.name).await?;
        let reports = batch.elements.iter().map(|(_, record)| record.usage.clone()).collect();
        services.units.report(ctx, &service.name, reports).await?;
        batch.result(services, ctx)
    }
}
