"""Errors of libraries that quote a row, raised during runs: output has only their class and position."""

from __future__ import annotations

import errno
import io
import os
import pickle
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import fastavro
import pyarrow as pa
import pytest
import requests
from pyarrow.fs import LocalFileSystem
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    BadRequestError,
    ForbiddenError,
    ServiceUnavailableError,
    UnauthorizedError,
)
from pyiceberg.expressions.literals import literal
from pyiceberg.types import IntegerType
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError
from thrift.transport.TTransport import TTransportException  # type: ignore[import-untyped]

from ticdc_assets import failpoints as moments
from ticdc_assets import spark
from ticdc_assets.cli import main
from ticdc_assets.commands.output.terminal import noise_kept_in
from ticdc_assets.config import load
from ticdc_assets.errors import DecodeError, LakeError, MachineError, TicdcAssetsError, UnexpectedError
from ticdc_assets.failpoints import Failpoint
from ticdc_assets.faults import interrupted_by, of_one_table, redacted_error
from ticdc_assets.spark import SparkWorkers
from ticdc_assets.stack_frames import frames_of
from ticdc_assets.tables.catalog import open_catalog
from ticdc_assets_tests.apart import apart
from ticdc_assets_tests.assets.feeds import Feed, event_texts, without_java
from ticdc_assets_tests.canaries import (
    ENVIRON,
    ROW_CANARY,
    assert_discreet,
    feed,
    files_with,
    instance,
    logs,
    no_retries,
    with_causes,
)

__all__ = ["feed", "instance", "logs", "no_retries", "without_java"]


def _of_avro() -> None:
    fastavro.schemaless_writer(io.BytesIO(), ["null", "int"], ROW_CANARY)


def _of_sql() -> None:
    with create_engine("sqlite://").connect() as connection:
        connection.execute(text("SELECT * FROM nowhere WHERE name = :name"), {"name": ROW_CANARY})


def _of_a_cause() -> None:
    try:
        pa.array([ROW_CANARY]).cast(pa.int64())
    except pa.ArrowInvalid as error:
        error.add_note(f"while reading {ROW_CANARY}")
        raise DecodeError("here", "a number", "a text", "Look at it.") from error


LIBRARIES: dict[str, tuple[str, Callable[[], Any]]] = {
    "pyarrow": ("ArrowInvalid", lambda: pa.array([ROW_CANARY]).cast(pa.int64())),
    "fastavro": ("ValueError", _of_avro),
    "pyiceberg": ("ValueError", lambda: literal(ROW_CANARY).to(IntegerType())),
    "sqlalchemy": ("SQLITE_ERROR", _of_sql),
    "python": ("ValueError", lambda: int(ROW_CANARY)),
    "the system": ("ENOSPC", lambda: (_ for _ in ()).throw(OSError(errno.ENOSPC, f"no room for {ROW_CANARY}"))),
    "a cause": ("a text", _of_a_cause),
}
every_library = pytest.mark.parametrize(("kind", "fault"), LIBRARIES.values(), ids=LIBRARIES)
WHERE = [
    *(Failpoint.FILE_READ, Failpoint.BEFORE_CHANGELOG_COMMIT),
    *(pytest.param(moment, marks=pytest.mark.matrix) for moment in (Failpoint.SCANNED, Failpoint.BEFORE_CURSOR)),
]


@pytest.fixture(params=WHERE)
def moment(request: pytest.FixtureRequest) -> Failpoint:
    return request.param


@pytest.fixture
def fails(moment: Failpoint) -> Iterator[Callable[[Callable[[], Any]], None]]:
    """Lets a fault come up where a run reaches the moment."""

    def at_moment(fault: Callable[[], Any]) -> None:
        moments.LISTENERS.append(lambda hit: fault() if hit is moment else None)

    before = list(moments.LISTENERS)
    yield at_moment
    moments.LISTENERS[:] = before


def caught(fault: Callable[[], Any]) -> Exception:
    try:
        fault()
    except Exception as error:  # noqa: BLE001
        return error
    raise AssertionError("the library found nothing wrong")


