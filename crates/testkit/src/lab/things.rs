//! Things.

use portico_engine::{AccountRef, Ctx, Cursor, Done, Operation, Page, Spec, Tool, events};
use portico_kernel::{Category, Code, Int64, Problem, Timestamp, seconds, text_enum};
use portico_store::OnConflict;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Lab;
use super::sql::{self, NewThing, ThingRow};

/// Make a thing. Its name can ask for trouble: `panic`, `wait`, `wait late`, `steps`, `refuse`,
/// `unavailable` and `fail late`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateThing {
    /// The account.
    org_id: AccountRef,
    /// The thing's own id, unique in the account; left out, one is made.
    #[serde(default)]
    id: Option<String>,
    /// The thing's name.
    name: Name,
    /// How large it is.
    #[serde(default)]
    size: Int64,
    /// Words that go with it.
    #[serde(default)]
    tags: Vec<Name>,
    /// How it looks.
    #[serde(default)]
    look: Look,
    /// Any text, as long as a body may be.
    #[serde(default)]
    note: String,
    /// How many events more tell of it than one.
    #[serde(default)]
    echoes: u8,
}

/// 1 to 50 characters.
#[derive(Deserialize, Serialize, JsonSchema, Clone)]
#[serde(try_from = "String")]
#[schemars(!try_from)]
struct Name(#[schemars(length(min = 1, max = 50))] String);

impl TryFrom<String> for Name {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if (1..=50).contains(&text.chars().count()) {
            Ok(Self(text))
        } else {
            Err("must have 1 to 50 characters")
        }
    }
}

/// How a thing looks.
#[derive(Deserialize, JsonSchema, Default)]
#[serde(deny_unknown_fields)]
struct Look {
    /// Its color.
    #[serde(default)]
    color: Option<Color>,
    /// Its edges.
    #[serde(default)]
    edges: Vec<Edge>,
}

text_enum! {
    /// A color.
    #[derive(Deserialize, Serialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
    #[serde(rename_all = "snake_case")]
    #[schemars(inline)]
    pub enum Color {
        /// As fire.
        Red = "red",
        /// As the sea.
        Blue = "blue",
    }
}

/// An edge of a thing.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Edge {
    /// How wide it is.
    width: i32,
    /// Is it straight?
    #[serde(default)]
    straight: bool,
}

/// A thing.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Thing {
    /// The thing's id.
    id: String,
    /// The thing's name.
    name: String,
    /// How large it is.
    size: Int64,
    /// Its color; empty for none.
    color: String,
    /// When it was made.
    created_at: Timestamp,
}

/// A new thing, and a secret that is shown once.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CreatedThing {
    /// The thing.
    thing: Thing,
    /// How many tags it has.
    tags: i32,
    /// How wide its straight edges are, together.
    straight_width: i32,
    /// How many bytes the note has.
    note_bytes: i32,
    /// A secret, shown once.
    secret: String,
}

impl From<ThingRow> for Thing {
    fn from(row: ThingRow) -> Self {
        Self {
            id: row.id,
            name: row.name,
            size: Int64(row.size),
            color: row.color,
            created_at: row.created_at,
        }
    }
}

events! {
    /// A thing was made.
    ThingCreated = "lab.thing.created" {
        /// The id of the thing.
        thing_id: String = "a".to_owned(),
        /// Who made it.
        actor: String = "b".to_owned(),
    }
}

/// Tells when a wait is stopped before its end.
struct Waiting<'a>(&'a Lab);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.stopped.notify_one();
    }
}

impl Operation for CreateThing {
    const SPEC: Spec = Spec::post("lab.things.create", "/v1/lab/orgs/{org_id}/things")
        .tool(Tool::new("lab_create_thing", "Make a thing"))
        .scope("webhooks:write")
        .category(Category::Write)
        .accepts_idempotency_key()
        .body_limit(Spec::BODY_LIMIT);
    type Area = Lab;
    type Answer = CreatedThing;

    async fn run(self, lab: &Lab, ctx: &mut Ctx) -> Result<CreatedThing, Problem> {
        lab.ran();
        let account = ctx.account(Some(self.org_id)).await?;
        match self.name.0.as_str() {
            "panic" => panic!("as asked"),
            "wait" => {
                lab.waiting.notify_one();
                let waiting = Waiting(lab);
                lab.go_on.notified().await;
                std::mem::forget(waiting);
            }
            "steps" => (1..=3).for_each(|step| ctx.progress(step, 3, "A step further.")),
            "refuse" => {
                return Err(Problem::failed_precondition("AS_ASKED", "lab", "It was asked to refuse.", []));
            }
            "unavailable" => return Err(Problem::unavailable("It was asked to be away.", seconds(7))),
            _ => {}
        }
        let now = ctx.now();
        let made = portico_kernel::hex(&ctx.engine().entropy.bytes::<8>());
        let tx = ctx.tx().await?;
        let color = self.look.color.map(Color::name).unwrap_or_default().to_owned();
        let id = self.id.unwrap_or(made);
        let new = NewThing { id, name: self.name.0, size: self.size.0, color, created_at: now };
        let row = sql::insert_thing(tx, account, new)
            .await
            .on_conflict(|| Problem::new(Code::AlreadyExists, "A thing of this id exists already."))?;
        ctx.audit("lab.thing.created", &row.id)?;
        let actor = ctx.caller().subject.clone();
        for _ in 0..=self.echoes {
            ctx.emit(&ThingCreated { thing_id: row.id.clone(), actor: actor.clone() })?;
        }
        match row.name.as_str() {
            "fail late" => return Err(Problem::internal("as asked")),
            "wait late" => lab.go_on.notified().await,
            _ => {}
        }
        let secret = format!("whsec_{}", portico_kernel::hex(&ctx.engine().entropy.bytes::<16>()));
        let tags = i32::try_from(self.tags.len()).unwrap_or(i32::MAX);
        let note_bytes = i32::try_from(self.note.len()).unwrap_or(i32::MAX);
        let straight_width = self.look.edges.iter().filter(|edge| edge.straight).map(|edge| edge.width).sum();
        Ok(CreatedThing { thing: row.into(), tags, straight_width, note_bytes, secret })
    }
}

