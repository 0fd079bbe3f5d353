//! The catalogue: what can be connected.

use schemars::JsonSchema;
use serde::Serialize;

use crate::auth::Mode;
use crate::field::FieldDefinition;
use crate::manifest::Manifest;
use crate::spec::{ActionDefinition, ActionSpec, Executor};

/// The action under which tests are recorded.
pub const TEST_ACTION: &str = "test";

/// A kind of connection, as the catalogue shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Kind {
    /// Its name.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// What it is.
    pub description: String,
    /// How it proves who it is; of several, separated by spaces, the default is first.
    pub auth: String,
    /// Who can send its requests: `cloud`, `agent`.
    pub executors: Vec<String>,
    /// The action under which its tests are recorded.
    pub test_action: String,
    /// Its configuration.
    pub config: Vec<FieldDefinition>,
    /// Its actions.
    pub actions: Vec<ActionDefinition>,
}

/// The names of executors.
pub(crate) fn executors(executors: &[Executor]) -> Vec<String> {
    executors.iter().map(|executor| executor.name().to_owned()).collect()
}

impl Manifest {
    /// Its entry in the catalogue.
    pub fn kind(&self) -> Kind {
        Kind {
            name: self.id.clone(),
            title: self.title.clone(),
            description: self.description.clone(),
            auth: self.auth_names(),
            executors: executors(&[Executor::Cloud]),
            test_action: TEST_ACTION.to_owned(),
            config: self.config(),
            actions: self.actions().map(|action| action.definition()).collect(),
        }
    }

    /// The names of its modes, separated by spaces, the default first.
    pub fn auth_names(&self) -> String {
        self.modes().map(Mode::name).collect::<Vec<_>>().join(" ")
    }
}

/// The definitions of actions.
pub(crate) fn definitions(actions: &[ActionSpec]) -> Vec<ActionDefinition> {
    actions.iter().map(ActionSpec::definition).collect()
}
