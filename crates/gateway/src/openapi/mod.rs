//! The OpenAPI documents, derived from the registry.
//!
//! There is one description of each operation and many cuts of them: the public one, and one for each set of scopes. A
//! cut holds the operations that its reader may call and the schemas that these name, no others. Its hash covers what
//! a program can notice and nothing that only a person reads.

mod build;
mod hash;
mod operation;
mod problem;

use bytes::Bytes;
use portico_engine::{Access, Catalog, Entry};
use portico_kernel::{Problem, ScopeSet};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value};

pub use build::document;
pub(crate) use operation::{one_line, present};
pub(crate) use problem::schemas as problem_schemas;

/// A generator whose schemas are whole, without references.
pub(crate) fn inlined(settings: SchemaSettings) -> SchemaGenerator {
    let inline = |settings: &mut SchemaSettings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    };
    settings.with(inline).into_generator()
}

/// Makes schemas of inputs, whole: their fields are spread over path, query and body.
pub(crate) fn inputs() -> SchemaGenerator {
    inlined(SchemaSettings::draft2020_12().for_deserialize())
}

/// The schema's object form.
pub(crate) fn object(schema: Schema) -> Map<String, Value> {
    match schema.to_value() {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// About how many documents are remembered,
const DOCUMENTS_MAX: usize = 256;
/// and how many bytes of them: a company's own services may make each of them large.
const DOCUMENT_BYTES_MAX: u64 = 64 << 20;

/// What a document is narrowed to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cut {
    /// The plan; `public` on the open document.
    pub plan: String,
    /// The account; empty on the open document.
    pub account: String,
    /// The scopes; none for a person, who is bound by role.
    pub scopes: Option<ScopeSet>,
}

impl Cut {
    /// The open document.
    pub fn public() -> Self {
        Self { plan: "public".to_owned(), account: String::new(), scopes: None }
    }

    /// What any person may call in the console, beside what is public. No account is behind it.
    pub fn persons() -> Self {
        Self { account: "any".to_owned(), ..Self::public() }
    }

    /// Does the operation stand in it?
    fn holds(&self, entry: &Entry) -> bool {
        let spec = entry.spec;
        let granted = match (&self.scopes, spec.access) {
            // What is for services alone stands in the document for everybody and in their own.
            (Some(scopes), Access::Scope(scope) | Access::Service(scope)) => scopes.contains(scope),
            (Some(scopes), Access::AnyOf(lists)) => {
                lists.iter().any(|list| list.iter().all(|scope| scopes.contains(scope)))
            }
            (Some(_), Access::Person) => false,
            (None, Access::Service(_)) => self.account.is_empty(),
            (None, Access::Person) => !self.account.is_empty(),
            _ => true,
        };
        spec.documented && granted && (self.account.is_empty() || spec.is_for_plan(&self.plan))
    }
}

/// Documents, each made once and kept as it goes out.
pub(crate) struct Documents {
    base_url: String,
    /// By the generation of the catalog too.
    made: Cache<(u64, Cut), Bytes, ByLength>,
}

/// Weighs a document by its length.
#[derive(Clone)]
struct ByLength;

impl Weighter<(u64, Cut), Bytes> for ByLength {
    fn weight(&self, _: &(u64, Cut), document: &Bytes) -> u64 {
        document.len() as u64
    }
}

impl Documents {
    pub(crate) fn new(base_url: &str) -> Self {
        Self {
            base_url: base_url.to_owned(),
            made: Cache::with_weighter(DOCUMENTS_MAX, DOCUMENT_BYTES_MAX, ByLength),
        }
    }

    pub(crate) fn get(&self, catalog: &Catalog, cut: Cut) -> Result<Bytes, Problem> {
        let of = (catalog.generation, cut);
        self.made.get_or_insert_with(&of, || {
            let document = document(catalog, &self.base_url, &of.1);
            serde_json::to_vec(&document).map(Bytes::from).map_err(Problem::internal)
        })
    }
}