@every_library
def test_an_error_has_its_kind_and_place(kind: str, fault: Callable[[], Any]):
    raw = caught(fault)
    assert ROW_CANARY in "".join(with_causes(raw))  # else there is nothing to hide

    plain_fault = redacted_error(raw)

    assert kind in plain_fault.found
    assert_discreet(*with_causes(plain_fault), *with_causes(pickle.loads(pickle.dumps(plain_fault))))


@pytest.mark.usefixtures("without_java", "no_retries")
@pytest.mark.parametrize("library", ["pyarrow", pytest.param("the system", marks=pytest.mark.matrix)])
def test_a_step_in_which_a_library_fails_tells_no_row(
    feed: Feed,
    library: str,
    fails: Callable[..., None],
    tmp_path: Path,
    instance: dg.DagsterInstance,
    logs: pytest.LogCaptureFixture,
    capfd: Any,
):
    kind, fault = LIBRARIES[library]
    fails(fault)

    result = feed.run(instance)

    assert not result.success
    assert kind in event_texts(result)
    assert "expected" in event_texts(result)
    assert_discreet(event_texts(result), logs.text, *capfd.readouterr())
    assert files_with(ROW_CANARY, tmp_path / "dagster") == []


@pytest.mark.usefixtures("without_java", "no_retries")
@pytest.mark.parametrize("library", ["pyarrow", pytest.param("a cause", marks=pytest.mark.matrix)])
def test_a_command_in_which_a_library_fails_tells_no_row_and_no_traceback(
    feed: Feed, library: str, fails: Callable[..., None], logs: pytest.LogCaptureFixture, capfd: Any
):
    kind, fault = LIBRARIES[library]
    fails(fault)

    assert main(["run", "--config", str(feed.path)]) == 1

    out, err = capfd.readouterr()
    assert kind in err
    assert "Traceback" not in err
    log = feed.folder / ".ticdc_assets" / "run.log"
    assert_discreet(out, err, logs.text, log.read_text() if log.exists() else "")


def _number(number: int) -> int:
    return pa.array([ROW_CANARY]).cast(pa.int64()) if number else number


def _fails_in_spark(path: Path, log: Path) -> list[TicdcAssetsError]:
    """The errors of a worker and of statements that fail at a row; the output of Spark goes to a file."""
    config = load(path, ENVIRON)
    table = f"`{config.catalog.name}`.`default`.`t`"
    number = f"CAST(concat('{ROW_CANARY}', id) AS INT)"
    with noise_kept_in(log):
        open_catalog(config.catalog)
        session = spark.session(config)
        session.sql(f"CREATE NAMESPACE `{config.catalog.name}`.`default`")
        session.sql(f"CREATE TABLE {table} (n INT) USING iceberg")
        return [
            redacted_error(caught(lambda: SparkWorkers(session).map(_number, [0, 1]))),
            redacted_error(caught(lambda: session.sql(f"SELECT {number} FROM range(2)").collect())),
            redacted_error(caught(lambda: session.sql(f"INSERT INTO {table} SELECT {number} FROM range(2)"))),
        ]


@pytest.mark.spark
@pytest.mark.matrix
def test_what_fails_in_spark_at_a_row_tells_no_row(feed: Feed, tmp_path: Path):
    log = tmp_path / "spark.log"

    of_worker, of_query, of_write = apart(_fails_in_spark, feed.path, log)

    assert (type(of_worker), of_worker.found) == (UnexpectedError, "ArrowInvalid")
    assert "CAST_INVALID_INPUT" in of_query.found
    assert of_write.where.startswith("Spark, for ")
    for fault in (of_worker, of_query, of_write):
        assert_discreet(*with_causes(fault))
    assert_discreet(log.read_text())


TROUBLE = {
    "a full disk": (OSError(errno.ENOSPC, "x"), "Free space"),
    "a disk that cannot be written": (OSError(errno.EROFS, "x"), "write"),
    "too many open files": (OSError(errno.EMFILE, "x"), "ulimit -n"),
    "a right that is missing": (PermissionError(errno.EACCES, "x"), "right"),
    "an answer that does not come": (
        type("ReadTimeout", (OSError,), {"__module__": "requests.exceptions"})(),
        "network",
    ),
    "anything else of the disk": (OSError(errno.EIO, "x"), "disk"),
}