/// List the things, newest first.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListThings {
    /// The account.
    org_id: AccountRef,
    /// Which things.
    #[serde(default)]
    filter: Filter,
    /// Names of things, any of which will do.
    #[serde(default)]
    names: Vec<String>,
}

/// Which things.
#[derive(Deserialize, JsonSchema, Default)]
#[serde(deny_unknown_fields)]
struct Filter {
    /// Of this color.
    #[serde(default)]
    color: Option<Color>,
    /// At least this large.
    #[serde(default)]
    size_min: Option<Int64>,
    /// Only those that are large?
    #[serde(default)]
    large: Option<bool>,
}

impl Operation for ListThings {
    const SPEC: Spec = Spec::get("lab.things.list", "/v1/lab/orgs/{org_id}/things")
        .tool(Tool::new("lab_list_things", "List things"))
        .scope("webhooks:read")
        .category(Category::List)
        .list("things");
    type Area = Lab;
    type Answer = Page<Thing>;

    async fn run(self, _: &Lab, ctx: &mut Ctx) -> Result<Page<Thing>, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let page = ctx.page()?;
        let before = page.after_number()?.unwrap_or(i64::MAX);
        let color = self.filter.color.map(Color::name).unwrap_or_default();
        let rows = sql::things_before(ctx.tx().await?, account, before, color, page.rows()).await?;
        let mut page = page.page(rows, |row| Cursor(row.number.to_string()), Thing::from);
        let large = self.filter.large.unwrap_or(false);
        let least = self.filter.size_min.map_or(if large { 1_000 } else { i64::MIN }, |size| size.0);
        page.items.retain(|(_, thing)| {
            thing.size.0 >= least && (self.names.is_empty() || self.names.contains(&thing.name))
        });
        Ok(page)
    }
}

/// Read a thing. Its id may hold slashes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetThing {
    /// The account.
    org_id: AccountRef,
    /// The thing's id.
    thing_id: String,
}

impl Operation for GetThing {
    const SPEC: Spec = Spec::get("lab.things.get", "/v1/lab/orgs/{org_id}/things/{thing_id}")
        .tool(Tool::new("lab_get_thing", "Read a thing"))
        .scope("webhooks:read")
        .category(Category::Read);
    type Area = Lab;
    type Answer = Thing;

    async fn run(self, _: &Lab, ctx: &mut Ctx) -> Result<Thing, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let row = sql::thing(ctx.tx().await?, account, &self.thing_id).await?;
        row.map(Thing::from).ok_or_else(|| Problem::not_found("thing", self.thing_id))
    }
}

/// Rename a thing.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpdateThing {
    /// The account.
    org_id: AccountRef,
    /// The thing's id.
    thing_id: String,
    /// The new name; left out, it stays.
    #[serde(default)]
    name: Option<Name>,
}

impl Operation for UpdateThing {
    const SPEC: Spec = Spec::patch("lab.things.update", "/v1/lab/orgs/{org_id}/things/{thing_id}")
        .tool(Tool::new("lab_update_thing", "Change a thing"))
        .scope("webhooks:write")
        .category(Category::Write);
    type Area = Lab;
    type Answer = Thing;

    async fn run(self, _: &Lab, ctx: &mut Ctx) -> Result<Thing, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let tx = ctx.tx().await?;
        if let Some(name) = self.name {
            sql::rename_thing(tx, account, &self.thing_id, &name.0).await?;
        }
        let row = sql::thing(tx, account, &self.thing_id).await?;
        row.map(Thing::from).ok_or_else(|| Problem::not_found("thing", self.thing_id))
    }
}

/// Remove a thing. Once more changes nothing.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteThing {
    /// The account.
    org_id: AccountRef,
    /// The thing's id.
    thing_id: String,
}

impl Operation for DeleteThing {
    const SPEC: Spec = Spec::delete("lab.things.delete", "/v1/lab/orgs/{org_id}/things/{thing_id}")
        .tool(Tool::new("lab_delete_thing", "Delete a thing"))
        .scope("webhooks:write")
        .category(Category::Write);
    type Area = Lab;
    type Answer = Done;

    async fn run(self, _: &Lab, ctx: &mut Ctx) -> Result<Done, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        if sql::delete_thing(ctx.tx().await?, account, &self.thing_id).await? {
            ctx.audit("lab.thing.deleted", &self.thing_id)?;
        }
        Ok(Done {})
    }
}

/// List items so heavy that a full page does not fit into an answer.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListHeavy {}

/// A heavy item.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Heavy {
    /// Its number.
    number: i32,
    /// A hundred thousand characters.
    weight: String,
}

impl Operation for ListHeavy {
    const SPEC: Spec = Spec::get("lab.heavy.list", "/v1/lab/heavy")
        .tool(Tool::new("lab_list_heavy", "List heavy things"))
        .scope("heavy:read")
        .category(Category::List)
        .list("heavy");
    type Area = Lab;
    type Answer = Page<Heavy>;

    async fn run(self, _: &Lab, ctx: &mut Ctx) -> Result<Page<Heavy>, Problem> {
        ctx.page()?.slice((0..150).map(|number| Heavy { number, weight: "x".repeat(100_000) }))
    }
}
