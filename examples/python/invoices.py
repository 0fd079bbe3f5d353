"""Invoices behind Portico:  python3 invoices.py

It sees no token. Who calls stands in `portico-account`, and a request that is wrong was refused before it came here.
"""
import base64, json, os, secrets, time, urllib.parse, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BASE_URL = os.environ.get("PORTICO_BASE_URL", "http://127.0.0.1:8080")
AUTH_URL = os.environ.get("PORTICO_AUTH_URL", "http://localhost:8081")
BASIC = base64.b64encode(f"{os.environ['PORTICO_CLIENT_ID']}:{os.environ['PORTICO_CLIENT_SECRET']}".encode()).decode()
invoices = {}  # by account, then by id; a real one has a database
token = {"text": "", "until": 0}

def post(url, body, authorization, kind):
    headers = {"Authorization": authorization, "Content-Type": kind}
    with urllib.request.urlopen(urllib.request.Request(url, body.encode(), headers), timeout=5) as answer:
        return json.load(answer)

def publish(**event):
    """Tells the account's webhooks and streams. A repeat under the same id makes nothing."""
    if token["until"] < time.time():
        form = "grant_type=client_credentials&audience=platform-api&scope=service:events"
        made = post(f"{AUTH_URL}/oauth2/token", form, f"Basic {BASIC}", "application/x-www-form-urlencoded")
        token.update(text=made["access_token"], until=time.time() + made["expires_in"] - 60)
    batch = json.dumps({"events": [event]})
    for refusal in post(f"{BASE_URL}/v1/services/events", batch, f"Bearer {token['text']}", "application/json")["refused"]:
        raise ValueError(refusal["problem"]["error"])

def handle(method, path, query, account, body):
    own = invoices.setdefault(account, {})
    if path == "/healthz":
        return 200, {}
    if path == "/v1/invoices" and method == "GET":
        wanted = query.get("status", ["open", "paid"])
        return 200, {"invoices": [each for each in [*own.values()][::-1] if each["status"] in wanted]}
    if path == "/v1/invoices":
        new = json.loads(body)
        total = sum(line["quantity"] * line["cents"] for line in new["lines"])
        invoice = {"id": f"in_{secrets.token_hex(8)}", **new, "total_cents": total, "status": "open"}
        own[invoice["id"]] = invoice
        return 201, invoice
    invoice = own.get(path.split("/")[3])
    if invoice and path.endswith("/pay"):
        invoice["status"] = "paid"
        data = {"invoice_id": invoice["id"], "total_cents": invoice["total_cents"]}
        publish(id=f"{invoice['id']}.paid", account_id=account, type="invoice.paid", data=data)
    return (200, invoice) if invoice else (404, {"message": "There is no such invoice."})

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        url, body = urllib.parse.urlsplit(self.path), self.rfile.read(int(self.headers["Content-Length"] or 0))
        try:
            status, value = handle(self.command, url.path, urllib.parse.parse_qs(url.query), self.headers["portico-account"], body)
        except (OSError, ValueError) as error:
            print(error, flush=True)
            status, value = 503, {"message": "Try again in a moment."}
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(value).encode())

    do_POST = do_GET

ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "9000"))), Handler).serve_forever()