@pytest.mark.parametrize("what", TROUBLE)
def test_an_error_from_outside_says_what_to_do(what: str):
    error, advice = TROUBLE[what]

    fault = redacted_error(error)

    assert isinstance(fault, LakeError)
    assert advice in fault.advice
    assert "run again" in fault.advice


FILES = {
    "a file of the lake": ("/lake/t/metadata/1.avro", "/lake/t/metadata/1.avro"),
    "a file of a partition": (f"/lake/t/data/name={ROW_CANARY}/1.parquet", "/lake/t/data"),
    "an object of a store": (f"s3://user:{ROW_CANARY}@bucket/key", "this process"),
    "a descriptor": (7, "this process"),
}


@pytest.mark.parametrize(("name", "where"), FILES.values(), ids=FILES)
def test_a_file_is_named_as_far_as_its_name_is_no_row_and_no_credential(name: str | int, where: str):
    fault = redacted_error(FileNotFoundError(errno.ENOENT, "x", name))

    assert fault.where == where
    assert "(ENOENT)" in fault.found
    assert_discreet(fault)


def test_a_file_that_pyarrow_names_in_its_text_only_is_named_too(tmp_path: Path):
    with pytest.raises(FileNotFoundError) as raised:
        LocalFileSystem().open_input_file(str(tmp_path / "data" / f"name={ROW_CANARY}" / "1.parquet"))

    fault = redacted_error(raised.value)

    assert fault.where == str(tmp_path / "data")
    assert_discreet(fault)


@pytest.mark.parametrize("how", ["busy", "not a database", "read-only"])
def test_an_error_of_a_catalog_in_sqlite_says_what_to_do(how: str, tmp_path: Path):
    path = tmp_path / "catalog.db"
    fault = redacted_error(caught(lambda: _query(path, how)))

    assert isinstance(fault, LakeError)
    assert fault.found.startswith("SQLITE_")
    assert "database" in fault.advice


def _query(path: Path, how: str) -> None:
    if how == "not a database":
        path.write_bytes(os.urandom(4096))
    else:
        sqlite3.connect(path).execute("CREATE TABLE t (n INT)")
    other = sqlite3.connect(path)
    if how == "busy":
        other.execute("BEGIN EXCLUSIVE")
    uri = f"sqlite:///file:{path}?uri=true&timeout=0" + ("&mode=ro" if how == "read-only" else "")
    with create_engine(uri).begin() as connection:
        connection.execute(text("INSERT INTO t VALUES (1)"))


def test_a_machine_without_a_folder_for_temporary_files_names_those_that_were_tried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    absent = str(tmp_path / "absent")
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [absent, "/proc"])
    with pytest.raises(FileNotFoundError) as raised:
        tempfile.mkdtemp()

    fault = redacted_error(raised.value)

    assert isinstance(fault, MachineError)
    assert fault.found == f"none of '{absent}', '/proc'"
    assert "TMPDIR" in fault.advice
    with pytest.raises(FileNotFoundError):  # no other table has one
        of_one_table(raised.value)


def test_an_error_of_this_project_stays_what_it_is():
    error = caught(_of_a_cause)

    fault = redacted_error(error)

    assert fault is error
    assert isinstance(fault, TicdcAssetsError)
    assert fault.__cause__ is None


def test_a_fault_of_spark_names_the_place_of_its_log():
    fault = redacted_error(type("Py4JError", (Exception,), {"__module__": "py4j.protocol"})())

    assert "stderr (in Dagster's UI: the run's stderr)" in fault.advice


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("/lake/t/metadata/x.json (Read-only file system)", "the right to write the lake"),
        ("/lake/t/metadata/x.json (Permission denied)", "the right to read and write the lake"),
        ("No space left on device", "Free space"),
    ],
)
def test_what_the_operating_system_refuses_to_java_says_what_to_do(message: str, advice: str):
    met = SimpleNamespace(getMessage=lambda: message, getCause=lambda: None)
    thrown = SimpleNamespace(getMessage=lambda: f"Failed to write a file: {ROW_CANARY}", getCause=lambda: met)
    error = type("Py4JJavaError", (Exception,), {"__module__": "py4j.protocol"})()
    error.java_exception = thrown

    fault = redacted_error(error)

    assert isinstance(fault, LakeError)
    assert advice in fault.advice
    assert_discreet(str(fault))


