//! `portico admin`: the operator's commands. They work on the same database, whether or not the server runs.

use std::sync::Arc;

use clap::Subcommand;
use portico_accounts::AccountKind;
use portico_engine::{Ctx, KeyUse, key_uses};
use portico_identity::credentials::NewCredential;
use portico_identity::{NewApp, NewPerson, SigningKeyInfo, limits};
use portico_kernel::{AccountId, Detail, PersonId, Plans, Problem, Role, ScopeSet, Secret};
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
    /// Services behind the gateway
    #[command(subcommand)]
    Service(ServiceCommand),
    /// Apps that act for people
    #[command(subcommand)]
    App(AppCommand),
    /// The keys that sign tokens
    #[command(subcommand, name = "signing-key")]
    SigningKey(SigningKeyCommand),
    /// The keyring, whose keys seal secrets
    #[command(subcommand)]
    Keyring(KeyringCommand),
    /// Plans of accounts
    #[command(subcommand)]
    Plan(PlanCommand),
    /// Units of accounts
    #[command(subcommand)]
    Units(UnitsCommand),
    /// Revoke a key or an API token and the keys below it, a service's credential, an app, an authorization, or all that a
    /// person is signed in to
    Revoke {
        /// `key_…`, `tok_…`, `svk_…`, `app_…`, `aut_…` or `usr_…`
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
        /// Read the password from the standard input, its first line
        #[arg(long)]
        password_stdin: bool,
    },
    /// Make a link with which the person chooses a password; it works once, for an hour
    PasswordLink {
        /// `usr_…`
        #[arg(long)]
        person: PersonId,
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
        /// free, team, scale, or another that configuration names
        #[arg(long, default_value = Plans::FIRST)]
        plan: String,
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

/// Services behind the gateway.
#[derive(Debug, Subcommand)]
pub enum ServiceCommand {
    /// Make a credential of a service; its secret is shown once
    Credential {
        /// The service's name in the configuration
        name: String,
    },
    /// List the credentials of one service, or of all
    Credentials {
        /// The service's name
        name: Option<String>,
    },
}

/// Apps.
#[derive(Debug, Subcommand)]
pub enum AppCommand {
    /// Register an app; its secret, if it keeps one, is shown once
    Create {
        /// Its name, as people see it when they let it in
        #[arg(long)]
        name: String,
        /// Where people are sent back to; may be given several times
        #[arg(long, required = true)]
        redirect_uri: Vec<String>,
        /// What it may ask for, with spaces between the scopes
        #[arg(long, default_value = "identity:read account:read")]
        scopes: ScopeSet,
        /// It runs on a server and keeps a secret
        #[arg(long)]
        confidential: bool,
    },
}

/// Signing keys.
#[derive(Debug, Subcommand)]
pub enum SigningKeyCommand {
    /// List them
    List,
    /// Remove one that fell into wrong hands, and with it every token that it signed
    Remove {
        /// The `kid`
        kid: String,
    },
    /// Publish the next one; it signs after 24 hours, when every cache knows it
    Rotate {
        /// Sign after ten seconds: every server knows it by then, other programs may not
        #[arg(long)]
        now: bool,
    },
}

/// The keyring.
#[derive(Debug, Subcommand)]
pub enum KeyringCommand {
    /// List its keys, and how much of the database each of them holds sealed
    Status,
}

/// Plans of accounts.
#[derive(Debug, Subcommand)]
pub enum PlanCommand {
    /// Put an account on a plan
    Set {
        /// `acc_…`
        account: AccountId,
        /// free, team, scale, or another that configuration names
        plan: String,
    },
}

/// Units of accounts.
#[derive(Debug, Subcommand)]
pub enum UnitsCommand {
    /// Grant units beside the plan for this month; a negative number takes them away
    Grant {
        /// `acc_…`
        account: AccountId,
        /// How many
        #[arg(allow_negative_numbers = true)]
        units: i64,
    },
}

/// Runs a command; what it made is one JSON object.
pub async fn run(app: &Arc<App>, command: Admin) -> Result<Value, Problem> {
    let mut ctx = Ctx::operator(&app.engine);
    let made = match command {
        Admin::Person(command) => run_person(app, &mut ctx, command).await?,
        Admin::Account(AccountCommand::Create { name, owner, plan }) => {
            let id = app.accounts.create(&mut ctx, AccountKind::Team, &name, None, &plan).await?;
            if let Some(owner) = owner {
                app.accounts.add_member(&mut ctx, id, owner, Role::Owner).await?;
            }
            json!({ "account_id": id, "name": name, "plan": plan })
        }
        Admin::Token(TokenCommand::Create { account, scopes, days, name }) => {
            let scopes = scopes.names().map(str::to_owned).collect();
            let new = NewCredential::new(account, name, scopes, None);
            let made = app.identity.create_token(&mut ctx, new, days).await?;
            json!({ "token_id": made.key.id, "token": made.token.expose(), "expires_at": made.key.expires_at })
        }
        Admin::Key(KeyCommand::Create { account, scopes, name }) => {
            let scopes = scopes.names().map(str::to_owned).collect();
            let new = NewCredential::new(account, name, scopes, None);
            let made = app.identity.create_key(&mut ctx, new).await?;
            json!({ "key_id": made.key.id, "client_id": made.key.client_id, "client_secret": made.secret.expose() })
        }
        Admin::Service(ServiceCommand::Credential { name }) => {
            let made = app.identity.create_service_key(&mut ctx, &name).await?;
            json!({ "service": name, "client_id": made.id, "client_secret": made.secret.expose() })
        }
        Admin::Service(ServiceCommand::Credentials { name }) => {
            json!({ "credentials": app.identity.service_keys(&mut ctx, name).await? })
        }
        Admin::App(AppCommand::Create { name, redirect_uri, scopes, confidential }) => {
            let new = NewApp { name, redirect_uris: redirect_uri, scopes, confidential };
            let (id, secret) = app.identity.create_app(&app.engine, new).await?;
            let mut made = json!({ "client_id": id });
            if let Some(secret) = secret {
                made["client_secret"] = json!(secret.expose());
            }
            made
        }
        Admin::SigningKey(SigningKeyCommand::List) => {
            let keys = app.identity.keys.list(&app.engine).await?;
            json!({ "signing_keys": keys.iter().map(describe).collect::<Vec<_>>() })
        }
        Admin::SigningKey(SigningKeyCommand::Remove { kid }) => {
            app.identity.remove_signing_key(&mut ctx, &kid).await?;
            json!({ "removed": kid })
        }
        Admin::SigningKey(SigningKeyCommand::Rotate { now }) => {
            let wait = if now { limits::SIGNING_KEY_WAIT_MIN } else { limits::SIGNING_KEY_WAIT };
            describe(&app.identity.keys.rotate(&app.engine, wait).await?)
        }
        Admin::Keyring(KeyringCommand::Status) => keyring_status(app).await?,
        Admin::Plan(PlanCommand::Set { account, plan }) => {
            app.metering.keep_budget(&mut ctx, account).await?;
            app.accounts.set_plan(&mut ctx, account, &plan).await?;
            app.metering.recall_units(&mut ctx, account).await?;
            json!({ "account_id": account, "plan": plan })
        }
        Admin::Units(UnitsCommand::Grant { account, units }) => {
            let grant = app.metering.grant(&mut ctx, account, units).await?;
            json!({ "account_id": account, "month": grant.month, "granted": grant.units.to_string() })
        }
        Admin::Revoke { id } => json!({ "revoked": app.identity.revoke_any(&app.engine, &id).await? }),
    };
    ctx.finish().await?;
    Ok(made)
}

fn describe(key: &SigningKeyInfo) -> Value {
    json!({ "kid": key.id, "state": key.state, "activates_at": key.activates_at })
}

async fn keyring_status(app: &App) -> Result<Value, Problem> {
    let keys = key_uses(&app.engine).await?;
    let shown = |key: KeyUse| json!({ "id": key.id, "active": key.active, "rows": key.rows });
    Ok(json!({ "keys": keys.into_iter().map(shown).collect::<Vec<_>>() }))
}

async fn run_person(app: &App, ctx: &mut Ctx, command: PersonCommand) -> Result<Value, Problem> {
    match command {
        PersonCommand::Create { email, name, password_stdin } => {
            let password = if password_stdin { Some(read_password()?) } else { None };
            // The operator knows whose address it is.
            let new = NewPerson { email, name, email_verified: true, password };
            let made = app.identity.create_person(ctx, &new).await?;
            Ok(json!({ "user_id": made.id, "account_id": made.account_id, "email": made.email }))
        }
        PersonCommand::PasswordLink { person } => {
            let link = app.identity.password_link(ctx, person).await?;
            Ok(json!({ "link": link.expose() }))
        }
        PersonCommand::Token { person } => {
            let (token, expires_at) = app.identity.person_token(ctx, person).await?;
            Ok(json!({ "token": token.expose(), "expires_at": expires_at }))
        }
    }
}

/// The first line of the standard input, so that the password is in no list of processes.
fn read_password() -> Result<Secret<String>, Problem> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(Problem::internal)?;
    Ok(Secret::new(line.trim_end_matches(['\r', '\n']).to_owned()))
}

/// What went wrong, for a person at the command line, who has sent no request.
pub fn message(problem: &Problem) -> String {
    let field = problem.details().iter().find_map(|detail| match detail {
        Detail::Field { field, description } => Some(format!("`{field}` {description}.")),
        _ => None,
    });
    field.unwrap_or_else(|| problem.error().to_owned())
}

/// The object for a person: a line for each field.
pub fn for_person(made: &Value) -> String {
    let fields = made.as_object().into_iter().flatten();
    let lines = fields.map(|(name, value)| match value {
        Value::String(text) => format!("{name}: {text}"),
        Value::Array(items) => {
            let text = |item: &Value| item.as_str().map_or_else(|| item.to_string(), str::to_owned);
            format!("{name}: {}", items.iter().map(text).collect::<Vec<_>>().join(" "))
        }
        other => format!("{name}: {other}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}
