//! Calls of a service by name: on a socket, over MQTT, or as a tool.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Response};
use http_body_util::BodyExt;
use portico_engine::input::{Fields, Node};
use portico_engine::{ANSWER_BYTES_MAX, Body, Ctx, DocumentedOperation, Output, Ready};
use portico_kernel::{Month, Problem};
use portico_openapi::{NamedRequest, Operation, Security};
use portico_upstream::AnswerBody;
use schemars::Schema;
use serde_json::{Map, Value, json};

use super::answer::{ServiceError, problem_of};
use super::request::{ForwardedUpload, refused};
use super::{ForwardedRequest, Service, for_customers, units_told};
use crate::party::Party;

/// An operation of a service, as its document describes it.
pub struct ServiceOperation {
    /// The service.
    pub service: Arc<Service>,
    /// Which of the document's operations it is.
    pub index: usize,
}

impl ServiceOperation {
    /// What the document says.
    pub fn operation(&self) -> &Operation {
        &self.service.document.operations[self.index]
    }

    /// Is it for everybody, without a token?
    fn is_open(&self) -> bool {
        self.operation().security == Security::Open
    }
}

impl DocumentedOperation for ServiceOperation {
    fn is_callable(&self) -> bool {
        self.operation().is_callable()
    }

    fn prepare(self: Arc<Self>, fields: Fields) -> Result<Box<dyn Ready>, Problem> {
        let fields = fields.into_iter().map(|(name, node)| (name, value(node))).collect();
        let request = self.operation().request(fields).map_err(refused)?;
        Ok(Box::new(NamedCall { operation: self, request }))
    }

    fn input_schema(&self) -> Schema {
        let mut schema = self.operation().input_schema().unwrap_or_else(|| json!({}));
        if let Some(object) = schema.as_object_mut() {
            let description = [&self.operation().description, &self.operation().summary]
                .into_iter()
                .find(|text| !text.is_empty());
            object.insert("description".to_owned(), json!(description));
        }
        Schema::try_from(schema).unwrap_or_default()
    }

    fn answer_schema(&self) -> Schema {
        Schema::default()
    }
}

/// A field of a call by name as JSON. A path variable came as text.
fn value(node: Node) -> Value {
    match node {
        Node::Null => Value::Null,
        Node::Bool(value) => json!(value),
        Node::Int(number) => json!(number),
        Node::Big(number) => json!(number),
        Node::Float(number) => json!(number),
        Node::Text(text) => json!(text),
        Node::Texts(mut words) if words.len() == 1 => json!(words.remove(0)),
        Node::Texts(words) => json!(words),
        Node::List(items) => items.into_iter().map(value).collect(),
        Node::Object(fields) => {
            Value::Object(fields.into_iter().map(|(name, node)| (name, value(node))).collect::<Map<_, _>>())
        }
    }
}

/// A call by name that was checked.
struct NamedCall {
    operation: Arc<ServiceOperation>,
    request: NamedRequest,
}

impl Ready for NamedCall {
    fn run(self: Box<Self>, ctx: &mut Ctx) -> BoxFuture<'_, Result<Output, Problem>> {
        Box::pin(async move { self.operation.service.clone().call(*self, ctx).await })
    }
}

impl Service {
    async fn call(&self, call: NamedCall, ctx: &mut Ctx) -> Result<Output, Problem> {
        let NamedCall { operation, request } = call;
        let mut headers = HeaderMap::new();
        if request.body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        for_customers(ctx.caller())?;
        let account = ctx.current_account();
        let plan =
            account.map(|account| self.metering.plan(account, Month::of(ctx.now()))).unwrap_or_default();
        let caller = ctx.shared_caller().clone();
        let _in_flight = self.in_flight.begin(Party::of(&caller))?;
        let method = Method::from_bytes(operation.operation().method.name().as_bytes());
        let head = self.head(
            ctx.engine(),
            ForwardedRequest {
                method: method.map_err(Problem::internal)?,
                path_and_query: &request.path_and_query,
                headers,
                caller: Some(&*caller).filter(|_| !operation.is_open()),
                account,
                plan: &plan,
                request_id: ctx.request_id(),
            },
        )?;
        let body = ForwardedUpload::Whole(request.body.unwrap_or_default().into());
        let answer = self.upstream.send(head.map(|()| body)).await;
        let response = answer.map_err(|failure| problem_of(&failure, self.name))?.response;
        let status = response.status();
        if let Some(units) = units_told(response.headers(), status) {
            ctx.set_units(units);
        }
        if status.is_client_error() || status.is_server_error() {
            return Err(ServiceError::read(response, self.name).await.problem);
        }
        Ok(Body::Json(self.read_json(response).await?).into())
    }

    /// A refusal to pass on what a call by name cannot carry. The service has done its work, so nobody is to try again.
    fn unfit(&self, what: &str) -> Problem {
        let message = format!("The service {} answered with {what}; call it over HTTP.", self.name);
        Problem::failed_precondition("ANSWER_UNFIT", "gateway", message, [])
    }

    /// The whole answer, which a call by name can carry if it is JSON. One without a body is an empty object.
    async fn read_json(&self, response: Response<AnswerBody>) -> Result<Bytes, Problem> {
        let broken = |what: &str| {
            let message = format!("The service {} answered {what}.", self.name);
            Problem::unavailable(message, portico_kernel::seconds(1))
        };
        let (mut body, mut text) = (response.into_body(), BytesMut::new());
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| broken("not to the end"))?.into_data() else { continue };
            if text.len() + data.len() > ANSWER_BYTES_MAX {
                return Err(self.unfit("more than a call by name can carry, which is 4 MiB"));
            }
            text.extend_from_slice(&data);
        }
        if text.is_empty() {
            return Ok(Bytes::from_static(b"{}"));
        }
        let text = text.freeze();
        serde_json::from_slice::<serde::de::IgnoredAny>(&text)
            .map_err(|_| self.unfit("something that is no JSON"))?;
        Ok(text)
    }
}
