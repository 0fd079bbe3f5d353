//! An account that a request names, before anybody has checked that the caller may act in it.

use std::borrow::Cow;

use portico_kernel::AccountId;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};

/// An account that a request names. Only [`Ctx::account`](crate::Ctx::account) and
/// [`Ctx::lock_account`](crate::Ctx::lock_account) turn it into an [`AccountId`], once they have checked that the caller
/// may act in it; so an operation cannot read another account's rows by forgetting a line.
#[derive(Debug, Clone, Copy)]
pub struct AccountRef(pub(crate) AccountId);

impl From<AccountId> for AccountRef {
    fn from(id: AccountId) -> Self {
        Self(id)
    }
}

impl<'de> Deserialize<'de> for AccountRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        AccountId::deserialize(deserializer).map(Self)
    }
}

/// A schema shows the default of an optional field, which is null; an account that was not checked is never written.
impl Serialize for AccountRef {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(ser::Error::custom("an account that was not checked"))
    }
}

/// On the wire it is an [`AccountId`].
impl JsonSchema for AccountRef {
    fn inline_schema() -> bool {
        AccountId::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        AccountId::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        AccountId::json_schema(generator)
    }
}
