"""An invalid config reports all of its faults at once, each with its position and advice, and quotes no secret."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ticdc_assets.config import load
from ticdc_assets.errors import ConfigError
from ticdc_assets_tests.config.config_file import loaded, refused, with_feed
from ticdc_assets_tests.config.reference import marked


def test_all_faults_are_reported_at_once_with_their_lines(tmp_path):
    error = refused(
        tmp_path,
        """
catalog:
  tpye: sql
changefeeds:
  shop:
    sink_uri: "s3://b/p?protocol=canal-jsn"
    zero_date: error
    on_drop: keeep
    time_zone: Mars/Olympus
    format_version: 4
    target: {mirorr: "x"}
""",
    )

    text = str(error)
    for place, advice in [
        ("catalog.tpye (line 3)", "Did you mean type?"),
        ("changefeeds.shop.sink_uri (line 6)", "Did you mean canal-json?"),
        ("changefeeds.shop.zero_date (line 7)", "Did you mean zero_dates?"),
        ("changefeeds.shop.on_drop (line 8)", "Did you mean keep?"),
        ("changefeeds.shop.time_zone (line 9)", "Asia/Shanghai"),
        ("changefeeds.shop.format_version (line 10)", "Write 3"),
        ("changefeeds.shop.target.mirorr (line 11)", "Did you mean mirror?"),
    ]:
        line = next(line for line in text.splitlines() if place in line)
        assert advice in line
    assert "7 faults" in text


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("catalogue", "catalog"),
        ("changefeed", "changefeeds"),
        ("catalog.warehose", "warehouse"),
        ("spark.mastr", "master"),
        ("changefeeds.shop.sink_url", "sink_uri"),
        ("changefeeds.shop.config-file", "config_file"),
        ("changefeeds.shop.timezone", "time_zone"),
        ("changefeeds.shop.source.storge", "storage"),
        ("changefeeds.shop.schema_registry.fle", "file"),
        ("changefeeds.shop.upstream.hst", "host"),
        ("changefeeds.shop.target.contrl", "control"),
    ],
)
def test_a_typo_names_the_nearest_key(tmp_path, path, meant):
    values = with_feed()
    place: Any = values
    *above, last = path.split(".")
    for name in above:
        place = place.setdefault(name, {})
    place[last] = "x"

    error = refused(tmp_path, values)

    assert f"Did you mean {meant}?" in str(error)
    assert path in str(error)


@pytest.mark.parametrize("key", ["alerts", "labels", "enabled", "owner", "start"])
def test_another_word_suggests_no_key_and_lists_all(tmp_path, key):
    error = refused(tmp_path, json.dumps(with_feed(**{key: "x"})))

    assert "Did you mean" not in str(error)
    assert str(error).count(" source,") == 1


@pytest.mark.parametrize(
    ("key", "meant"),
    [("sink", "sink_uri"), ("skip", "skip_files"), ("keys_", "keys")],
)
def test_a_part_of_a_key_names_it(tmp_path, key, meant):
    assert f"Did you mean {meant}?" in str(refused(tmp_path, json.dumps(with_feed(**{key: "x"}))))


@pytest.mark.parametrize(
    "text", ["changefeeds:\n\tshop: {}\n", "changefeeds:\n  shop:\n    sink_uri:\t'x'\n    a: 1\n\tb: 1\n"]
)
def test_a_tab_is_named(tmp_path, text):
    error = str(refused(tmp_path, text))

    assert "found a tab. Replace it by spaces" in error


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("changefeeds: [", "line"),
        ("tables: *.*", "Quote texts that start with"),
        ("- a", "list"),
        ("a: 1\na: 2", "a twice"),
        ("1: a", "number"),
        ("a: !!python/object:os.system {}", "line 1"),
        ("a: \0", "YAML"),
        ("", "at least one changefeed"),
        ("changefeeds: {}", "at least one changefeed"),
        ("changefeeds: {shop: }", "sink_uri"),
        ("changefeeds: {my-feed: {sink_uri: 's3://b/p?protocol=csv'}}", "Call it my_feed."),
        ("changefeeds: {9a: {sink_uri: 's3://b/p?protocol=csv'}}", "found a digit first. Call it changefeed_9a."),
        ("catalog: {name: 9a}", "letters, _ and, after the first, digits"),
        ("changefeeds: {shop: 3}", "a mapping"),
    ],
)
def test_what_is_no_config_is_refused_with_its_place(tmp_path, text, found):
    assert found in str(refused(tmp_path, text))


def test_yaml_faults_do_not_quote_the_line(tmp_path):
    error = refused(tmp_path, 'changefeeds:\n  shop:\n    sink_uri: "kafka://u:hunter2@h/t\n    x: [hunter2\n')

    assert "hunter2" not in str(error)
    assert "line" in str(error)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('changefeeds: "shop', "found unexpected end of stream. "),
        ("changefeeds: [a, b", "found the end of the file in place of ',' or ']'. "),
        ("views: {schema}__recorded.{table}", "found a text in place of the end of the block. "),
        ("changefeeds:\n  a: 1\n b: 2", "found an indented key in place of the end of the block. "),
        ("changefeeds: {}\n--- {}\n", "found another document. "),
        ("changefeeds: a: b", "found mapping values are not allowed here. "),
    ],
)
def test_yaml_faults_say_once_what_was_found(tmp_path, text, found):
    assert f"expected a YAML mapping with each key once, {found}" in str(refused(tmp_path, text))


@pytest.mark.parametrize("day", ["2025-13-01", "2025-02-30", "2025-01-01T99:00:00"])
def test_a_day_that_no_calendar_has_is_a_fault_of_its_key(tmp_path, day):
    text = 'changefeeds:\n  shop:\n    sink_uri: "s3://b/p?protocol=canal-json&enable-tidb-extension=true"\n'

    error = refused(tmp_path, f"{text}    dagster: {{days_from: {day}}}\n")

    assert "days_from (line 4): expected a day, found" in str(error)


def test_a_scalar_that_yaml_cannot_read_is_refused_with_its_line(tmp_path):
    assert "line 2: expected values that YAML can read, found no valid int" in str(refused(tmp_path, "a: b\nc: 0b_"))


def test_a_missing_variable_is_named(tmp_path):
    error = refused(tmp_path, with_feed(sink_uri={"env": "SINK"}))

    assert "environment variable SINK" in str(error)
    assert "sink_uri" in error.where
    assert "faults" not in str(error)


@pytest.mark.parametrize(
    ("blocks", "place"),
    [
        ({"catalog": {"uri": {"env": "UNSET"}}}, "catalog.uri"),
        ({"catalog": {"warehouse": {"env": "UNSET"}}}, "catalog.warehouse"),
        (
            {"catalog": {"type": "rest", "uri": "http://c", "properties": {"token": {"env": "UNSET"}}}},
            "properties.token",
        ),
        ({"object_store": {"access_key": {"env": "UNSET"}, "secret_key": "s"}}, "object_store.access_key"),
    ],
)
def test_an_empty_variable_is_not_taken_for_a_key_that_is_absent(tmp_path, blocks, place):
    error = str(refused(tmp_path, {**blocks, **with_feed()}, UNSET=""))

    assert place in error
    assert "expected a value in the environment variable UNSET, found an empty one. Set UNSET, or remove it." in error


def test_a_password_may_be_empty(tmp_path):
    login = {"url": "http://r", "auth": {"user": "u", "password": {"env": "UNSET"}}}
    config = loaded(tmp_path, with_feed(schema_registry=login), UNSET="")

    registry = config.changefeed("shop").schemas.registry
    assert registry is not None
    assert registry.auth is not None


@pytest.mark.parametrize("value", [{"env": "A", "default": "x"}, {"env": 3}, {"evn": "A"}, 3, ["a"]])
def test_what_is_no_text_and_no_variable_is_refused(tmp_path, value):
    assert "env: NAME" in str(refused(tmp_path, with_feed(time_zone=value), A="UTC"))


FULL: dict[str, Any] = {
    "catalog": {"name": "lake", "type": "sql", "uri": "sqlite:///c.db", "warehouse": "w", "properties": {"a": "b"}},
    "spark": {"master": "local[2]", "conf": {"spark.a": "b"}},
    "changefeeds": {
        "shop": {
            "sink_uri": "kafka://h:9092/t?protocol=avro&enable-tidb-extension=true",
            "config": {
                "case-sensitive": True,
                "sink": {
                    "dispatchers": [{"matcher": ["a.*"], "topic": "x_{table}", "partition": "index-value"}],
                    "csv": {"delimiter": ",", "quote": "'"},
                    "kafka-config": {
                        "sasl-user": "u",
                        "codec-config": {"encoding-format": "json"},
                        "large-message-handle": {"claim-check-storage-uri": "s3://b/c"},
                    },
                },
                "integrity": {"integrity-check-level": "correctness"},
            },
            "source": {
                "kafka": {"brokers": ["h:1"], "security": {"username": "u", "password": "p"}, "options": {"a": "b"}}
            },
            "schema_registry": {"url": "https://r", "auth": {"user": "u", "password": "p"}},
            "claim_check": "s3://b/c",
            "keys": {"a.b": ["c"]},
            "partition": {"a.b": ["bucket(16)"]},
            "target": {"mirror": "{schema}.{table}", "control": "ticdc_{changefeed}"},
        }
    },
}


def places(value: Any) -> list[list[Any]]:
    """Every path into nested mappings and lists."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [[key, *rest] for key, below in items for rest in ([], *places(below))]


