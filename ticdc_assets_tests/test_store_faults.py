"""Answers of an object store that end a run, as sentences that name the bucket and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlencode

import pyarrow.fs as pafs
import pytest

from ticdc_assets.errors import SourceError
from ticdc_assets.faults import redacted_error
from ticdc_assets.sources.filesystem import open_root
from ticdc_assets_tests.services.object_store import ACCESS_KEY, REGION, SECRET_KEY, S3Store, s3_store


@contextmanager
def refusing(status: int, code: str) -> Iterator[str]:
    """The endpoint of a store that gives each request the same refusal; without a code, one without a body."""
    body = f"<Error><Code>{code}</Code><Message>for hunter2</Message></Error>".encode() if code else b""

    class Refusal(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_PUT = do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusal)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (400, "ExpiredToken", "found ExpiredToken. The credentials have expired or belong to another session: give "),
        (400, "InvalidToken", "found InvalidToken. The credentials have expired"),
        (400, "", "found HTTP status 400. Check whether the credentials have expired, and the region of the store."),
        (403, "AccessDenied", "found ACCESS_DENIED. Let the credentials read, write, list and delete there."),
        (403, "InvalidAccessKeyId", "found INVALID_ACCESS_KEY_ID. Check the access key and the secret key."),
        (301, "PermanentRedirect", "found PermanentRedirect. Check the region and the endpoint of the store."),
        (507, "XMinioStorageFull", "found XMinioStorageFull. "),
        (501, "", "found HTTP status 501. The store fails or is overloaded: wait until it answers."),
    ],
)
def test_a_refusal_of_a_store_is_named_with_what_to_do(status: int, code: str, said: str) -> None:
    with refusing(status, code) as endpoint:
        query = {"endpoint": endpoint, "region": REGION, "access-key": ACCESS_KEY, "secret-access-key": SECRET_KEY}
        with pytest.raises(SourceError) as of_source:
            open_root(f"s3://sink/prefix?{urlencode(query)}")
        lake = pafs.S3FileSystem(
            endpoint_override=endpoint, region=REGION, access_key=ACCESS_KEY, secret_key=SECRET_KEY
        )
        with pytest.raises(OSError) as of_lake, lake.open_output_stream("lake/1.json") as stream:
            stream.write(b"{}")

    for sentence in (str(of_source.value), str(redacted_error(of_lake.value))):
        assert said in sentence
        assert sentence.partition(said)[2].strip(), "what to do next is missing"
        assert "hunter2" not in sentence


def test_a_store_that_does_not_answer_leads_to_its_endpoint() -> None:
    query = {"endpoint": "http://127.0.0.1:1", "region": REGION, "access-key": "a", "secret-access-key": "b"}
    with pytest.raises(SourceError, match=r"found NETWORK_CONNECTION\. Check the endpoint of the store and the net"):
        open_root(f"s3://sink/prefix?{urlencode(query)}")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Store]:
    with s3_store(tmp_path_factory.mktemp("store")) as found:
        yield found


@pytest.mark.services
def test_a_warehouse_in_a_bucket_that_is_not_there_is_named(store: S3Store) -> None:
    with pytest.raises(OSError) as caught, store.filesystem.open_output_stream("nowhere/lake/1.json") as stream:
        stream.write(b"{}")

    assert str(redacted_error(caught.value)) == (
        "the bucket nowhere: expected an answer of the object store, found NO_SUCH_BUCKET. Make the bucket, or correct "
        "catalog.warehouse. Then run again; no partial result is visible."
    )


@pytest.mark.services
def test_a_source_in_a_bucket_that_is_not_there_leads_to_its_name(store: S3Store, tmp_path: Path) -> None:
    query = {"endpoint": store.endpoint, "region": REGION, "access-key": ACCESS_KEY, "secret-access-key": SECRET_KEY}
    with pytest.raises(SourceError) as caught:
        open_root(f"s3://nowhere/prefix?{urlencode(query)}").list_dir("")

    assert "found NO_SUCH_BUCKET. Check the name of the bucket and the endpoint of its store." in str(caught.value)
    assert SECRET_KEY not in str(caught.value)
