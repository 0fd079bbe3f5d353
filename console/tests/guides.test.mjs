// The code of the guide on verifying webhooks, held against a delivery that the server really sent. Languages that are not here
// are left out, unless PORTICO_GUIDES=all asks for every one of them, as the judge `guides` does.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { Server } from "./harness.mjs";

let server;
let folder;
let delivery;

/** The first block of code of that language. */
const snippets = async () => {
  const guide = await readFile(resolve(import.meta.dirname, "../../docs/guides/verifying-webhooks.md"), "utf8");
  return Object.fromEntries([...guide.matchAll(/```(\w+)\n([\s\S]*?)```/g)].map(([, language, code]) => [language, code]));
};

/** How each language's code is run on `{secret, headers, body}` from standard input; it prints true or false. */
const RUNNERS = {
  ts: {
    file: "verify.mjs",
    more: `import { readFileSync } from "node:fs";
const { secret, headers, body } = JSON.parse(readFileSync(0, "utf8"));
console.log(verify(secret, headers, Buffer.from(body)));`,
    command: ["node"],
  },
  python: {
    file: "verify.py",
    more: `import json, sys
given = json.load(sys.stdin)
print(str(verify(given["secret"], given["headers"], given["body"].encode())).lower())`,
    command: ["python3"],
  },
  ruby: {
    file: "verify.rb",
    more: `require "json"
given = JSON.parse($stdin.read)
puts verify(given["secret"], given["headers"], given["body"])`,
    command: ["ruby"],
  },
  php: {
    file: "verify.php",
    more: `$given = json_decode(file_get_contents("php://stdin"), true);
echo verify($given["secret"], $given["headers"], $given["body"]) ? "true" : "false";`,
    command: ["php"],
  },
  go: {
    file: "webhook/verify.go",
    more: "",
    beside: {
      "go.mod": "module guide\n\ngo 1.19\n",
      "main.go": `package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"

	"guide/webhook"
)

func main() {
	var given struct {
		Secret  string
		Headers map[string]string
		Body    string
	}
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		panic(err)
	}
	header := http.Header{}
	for name, value := range given.Headers {
		header.Set(name, value)
	}
	fmt.Println(webhook.Verify(given.Secret, header, []byte(given.Body)))
}
`,
    },
    build: ["go", "build", "-o", "verify", "."],
    command: ["go"],
    version: "version",
    program: "./verify",
  },
};

before(async () => {
  server = await Server.start();
  folder = await mkdtemp(join(tmpdir(), "portico-guides-"));
  const { account_id } = await server.admin("account", "create", "--name", "Acme");
  const scopes = "webhooks:read webhooks:write";
  const { token } = await server.admin("token", "create", "--account", account_id, "--scopes", scopes);
  const post = async (path, body) => (await server.call("POST", path, token, body)).body;
  const { inbox } = await post("/v1/webhooks/inboxes", {});
  const endpoint = await post("/v1/webhooks/endpoints", { url: inbox.address, event_types: ["token.created"] });
  await post(`/v1/webhooks/endpoints/${endpoint.id}/test`, {});
  while (!delivery) {
    const { body } = await server.call("GET", `/v1/webhooks/inboxes/${inbox.id}/requests`, token);
    delivery = body.requests[0] && { secret: endpoint.secret, headers: body.requests[0].headers, body: body.requests[0].body };
  }
});
after(async () => {
  await server?.end();
  await rm(folder, { recursive: true });
});

test("the guide's code accepts what we send, and nothing else", async (t) => {
  const code = await snippets();
  assert.deepEqual(Object.keys(code).sort(), ["go", "php", "python", "ruby", "ts"]);
  const { secret, headers, body } = delivery;
  const old = { ...headers, "webhook-timestamp": String(Number(headers["webhook-timestamp"]) - 301) };
  const wrong = {
    "another secret": { ...delivery, secret: `whsec_${Buffer.from("another secret of ours").toString("base64")}` },
    "another body": { secret, headers, body: body.replace("webhook.test", "webhook.tost") },
    "an old time": { secret, headers: old, body },
    "no signature": { secret, headers: { "webhook-id": headers["webhook-id"], "webhook-timestamp": headers["webhook-timestamp"] }, body },
  };
  const rotated = { ...headers, "webhook-signature": `v1,${Buffer.alloc(32).toString("base64")} ${headers["webhook-signature"]}` };
  for (const [language, { file, more, beside = {}, build, command, version = "--version", program }] of Object.entries(RUNNERS)) {
    // Node runs the tests and Python the checks; the others are tried where they are.
    if (spawnSync(command[0], [version]).error) {
      assert.notEqual(process.env.PORTICO_GUIDES, "all", `${command[0]} is not here`);
      t.diagnostic(`${command[0]} is not here, so its code was not run`);
      continue;
    }
    for (const [name, text] of Object.entries({ ...beside, [file]: `${code[language]}\n${more}\n` })) {
      await mkdir(dirname(join(folder, name)), { recursive: true });
      await writeFile(join(folder, name), text);
    }
    if (build) {
      const env = { ...process.env, GOCACHE: join(folder, "cache"), GOTOOLCHAIN: "local", GOFLAGS: "-mod=mod" };
      const built = spawnSync(build[0], build.slice(1), { cwd: folder, env, encoding: "utf8" });
      assert.equal(built.status, 0, `${language}: ${built.stderr}`);
    }
    const [run, ...words] = program ? [join(folder, program)] : [...command, join(folder, file)];
    const verdict = (given) => {
      const { stdout, stderr, status } = spawnSync(run, words, { input: JSON.stringify(given), encoding: "utf8" });
      assert.equal(status, 0, stderr);
      return stdout.trim();
    };
    assert.equal(verdict(delivery), "true", `${language}: what we sent`);
    assert.equal(verdict({ secret, headers: rotated, body }), "true", `${language}: one of two signatures`);
    for (const [what, given] of Object.entries(wrong)) assert.equal(verdict(given), "false", `${language}: ${what}`);
  }
});