MUTANTS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.dates(),
    st.binary(max_size=3),
    st.text(max_size=12),
    st.sampled_from(["*", "{", "s3://", "kafka://h", "http://[", "a(b", "bucket(9999999999999999999)", "../x"]),
    st.just([]),
    st.just({}),
    st.just({"env": "X"}),
    st.lists(st.one_of(st.none(), st.integers(), st.text(max_size=3)), max_size=3),
    st.dictionaries(st.text(max_size=5), st.one_of(st.none(), st.text(max_size=3)), max_size=2),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(places(FULL)), MUTANTS), min_size=1, max_size=3))
def test_any_value_at_any_place_loads_and_editors_take_it_or_is_a_config_error(tmp_path_factory, mutations):
    values = json.loads(json.dumps(FULL))
    for place, mutant in mutations:
        above: Any = values
        for step in place[:-1]:
            known = above if isinstance(above, dict) else range(len(above)) if isinstance(above, list) else ()
            above = above[step] if step in known else None
        if isinstance(above, dict) or (isinstance(above, list) and len(above) > 0 and place[-1] == 0):
            above[place[-1]] = mutant
    path = tmp_path_factory.mktemp("c") / "c.yaml"
    path.write_text(yaml.safe_dump(values, allow_unicode=True), encoding="utf-8")

    try:
        load(path, {})
    except ConfigError as error:
        assert error.advice
    else:
        assert marked(values) == []


def test_the_full_config_that_is_mutated_is_right(tmp_path):
    assert loaded(tmp_path, FULL).changefeed("shop").warnings == ()
