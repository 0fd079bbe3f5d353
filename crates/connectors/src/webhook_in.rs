//! Messages that others send: the kind `webhook-in`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::fault::Fault;
use crate::field::{ConfigField, Field, FieldType};
use crate::kind::{Kind, TEST_ACTION, definitions, executors};
use crate::spec::{ActionSpec, Class, Executor};
use crate::text::shown;

/// The name of the kind.
pub const NAME: &str = "webhook-in";

static SCHEME: LazyLock<ConfigField> = LazyLock::new(|| {
    let schemes = ["standard", "github", "gitlab", "slack", "stripe", "linear"];
    ConfigField {
        field: Field {
            choices: schemes.map(str::to_owned).to_vec(),
            default_value: "standard".to_owned(),
            ..Field::new(
                "scheme",
                FieldType::String,
                "How messages are signed: Standard Webhooks, or a provider's own way.",
            )
        },
        host: false,
    }
});

static ACTIONS: LazyLock<[ActionSpec; 2]> = LazyLock::new(|| {
    let action = |name: &str, description: &str, params| ActionSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        class: Class::Read,
        reads_private: true,
        reads_untrusted: true,
        sends_out: false,
        params,
        executors: &[Executor::Cloud],
    };
    let after = Field::new(
        "after",
        FieldType::String,
        "The id of a message: those after it are listed. From the first, when left out.",
    );
    let limit = Field {
        default_value: "50".to_owned(),
        min: "1".to_owned(),
        max: "100".to_owned(),
        ..Field::new("limit", FieldType::Integer, "How many messages at most.")
    };
    let id = Field { required: true, ..Field::new("id", FieldType::String, "The id of the message.") };
    [
        action("list_messages", "List the messages that were received, oldest first.", vec![after, limit]),
        action("get_message", "Read one message that was received, with its body.", vec![id]),
    ]
});

/// Its actions.
pub fn actions() -> &'static [ActionSpec] {
    &*ACTIONS
}

/// Its entry in the catalogue.
pub fn kind() -> Kind {
    Kind {
        name: NAME.to_owned(),
        title: "Inbound webhook".to_owned(),
        description: "An address that takes signed messages from a provider.".to_owned(),
        auth: "signing_secret".to_owned(),
        executors: executors(&[Executor::Cloud]),
        test_action: TEST_ACTION.to_owned(),
        config: vec![SCHEME.field.definition()],
        actions: definitions(actions()),
    }
}

/// Checks a configuration; faults name their `config.x`.
pub fn check_config(config: &BTreeMap<String, String>) -> Result<(), Vec<Fault>> {
    let faults: Vec<_> = config.iter().filter_map(|(name, value)| check(name, value).err()).collect();
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// The scheme that messages are signed by.
pub fn scheme(config: &BTreeMap<String, String>) -> &str {
    config.get("scheme").filter(|scheme| !scheme.is_empty()).unwrap_or(&SCHEME.field.default_value)
}

fn check(name: &str, value: &str) -> Result<(), Fault> {
    let fault = |message: String| Fault::new(format!("config.{}", shown(name)), message);
    if name != SCHEME.field.name {
        return Err(fault("is not a field of this kind's configuration".to_owned()));
    }
    if value.is_empty() { Ok(()) } else { SCHEME.check(value).map_err(fault) }
}
