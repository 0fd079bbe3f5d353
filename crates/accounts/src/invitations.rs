//! The operations on invitations, and how one is taken up.

use portico_engine::ports::{MailMessage, PendingInvitation, account_closed};
use portico_engine::{AccountRef, Ctx, Cursor, Done, LengthPrefixedHash, Operation, Page, Spec};
use portico_kernel::{AccountId, Category, Code, InvitationId, PersonId, Problem, Role, Timestamp, hex};
use portico_store::{OnConflict, StoreError, Tx};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::account::Account;
use crate::orgs::person;
use crate::sql::InvitationRow;
use crate::{AccountKind, Accounts, events, limits, sql};

/// An invitation that nobody has taken up yet.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Invitation {
    /// The invitation's id.
    id: InvitationId,
    /// The address that it is bound to.
    email: String,
    /// The role that it gives.
    role: String,
    /// Who invited.
    created_by: String,
    /// When it was made.
    created_at: Timestamp,
    /// Until when it can be taken up.
    expires_at: Timestamp,
}

impl From<InvitationRow> for Invitation {
    fn from(row: InvitationRow) -> Self {
        Self {
            id: row.id,
            email: row.email,
            role: row.role.name().to_owned(),
            created_by: row.created_by,
            created_at: row.created_at,
            expires_at: row.expires_at,
        }
    }
}

/// The hash that is kept of the secret in an invitation's link.
fn hash(token: &str) -> Vec<u8> {
    let mut hash = LengthPrefixedHash::default();
    hash.add(b'i', token.as_bytes());
    hash.finish().to_vec()
}

/// List the invitations that nobody has taken up yet, newest first.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListInvitations {
    /// The account.
    org_id: AccountRef,
}

impl Operation for ListInvitations {
    const SPEC: Spec = Spec::get("accounts.invitations.list", "/v1/accounts/orgs/{org_id}/invitations")
        .persons()
        .role(Role::Admin)
        .category(Category::List)
        .list("invitations");
    type Area = Accounts;
    type Answer = Page<Invitation>;

    async fn run(self, _: &Accounts, ctx: &mut Ctx) -> Result<Page<Invitation>, Problem> {
        let (page, now) = (ctx.page()?, ctx.now());
        let before = page.after.as_ref().map(|cursor| cursor.0.clone());
        let account = ctx.account(Some(self.org_id)).await?;
        let rows = sql::invitations_before(ctx.tx().await?, account, now, before, page.rows()).await?;
        Ok(page.page(rows, |row| Cursor(row.id.to_string()), Invitation::from))
    }
}

/// Invite someone to a team. The link is mailed to them; where the platform sends no mail, it is in this answer, once.
/// It works once, for this address, within seven days.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateInvitation {
    /// The team.
    org_id: AccountRef,
    /// The e-mail address.
    #[schemars(example = &"ada@example.com")]
    email: String,
    /// The role that they will have: `owner`, `admin` or `member`, and none above your own.
    #[serde(default = "least")]
    role: Role,
}

const fn least() -> Role {
    Role::Member
}

/// A new invitation.
#[derive(Serialize, JsonSchema)]
pub(crate) struct NewInvitation {
    /// The invitation.
    invitation: Invitation,
    /// The link to hand on; empty when it was mailed.
    link: String,
}

impl Operation for CreateInvitation {
    const SPEC: Spec = Spec::post("accounts.invitations.create", "/v1/accounts/orgs/{org_id}/invitations")
        .persons()
        .role(Role::Admin)
        .category(Category::Write);
    type Area = Accounts;
    type Answer = NewInvitation;

    async fn run(self, accounts: &Accounts, ctx: &mut Ctx) -> Result<NewInvitation, Problem> {
        let (caller, now) = (person(ctx)?, ctx.now());
        let email = accounts.directory.canonical_email(&self.email);
        let email = email.ok_or_else(|| Problem::field("email", "must be an e-mail address"))?;
        if accounts.mailer.is_configured() {
            let engine = ctx.engine().clone();
            let wait = accounts.directory.take_mail_quota(&engine, &caller.to_string(), &email).await?;
            if let Some(wait) = wait {
                let message = "Too many invitations were sent to this address, or by you.";
                return Err(Problem::new(Code::RateLimited, message).retry_after(wait));
            }
        }
        let account = ctx.lock_account(self.org_id).await?.active()?;
        let team = sql::account_of(ctx.tx().await?, account, caller).await?;
        let team = team.ok_or_else(|| Problem::not_found("account", account))?;
        if team.kind == AccountKind::Personal {
            let message = "A personal account has one member; make a team to invite others.";
            return Err(Problem::failed_precondition("PERSONAL_ACCOUNT", "accounts", message, []));
        }
        if team.role.is_none_or(|own| self.role > own) {
            return Err(Problem::field("role", "must not be above your own"));
        }
        let tx = ctx.tx().await?;
        if let Some(known) = accounts.directory.person_by_email(tx, &email).await?
            && sql::member(tx, account, known.id).await?.is_some()
        {
            return Err(Problem::new(Code::AlreadyExists, "This address is a member's already."));
        }
        sql::prune_invitations(tx, account, now).await?;
        let open = sql::count_invitations(tx, account).await?.max(sql::count_invited_by(tx, caller).await?);
        if open >= limits::INVITATIONS_MAX {
            let message = format!(
                "You or the team already have {} open invitations, the maximum.",
                limits::INVITATIONS_MAX
            );
            return Err(Problem::limit_reached("accounts", message, limits::INVITATIONS_MAX));
        }
        let token = hex(&ctx.engine().entropy.bytes::<32>());
        let row = InvitationRow {
            id: ctx.new_id(),
            account_id: account,
            email,
            role: self.role,
            token_hash: hash(&token),
            mailed: accounts.mailer.is_configured(),
            created_by: caller.to_string(),
            created_at: now,
            expires_at: now + limits::INVITATION_LIFE,
        };
        let invited = || Problem::new(Code::AlreadyExists, "This address is invited already.");
        sql::insert_invitation(ctx.tx().await?, &row).await.on_conflict(invited)?;
        let link = accounts.deliver(ctx, &row, &team.name, &token).await?;
        ctx.audit("member.invited", &row.id)?;
        let actor = caller.to_string();
        ctx.emit(&events::MemberInvited { invitation_id: row.id.to_string(), actor })?;
        Ok(NewInvitation { invitation: row.into(), link })
    }
}

