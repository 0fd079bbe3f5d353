//! Files: uploads that are read as they arrive, and answers that are sent as they are read.

use std::time::Duration;

use portico_engine::{AccountRef, BytesAnswer, Ctx, Operation, Spec};
use portico_kernel::{BlobId, Category, Int64, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Lab;

/// The largest file.
pub const FILE_BYTES_MAX: u64 = 256 << 20;

/// Upload a file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UploadFile {
    /// The account.
    org_id: AccountRef,
    /// Whether it is encrypted in the store.
    #[serde(default)]
    sealed: bool,
}

/// A file.
#[derive(Serialize, JsonSchema)]
pub(crate) struct File {
    /// Its id.
    id: String,
    /// Its size in bytes.
    size: Int64,
    /// Its SHA-256.
    hash: String,
}

impl Operation for UploadFile {
    const SPEC: Spec = Spec::post("lab.files.upload", "/v1/lab/orgs/{org_id}/files")
        .scope("webhooks:write")
        .category(Category::Write)
        .upload(FILE_BYTES_MAX)
        .time_limit(Duration::from_mins(10));
    type Area = Lab;
    type Answer = File;

    async fn run(self, _: &Lab, ctx: &mut Ctx) -> Result<File, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let upload = ctx.store_upload(account, self.sealed).await?;
        let blobs = ctx.engine().blobs.clone();
        let blob = blobs.record(ctx.tx().await?, upload).await?;
        let size = Int64(i64::try_from(blob.size).map_err(Problem::internal)?);
        Ok(File { id: blob.id.to_string(), size, hash: blob.hash })
    }
}

/// Download a file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetFile {
    /// The account.
    org_id: AccountRef,
    /// The file.
    file_id: String,
}

impl Operation for GetFile {
    const SPEC: Spec = Spec::get("lab.files.get", "/v1/lab/orgs/{org_id}/files/{file_id}")
        .scope("webhooks:read")
        .category(Category::Read);
    type Area = Lab;
    type Answer = BytesAnswer;

    async fn run(self, _: &Lab, ctx: &mut Ctx) -> Result<BytesAnswer, Problem> {
        let missing = || Problem::not_found("file", &self.file_id);
        let id: BlobId = self.file_id.parse().map_err(|_| missing())?;
        let account = ctx.account(Some(self.org_id)).await?;
        let blobs = ctx.engine().blobs.clone();
        let blob = blobs.find(ctx.tx().await?, account, id).await?.ok_or_else(missing)?;
        Ok(ctx.blob_answer(blob))
    }
}
