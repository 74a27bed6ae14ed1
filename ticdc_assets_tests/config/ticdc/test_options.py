"""Every option of TiCDC has a decision and is handled accordingly: each is tried with a value of its own.

`options.toml` has the keys; parameters of a sink URI take the value of the key that they stand for.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ticdc_assets.config import read_sink
from ticdc_assets.config.keys.kafka import kafka_of_sink_uri
from ticdc_assets.config.model.sink import STORAGE_OPTIONS
from ticdc_assets.config.ticdc.options import OPTIONS, PARAMETERS, SECTIONS, Decision, option_at
from ticdc_assets.errors import ConfigError

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "ticdc-options.md"
EXAMPLES = tomllib.loads((Path(__file__).parent / "options.toml").read_text(encoding="utf-8"))
BASES = (
    "kafka://h:9092/t?protocol=open-protocol",
    "kafka://h:9092/t?protocol=simple",
    "kafka://h:9092/t?protocol=canal-json",
    "kafka://h:9092/t?protocol=avro",
    "kafka://h:9092/t?protocol=debezium",
    "pulsar://h:6650/t?protocol=open-protocol",
    "s3://b/p?protocol=csv",
)
WITH: dict[str, dict[str, Any]] = {
    "sink.dispatchers.index": {"partition": "index-value"},
    "sink.dispatchers.columns": {"partition": "columns"},
    "sink.column-selectors.matcher": {"columns": ["id"]},
    "sink.column-selectors.columns": {"matcher": ["*.*"]},
}
"""Other keys that an element's key needs to have a meaning."""

NEEDS = {
    "output-raw-change-event": {"sink": {"open": {"output-old-value": False}}},
    "sasl-password": {"sink": {"kafka-config": {"sasl-user": "ticdc"}}},
}
"""What must be set too for an option to count, by the last part of its name."""


