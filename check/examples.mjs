// What check/judges/guides asks of the reference's programs in Rust: `examples.mjs CRATE` writes them all as the programs of one
// crate, `examples.mjs CRATE run` runs some of them against a server.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { loadExamples } from "../console/tests/examples.mjs";
import { Server } from "../console/tests/harness.mjs";

const [crate, command] = process.argv.slice(2);

const MANIFEST = `[package]
name = "examples"
version = "0.0.0"
edition = "2024"
publish = false

[dependencies]
reqwest = { version = "=0.13.5", default-features = false, features = ["blocking", "json"] }
serde_json = "=1.0.154"

[workspace]
`;

/** Written only when it is another, so that cargo builds what changed. */
function write(path, text) {
  if (!existsSync(path) || readFileSync(path, "utf8") !== text) writeFileSync(path, text);
}

/** What the programs are for is filled in when they run: their address and their ids are these until then. */
const PLACE = "http://portico.invalid";

async function programs() {
  const { BUILT_IN, callOf, example } = await loadExamples(PLACE);
  return BUILT_IN.operations.map((operation) => [operation.rpc, example("rust", operation, callOf(operation, {}, ""), "")]);
}

if (command === undefined) {
  const folder = join(crate, "src/bin");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  write(join(crate, "Cargo.toml"), MANIFEST);
  // Their addresses come from the environment here, so that what is built once can be run against any server.
  const filled = (text) =>
    text.replace(/"http:\/\/portico\.invalid([^"]*)"/, (_, path) => `std::env::var("EXAMPLE_URL")? + &"${path}".replace("{endpoint_id}", &std::env::var("EXAMPLE_ID").unwrap_or_default())`);
  for (const [rpc, text] of await programs()) write(join(folder, `${rpc.replaceAll(".", "-")}.rs`), `${filled(text)}\n`);
} else {
  const server = await Server.start();
  try {
    const { account_id } = await server.admin("account", "create", "--name", "Acme");
    const scopes = "events:read identity:read webhooks:read webhooks:write";
    const { token } = await server.admin("token", "create", "--account", account_id, "--scopes", scopes);
    const run = (rpc, id = "") => {
      const env = { ...process.env, PORTICO_TOKEN: token, EXAMPLE_URL: server.api, EXAMPLE_ID: id };
      const program = join(crate, "target/debug", rpc.replaceAll(".", "-"));
      const { stdout, stderr, status } = spawnSync(program, { env, encoding: "utf8" });
      assert.equal(status, 0, `${rpc}: ${stderr}`);
      return stdout;
    };
    assert.match(run("identity.me.get"), /identity:read/);
    assert.match(run("events.types.list"), /member\.joined/);
    const id = /whe_[0-9A-Z]{26}/.exec(run("webhooks.endpoints.create"))[0];
    assert.match(run("webhooks.endpoints.get", id), new RegExp(id));
    run("webhooks.endpoints.delete", id);
    console.log("the reference's programs in Rust: they compile, and five of them ran");
  } finally {
    await server.end();
  }
}
