//! Batches: each element is checked by itself, and accepted once by its id.

use std::collections::{BTreeMap, HashMap, HashSet};

use portico_engine::Ctx;
use portico_engine::input::Element;
use portico_engine::ports::account_closed;
use portico_kernel::{AccountId, Problem, Timestamp, check_name, text_enum};
use portico_store::text_value;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::Value;

use crate::table::ServiceDefinition;
use crate::{Services, limits, sql};

text_enum! {
    /// What an element is. Ids of one kind say nothing about those of another.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum ElementKind {
        /// An event.
        Event = "event",
        /// Usage.
        Usage = "usage",
    }
}

text_value!(ElementKind);

/// A refusal in an answer.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct ShownProblem(Value);

impl ShownProblem {
    pub(crate) fn new(ctx: &Ctx, problem: &Problem) -> Result<Self, Problem> {
        let shown = serde_json::from_slice(&problem.to_json(ctx.request_id()));
        shown.map(Self).map_err(Problem::internal)
    }
}

impl JsonSchema for ShownProblem {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Problem".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "$ref": "#/components/schemas/Problem" })
    }
}

/// What came of a batch.
#[derive(Serialize, JsonSchema)]
pub(crate) struct BatchResult {
    /// How many elements were accepted.
    accepted: i32,
    /// How many have the id of one that was accepted before, and made nothing.
    repeated: i32,
    /// The elements that were refused, in their order.
    refused: Vec<RefusedElement>,
}

/// An element that was refused. It may come again with the same id.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RefusedElement {
    /// Its place in the batch, from 0 on.
    index: i32,
    /// Why.
    problem: ShownProblem,
}

/// An element of a batch that was checked by itself.
pub(crate) trait Checked: Send {
    /// The service's own id.
    fn id(&self) -> &str;
    /// The account.
    fn account(&self) -> AccountId;
}

/// A batch on its way: what is still to be accepted, and what was refused.
pub(crate) struct Batch<T> {
    kind: ElementKind,
    /// With their indices, in their order.
    pub(crate) elements: Vec<(usize, T)>,
    refused: BTreeMap<usize, Problem>,
    repeated: usize,
}

impl<T: Checked> Batch<T> {
    /// Checks each of these elements by itself. `field` is the name of the list.
    pub(crate) fn check<R>(
        kind: ElementKind,
        field: &str,
        sent: Vec<Element<R>>,
        check: impl Fn(R) -> Result<T, Problem>,
    ) -> Result<Self, Problem> {
        if !limits::ELEMENTS.contains(&sent.len()) {
            let (min, max) = (limits::ELEMENTS.start(), limits::ELEMENTS.end());
            return Err(Problem::field(field, format!("must have {min} to {max} elements")));
        }
        let mut batch = Self { kind, elements: Vec::new(), refused: BTreeMap::new(), repeated: 0 };
        for (index, Element(element)) in sent.into_iter().enumerate() {
            match element.map_err(Problem::from).and_then(&check) {
                Ok(element) => batch.elements.push((index, element)),
                Err(problem) => drop(batch.refused.insert(index, problem)),
            }
        }
        Ok(batch)
    }

    /// Refuses those elements that `refuse` gives a reason for.
    pub(crate) fn refuse(&mut self, refuse: impl Fn(&T) -> Option<Problem>) {
        let refused = &mut self.refused;
        self.elements.retain(|(index, element)| match refuse(element) {
            Some(problem) => {
                refused.insert(*index, problem);
                false
            }
            None => true,
        });
    }

    /// Refuses what is for an account that there is not, or that nothing may be added to.
    pub(crate) async fn check_accounts(&mut self, ctx: &mut Ctx) -> Result<(), Problem> {
        let accounts: HashSet<_> = self.elements.iter().map(|(_, element)| element.account()).collect();
        if accounts.is_empty() {
            return Ok(());
        }
        let memberships = ctx.engine().memberships.clone();
        let known = memberships.statuses(ctx.tx().await?, accounts.into_iter().collect()).await?;
        let known: HashMap<_, _> = known.into_iter().collect();
        self.refuse(|element| match known.get(&element.account()) {
            Some(true) => None,
            Some(false) => Some(account_closed()),
            None => Some(Problem::not_found("account", element.account())),
        });
        Ok(())
    }

    /// Keeps those elements whose ids were not accepted before, each id once.
    pub(crate) async fn claim(&mut self, ctx: &mut Ctx, service: &str) -> Result<(), Problem> {
        let mut ids: BTreeMap<String, AccountId> = BTreeMap::new();
        for (_, element) in &self.elements {
            // The first of one id in the batch counts.
            ids.entry(element.id().to_owned()).or_insert(element.account());
        }
        if ids.is_empty() {
            return Ok(());
        }
        let (now, sent) = (ctx.now(), self.elements.len());
        let since = now - limits::ID_LIFE;
        let ids = ids.into_iter().collect();
        let new = sql::claim_ids(ctx.tx().await?, service, self.kind, ids, now, since).await?;
        let mut new: HashSet<String> = new.into_iter().collect();
        self.elements.retain(|(_, element)| new.remove(element.id()));
        self.repeated = sent - self.elements.len();
        Ok(())
    }

    /// What came of it.
    pub(crate) fn result(self, services: &Services, ctx: &Ctx) -> Result<BatchResult, Problem> {
        let (accepted, repeated) = (self.elements.len(), self.repeated);
        services.counters.batch(self.kind, [accepted, repeated, self.refused.len()]);
        let shown = |(index, problem): (usize, Problem)| {
            Ok(RefusedElement { index: number(index), problem: ShownProblem::new(ctx, &problem)? })
        };
        let refused = self.refused.into_iter().map(shown).collect::<Result<_, Problem>>()?;
        Ok(BatchResult { accepted: number(accepted), repeated: number(repeated), refused })
    }
}

/// A number as the wire has it, which has 32 bits.
pub(crate) fn number(count: impl TryInto<i32>) -> i32 {
    count.try_into().unwrap_or(i32::MAX)
}

/// Refuses an id that is too long, or that nobody could read.
pub(crate) fn check_id(id: &str) -> Result<(), Problem> {
    check_name(id, limits::ID_CHARACTERS).map_err(|message| Problem::field("id", message))
}

/// The time of an element, which is now unless it says otherwise.
pub(crate) fn check_time(
    field: &'static str,
    said: Option<Timestamp>,
    now: Timestamp,
) -> Result<Timestamp, Problem> {
    let at = said.unwrap_or(now);
    if at > now + limits::AHEAD_MAX {
        return Err(Problem::field(field, "must be at most 5 minutes ahead"));
    }
    if at < now - limits::ID_LIFE {
        return Err(Problem::field(field, "must be at most 32 days back"));
    }
    Ok(at)
}

/// The name of a call of the service in usage, `service.name`.
pub(crate) fn call_name(
    service: &ServiceDefinition,
    name: Option<&str>,
    usual: &str,
) -> Result<String, Problem> {
    let name = name.unwrap_or(usual);
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:".contains(&byte);
    if name.is_empty() || name.len() > limits::NAME_CHARACTERS_MAX || !name.bytes().all(fits) {
        let max = limits::NAME_CHARACTERS_MAX;
        let message = format!("must be 1 to {max} letters, digits, `.`, `_`, `-` and `:` without accents");
        return Err(Problem::field("name", message));
    }
    Ok(format!("{}.{name}", service.name))
}
