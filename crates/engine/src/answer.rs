//! Answers, on their way to the wire.

use portico_kernel::{Code, Problem};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use crate::{Ctx, Page, Spec};

/// An answer is at most 4 MiB (SPEC.md, Limits).
pub const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Room for the braces, the names and the token around the items of a list.
const LIST_FRAME_BYTES: usize = 1 << 10;

/// An answer, serialised.
#[derive(Debug)]
pub struct Answered {
    /// The JSON text.
    pub body: Vec<u8>,
    /// The token of the next page, when the answer is a page and another follows.
    pub next_page_token: Option<String>,
    /// The code whose status goes with it, when that is not success.
    pub refused: Option<Code>,
}

/// The answer of an operation that has nothing to tell but that it is done.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Done {}

/// What an operation may answer: any record, or a page of a list.
pub trait Answer: Send {
    /// Codes whose status may come with the answer itself, instead of with a `Problem`.
    const ALSO: &'static [Code] = &[];

    /// Its schema on the wire.
    fn schema(spec: &Spec, generator: &mut SchemaGenerator) -> Schema;
    /// Its text on the wire.
    fn write(self, ctx: &Ctx) -> Result<Answered, Problem>;
}

impl<T: Serialize + JsonSchema + Send> Answer for T {
    fn schema(_: &Spec, generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<T>()
    }

    fn write(self, _: &Ctx) -> Result<Answered, Problem> {
        let body = serde_json::to_vec(&self).map_err(Problem::internal)?;
        if body.len() > ANSWER_BYTES_MAX {
            return Err(Problem::internal(format!("an answer of {} bytes", body.len())));
        }
        Ok(Answered { body, next_page_token: None, refused: None })
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
    fn write(self, ctx: &Ctx) -> Result<Answered, Problem> {
        let list =
            ctx.spec().list.ok_or_else(|| Problem::internal("a page from an operation that is no list"))?;
        let mut body = format!("{{{list:?}:[").into_bytes();
        let (mut written, mut cut) = (None, false);
        let most = ctx.page_bytes()?;
        for (cursor, item) in self.items {
            let item = serde_json::to_vec(&item).map_err(Problem::internal)?;
            let size = body.len() + item.len() + LIST_FRAME_BYTES;
            if size > ANSWER_BYTES_MAX || (size > most && written.is_some()) {
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
        Ok(Answered { body, next_page_token, refused: None })
    }
}
