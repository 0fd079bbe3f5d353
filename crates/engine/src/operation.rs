//! What an operation is.

use std::any::Any;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use portico_kernel::{Code, Problem};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::answer::{Answer, AnswerKind, Output};
use crate::input::{self, Fields};
use crate::{Ctx, RequestBody, Spec, example};

/// An operation: its type is its input, its `SPEC` says all else, and `run` does it.
///
/// REST, sockets and assistants' tools are all derived from this; no transport knows an operation by name.
pub trait Operation: DeserializeOwned + JsonSchema + Send + 'static {
    /// Method, path, name, scope and price.
    const SPEC: Spec;
    /// The state that the operation's area holds.
    type Area: Send + Sync + 'static;
    /// What it answers: a record, or a [`Page`](crate::Page) of a list.
    type Answer: Answer;

    /// Does it. The transaction is the engine's: whatever this writes is kept if and only if it succeeds.
    fn run(
        self,
        area: &Self::Area,
        ctx: &mut Ctx,
    ) -> impl Future<Output = Result<Self::Answer, Problem>> + Send;
}

/// An input that was read and may run.
pub trait Ready: Send {
    /// Runs it.
    fn run(self: Box<Self>, ctx: &mut Ctx) -> BoxFuture<'_, Result<Output, Problem>>;
}

struct Prepared<O: Operation> {
    input: O,
    area: Arc<O::Area>,
}

impl<O: Operation> Ready for Prepared<O> {
    fn run(self: Box<Self>, ctx: &mut Ctx) -> BoxFuture<'_, Result<Output, Problem>> {
        Box::pin(async move { self.input.run(&self.area, ctx).await?.write(ctx) })
    }
}

/// An operation that a document describes and no type: one of a company's own service.
pub trait DocumentedOperation: Any + Send + Sync {
    /// Can it be called by its name? What it takes and what it answers must be JSON.
    fn is_callable(&self) -> bool;
    /// Reads the fields of a call by name.
    fn prepare(self: Arc<Self>, fields: Fields) -> Result<Box<dyn Ready>, Problem>;
    /// The schema of the whole input, path variables included; its description is the operation's.
    fn input_schema(&self) -> Schema;
    /// The schema of the answer.
    fn answer_schema(&self) -> Schema;
}

type Prepare = dyn Fn(Fields) -> Result<Box<dyn Ready>, Problem> + Send + Sync;

/// Where an operation is described.
enum Source {
    /// By a type.
    Type {
        prepare: Box<Prepare>,
        input_schema: fn(&mut SchemaGenerator) -> Schema,
        answer_schema: fn(&Spec, &mut SchemaGenerator) -> Schema,
    },
    /// By a document.
    Document(Arc<dyn DocumentedOperation>),
}

/// An operation as the registry holds it, its types erased.
pub struct Entry {
    /// Everything that is not its shape.
    pub spec: &'static Spec,
    /// The area it belongs to.
    pub area: &'static str,
    /// What kind of answer it gives.
    pub answer_kind: AnswerKind,
    /// Codes whose status may come with the answer itself.
    pub also: &'static [Code],
    source: Source,
}

impl Entry {
    pub(crate) fn new<O: Operation>(area_name: &'static str, area: Arc<O::Area>) -> Self {
        Self {
            spec: const { &O::SPEC },
            area: area_name,
            answer_kind: O::Answer::KIND,
            also: O::Answer::ALSO,
            source: Source::Type {
                prepare: Box::new(move |fields| {
                    let input = input::read::<O>(fields)?;
                    Ok(Box::new(Prepared { input, area: area.clone() }))
                }),
                input_schema: O::json_schema,
                answer_schema: O::Answer::schema,
            },
        }
    }

    /// An operation of the service `area`, as its document describes it.
    pub fn documented(
        area: &'static str,
        spec: &'static Spec,
        operation: Arc<dyn DocumentedOperation>,
    ) -> Self {
        let source = Source::Document(operation);
        Self { spec, area, answer_kind: AnswerKind::Json, also: &[], source }
    }

    /// The operation behind it, where a document describes one of that type.
    pub fn document<T: DocumentedOperation>(&self) -> Option<&T> {
        match &self.source {
            Source::Document(operation) => (&**operation as &dyn Any).downcast_ref(),
            Source::Type { .. } => None,
        }
    }

    /// Does a document describe it?
    pub fn is_documented(&self) -> bool {
        matches!(self.source, Source::Document(_))
    }

    /// Can it be called by its name, on a socket, over MQTT or as a tool? Only what takes JSON and answers JSON can.
    pub fn is_callable(&self) -> bool {
        match &self.source {
            Source::Document(operation) => operation.is_callable(),
            Source::Type { .. } => {
                self.spec.protocol.is_none()
                    && self.spec.body == RequestBody::Json
                    && self.answer_kind == AnswerKind::Json
            }
        }
    }

    /// Refuses a message that the operation would not take; nothing is done.
    pub fn check(&self, fields: Fields) -> Result<(), Problem> {
        self.prepare(fields)?;
        Ok(())
    }

    pub(crate) fn prepare(&self, fields: Fields) -> Result<Box<dyn Ready>, Problem> {
        match &self.source {
            Source::Type { prepare, .. } => prepare(fields),
            Source::Document(operation) => operation.clone().prepare(fields),
        }
    }

    /// The schema of the whole input, path variables included; its description is the operation's.
    pub fn input_schema(&self, generator: &mut SchemaGenerator) -> Schema {
        match &self.source {
            Source::Type { input_schema, .. } => input_schema(generator),
            Source::Document(operation) => operation.input_schema(),
        }
    }

    /// An example of the whole input, path variables included: what a call by name could hold.
    pub fn call_example(&self) -> Value {
        let mut generator: SchemaGenerator =
            SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true).into();
        example::of(self.input_schema(&mut generator).as_value())
    }

    /// An example of the input without the variables of the path: what a request body or a query could hold.
    pub fn example(&self) -> Value {
        let mut example = self.call_example();
        if let Some(fields) = example.as_object_mut() {
            fields.retain(|name, _| !self.spec.variables().any(|variable| variable == name));
        }
        example
    }

    /// The schema of the answer.
    pub fn answer_schema(&self, generator: &mut SchemaGenerator) -> Schema {
        match &self.source {
            Source::Type { answer_schema, .. } => answer_schema(self.spec, generator),
            Source::Document(operation) => operation.answer_schema(),
        }
    }
}
