//! What the catalogue says of the kind.

use std::sync::LazyLock;

use super::NAME;
use crate::field::{ConfigField, Field, FieldType};
use crate::kind::{Kind, TEST_ACTION, definitions, executors};
use crate::spec::{ActionSpec, Class, Executor};

/// Who can send its requests.
const EXECUTORS: [Executor; 2] = [Executor::Cloud, Executor::Agent];

/// The fields of its configuration.
pub(super) static CONFIG: LazyLock<[ConfigField; 4]> = LazyLock::new(|| {
    let field = |field| ConfigField { field, host: false };
    let base_url = Field::new(
        "base_url",
        FieldType::String,
        "The address of the service, such as https://api.example.com/v1.",
    );
    let auth = Field::new(
        "auth",
        FieldType::String,
        "How the secret goes with a request: as a bearer token, in a header of its own, as user:password, or not at all.",
    );
    [
        ConfigField { host: true, ..field(Field { required: true, ..base_url }) },
        field(Field {
            choices: ["bearer", "header", "basic", "none"].map(str::to_owned).to_vec(),
            default_value: "bearer".to_owned(),
            ..auth
        }),
        field(Field::new(
            "header_name",
            FieldType::String,
            "The header that the secret goes in, where auth is header.",
        )),
        field(Field {
            default_value: "/".to_owned(),
            ..Field::new("test_path", FieldType::String, "The path that a test reads; any 2xx passes.")
        }),
    ]
});

static ACTIONS: LazyLock<[ActionSpec; 2]> = LazyLock::new(|| {
    let required = |field| Field { required: true, ..field };
    let path = || {
        required(Field::new(
            "path",
            FieldType::String,
            "The path, which begins with a slash and is appended to the address of the service.",
        ))
    };
    let query = || {
        Field::new(
            "query",
            FieldType::Object,
            "The query: names, and values that are strings, numbers, booleans or lists of them.",
        )
    };
    let method = Field {
        choices: ["POST", "PUT", "PATCH", "DELETE"].map(str::to_owned).to_vec(),
        ..required(Field::new("method", FieldType::String, "The method."))
    };
    let action = |name: &str, description: &str, class, sends_out, params| ActionSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        class,
        reads_private: true,
        reads_untrusted: true,
        sends_out,
        params,
        executors: &EXECUTORS,
    };
    let body = Field::new("body", FieldType::Any, "The body, any JSON.");
    [
        action("get", "Read from the service.", Class::Read, false, vec![path(), query()]),
        action(
            "send",
            "Write to the service.",
            Class::WriteIrreversible,
            true,
            vec![method, path(), query(), body],
        ),
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
        title: "Own service".to_owned(),
        description: "A service of the account's own, on a domain that it has proven, or in its own network."
            .to_owned(),
        auth: "secret".to_owned(),
        executors: executors(&EXECUTORS),
        test_action: TEST_ACTION.to_owned(),
        config: CONFIG.iter().map(|field| field.field.definition()).collect(),
        actions: definitions(actions()),
    }
}
