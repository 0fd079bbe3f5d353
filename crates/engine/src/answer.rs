//! Answers, on their way to a transport: JSON, bytes, or a connection that is opened.

use std::any::Any;
use std::fmt;
use std::io;
use std::ops::Range;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use portico_kernel::{Code, Problem};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::json;

use crate::{CountedPage, Ctx, Page, Spec};

/// An answer in JSON is at most 4 MiB (SPEC.md, Limits).
pub const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Most records fit into so much, so that room for them is made once.
const USUAL_ANSWER_BYTES: usize = 1 << 10;
/// Room for the braces, the names and the token around the items of a list.
const LIST_FRAME_BYTES: usize = 1 << 10;

/// What an operation returns, ready for a transport.
#[derive(Debug)]
pub struct Output {
    /// The answer itself.
    pub body: Body,
    /// The token of the next page, when the answer is a page and another follows.
    pub next_page_token: Option<String>,
    /// The code whose status goes with it, when that is not success.
    pub refused: Option<Code>,
    /// What the `ETag` is made of, where that is not the whole answer.
    pub tagged: Option<Bytes>,
}

impl From<Body> for Output {
    fn from(body: Body) -> Self {
        Self { body, next_page_token: None, refused: None, tagged: None }
    }
}

/// The answer itself.
pub enum Body {
    /// A JSON text.
    Json(Bytes),
    /// Bytes of any type, which are read as they are sent.
    Bytes(BytesAnswer),
    /// A connection is opened: what the transport needs to know to go on. It knows the type.
    Connection(Box<dyn Any + Send>),
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(text) => write!(f, "Json({} bytes)", text.len()),
            Self::Bytes(answer) => write!(f, "Bytes({} bytes of {})", answer.length, answer.media_type),
            Self::Connection(_) => f.write_str("Connection"),
        }
    }
}

impl Body {
    /// The text of an answer that is JSON.
    pub fn into_json(self) -> Result<Bytes, Problem> {
        match self {
            Self::Json(text) => Ok(text),
            other => Err(Problem::internal(format!("{other:?} where JSON is the only answer"))),
        }
    }

    /// What a connection is opened with.
    pub fn into_connection<T: 'static>(self) -> Result<T, Problem> {
        match self {
            Self::Connection(opening) => {
                let opening =
                    opening.downcast().map_err(|_| Problem::internal("another kind of connection"))?;
                Ok(*opening)
            }
            other => Err(Problem::internal(format!("{other:?} where a connection is opened"))),
        }
    }
}

/// What kind of [`Body`] an operation answers with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerKind {
    /// [`Body::Json`].
    Json,
    /// [`Body::Bytes`].
    Bytes,
    /// [`Body::Connection`].
    Connection,
}

/// Bytes as an answer: a file, a recording, an export. A transport may ask for a range of them.
pub struct BytesAnswer {
    /// The media type.
    pub media_type: String,
    /// How many bytes there are in all.
    pub length: u64,
    /// Names this content, such as its hash; `None` where it cannot be named without reading it.
    pub etag: Option<String>,
    /// Where the bytes come from.
    pub source: Box<dyn ByteSource>,
}

/// Where bytes come from.
pub trait ByteSource: Send + Sync + 'static {
    /// Reads this range, piece by piece; pieces are small enough to hold one in memory.
    fn read(self: Box<Self>, range: Range<u64>) -> BoxStream<'static, io::Result<Bytes>>;
}

/// The answer of an operation that has nothing to tell but that it is done.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Done {}

/// What an operation may answer: any record, a page of a list, bytes, or a connection.
pub trait Answer: Send {
    /// What kind of answer it is.
    const KIND: AnswerKind = AnswerKind::Json;
    /// Codes whose status may come with the answer itself, instead of with a `Problem`.
    const ALSO: &'static [Code] = &[];

