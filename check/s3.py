"""An S3 service for the judge of blobs: moto, behind two things that moto leaves out.

Every request must be signed by the key of the judge, as botocore computes it; and every so often the service is busy, as
the real one is, and says so with 503.
"""

import itertools
import re
import sys
import urllib.parse

from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from moto.moto_server.werkzeug_app import create_backend_app
from werkzeug.serving import WSGIRequestHandler, run_simple
from werkzeug.test import Client

BUSY_EVERY = 11


def refusal(start_response, status, code):
    start_response(status, [("content-type", "application/xml")])
    return [f"<Error><Code>{code}</Code><Message>The judge says so.</Message></Error>".encode()]


class Gate:
    """Lets requests through to `app` that are well signed."""

    def __init__(self, app, key_id, secret, region):
        self.app, self.key_id, self.region = app, key_id, region
        self.auth = S3SigV4QueryAuth(Credentials(key_id, secret), "s3", region)
        self.numbers = itertools.count(1)

    def is_signed(self, environ):
        url = f"http://{environ['HTTP_HOST']}{environ['RAW_URI']}"
        unsigned, found, signature = url.partition("&X-Amz-Signature=")
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(unsigned).query))
        # Nothing may follow the signature, or it would not be signed.
        if not found or not re.fullmatch("[0-9a-f]{64}", signature) or query.get("X-Amz-SignedHeaders") != "host":
            return False
        request = AWSRequest(method=environ["REQUEST_METHOD"], url=unsigned, headers={"host": environ["HTTP_HOST"]})
        request.context["timestamp"] = query["X-Amz-Date"]
        if query["X-Amz-Credential"] != self.auth.scope(request):
            return False
        canonical = self.auth.canonical_request(request)
        return signature == self.auth.signature(self.auth.string_to_sign(request, canonical), request)

    def __call__(self, environ, start_response):
        length = int(environ.get("CONTENT_LENGTH") or 0)
        # The body is read whatever becomes of it, so that the client gets to hear the answer.
        if not self.is_signed(environ):
            environ["wsgi.input"].read(length)
            return refusal(start_response, "403 Forbidden", "SignatureDoesNotMatch")
        if next(self.numbers) % BUSY_EVERY == 0:
            environ["wsgi.input"].read(length)
            return refusal(start_response, "503 Service Unavailable", "SlowDown")
        return self.app(environ, start_response)


class Silent(WSGIRequestHandler):
    def log_request(self, *_):
        pass


def main(port, bucket, key_id, secret, region):
    app = create_backend_app("s3")
    place = f"<CreateBucketConfiguration><LocationConstraint>{region}</LocationConstraint></CreateBucketConfiguration>"
    made = Client(app).put(f"/{bucket}", data=place, headers={"host": "s3.amazonaws.com"})
    if made.status_code != 200:
        sys.exit(f"no bucket: {made.status} {made.text}")
    gate = Gate(app, key_id, secret, region)
    run_simple("127.0.0.1", int(port), gate, threaded=True, request_handler=Silent)


main(*sys.argv[1:])
