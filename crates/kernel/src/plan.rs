//! Plans: what an account may spend.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::text_enum;

text_enum! {
    /// What happens to keys when the units of the month are spent.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum AtZero {
        /// They are refused until the first of the next month.
        Refuse = "refuse",
        /// They go on, and what they use is counted.
        Allow = "allow",
    }
}

/// What the accounts of a plan may spend and use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// The plan in words.
    pub description: String,
    /// Which kinds of account it is meant for, in words.
    pub accounts: String,
    /// Units a month.
    pub monthly_units: i64,
    /// Calls in any 60 seconds, for each key, API token and person.
    pub calls_per_minute: u32,
    /// Attempts at webhook deliveries in any 60 seconds; what is over that waits.
    pub deliveries_per_minute: u32,
    /// Calls that the log of requests takes in a day; what is over that is only counted.
    pub log_entries_per_day: u32,
    /// What happens when the units are spent.
    pub at_zero: AtZero,
    /// What its accounts may use.
    pub features: Vec<String>,
    /// When its terms were last changed, as far as is known.
    pub updated_at: String,
}

/// A plan in the configuration; `None` keeps the value that the plan has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanTerms {
    description: Option<String>,
    accounts: Option<String>,
    monthly_units: Option<i64>,
    calls_per_minute: Option<u32>,
    deliveries_per_minute: Option<u32>,
    log_entries_per_day: Option<u32>,
    at_zero: Option<AtZero>,
    features: Option<Vec<String>>,
}

/// Every plan there is, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plans(BTreeMap<String, Plan>);

/// Why a configured plan is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanError(String);

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PlanError {}

const NAME_CHARACTERS_MAX: usize = 40;
const CALLS_PER_MINUTE: u32 = 1_200;
const LOG_ENTRIES_PER_DAY: u32 = 200_000;

impl Default for Plans {
    fn default() -> Self {
        let every = ["events", "keys", "mcp", "webhooks"];
        let teams = ["audit_export", "events", "keys", "mcp", "roles", "webhooks"];
        let plan = |name: &str, units: i64, deliveries: u32, description: &str, features: &[&str]| Plan {
            name: name.to_owned(),
            description: description.to_owned(),
            accounts: "personal, team".to_owned(),
            monthly_units: units,
            calls_per_minute: CALLS_PER_MINUTE,
            deliveries_per_minute: deliveries,
            log_entries_per_day: LOG_ENTRIES_PER_DAY,
            at_zero: AtZero::Refuse,
            features: features.iter().map(|feature| (*feature).to_owned()).collect(),
            updated_at: String::new(),
        };
        let plans = [
            plan(Self::FIRST, 100_000, 12_000, "For trying things out.", &every),
            plan("team", 2_000_000, 60_000, "For a product in use.", &teams),
            plan("scale", 50_000_000, 120_000, "For a product that many use.", &teams),
        ];
        Self(plans.into_iter().map(|plan| (plan.name.clone(), plan)).collect())
    }
}

impl Plans {
    /// The plan of a new account; it is always there.
    pub const FIRST: &str = "free";

    /// These plans, changed and extended by the configuration, which was last changed at `updated_at`.
    pub fn configured(
        mut self,
        terms: BTreeMap<String, PlanTerms>,
        updated_at: &str,
    ) -> Result<Self, PlanError> {
        for (name, terms) in terms {
            let named = (1..=NAME_CHARACTERS_MAX).contains(&name.len())
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
            if !named {
                return Err(PlanError(format!(
                    "the plan {name:?} must have a name of small letters, digits and `_`"
                )));
            }
            let plan = match self.0.remove(&name) {
                Some(plan) => plan,
                None if terms.monthly_units.is_none() => {
                    return Err(PlanError(format!("the plan {name} must say its monthly_units")));
                }
                None => Plan { name: name.clone(), ..self.first().clone() },
            };
            self.0.insert(name, plan.with(terms, updated_at)?);
        }
        Ok(self)
    }

    /// The plan of that name.
    pub fn get(&self, name: &str) -> Option<&Plan> {
        self.0.get(name)
    }

    /// The plan of that name; for an unknown name, the first. A server does not start while an account has an unknown
    /// plan, but another server with another configuration may set one.
    pub fn get_or_first(&self, name: &str) -> &Plan {
        self.get(name).unwrap_or_else(|| self.first())
    }

    fn first(&self) -> &Plan {
        &self.0[Self::FIRST]
    }

    /// Every plan.
    pub fn iter(&self) -> impl Iterator<Item = &Plan> {
        self.0.values()
    }

    /// Every name.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl Plan {
    fn with(self, terms: PlanTerms, updated_at: &str) -> Result<Self, PlanError> {
        let plan = Self {
            description: terms.description.unwrap_or(self.description),
            accounts: terms.accounts.unwrap_or(self.accounts),
            monthly_units: terms.monthly_units.unwrap_or(self.monthly_units),
            calls_per_minute: terms.calls_per_minute.unwrap_or(self.calls_per_minute),
            deliveries_per_minute: terms.deliveries_per_minute.unwrap_or(self.deliveries_per_minute),
            log_entries_per_day: terms.log_entries_per_day.unwrap_or(self.log_entries_per_day),
            at_zero: terms.at_zero.unwrap_or(self.at_zero),
            features: terms.features.unwrap_or(self.features),
            updated_at: updated_at.to_owned(),
            name: self.name,
        };
        // Sums of units must stay within 64 bits whatever is granted beside.
        if !(0..=1 << 53).contains(&plan.monthly_units) {
            return Err(PlanError(format!("monthly_units of the plan {} must be 0 to 2^53", plan.name)));
        }
        for (name, limit) in [
            ("calls_per_minute", plan.calls_per_minute),
            ("deliveries_per_minute", plan.deliveries_per_minute),
            ("log_entries_per_day", plan.log_entries_per_day),
        ] {
            if limit == 0 {
                return Err(PlanError(format!("{name} of the plan {} must be 1 or more", plan.name)));
            }
        }
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configured(name: &str, terms: PlanTerms) -> Result<Plans, PlanError> {
        Plans::default().configured([(name.to_owned(), terms)].into(), "then")
    }

    #[test]
    fn configuration_changes_a_plan_and_adds_others() {
        let terms = PlanTerms { monthly_units: Some(5), ..PlanTerms::default() };
        let plans = configured("free", terms.clone()).unwrap();
        assert_eq!(plans.get("free").unwrap().monthly_units, 5);
        assert_eq!(plans.get("free").unwrap().calls_per_minute, CALLS_PER_MINUTE, "the rest stays");
        let plans = configured("tiny_1", terms).unwrap();
        assert_eq!(plans.get("tiny_1").unwrap().monthly_units, 5);
        assert_eq!(plans.get_or_first("gone").name, "free");
    }

    #[test]
    fn plans_that_cannot_be_are_refused() {
        assert!(configured("new", PlanTerms::default()).is_err(), "without units");
        assert!(configured("Free", PlanTerms { monthly_units: Some(1), ..PlanTerms::default() }).is_err());
        assert!(configured("free", PlanTerms { monthly_units: Some(-1), ..PlanTerms::default() }).is_err());
        assert!(configured("free", PlanTerms { calls_per_minute: Some(0), ..PlanTerms::default() }).is_err());
    }
}