    /// Its schema on the wire.
    fn schema(spec: &Spec, generator: &mut SchemaGenerator) -> Schema;
    /// The answer, ready for a transport.
    fn write(self, ctx: &Ctx) -> Result<Output, Problem>;
}

impl<T: Serialize + JsonSchema + Send> Answer for T {
    fn schema(_: &Spec, generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<T>()
    }

    fn write(self, _: &Ctx) -> Result<Output, Problem> {
        let mut text = Vec::with_capacity(USUAL_ANSWER_BYTES);
        serde_json::to_writer(&mut text, &self).map_err(Problem::internal)?;
        if text.len() > ANSWER_BYTES_MAX {
            return Err(Problem::internal(format!("an answer of {} bytes", text.len())));
        }
        Ok(Body::Json(text.into()).into())
    }
}

impl Answer for BytesAnswer {
    const KIND: AnswerKind = AnswerKind::Bytes;

    fn schema(_: &Spec, _: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "binary" })
    }

    fn write(self, _: &Ctx) -> Result<Output, Problem> {
        Ok(Body::Bytes(self).into())
    }
}

impl<T: Serialize + JsonSchema + Send> Answer for Page<T> {
    fn schema(spec: &Spec, generator: &mut SchemaGenerator) -> Schema {
        let list = spec.list.unwrap_or("items");
        let item = generator.subschema_for::<T>();
        json_schema!({
            "type": "object",
            "properties": {
                list: { "type": "array", "items": item, "description": "The items of this page." },
                "next_page_token": {
                    "type": "string",
                    "description": "The `page_token` of the next page; empty on the last one.",
                },
            },
            "required": [list, "next_page_token"],
        })
    }

    /// Writes as many items as fit; where that is not all of them, the page is shorter and says so by its token.
    fn write(self, ctx: &Ctx) -> Result<Output, Problem> {
        let list =
            ctx.spec().list.ok_or_else(|| Problem::internal("a page from an operation that is no list"))?;
        let mut body = format!("{{{list:?}:[").into_bytes();
        let (mut written, mut cut) = (None, false);
        let limit = ctx.page_bytes()?;
        for (cursor, item) in self.items {
            let item = serde_json::to_vec(&item).map_err(Problem::internal)?;
            let size = body.len() + item.len() + LIST_FRAME_BYTES;
            if size > ANSWER_BYTES_MAX || (size > limit && written.is_some()) {
                cut = true;
                break;
            }
            if written.is_some() {
                body.push(b',');
            }
            body.extend(item);
            written = Some(cursor);
        }
        let ends = match (cut, written) {
            (false, _) => self.next,
            (true, Some(cursor)) => Some(cursor),
            (true, None) => return Err(Problem::internal("an item larger than an answer may be")),
        };
        let next_page_token = ends.map(|cursor| ctx.seal_page_token(&cursor)).transpose()?;
        // The token is base64, so it needs no escapes.
        let token = next_page_token.as_deref().unwrap_or_default();
        body.extend(format!("],\"next_page_token\":\"{token}\"}}").into_bytes());
        Ok(Output { next_page_token, ..Body::Json(body.into()).into() })
    }
}

impl<T: Serialize + JsonSchema + Send> Answer for CountedPage<T> {
    fn schema(spec: &Spec, generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Page::<T>::schema(spec, generator).to_value();
        schema["properties"]["total_size"] = json!({
            "type": "integer",
            "format": "int32",
            "description": "How many items there are in all, on every page.",
        });
        if let Some(required) = schema["required"].as_array_mut() {
            required.push(json!("total_size"));
        }
        schema.try_into().unwrap_or_default()
    }

    fn write(self, ctx: &Ctx) -> Result<Output, Problem> {
        let output = self.page.write(ctx)?;
        let mut text = output.body.into_json()?.to_vec();
        text.truncate(text.len().saturating_sub(1));
        text.extend(format!(",\"total_size\":{}}}", self.total_size).into_bytes());
        Ok(Output { body: Body::Json(text.into()), ..output })
    }
}