def leaves(config: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    """Path, value, and the configuration that has this key alone."""
    for name, value in config.items():
        path = f"{above}.{name}" if above else name
        if isinstance(value, Mapping) and path not in OPTIONS:
            yield from leaves(value, path)
        elif isinstance(value, list) and value and isinstance(value[0], Mapping) and path not in OPTIONS:
            for key, one in value[0].items():
                inner = f"{path}.{key}"
                yield inner, one, nested(path, [{**WITH.get(inner, {}), key: one}])
        else:
            yield path, value, nested(path, value)


def nested(path: str, value: Any) -> dict[str, Any]:
    for name in reversed(path.split(".")):
        value = {name: value}
    return value


LEAVES = list(leaves(EXAMPLES))


def joined(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    both = {**one, **other}
    for name in one.keys() & other.keys():
        if isinstance(one[name], Mapping):
            both[name] = joined(one[name], other[name])
    return both


def outcome(uri: str, config: Mapping[str, Any]) -> Any:
    """The options of a changefeed after reading, or their refusal."""
    try:
        options, warnings = read_sink(uri, config)
        source = kafka_of_sink_uri(uri, options, config) if uri.startswith("kafka") else None
    except ConfigError as error:
        return error
    return options, warnings, source


def outcomes(path: str, uri_of: Any, config: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """The options of each base without the option and with it."""
    needed_keys = next((needed for name, needed in NEEDS.items() if path.endswith(name)), {})
    return [(outcome(base, needed_keys), outcome(uri_of(base), joined(needed_keys, config))) for base in BASES]


def assert_decided(decision: Decision, name: str, found: list[tuple[Any, Any]]) -> None:
    word = name.rpartition(".")[2]
    refused = [
        after for before, after in found if isinstance(after, ConfigError) and not isinstance(before, ConfigError)
    ]
    read = [(before, after) for before, after in found if not isinstance(after, ConfigError)]
    new_warnings = [text for before, after in read for text in after[1] if text not in before[1]]
    match decision:
        case Decision.HONOURED:
            assert not refused
            assert any(before != after for before, after in read), "nothing comes of it"
        case Decision.SHOWN:
            assert not refused
            assert not new_warnings
        case Decision.LIMIT:
            assert not refused
            section = name.split(".")[-2] if name.count(".") > 1 else word
            assert any(word in text or section in text for text in new_warnings), new_warnings
        case Decision.REFUSED:
            assert refused
            assert all(error.advice and error.where for error in refused)
        case Decision.NO_EFFECT:
            assert not refused
            assert all(before == after for before, after in read)


@pytest.mark.parametrize(("path", "value", "config"), LEAVES, ids=[path for path, _, _ in LEAVES])
def test_every_key_comes_out_as_its_decision_says(path: str, value: Any, config: Mapping[str, Any]):
    option = option_at(path)

    assert option is not None
    assert_decided(option.decision, path, outcomes(path, lambda base: base, config))


EXAMPLE_OF = {path: value for path, value, _ in LEAVES}
TAKEN = sorted(name for name, option in PARAMETERS.items() if option.name in EXAMPLE_OF and name != "protocol")


@pytest.mark.parametrize("name", TAKEN)
def test_every_parameter_comes_out_as_its_decision_says(name: str):
    option = PARAMETERS[name]
    value = EXAMPLE_OF[option.name]
    text = str(value).lower() if isinstance(value, bool) else str(value)

    assert_decided(option.decision, option.name, outcomes(option.name, lambda base: f"{base}&{name}={text}", {}))


def test_parameters_that_no_key_stands_for_are_those_of_stores():
    others = {name: option for name, option in PARAMETERS.items() if option.name not in EXAMPLE_OF}

    assert {name for name, option in others.items() if option.decision is Decision.HONOURED} == STORAGE_OPTIONS
    for name in others:
        assert read_sink(f"s3://b/p?protocol=csv&{name}=x", {})[1] == ()


def test_there_is_an_example_of_every_option_and_an_option_for_every_example():
    walked = {path for path, _, _ in LEAVES}

    assert {path for path in walked if option_at(path) is None} == set()
    assert {name for name in OPTIONS if name not in walked} == set()


def test_what_ticdc_prints_of_a_changefeed_has_no_unknown_key():
    """`cdc cli changefeed query` writes snake_case, and null for what is not set."""

    def printed(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name.replace("-", "_"): printed(below) for name, below in value.items()}
        return [printed(one) for one in value if isinstance(one, Mapping)] if isinstance(value, list) else None

    warnings = read_sink("kafka://h/t?protocol=open-protocol", printed(EXAMPLES))[1]

    assert [text for text in warnings if "known" in text] == []


@pytest.mark.parametrize(
    ("uri", "config", "words"),
    [
        ("kafka://h/t?protocol=open", {"sink": {"new-thing": {"a": 1, "b": 2}}}, "config.sink.new-thing is no key"),
        ("kafka://h/t?protocol=open", {"filter": {"event-filters": [{"ignore-rows": 1}]}}, "event-filters.ignore-rows"),
        ("kafka://h/t?protocol=open&new-thing=1", {}, "sink_uri has 1 parameter"),
    ],
)
def test_a_key_that_is_not_known_gives_a_warning(uri: str, config: dict[str, Any], words: str):
    assert words in " ".join(read_sink(uri, config)[1])


# -- the document ------------------------------------------------------------------------------------------------------

INTRODUCTION = """\
# Options of TiCDC

How each option of a changefeed, in its configuration or its sink URI, is handled. A test gives each of them to the
config reader. An option that is not listed gives a warning, and is read as if it did not change the stream.
"""


def document() -> str:
    lines = [INTRODUCTION]
    for decision in Decision:
        lines += [f"## {decision.capitalize()}", "", "| options | |", "|---|---|"]
        sentences: dict[str, list[str]] = {}
        for option in OPTIONS.values():
            if option.decision is decision:
                sentences.setdefault(option.sentence, []).append(option.name)
        lines += [f"| {_listed(names)} | {text} |" for text, names in sentences.items()]
        lines.append("")
    lines += ["## Parameters of a sink URI", "", "| parameter | is |", "|---|---|"]
    for name, option in sorted(PARAMETERS.items()):
        lines.append(f"| `{name}` | {f'`{option.name}`' if option.name in OPTIONS else option.sentence} |")
    return "\n".join(lines) + "\n"


def _listed(names: list[str]) -> str:
    """The options, each section named once."""
    sections: dict[str, list[str]] = {}
    for name in names:
        section, _, last = name.rpartition(".")
        sections.setdefault(section, []).append(f"`{last}`")
    return "; ".join((f"in `{section}`: " if section else "") + ", ".join(those) for section, those in sections.items())


def test_the_document_shows_the_decisions():
    """Write it again with `python -m ticdc_assets_tests.config.ticdc.test_options`."""
    assert DOCUMENT.read_text(encoding="utf-8") == document()


def test_no_option_is_a_section_of_others():
    assert OPTIONS.keys() & SECTIONS == set()


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
