//! What the tools of assistants are as a resource that tokens open (RFC 9728).

use portico_engine::{Ctx, Operation, Spec};
use portico_kernel::Problem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::Identity;
use crate::oauth::target::ASSISTANT_SCOPES;

/// Where the document lies. The path of the resource comes after the well-known part (RFC 9728, section 3.1).
const PATH: &str = "/.well-known/oauth-protected-resource/mcp";

impl Identity {
    /// Where a client finds out how to get a token for the tools of assistants.
    pub fn resource_metadata_url(&self) -> String {
        format!("{}{PATH}", self.base_url)
    }

    /// The API's address as a browser names the origin of its pages.
    pub fn origin(&self) -> String {
        Url::parse(&self.base_url).map(|url| url.origin().ascii_serialization()).unwrap_or_default()
    }

    fn resource(&self) -> Metadata {
        Metadata {
            resource: self.mcp_audience(),
            authorization_servers: vec![self.issuer.clone()],
            scopes_supported: ASSISTANT_SCOPES.to_vec(),
            bearer_methods_supported: ["header"],
            resource_name: self.brand.name.clone(),
        }
    }
}

/// What the tools of assistants are as a resource, and who issues tokens for it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Metadata {
    /// The address that tokens are for.
    resource: String,
    /// Who issues tokens for it.
    authorization_servers: Vec<String>,
    /// The scopes that a token may have there.
    scopes_supported: Vec<&'static str>,
    /// How a token is sent.
    bearer_methods_supported: [&'static str; 1],
    /// The name for people.
    resource_name: String,
}

/// Read how a client gets a token for the tools of assistants.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetResource {}

impl Operation for GetResource {
    const SPEC: Spec = Spec::get("identity.resource.get", PATH).open().etag().undocumented();
    type Area = Identity;
    type Answer = Metadata;

    async fn run(self, identity: &Identity, _: &mut Ctx) -> Result<Metadata, Problem> {
        Ok(identity.resource())
    }
}

/// Read the same where clients look that do not know the resource's path.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetResourceAtRoot {}

impl Operation for GetResourceAtRoot {
    const SPEC: Spec =
        Spec::get("identity.root.get", "/.well-known/oauth-protected-resource").open().etag().undocumented();
    type Area = Identity;
    type Answer = Metadata;

    async fn run(self, identity: &Identity, _: &mut Ctx) -> Result<Metadata, Problem> {
        Ok(identity.resource())
    }
}
