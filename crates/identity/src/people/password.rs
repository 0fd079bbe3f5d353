//! Passwords: argon2id, a few at a time, so that people who sign in never slow down programs that call.

use argon2::password_hash::PasswordHasher;
use argon2::password_hash::phc::{Output, PasswordHash};
use argon2::{Algorithm, Argon2, Block, Params, Version};
use portico_kernel::{Entropy, Problem, Secret, seconds};
use unicode_normalization::UnicodeNormalization;

use super::password_memory::PasswordMemory;
use super::password_queue::PasswordQueue;
use crate::limits;

/// What a password is compared with where there is none, so that an unknown address takes as long as a wrong password.
const DUMMY_HASH: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$cG9ydGljby5ub2JvZHkuMA$Hf0eFDeTePqA1yGLxiPCxgHnS0dZ/DCJc3qCs4Q8Mmw";

/// Hashes and checks passwords.
pub(crate) struct Passwords {
    queue: PasswordQueue,
    memory: PasswordMemory,
}

impl Default for Passwords {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { queue: PasswordQueue::new((cores / 2).max(1)), memory: PasswordMemory::default() }
    }
}

fn argon2(params: Params) -> Argon2<'static> {
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

fn params() -> Result<Params, Problem> {
    let (memory, passes, lanes) = limits::PASSWORD_COST;
    Params::new(memory, passes, lanes, None).map_err(|error| Problem::internal(error.to_string()))
}

/// Is it the password of that hash? `None` where the hash does not read.
fn is_password(blocks: &mut Vec<Block>, password: &[u8], hash: &str) -> Option<bool> {
    let hash = PasswordHash::new(hash).ok()?;
    let (salt, expected) = (hash.salt?, hash.hash?);
    let params = Params::try_from(&hash).ok()?;
    // What stood there before is overwritten before it is read.
    blocks.resize(params.block_count(), Block::default());
    let mut out = [0; Output::MAX_LENGTH];
    let out = out.get_mut(..expected.len())?;
    argon2(params).hash_password_into_with_memory(password, &salt, out, blocks).ok()?;
    // Compares in a time that tells nothing.
    Some(Output::new(out).ok()? == expected)
}

/// The same characters typed on another keyboard are the same password.
fn normal(password: &Secret<String>) -> String {
    password.expose().nfc().collect()
}

/// How much of a password is looked at: what is strong so far does not get weaker, and looking takes long.
const LOOKED_AT_CHARACTERS: usize = 64;

/// Refuses a password that is too short, too long or too easy; `known` is what an attacker would try first.
fn check_strength(password: &Secret<String>, known: &[&str]) -> Result<(), Problem> {
    let length = password.expose().chars().count();
    if !limits::PASSWORD_CHARACTERS.contains(&length) {
        let (least, most) = (limits::PASSWORD_CHARACTERS.start(), limits::PASSWORD_CHARACTERS.end());
        return Err(Problem::field("password", format!("must have {least} to {most} characters")));
    }
    let beginning: String = password.expose().chars().take(LOOKED_AT_CHARACTERS).collect();
    let estimate = zxcvbn::zxcvbn(&beginning, known);
    if u8::from(estimate.score()) >= limits::PASSWORD_SCORE_MIN {
        return Ok(());
    }
    let warning = estimate
        .feedback()
        .and_then(zxcvbn::feedback::Feedback::warning)
        .map(|warning| format!(" {warning}"));
    let message = format!(
        "is too easy to guess.{} Add a few words that do not belong together",
        warning.unwrap_or_default()
    );
    Err(Problem::field("password", message))
}

impl Passwords {
    /// Returns the hash of a password that a person chose, who came from `network`. A weak one is refused as the field
    /// `password`; `known` is what an attacker would try first.
    pub(crate) async fn choose(
        &self,
        network: &str,
        entropy: &dyn Entropy,
        password: &Secret<String>,
        known: &[&str],
    ) -> Result<String, Problem> {
        let (password, salt) = (password.clone(), entropy.bytes::<16>());
        let known: Vec<String> = known.iter().map(|word| (*word).to_owned()).collect();
        self.run(network, move || {
            let known: Vec<_> = known.iter().map(String::as_str).collect();
            check_strength(&password, &known)?;
            let hash = argon2(params()?).hash_password_with_salt(normal(&password).as_bytes(), &salt);
            let hash: PasswordHash = hash.map_err(|error| Problem::internal(error.to_string()))?;
            Ok(hash.to_string())
        })
        .await
    }

    /// Is this the password? Takes as long when there is none to compare with.
    pub(crate) async fn matches(
        &self,
        network: &str,
        password: &Secret<String>,
        kept: Option<String>,
    ) -> Result<bool, Problem> {
        let (password, memory) = (normal(password), self.memory.clone());
        self.run(network, move || {
            let hash = kept.as_deref().unwrap_or(DUMMY_HASH);
            let equal = memory.lend(|blocks| is_password(blocks, password.as_bytes(), hash));
            // From here, because the caller may be gone.
            tokio::spawn(memory.release());
            Ok(equal == Some(true) && kept.is_some())
        })
        .await
    }

    /// Runs the work when it is its turn. Its permit is held until it ends, also when the caller is gone.
    async fn run<T: Send + 'static>(
        &self,
        network: &str,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let busy =
            || Problem::unavailable("Too many people sign in at once; try again in a moment.", seconds(2));
        let permit = self.queue.enter(network).await.ok_or_else(busy)?;
        let running = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(permit);
            done
        });
        running.await.map_err(Problem::internal)?
    }
}

#[cfg(test)]
mod tests {
    use portico_kernel::SystemEntropy;

    use super::*;

    fn secret(text: &str) -> Secret<String> {
        Secret::new(text.to_owned())
    }

    #[tokio::test]
    async fn a_password_matches_only_itself() {
        let passwords = Passwords::default();
        let chosen = secret("corre\u{301}ct horse 94 teapot");
        let hash = passwords.choose("", &SystemEntropy, &chosen, &[]).await.unwrap();
        assert!(
            passwords.matches("", &secret("corr\u{e9}ct horse 94 teapot"), Some(hash.clone())).await.unwrap()
        );
        assert!(!passwords.matches("", &secret("correct horse 94 teapot"), Some(hash)).await.unwrap());
        assert!(!passwords.matches("", &secret("anything"), None).await.unwrap());
    }

    #[test]
    fn nobodys_hash_costs_what_everyones_does() {
        let hash = PasswordHash::new(DUMMY_HASH).unwrap();
        let params = Params::try_from(&hash).unwrap();
        assert_eq!((params.m_cost(), params.t_cost(), params.p_cost()), limits::PASSWORD_COST);
    }

    #[test]
    fn easy_passwords_are_refused() {
        for easy in ["short", "password1234", "ada@example.com", "aaaaaaaaaaaa"] {
            assert!(check_strength(&secret(easy), &["ada@example.com"]).is_err(), "{easy}");
        }
        assert!(check_strength(&secret(&"x".repeat(300)), &[]).is_err());
        check_strength(&secret("violet anchor 94 teapot"), &[]).unwrap();
    }
}
