//! Codes from a generator (TOTP, RFC 6238), and the recovery codes for when it is lost.

use portico_engine::{Ctx, Engine};
use portico_kernel::{PersonId, Problem, Timestamp};
use portico_store::{Context, SealedColumn, sealed_column};
use totp_rs::{Builder, Totp};

use crate::sql::people as sql;
use crate::{limits, secret};

/// Letters and digits that nobody confuses.
const RECOVERY_LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
const SECRET_BYTES: usize = 20;
/// How many steps of 30 seconds a generator's clock may be off.
const SKEW_STEPS: u16 = 1;

const PURPOSE: &str = "totp";

/// The secrets of generators.
pub(crate) const SEALED: SealedColumn = sealed_column!(
    "totp_secrets", "sealed", key "person_id", account "''", row "person_id", purpose PURPOSE
);

fn context(person: &str) -> Context<'_> {
    Context { account: "", row: person, purpose: PURPOSE }
}

/// A generator: the secret, and how a phone is told of it.
pub(crate) struct Generator(Totp);

impl Generator {
    pub(crate) fn new(secret: &[u8], email: &str, issuer: &str) -> Result<Self, Problem> {
        // A colon has a meaning in the address that the phone reads.
        let name = issuer.split("://").nth(1).unwrap_or(issuer).replace(':', " ");
        let totp = Builder::new()
            .with_secret(secret.to_vec())
            .with_skew(SKEW_STEPS)
            .with_account_name(email.replace(':', " "))
            .with_issuer(Some(name))
            .build()
            .map_err(|error| Problem::internal(error.to_string()))?;
        Ok(Self(totp))
    }

    /// The secret, for typing.
    pub(crate) fn secret_text(&self) -> String {
        self.0.secret().to_base32()
    }

    /// The address that the phone reads.
    pub(crate) fn address(&self) -> Result<String, Problem> {
        self.0.to_url().map_err(|error| Problem::internal(error.to_string()))
    }

    /// The time step of a code, if it is right.
    pub(crate) fn step(&self, code: &str, now: Timestamp) -> Option<i64> {
        let digits: String = code.chars().filter(|c| !c.is_whitespace() && *c != '-').collect();
        let all_digits = digits.len() == 6 && digits.bytes().all(|byte| byte.is_ascii_digit());
        let step = self.0.check(&digits, now.as_seconds().unsigned_abs()).filter(|_| all_digits)?;
        i64::try_from(step).ok()
    }
}

/// A new secret.
pub(crate) fn new_secret(engine: &Engine) -> [u8; SECRET_BYTES] {
    engine.entropy.bytes()
}

/// Stores the person's generator, whose codes count from `step` on; returns new recovery codes.
pub(crate) async fn keep(
    ctx: &mut Ctx,
    person: PersonId,
    totp_secret: &[u8],
    step: i64,
) -> Result<Vec<String>, Problem> {
    let (now, engine) = (ctx.now(), ctx.engine().clone());
    let entropy = engine.entropy.as_ref();
    let sealed = engine.keyring.seal(entropy, context(&person.to_string()), totp_secret);
    let codes: Vec<String> = (0..limits::RECOVERY_CODES).map(|_| recovery_code(entropy.bytes())).collect();
    let tx = ctx.tx().await?;
    sql::delete_totp(tx, person).await?;
    sql::set_totp(tx, person, sealed, step, now).await?;
    for code in &codes {
        sql::insert_recovery_code(tx, person, secret::hash(&code.replace('-', ""))).await?;
    }
    Ok(codes)
}

fn recovery_code(random: [u8; 15]) -> String {
    let letters: Vec<char> =
        random.iter().map(|byte| char::from(RECOVERY_LETTERS[usize::from(byte % 32)])).collect();
    letters.chunks(5).map(|chunk| chunk.iter().collect::<String>()).collect::<Vec<_>>().join("-")
}

/// Is this a code of the person's generator, or one of their recovery codes? Each is taken once.
pub(crate) async fn take(
    ctx: &mut Ctx,
    person: PersonId,
    email: &str,
    code: &str,
) -> Result<Option<&'static str>, Problem> {
    let (now, engine) = (ctx.now(), ctx.engine().clone());
    let tx = ctx.tx().await?;
    let Some(row) = sql::totp(tx, person).await? else { return Ok(None) };
    let opened = engine.keyring.open(context(&person.to_string()), &row.sealed).map_err(Problem::internal)?;
    let generator = Generator::new(opened.expose(), email, "")?;
    if let Some(step) = generator.step(code, now) {
        let fresh = step > row.last_step && sql::take_totp_step(tx, person, step).await?;
        return Ok(fresh.then_some("totp"));
    }
    let letters: String =
        code.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    let known = sql::take_recovery_code(tx, person, secret::hash(&letters)).await?;
    Ok(known.then_some("recovery_code"))
}
