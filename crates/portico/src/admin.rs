//! `portico admin`: the operator's commands. They work on the same database, whether or not the server runs.

use std::sync::Arc;

use clap::Subcommand;
use portico_accounts::{AccountKind, Plan};
use portico_engine::Ctx;
use portico_identity::credentials::NewCredential;
use portico_kernel::{AccountId, PersonId, Problem, Role, ScopeSet};
use serde_json::{Value, json};

use crate::App;

/// The operator's commands.
#[derive(Debug, Subcommand)]
pub enum Admin {
    /// People
    #[command(subcommand)]
    Person(PersonCommand),
    /// Accounts
    #[command(subcommand)]
    Account(AccountCommand),
    /// API tokens
    #[command(subcommand)]
    Token(TokenCommand),
    /// API keys
    #[command(subcommand)]
    Key(KeyCommand),
    /// Revoke a key or an API token, and the keys below it
    Revoke {
        /// `key_…` or `tok_…`
        id: String,
    },
}

/// People.
#[derive(Debug, Subcommand)]
pub enum PersonCommand {
    /// Make a person with an account of their own
    Create {
        /// The e-mail address
        #[arg(long)]
        email: String,
        /// The display name
        #[arg(long, default_value = "")]
        name: String,
    },
    /// Make a token as the console would hold it: 15 minutes, and the role decides
    Token {
        /// `usr_…`
        #[arg(long)]
        person: PersonId,
    },
}

/// Accounts.
#[derive(Debug, Subcommand)]
pub enum AccountCommand {
    /// Make a team
    Create {
        /// The team's name
        #[arg(long)]
        name: String,
        /// The person who owns it, `usr_…`
        #[arg(long)]
        owner: Option<PersonId>,
        /// free, team or scale
        #[arg(long, default_value = "free", value_parser = plan)]
        plan: Plan,
    },
}

/// API tokens.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make an API token; it is shown once
    Create {
        /// The account it is for, `acc_…`
        #[arg(long)]
        account: AccountId,
        /// What it may call, with spaces between the scopes
        #[arg(long)]
        scopes: ScopeSet,
        /// How long it lives: 7, 30, 90 or 365
        #[arg(long, default_value_t = 7)]
        days: u16,
        /// A name to know it by
        #[arg(long, default_value = "")]
        name: String,
    },
}

/// API keys.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make an API key; its secret is shown once
    Create {
        /// The account it is for, `acc_…`
        #[arg(long)]
        account: AccountId,
        /// What it may call, with spaces between the scopes
        #[arg(long)]
        scopes: ScopeSet,
        /// A name to know it by
        #[arg(long, default_value = "")]
        name: String,
    },
}

fn plan(name: &str) -> Result<Plan, String> {
    Plan::parse(name).ok_or_else(|| {
        let names: Vec<_> = Plan::ALL.iter().map(|plan| plan.name()).collect();
        format!("must be one of {}", names.join(", "))
    })
}

/// Runs a command; what it made is one JSON object.
pub async fn run(app: &Arc<App>, command: Admin) -> Result<Value, Problem> {
    let mut ctx = Ctx::operator(&app.engine);
    let made = match command {
        Admin::Person(PersonCommand::Create { email, name }) => {
            create_person(app, &mut ctx, &email, &name).await?
        }
        Admin::Person(PersonCommand::Token { person }) => {
            let (token, expires_at) = app.identity.person_token(&mut ctx, person).await?;
            json!({ "token": token.expose(), "expires_at": expires_at })
        }
        Admin::Account(AccountCommand::Create { name, owner, plan }) => {
            let id = app.accounts.create(&mut ctx, AccountKind::Team, &name, plan).await?;
            if let Some(owner) = owner {
                app.accounts.add_member(&mut ctx, id, owner, Role::Owner).await?;
            }
            json!({ "account_id": id, "name": name, "plan": plan.name() })
        }
        Admin::Token(TokenCommand::Create { account, scopes, days, name }) => {
            app.accounts.lock(&mut ctx, account).await?;
            let new = NewCredential { account, name, scopes };
            let made = app.identity.create_token(&mut ctx, new, days).await?;
            json!({ "token_id": made.id, "token": made.token.expose(), "expires_at": made.expires_at })
        }
        Admin::Key(KeyCommand::Create { account, scopes, name }) => {
            app.accounts.lock(&mut ctx, account).await?;
            let made = app.identity.create_key(&mut ctx, NewCredential { account, name, scopes }).await?;
            json!({ "key_id": made.id, "client_id": made.id, "client_secret": made.secret.expose() })
        }
        Admin::Revoke { id } => json!({ "revoked": app.identity.revoke(&mut ctx, &id).await? }),
    };
    ctx.finish().await?;
    Ok(made)
}

async fn create_person(app: &App, ctx: &mut Ctx, email: &str, name: &str) -> Result<Value, Problem> {
    let of_account = if name.is_empty() { email.split('@').next().unwrap_or_default() } else { name };
    let account = app.accounts.create(ctx, AccountKind::Personal, of_account, Plan::Free).await?;
    let person = app.identity.create_person(ctx, email, name, account).await?;
    app.accounts.add_member(ctx, account, person, Role::Owner).await?;
    Ok(json!({ "user_id": person, "account_id": account, "email": email.to_lowercase() }))
}

/// The object for a person: a line for each field.
pub fn for_person(made: &Value) -> String {
    let fields = made.as_object().into_iter().flatten();
    let lines = fields.map(|(name, value)| match value {
        Value::String(text) => format!("{name}: {text}"),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().filter_map(Value::as_str).collect();
            format!("{name}: {}", items.join(" "))
        }
        other => format!("{name}: {other}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}
