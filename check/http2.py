#!/usr/bin/env python3
"""What check/judges/http2 asks: curl, nghttp, h2load and Node talk HTTP/2 to a server in the clear and to one with TLS."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from server import Server, Verdicts, free_ports

verdicts = Verdicts()
proved = verdicts.proved

# Another client, though it has the same library beneath as the others: nghttp2.
NODE = """
const http2 = require('node:http2');
const [address, token, ca] = process.argv.slice(1);
const client = http2.connect(address, ca ? { ca: require('node:fs').readFileSync(ca) } : {});
const call = () => new Promise((done, failed) => {
  const request = client.request({ ':path': '/v1/me', authorization: `Bearer ${token}` });
  let status;
  request.on('response', (headers) => { status = headers[':status']; });
  request.on('error', failed);
  request.on('data', () => {});
  request.on('end', () => done(status));
});
Promise.all(Array.from({ length: 100 }, call)).then((statuses) => {
  console.log(statuses.filter((status) => status === 200).length);
  client.close();
}, (error) => { console.log(error.message); process.exit(1); });
"""


def run(*words, fails=False):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    if done.returncode and not fails:
        raise AssertionError(f"{' '.join(words[:4])} ended with {done.returncode}: {done.stdout[-2000:]}")
    return done.stdout


def curl(*words):
    """The version of HTTP, the status and the body."""
    out = run("curl", "--silent", "--show-error", "--noproxy", "*", "--write-out", "\n%{http_version} %{http_code}", *words)
    body, _, last = out.rpartition("\n")
    version, status = last.split()
    return version, int(status), body


def without_request_id(body):
    return re.sub(r'"request_id":"[^"]*"', "", body)


def clients(name, server, trust, prior_knowledge):
    """Everything that holds with and without TLS; `trust` is how curl is told of the certificate."""
    base = server.base_url
    account = server.admin("account", "create", "--name", "Http2")["account_id"]
    scopes = "identity:read events:read webhooks:read webhooks:write"
    token = server.admin("token", "create", "--account", account, "--scopes", scopes, "--name", "http2")["token"]
    known = ["--header", f"Authorization: Bearer {token}"]
    two = ["--http2-prior-knowledge"] if prior_knowledge else ["--http2"]

    with verdicts.scenario(f"{name}: curl"):
        for address in (f"{base}/healthz", f"{server.auth_url}/.well-known/oauth-authorization-server"):
            version, status, _ = curl(*trust, *two, address)
            proved(f"{name}: curl: {address} speaks HTTP/2", (version, status) == ("2", 200), (version, status))
        body = ["--header", "Content-Type: application/json", "--data", "{"]
        many = [word for number in range(101) for word in ("--header", f"X-{number}: y")]
        for status, words in (
            (200, [*known, f"{base}/v1/me"]),
            (401, [f"{base}/v1/me"]),
            (404, [f"{base}/nowhere"]),
            (405, ["--request", "DELETE", f"{base}/v1/me"]),
            (415, [*known, "--data", "a=b", f"{base}/v1/webhooks/endpoints"]),
            (400, [*known, *body, f"{base}/v1/webhooks/endpoints"]),
            (400, [*known, *many, f"{base}/v1/me"]),
        ):
            new, old = curl(*trust, *two, *words), curl(*trust, "--http1.1", *words)
            proved(f"{name}: curl: {status} over HTTP/2", new[:2] == ("2", status), new)
            same = without_request_id(new[2]) == without_request_id(old[2])
            proved(f"{name}: curl: {status} as over HTTP/1", old[1] == status and same, (new, old))

    with verdicts.scenario(f"{name}: curl: a stream of events"):
        command = ["curl", "--silent", "--no-buffer", "--noproxy", "*", *trust, *two, *known, f"{base}/v1/events/stream"]
        listening = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            first = listening.stdout.readline()
            server.admin("token", "create", "--account", account, "--scopes", scopes, "--name", "heard")
            lines = iter(listening.stdout.readline, "")
            heard = next(line for line in lines if line.startswith("event:"))
            proved(f"{name}: curl: an event arrives", first.startswith("retry:") and "audit.event" in heard, heard)
        finally:
            listening.terminate()
            listening.wait(10)

    with verdicts.scenario(f"{name}: nghttp"):
        out = run("nghttp", "--verbose", "--null-out", f"{base}/healthz", f"{base}/openapi.json", f"{base}/readyz")
        proved(f"{name}: nghttp: three answers", out.count(":status: 200") == 3, out[-2000:])
        limit = re.search(r"SETTINGS_MAX_CONCURRENT_STREAMS\(0x03\):(\d+)", out)
        proved(f"{name}: nghttp: is told how many streams it may open", limit and limit[1] == "100", limit)
        proved(f"{name}: nghttp: no connection-specific header", not re.search(r"(?m)connection:|keep-alive:", out), out)

    with verdicts.scenario(f"{name}: h2load"):
        out = run("h2load", "-n", "20000", "-c", "10", "-m", "100", "-H", f"Authorization: Bearer {token}", f"{base}/v1/me")
        good = re.search(r"(\d+) succeeded, (\d+) failed, (\d+) errored", out)
        proved(f"{name}: h2load: 20,000 calls over ten connections", good and good.groups() == ("20000", "0", "0"), out[-800:])
        statuses = re.search(r"status codes: (\d+) 2xx", out)
        proved(f"{name}: h2load: each with 200", statuses and statuses[1] == "20000", out[-800:])
        print(f"        {re.search(r'finished in .*', out)[0]}")
        run("h2load", "-n", "2000", "-c", "2", "-m", "1000", f"{base}/v1/me", fails=True)
        version, status, _ = curl(*trust, *two, f"{base}/healthz")
        proved(f"{name}: the server goes on after 2,000 refused calls", (version, status) == ("2", 200))

    with verdicts.scenario(f"{name}: Node"):
        ca = [trust[1]] if trust else []
        out = run("node", "-e", NODE, base, token, *ca)
        proved(f"{name}: Node: a hundred calls at once", out.strip() == "100", out)
    return token


def make_certificate(folder, name):
    certificate, key = str(folder / "tls.pem"), str(folder / "tls.key")
    alternative = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    run(
        *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
        *("-subj", f"/CN={name}", "-addext", alternative, "-keyout", key, "-out", certificate),
    )
    return certificate, key


def under_tls(folder):
    certificate, key = make_certificate(folder, "one")
    api, auth, mqtts = free_ports(3)
    os.environ["SSL_CERT_FILE"] = certificate
    settings = {
        "PORTICO_TLS_CERTIFICATE": certificate,
        "PORTICO_TLS_KEY": key,
        "PORTICO_LISTEN_API": f"127.0.0.1:{api}",
        "PORTICO_LISTEN_AUTH": f"127.0.0.1:{auth}",
        "PORTICO_LISTEN_MQTTS": f"127.0.0.1:{mqtts}",
        "PORTICO_BASE_URL": f"https://localhost:{api}",
        "PORTICO_AUTH_URL": f"https://localhost:{auth}",
    }
    with Server(settings=settings) as server:
        trust = ["--cacert", certificate]
        clients("TLS", server, trust, prior_knowledge=False)
        with verdicts.scenario("TLS: versions"):
            for version in ("1.2", "1.3"):
                words = (f"--tlsv{version}", "--tls-max", version, "--http2", f"{server.base_url}/healthz")
                proved(f"TLS {version} is spoken", curl(*trust, *words)[:2] == ("2", 200))
            old = subprocess.run(
                ["openssl", "s_client", "-connect", f"127.0.0.1:{api}", "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30,
            )
            proved("TLS 1.1 is not", old.returncode != 0 and "alert" in old.stderr, old.stderr[-500:])
        with verdicts.scenario("TLS: a certificate that changes"):
            make_certificate(folder, "two")
            deadline = time.monotonic() + 15
            while run("curl", "--silent", "--noproxy", "*", *trust, f"{server.base_url}/healthz", fails=True) == "":
                if time.monotonic() > deadline:
                    raise AssertionError("the new certificate is not shown")
                time.sleep(0.2)
            proved("a certificate that changed is shown without a restart", True)
            pathlib.Path(key).write_text("broken")
            time.sleep(6)
            proved("one that is broken is not", curl(*trust, f"{server.base_url}/healthz")[1] == 200)
    return server.failed()


def main():
    with Server() as server:
        clients("clear", server, [], prior_knowledge=True)
    failed = server.failed()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="portico-check-tls-"))
    try:
        failed |= under_tls(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if verdicts.failed or failed else 0


if __name__ == "__main__":
    sys.exit(main())