REFUSALS = {
    "a wrong token": (UnauthorizedError("x"), "Check `token` or `credential` in catalog.properties"),
    "a token that expired": (AuthorizationExpiredError("x"), "Check `token` or `credential` in catalog.properties"),
    "a user without rights": (ForbiddenError("x"), "Let the catalog's user make namespaces and tables"),
    "a catalog that fails": (ServiceUnavailableError("x"), "wait until it answers"),
    "a request that is refused": (BadRequestError("x"), "Check `catalog.uri` and `catalog.warehouse`"),
    "a catalog that is not there": (requests.ConnectionError("x"), "Check `catalog.uri` and the network"),
    "a metastore that is not there": (TTransportException(), "Check `catalog.uri` and the network"),
    "a database that takes no login": (OperationalError("x", None, Exception("x")), "host, port, user, password"),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_what_a_catalog_refuses_ends_a_run_and_says_what_to_do(what: str):
    error, advice = REFUSALS[what]

    fault = redacted_error(error)

    assert isinstance(fault, LakeError)
    assert advice in fault.advice
    assert "run again" in fault.advice
    with pytest.raises(type(error)):
        of_one_table(error)


@pytest.mark.parametrize(
    ("name", "message", "advice"),
    [
        ("S3Exception", "The token has expired. (Service: S3, Status Code: 400, Request ID: 1)", "have expired"),
        ("S3Exception", "Denied (Service: S3, Status Code: 403, Request ID: 1)", "Let the credentials read, write"),
        ("S3Exception", "Reduce your rate (Service: S3, Status Code: 503, Request ID: 1)", "wait until it answers"),
        (
            "SdkClientException",
            "Unable to load credentials from any of the providers",
            "Set credentials in object_store",
        ),
        ("NotAuthorizedException", ROW_CANARY, "Check `token` or `credential` in catalog.properties"),
        ("ForbiddenException", ROW_CANARY, "Let the catalog's user make namespaces and tables"),
    ],
)
def test_what_a_catalog_or_a_store_refuses_to_java_says_what_to_do(name: str, message: str, advice: str):
    kind = SimpleNamespace(getName=lambda: f"org.example.{name}", getSimpleName=lambda: name)
    thrown = SimpleNamespace(
        getMessage=lambda: message, getCause=lambda: None, getClass=lambda: kind, getStackTrace=list
    )
    error = type("Py4JJavaError", (Exception,), {"__module__": "py4j.protocol"})()
    error.java_exception = thrown

    fault = redacted_error(error)

    assert isinstance(fault, LakeError)
    assert advice in fault.advice
    assert "run again" in fault.advice
    assert_discreet(str(fault))


def test_an_error_of_a_java_that_has_ended_stays_one_of_spark():
    def gone() -> None:
        raise ConnectionRefusedError

    error = type("Py4JJavaError", (Exception,), {"__module__": "py4j.protocol"})()
    error.java_exception = SimpleNamespace(getClass=gone, getMessage=gone, getCause=gone, getStackTrace=gone)

    assert "found Py4JJavaError" in str(redacted_error(error))
    assert frames_of(error).startswith("py4j.protocol.Py4JJavaError")


@pytest.mark.parametrize(("first", "is_one"), [(KeyboardInterrupt, True), (GeneratorExit, False), (OSError, False)])
def test_a_fault_caused_by_an_interruption_is_recognised(first: type[BaseException], is_one: bool):
    def fault() -> None:
        try:
            try:
                raise first
            finally:
                raise ValueError
        except ValueError as error:
            raise RuntimeError from error

    assert isinstance(interrupted_by(caught(fault)), first) is is_one
