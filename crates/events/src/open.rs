//! The operations that open a stream. The gateway calls them like any operation, so that opening one is admitted, counted
//! and charged like a call, and then serves the stream that they return.

use portico_engine::{AccountRef, Answer, AnswerKind, Body, Ctx, Operation, Output, Protocol, Spec};
use portico_kernel::{AccountId, Category, Problem};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use crate::{Events, Filter, Start};

/// The stream that a caller may open.
#[derive(Debug)]
pub struct StreamParams {
    /// The account whose events it carries.
    pub account_id: AccountId,
    /// The types that it is filtered by; empty for all of them.
    pub types: Vec<String>,
    /// Where it begins: a cursor or the id of an event; empty for now.
    pub after: String,
}

impl Answer for StreamParams {
    const KIND: AnswerKind = AnswerKind::Connection;

    fn schema(spec: &Spec, _: &mut SchemaGenerator) -> Schema {
        let description = match spec.protocol {
            Some(Protocol::Sse) => {
                "Blocks of server-sent events. The first sets `retry` and `id`. Then one for each event: `id` is the \
                 cursor to resume from, `event` the type, `data` the envelope. `event: resync` with \
                 `{recovered, oldest}` tells that what was asked for is not kept any more; `event: error` carries a \
                 Problem. A comment is sent every 15 seconds."
            }
            _ => "The connection becomes a WebSocket.",
        };
        json_schema!({ "type": "string", "description": description })
    }

    fn write(self, _: &Ctx) -> Result<Output, Problem> {
        Ok(Body::Connection(Box::new(self)).into())
    }
}

/// Stream the account's events over server-sent events. A client that comes back with the `id` of the last block that it
/// saw, as `Last-Event-ID` or as `after`, misses nothing. At most 32 streams, sockets and MQTT connections for a
/// credential, 128 for an account, and 256 for a person with all keys and API tokens that they made; a stream ends after
/// 24 hours, or with its credential.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenStream {
    /// The types of events to stream, each named once; left out, all of them.
    #[serde(default)]
    types: Vec<String>,
    /// Where to begin: the `id` of a block of an earlier stream, or the id of an event; left out, with what comes from
    /// now on. A `Last-Event-ID` header wins over it.
    #[serde(default)]
    after: Option<String>,
    /// The account: a team that the person belongs to; left out, the caller's own.
    #[serde(default)]
    account_id: Option<AccountRef>,
}

impl Operation for OpenStream {
    const SPEC: Spec = Spec::get("events.stream.open", "/v1/events/stream")
        .scope("events:read")
        .category(Category::Read)
        .opens(Protocol::Sse);
    type Area = Events;
    type Answer = StreamParams;

    async fn run(self, _: &Events, ctx: &mut Ctx) -> Result<StreamParams, Problem> {
        Filter::parse(&ctx.engine().registry, &self.types)?;
        let after = self.after.unwrap_or_default();
        if !after.is_empty() {
            after.parse::<Start>().map_err(|message| Problem::field("after", message))?;
        }
        let account_id = ctx.account(self.account_id).await?;
        Ok(StreamParams { account_id, types: self.types, after })
    }
}

/// Open a WebSocket for events and calls, with the subprotocol `platform.v1`. Its frames are described at
/// `/frames.json`. A browser, which cannot send a header, sends its token in a first `auth` frame.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenSocket {
    /// The account whose events to stream: a team that the person belongs to; left out, the caller's own.
    #[serde(default)]
    account_id: Option<AccountRef>,
}

impl Operation for OpenSocket {
    const SPEC: Spec = Spec::get("events.socket.open", "/v1/socket")
        .scope("events:read")
        .category(Category::Read)
        .opens(Protocol::Socket)
        .undocumented();
    type Area = Events;
    type Answer = StreamParams;

    async fn run(self, _: &Events, ctx: &mut Ctx) -> Result<StreamParams, Problem> {
        let account_id = ctx.account(self.account_id).await?;
        Ok(StreamParams { account_id, types: Vec::new(), after: String::new() })
    }
}

/// Open an MQTT connection over a WebSocket, with the subprotocol `mqtt`. The token is the password of the CONNECT packet.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenMqtt {}

impl Operation for OpenMqtt {
    const SPEC: Spec = Spec::get("events.mqtt.open", "/mqtt")
        .scope("events:read")
        .category(Category::Read)
        .opens(Protocol::Mqtt)
        .undocumented();
    type Area = Events;
    type Answer = StreamParams;

    async fn run(self, _: &Events, ctx: &mut Ctx) -> Result<StreamParams, Problem> {
        let account_id = ctx.account(None).await?;
        Ok(StreamParams { account_id, types: Vec::new(), after: String::new() })
    }
}
