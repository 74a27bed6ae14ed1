"""The JSON Schema and the page on the config agree with the models, and editors take what the loader takes."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from jsonschema import Draft7Validator

from ticdc_assets.cli import main
from ticdc_assets.config import PACKAGED_SAMPLE, SCHEMA, editor_line
from ticdc_assets.config.reading.sections import parse_yaml
from ticdc_assets_tests.config.config_file import MINIMAL, whole, with_feed, written
from ticdc_assets_tests.config.reference import PAGE, marked, page, schema
from ticdc_assets_tests.documentation.pages import REPOSITORY, pages

FILES = [PACKAGED_SAMPLE / "changefeeds.yaml", REPOSITORY / "docs" / "example" / "changefeeds.yaml"]
BLOCKS = [block for found in pages() for block in found.blocks("yaml")]
VARIABLE = {"env": "X"}


def test_the_schema_in_the_wheel_is_that_of_the_models():
    """Write it again with `python -m ticdc_assets_tests.config.reference`."""
    assert SCHEMA.read_text(encoding="utf-8") == schema()
    Draft7Validator.check_schema(json.loads(schema()))


def test_the_page_has_the_keys_of_the_models():
    """Write it again with `python -m ticdc_assets_tests.config.reference`."""
    assert PAGE.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize(
    "text",
    [*(path.read_text(encoding="utf-8") for path in FILES), *map(whole, BLOCKS)],
    ids=lambda text: " ".join(text.split())[:40],
)
def test_the_sample_and_every_config_of_the_pages_is_taken(text):
    assert marked(parse_yaml(text)) == []


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"catalogue": {}, **with_feed()}, ""),
        ({"catalog": {"tpye": "sql"}, **with_feed()}, "catalog"),
        ({"catalog": {"type": "slq"}, **with_feed()}, "catalog.type"),
        (with_feed(zero_date="error"), "changefeeds.shop"),
        (with_feed(on_drop="keeep"), "changefeeds.shop.on_drop"),
        (with_feed(format_version="3"), "changefeeds.shop.format_version"),
        (with_feed(source={"kafka": {"topic": "t"}}), "changefeeds.shop.source.kafka"),
        (
            with_feed(source={"kafka": {"security": {"protocol": "SASL_SLL"}}}),
            "changefeeds.shop.source.kafka.security.protocol",
        ),
        (with_feed(dagster={"sensor": "yes"}), "changefeeds.shop.dagster.sensor"),
        ({"changefeeds": {"shop": {}}}, "changefeeds.shop"),
        ({"changefeeds": {"my-feed": {"sink_uri": "s3://b/p?protocol=csv"}}}, "changefeeds"),
        ({"catalog": {}}, ""),
    ],
)
def test_what_the_loader_refuses_by_its_form_is_marked(values, place):
    assert marked(values) == [place]


@pytest.mark.parametrize(
    "keys",
    [
        {"time_zone": VARIABLE, "config_file": VARIABLE, "claim_check": VARIABLE, "ddl_from": VARIABLE},
        {"sink_uri": VARIABLE, "views": VARIABLE, "target": {"mirror": VARIABLE}},
        {"upstream": {"host": VARIABLE, "port": VARIABLE, "user": VARIABLE, "password": VARIABLE, "tls": True}},
        {"source": {"kafka": {"security": {"protocol": VARIABLE, "mechanism": "scram-sha-256", "ca": VARIABLE}}}},
        {"source": {"kafka": {"options": {"a": VARIABLE, "b": 3, "c": True}, "topics": "t", "brokers": ["h"]}}},
        {"source": {"storage": VARIABLE, "options": {"secret-access-key": VARIABLE}}},
        {"schema_registry": {"url": VARIABLE, "auth": VARIABLE}},
        {"schema_registry": {"auth": {"user": "u", "password": VARIABLE}}},
        {"zero_dates": None, "ddl_from": None, "schema_files": [], "keys": None, "dagster": None},
        {"config": {"sink": {"kafka-config": {"sasl-password": VARIABLE}}}},
    ],
)
def test_variables_and_empty_keys_are_taken_where_the_loader_takes_them(keys):
    assert marked(with_feed(**keys)) == []


# ---- the command, and the line for editors


def test_the_command_prints_the_schema_or_checks_a_config(tmp_path, capsys):
    path = written(tmp_path, MINIMAL)

    assert main(["config", "--schema"]) == 0
    assert capsys.readouterr().out == SCHEMA.read_text(encoding="utf-8")
    assert main(["config", "--config", str(path)]) == 0
    assert capsys.readouterr().out.endswith(f"{path} has no faults.\n")
    assert main(["config", "--config", str(written(tmp_path, MINIMAL.replace("sink_uri", "sink_url")))]) == 2
    assert "Did you mean sink_uri?" in capsys.readouterr().err


def test_the_first_line_of_a_config_leads_an_editor_to_the_schema(tmp_path):
    named = editor_line(tmp_path).strip().removeprefix("# yaml-language-server: $schema=")
    assert Path(unquote(urlsplit(named).path)) == SCHEMA
    assert editor_line(SCHEMA.parents[1]).endswith("$schema=config/changefeeds.schema.json\n")