impl Accounts {
    /// Mails the link and returns an empty string; returns the link where no mail is sent.
    async fn deliver(
        &self,
        ctx: &mut Ctx,
        row: &InvitationRow,
        team: &str,
        token: &str,
    ) -> Result<String, Problem> {
        let link = format!("{}/signup?invitation={token}", self.auth_url);
        if !row.mailed {
            return Ok(link);
        }
        let inviter = ctx.caller().name.clone().unwrap_or_else(|| "A member".to_owned());
        let message = MailMessage {
            to: row.email.clone(),
            // Nothing that a stranger wrote stands in a subject.
            subject: "You are invited to a team".to_owned(),
            text: format!(
                "{inviter} invites you to join {team}.\n\nOpen this link within seven days:\n\n{link}\n\nIf you do \
                 not know {team}, you need not do anything.\n"
            ),
        };
        let engine = ctx.engine().clone();
        self.mailer.post(&engine, ctx.tx().await?, &message).await?;
        Ok(String::new())
    }

    pub(crate) async fn find_invitation(
        &self,
        tx: &mut Tx,
        token: &str,
        now: Timestamp,
    ) -> Result<Option<PendingInvitation>, StoreError> {
        let Some(row) = sql::invitation_by_token(tx, hash(token), now).await? else { return Ok(None) };
        let account = sql::account(tx, row.account_id).await?;
        Ok(account.map(|account| PendingInvitation {
            team: account.name,
            email: row.email,
            role: row.role,
            mailed: row.mailed,
        }))
    }

    /// Accepts an invitation for `person`, whose address it must be bound to. It works once.
    pub(crate) async fn accept_invitation(
        &self,
        ctx: &mut Ctx,
        token: &str,
        person: PersonId,
    ) -> Result<AccountId, Problem> {
        let now = ctx.now();
        let gone = || {
            Problem::new(Code::NotFound, "The invitation does not exist, is over, or was taken up already.")
        };
        let tx = ctx.tx().await?;
        let row = sql::invitation_by_token(tx, hash(token), now).await?.ok_or_else(gone)?;
        let record = self.directory.person(tx, &person.to_string()).await?;
        if record.is_none_or(|record| record.email != row.email) {
            let message = "The invitation is for another e-mail address.";
            return Err(Problem::new(Code::Forbidden, message).with_info("OTHER_ADDRESS", "accounts", []));
        }
        self.lock_for_new_team(ctx, person).await?;
        let tx = ctx.tx().await?;
        match sql::lock_account(tx, row.account_id).await? {
            None => return Err(gone()),
            Some(false) => return Err(account_closed()),
            Some(true) => {}
        }
        if !sql::delete_invitation(tx, row.account_id, row.id).await? {
            return Err(gone());
        }
        if row.role == Role::Owner {
            self.check_new_owner(ctx, row.account_id, person).await?;
        }
        ctx.set_account(row.account_id);
        self.add_member(ctx, row.account_id, person, row.role).await?;
        Ok(row.account_id)
    }
}

/// Take an invitation back. Its link stops working.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteInvitation {
    /// The team.
    org_id: AccountRef,
    /// The invitation.
    invitation_id: InvitationId,
}

impl Operation for DeleteInvitation {
    const SPEC: Spec =
        Spec::delete("accounts.invitations.delete", "/v1/accounts/orgs/{org_id}/invitations/{invitation_id}")
            .persons()
            .role(Role::Admin)
            .category(Category::Write);
    type Area = Accounts;
    type Answer = Done;

    async fn run(self, _: &Accounts, ctx: &mut Ctx) -> Result<Done, Problem> {
        let account = ctx.lock_account(self.org_id).await?.id;
        if !sql::delete_invitation(ctx.tx().await?, account, self.invitation_id).await? {
            return Err(Problem::not_found("invitation", self.invitation_id));
        }
        ctx.audit("member.invitation_revoked", &self.invitation_id)?;
        Ok(Done {})
    }
}

/// Take up an invitation. It must be bound to your own e-mail address.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcceptInvitation {
    /// The secret at the end of the invitation's link.
    token: String,
}

impl Operation for AcceptInvitation {
    const SPEC: Spec = Spec::post("accounts.invitations.accept", "/v1/accounts/invitations/accept")
        .persons()
        .category(Category::Write);
    type Area = Accounts;
    type Answer = Account;

    async fn run(self, accounts: &Accounts, ctx: &mut Ctx) -> Result<Account, Problem> {
        let person = person(ctx)?;
        let id = accounts.accept_invitation(ctx, &self.token, person).await?;
        let row = sql::account_of(ctx.tx().await?, id, person).await?;
        row.map(Account::from).ok_or_else(|| Problem::not_found("account", id))
    }
}
