// The programs of the reference: all of them are programs, and those of every kind of call do what they say.
import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import ts from "typescript";
import { loadExamples } from "./examples.mjs";
import { Server } from "./harness.mjs";
import { startParcels } from "./parcels.mjs";

let parcels;
let server;
let token;
let reference;
let folder;

before(async () => {
  parcels = await startParcels();
  server = await Server.start(parcels.settings);
  folder = await mkdtemp(join(tmpdir(), "portico-examples-"));
  const { account_id } = await server.admin("account", "create", "--name", "Acme");
  const scopes = "events:read identity:read parcels:read parcels:send webhooks:read webhooks:write";
  ({ token } = await server.admin("token", "create", "--account", account_id, "--scopes", scopes));
  const { withServices, ...makers } = await loadExamples(server.api);
  const { operations } = withServices(await (await fetch(`${server.api}/openapi.json`)).json());
  reference = { operations, ...makers };
});
after(async () => {
  await server?.end();
  await parcels?.end();
  await rm(folder, { recursive: true });
});

const OPTIONS = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ESNext };

/** How the program of a language is run; each prints what was answered. */
const RUNNERS = {
  curl: (text) => ["bash", ["-c", text]],
  typescript: (text) => ["node", ["--input-type=module", "-e", ts.transpileModule(text, { compilerOptions: OPTIONS }).outputText]],
  python: (text) => ["python3", ["-c", text]],
};

const start = promisify(execFile);

/** Runs the program; this process goes on meanwhile, since a service of it may be asked. */
async function run(language, text, given) {
  const [program, words] = RUNNERS[language](text);
  const env = { ...process.env, ...(given && { PORTICO_TOKEN: given }) };
  return start(program, words, { env }).then(
    ({ stdout, stderr }) => ({ status: 0, stdout, stderr }),
    ({ code, stdout, stderr }) => ({ status: code, stdout, stderr }),
  );
}

/** The program for that operation, with these variables of the path and of the query. */
function programOf(language, rpc, filled = {}, given = "") {
  const operation = reference.operations.find((each) => each.rpc === rpc);
  assert.ok(operation, rpc);
  return reference.example(language, operation, reference.callOf(operation, filled, ""), given);
}

test("every program is one", async () => {
  const of = (language) => reference.operations.map(({ rpc }) => [rpc, programOf(language, rpc)]);
  assert.ok(reference.operations.length > 40);
  for (const [rpc, text] of of("curl")) {
    const { status, stderr } = spawnSync("bash", ["-n", "-c", text], { encoding: "utf8" });
    assert.equal(status, 0, `${rpc}: ${stderr}`);
  }
  const python = join(folder, "all.json");
  await writeFile(python, JSON.stringify(of("python")));
  const checked = spawnSync("python3", ["-c", "import json, sys\nfor rpc, text in json.load(open(sys.argv[1])): compile(text, rpc, 'exec')", python], { encoding: "utf8" });
  assert.equal(checked.status, 0, checked.stderr);
  // TypeScript by its own compiler, strictly, with what Node has.
  const files = await Promise.all(
    of("typescript").map(async ([rpc, text]) => {
      const path = join(folder, `${rpc}.ts`);
      await writeFile(path, `${text}\nexport {};\n`);
      return path;
    }),
  );
  const types = { ...OPTIONS, moduleResolution: ts.ModuleResolutionKind.Bundler, strict: true, noEmit: true, lib: ["lib.es2023.d.ts", "lib.dom.d.ts", "lib.dom.asynciterable.d.ts"], types: ["node"], typeRoots: [join(import.meta.dirname, "../node_modules/@types")], skipLibCheck: true };
  const faults = ts.getPreEmitDiagnostics(ts.createProgram(files, types));
  assert.deepEqual(faults.map(({ file, messageText }) => `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, " ")}`), []);
});

for (const language of Object.keys(RUNNERS)) {
  test(`programs in ${language} do what they say`, async () => {
    const ask = async (rpc, filled, given = "") => {
      const { stdout, stderr, status } = await run(language, programOf(language, rpc, filled, given), given === "" ? token : undefined);
      assert.equal(status, 0, `${rpc}: ${stderr}`);
      return stdout;
    };
    // Without a token, with one from the environment, and with one in the program.
    assert.match(await ask("platform.health.get"), /status|ok/);
    assert.match(await ask("identity.me.get"), /identity:read/);
    assert.match(await ask("identity.me.get", {}, token), /identity:read/);
    // A query: the first two types are listed, and none after them.
    const types = await ask("events.types.list", { page_size: "2" });
    assert.match(types, /audit\.event/);
    assert.doesNotMatch(types, /webhook\.test/);
    // A body, and a variable of the path.
    const id = /whe_[0-9A-Z]{26}/.exec(await ask("webhooks.endpoints.create"))?.[0];
    assert.ok(id, "an endpoint was made");
    assert.match(await ask("webhooks.endpoints.get", { endpoint_id: id }), new RegExp(id));
    assert.match(await ask("webhooks.endpoints.rotate", { endpoint_id: id }), /whsec_/);
    await ask("webhooks.endpoints.delete", { endpoint_id: id });
    const gone = await run(language, programOf(language, "webhooks.endpoints.get", { endpoint_id: id }), token);
    if (language === "curl") assert.match(gone.stdout, /"code":"not_found"/);
    else assert.notEqual(gone.status, 0, "a refusal is not taken for an answer");
    // A service: what must be sent is sent, a body too, and an answer may be empty.
    parcels.calls.length = 0;
    assert.match(await ask("parcels.sendParcel"), /250/);
    assert.equal((await ask("parcels.dropParcel", { "parcel-id": "p 1" })).trim(), "");
    const { call, headers } = parcels.calls.at(-1);
    assert.deepEqual(parcels.calls.map(({ call }) => call.split(" ")[0]), ["POST", "DELETE"]);
    assert.equal(headers["parcel-state"], "packed");
    assert.equal(new URL(call.split(" ")[1], server.api).searchParams.get("reason"), 'wet, and "torn"');
  });
}
