"""A schema registry over HTTP: asked within bounds, at its own host only, and never quoted; kept for replays."""

from __future__ import annotations

import pickle
import time
from base64 import b64encode
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.config.model.source import RegistryAuth
from ticdc_assets.config.reading.secrets import Secret
from ticdc_assets.errors import SourceError
from ticdc_assets.sources import schema_registry
from ticdc_assets.sources.schema_registry import RegistryClient, RegistrySchemas, UnknownSchemaError
from ticdc_assets_tests.sources.registry_server import IMPATIENT, QUICK, Answer, Registry, answer

SECRET = "s3cret-body"


def dripping(handler: BaseHTTPRequestHandler) -> None:
    """Every read is quick, the whole takes minutes."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    try:
        for _ in range(100):
            handler.wfile.write(b" ")
            time.sleep(0.05)
    except OSError:
        pass


def silent(handler: BaseHTTPRequestHandler) -> None:
    time.sleep(1)


SCHEMA = answer(200, {"schema": '"string"'})
NOT_FOUND = answer(404, {"error_code": 40403, "message": SECRET})


def error_of(*answers: Answer, **settings: Any) -> SourceError:
    with Registry(*answers).running() as registry, pytest.raises(SourceError) as raised:
        registry.client(**settings).schema(7)
    assert SECRET not in str(raised.value)
    assert registry.url in raised.value.where
    return raised.value


# -- one question ------------------------------------------------------------------------------------------------------


def test_a_schema_is_asked_for_by_its_id():
    with Registry(SCHEMA).running() as registry:
        assert registry.client().schema(7) == '"string"'

    assert [path for path, _ in registry.asked] == ["/schemas/ids/7"]


def test_a_path_of_the_address_is_kept():
    with Registry(SCHEMA).running() as registry:
        assert RegistryClient(f"{registry.url}/apis/ccompat/v7/", policy=QUICK).schema(7) == '"string"'

    assert registry.asked[0][0] == "/apis/ccompat/v7/schemas/ids/7"


def test_user_and_password_are_sent_as_basic_authentication():
    auth = RegistryAuth("ann", Secret("p:ä"))
    with Registry(SCHEMA).running() as registry:
        registry.client(auth=auth).schema(7)

    assert registry.asked[0][1]["Authorization"] == "Basic " + b64encode("ann:p:ä".encode()).decode()


def test_a_token_is_sent_as_bearer():
    with Registry(SCHEMA).running() as registry:
        registry.client(auth=RegistryAuth(token=Secret("abc"))).schema(7)

    assert registry.asked[0][1]["Authorization"] == "Bearer abc"


def test_an_id_unknown_to_the_registry_is_distinguished_from_a_fault():
    with Registry(NOT_FOUND).running() as registry, pytest.raises(UnknownSchemaError):
        registry.client().schema(7)


@pytest.mark.parametrize("status", [401, 403])
def test_denied_says_where_to_look_and_quotes_nothing(status: int):
    error = error_of(answer(status, {"message": SECRET}), auth=RegistryAuth("ann", Secret(SECRET)))

    assert error.found == f"HTTP {status}"
    assert "schema_registry.auth" in error.advice


def test_a_404_of_something_else_is_no_registry():
    assert error_of(answer(404, SECRET.encode())).found == "HTTP 404"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_registry_is_asked_again(status: int):
    with Registry(answer(status, {"message": SECRET}), SCHEMA).running() as registry:
        assert registry.client().schema(7) == '"string"'

    assert len(registry.asked) == 2


def test_a_registry_that_stays_broken_is_given_up():
    assert error_of(answer(500, {"message": SECRET})).found == "HTTP 500, 2 times"


@pytest.mark.parametrize("slow", [silent, dripping])
def test_an_answer_that_does_not_end_is_given_up_in_time(slow: Answer):
    began = time.monotonic()

    assert error_of(slow, policy=IMPATIENT).found == "no answer in time, 2 times"

    assert time.monotonic() - began < 4


def test_an_address_without_a_server_is_reported():
    with Registry(SCHEMA).running() as registry:
        pass

    with pytest.raises(SourceError) as raised:
        registry.client().schema(7)
    assert raised.value.found == "a connection that failed (ConnectionRefusedError), 2 times"


def test_a_redirect_is_refused_and_the_other_host_is_not_asked():
    with Registry(SCHEMA).running() as other:
        error = error_of(answer(302, b"", Location=f"{other.url}/schemas/ids/7"), auth=RegistryAuth("a", Secret("b")))

    assert error.found == "a redirect (302)"
    assert other.asked == []


def test_a_huge_answer_is_refused_before_it_is_held(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(schema_registry, "ANSWER_BYTES_MAX", 1_000)

    assert error_of(answer(200, b" " * 1_001)).found == "a larger one"
    with Registry(answer(200, b'{"schema":"1"}' + b" " * 986)).running() as registry:
        assert registry.client().schema(7) == "1"


def test_an_answer_that_is_cut_is_asked_for_again():
    cut = answer(200, b'{"schema": "', **{"Content-Length": "500"})

    with Registry(cut, SCHEMA).running() as registry:
        assert registry.client().schema(7) == '"string"'


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"schema": 7}', b"\xff", {"no": SECRET}])
def test_an_answer_that_is_no_schema_is_reported(body: Any):
    assert error_of(answer(200, body)).found == "another answer"


def test_a_schema_of_another_kind_is_reported():
    assert error_of(answer(200, {"schema": SECRET, "schemaType": "JSON"})).found == "a schema of another kind"


# -- over TLS ----------------------------------------------------------------------------------------------------------


def test_a_certificate_of_an_unknown_authority_is_refused_before_anything_is_sent(certificate: Path):
    with Registry(SCHEMA, certificate=certificate).running() as registry, pytest.raises(SourceError) as raised:
        registry.client(auth=RegistryAuth("ann", Secret(SECRET))).schema(7)

    assert raised.value.expected == "a certificate that can be verified"
    assert registry.asked == []


def test_an_authority_of_the_users_own_is_named_with_ssl_cert_file(certificate: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.parent / "certificate.pem"))

    with Registry(SCHEMA, certificate=certificate).running() as registry:
        assert registry.client().schema(7) == '"string"'


# -- many questions ----------------------------------------------------------------------------------------------------


def test_each_id_is_asked_for_once_also_where_it_is_unknown():
    with Registry(SCHEMA, NOT_FOUND).running() as registry:
        schemas = RegistrySchemas(dict, registry.client())
        for _ in range(3):
            assert schemas(7) == '"string"'
            with pytest.raises(LookupError):
                schemas(8)

    assert [path for path, _ in registry.asked] == ["/schemas/ids/7", "/schemas/ids/8"]
    assert schemas.fetched == {7: '"string"'}


def test_known_schemas_need_no_registry():
    schemas = RegistrySchemas(lambda: {7: "kept"}, RegistryClient("http://127.0.0.1:9", policy=QUICK))

    assert schemas(7) == "kept"
    assert schemas.fetched == {}


def test_a_pickled_registry_has_its_schemas_and_sends_no_request():
    auth = RegistryAuth("ann", Secret(SECRET))
    with Registry(SCHEMA).running() as registry:
        schemas = RegistrySchemas(lambda: {1: "kept"}, registry.client(auth=auth))
        schemas(7)
        data = pickle.dumps(schemas)
        sent = pickle.loads(data)

        assert (sent(1), sent(7)) == ("kept", '"string"')
        with pytest.raises(LookupError):
            sent(8)
        assert len(registry.asked) == 1
    assert SECRET.encode() not in data


def test_unknown_ids_without_end_stop_the_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(schema_registry, "UNKNOWN_IDS_MAX", 3)
    with Registry(NOT_FOUND).running() as registry:
        schemas = RegistrySchemas(dict, registry.client())
        for schema_id in range(3):
            with pytest.raises(LookupError):
                schemas(schema_id)
        with pytest.raises(SourceError, match="4 unknown ids"):
            schemas(3)


# -- another registry --------------------------------------------------------------------------------------------------

INT = answer(200, {"schema": '"int"'})


def asked_for(schemas: RegistrySchemas, *ids: int) -> RegistrySchemas:
    for schema_id in ids:
        with suppress(LookupError):
            schemas(schema_id)
    return schemas


@pytest.mark.parametrize(
    ("answers", "of_lake", "found"),
    [
        ([NOT_FOUND], {}, "found none of 8, 9. Let `schema_registry` name"),
        ([NOT_FOUND], {7: '"string"'}, "found none of 8, 9. Let `schema_registry` name"),
        ([SCHEMA, SCHEMA, INT], {7: '"string"'}, "expected the schemas of before under their ids, found others."),
        ([NOT_FOUND, NOT_FOUND, INT], {7: '"string"'}, "expected the schemas of before under their ids, found others."),
    ],
)
def test_the_registry_of_other_messages_stops_the_run(answers: list[Answer], of_lake: dict[int, str], found: str):
    with Registry(*answers).running() as registry:
        schemas = asked_for(RegistrySchemas(lambda: of_lake, registry.client()), 8, 9)

        with pytest.raises(SourceError) as raised:
            schemas.require_own_registry()

    assert found in str(raised.value)
    assert raised.value.where == registry.url


@pytest.mark.parametrize(
    ("answers", "of_lake"),
    [
        ([SCHEMA, NOT_FOUND], {}),
        ([NOT_FOUND, NOT_FOUND, SCHEMA], {7: '"string"'}),
        ([SCHEMA, SCHEMA, NOT_FOUND], {7: '"string"'}),
        ([SCHEMA, SCHEMA, answer(200, {"schema": '{"type":"int"}'})], {7: '{ "type": "int" }'}),
    ],
)
def test_a_registry_that_lacks_some_schemas_or_writes_them_in_another_way_is_the_own_one(
    answers: list[Answer], of_lake: dict[int, str]
):
    with Registry(*answers).running() as registry:
        asked_for(RegistrySchemas(lambda: of_lake, registry.client()), 8, 9).require_own_registry()


def test_a_run_without_new_schemas_compares_none():
    with Registry(NOT_FOUND).running() as registry:
        asked_for(RegistrySchemas(lambda: {7: '"string"'}, registry.client()), 7).require_own_registry()

    assert registry.asked == []
