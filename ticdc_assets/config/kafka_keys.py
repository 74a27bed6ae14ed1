"""The keys of `source.kafka`, and what each of them takes."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, PlainValidator, ValidationInfo, WithJsonSchema

from ticdc_assets.config.reading import nearest, shown
from ticdc_assets.config.secrets import Settings
from ticdc_assets.config.source_model import LANDED_BYTES_MAX, LANDED_MESSAGES_MAX, RUN_AFTER_S, KafkaStart
from ticdc_assets.config.validation import Context, Keys, Refusal, refuse_any, refused
from ticdc_assets.config.values import VARIABLE, FilledPath, FilledText, FreeSettings, Text, Texts, only

OFFSET_MAX: Final = (1 << 63) - 1
DAYS_KEPT_MAX: Final = 36_525
"""A century: a number of days that leads before the year 1 cannot be subtracted from today."""
_NO_COMMIT: Final = "Remove it: no offset is committed to Kafka."
_OWN_OPTIONS: Final = {
    "bootstrap.servers": "Use brokers.",
    "metadata.broker.list": "Use brokers.",
    "enable.auto.commit": _NO_COMMIT,
    "auto.commit.enable": _NO_COMMIT,
    "enable.auto.offset.store": _NO_COMMIT,
    "enable.partition.eof": "Remove it: it is always on.",
    "auto.offset.reset": "Use starting.",
    "allow.auto.create.topics": "Remove it: no topic is created.",
    "group.id": "Remove it: no group is joined.",
}
"""The settings of librdkafka that this project sets itself."""
_PYTHONS_OPTIONS: Final = frozenset({"logger", "default.topic.config"})
"""Settings that Python's client adds to those of librdkafka. The others have an underscore in their name, as have those
of librdkafka that take a function or a pointer."""
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
_BROKER: Final = re.compile(
    r"((PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)://)?([\w.-]+|\[[0-9A-Fa-f:.%\w]+\])(:(?P<port>[0-9]{1,5}))?",
    re.IGNORECASE,
)
"""A broker as librdkafka reads it, which takes another port as far as it is a number."""
_PORT_MAX: Final = 65535
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,8}")
SECURITY_FILES: Final = {"ca": "ssl.ca.location", "cert": "ssl.certificate.location", "key": "ssl.key.location"}
"""The settings of librdkafka for the files of `security`."""


def _brokers(texts: tuple[str, ...]) -> tuple[str, ...]:
    brokers = tuple(broker.strip() for text in texts for broker in text.split(","))
    wrong = [broker for broker in brokers if not _is_broker(broker)]
    if wrong or not brokers:
        found = shown(wrong[0]) if wrong else "an empty list"
        raise refused("brokers as host:port", found, "Write brokers: host:9092, or remove the key.")
    return brokers


def _is_broker(text: str) -> bool:
    found = _BROKER.fullmatch(text)
    return found is not None and 0 < int(found["port"] or 9092) <= _PORT_MAX


def _topics(topics: tuple[str, ...]) -> tuple[str, ...]:
    wrong = [topic for topic in topics if not _TOPIC.fullmatch(topic) or topic in (".", "..")]
    if wrong:
        advice = 'Write topics: ["..."], or pattern for a regular expression, or remove the key.'
        raise refused("names of topics: 1 to 249 letters, digits, dots, _ and -", shown(wrong[0]), advice)
    return topics


def _pattern(pattern: str) -> str:
    if not pattern:
        raise refused("a regular expression", "an empty one", "Write one, or remove the key.")
    try:
        re.compile(pattern)
    except re.error:
        raise refused("a regular expression", "one that does not compile", "Check its brackets.") from None
    return pattern


def _count(example: int, most: int = OFFSET_MAX) -> Any:
    """The type of a whole number from 1 to `most`."""

    def count(written: Any, info: ValidationInfo[Context]) -> int:
        if isinstance(written, int) and not isinstance(written, bool) and 0 < written <= most:
            return written
        expected = "a whole number from 1 " + ("on" if most == OFFSET_MAX else f"to {most}")
        raise refused(expected, shown(str(written)), f"Write {info.field_name}: {example}.")

    return PlainValidator(count), WithJsonSchema({"type": "integer", "minimum": 1, "maximum": most})


def _start(written: Any) -> KafkaStart:
    if written in ("earliest", "latest"):
        return KafkaStart(written)
    if isinstance(written, dict) and list(written) == ["timestamp"] and _is_offset(written["timestamp"]):
        return KafkaStart(timestamp_ms=written["timestamp"])
    if isinstance(written, dict) and list(written) == ["offsets"]:
        offsets = written["offsets"]
        if isinstance(offsets, dict) and offsets and all(_are_offsets(of_topic) for of_topic in offsets.values()):
            return KafkaStart(
                offsets={str(topic): {int(p): o for p, o in of_topic.items()} for topic, of_topic in offsets.items()}
            )
    found = shown(written) if isinstance(written, str) else "another form"
    advice = 'Write earliest, latest, {timestamp: 1754000000000} or {offsets: {topic: {"0": 1000}}}.'
    raise refused("earliest, latest, a timestamp in milliseconds or offsets", found, advice)


def _are_offsets(value: Any) -> bool:
    """Whether this is a mapping of at least one partition, each written in one way, to its offset."""
    return isinstance(value, dict) and bool(value) and all(_NUMBER.fullmatch(p) and _is_offset(value[p]) for p in value)


def _is_offset(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= OFFSET_MAX


def _options(options: Settings) -> Settings:
    refusals = []
    for name in options:
        own = _OWN_OPTIONS.get(name.removeprefix("topic."))
        if own is not None:
            refusals.append(Refusal("settings of librdkafka that are free", name, f"This project sets it. {own}"))
        elif "_" in name or name in _PYTHONS_OPTIONS:
            advice = "Remove it: it takes no text."
            refusals.append(Refusal("settings of librdkafka in its own spelling", name, advice))
    refuse_any(*refusals)
    return options


def _word(*known: str) -> Any:
    """The validator and the JSON Schema of one of the words of librdkafka, in upper or lower case."""

    def word(written: str) -> str:
        if written.upper() not in known:
            meant = nearest(written, known)
            advice = f"Did you mean {meant}?" if meant else f"Write one of {', '.join(known)}."
            raise refused(f"one of {', '.join(known)}", shown(written), advice)
        return written

    any_case = "".join(f"[{c}{c.lower()}]" if c.isalpha() else c for c in "|".join(known))
    forms = [{"enum": list(known)}, {"type": "string", "pattern": f"^({any_case})$"}, VARIABLE]
    return AfterValidator(word), WithJsonSchema({"anyOf": forms})


_OFFSET: Final = {"type": "integer", "minimum": 0, "maximum": OFFSET_MAX}
_OFFSETS: Final = {"type": "object", "additionalProperties": _OFFSET, "propertyNames": {"pattern": "^(0|[1-9][0-9]*)$"}}
_STARTS: Final[dict[str, dict[str, Any]]] = {
    "timestamp": _OFFSET,
    "offsets": {"type": "object", "additionalProperties": _OFFSETS},
}
_START: Final = {"anyOf": [{"enum": ["earliest", "latest"]}, *(only(name, form) for name, form in _STARTS.items())]}


class SecurityKeys(Keys):
    """The login of Kafka. Omitted keys are those of the sink URI and of `options`."""

    protocol: Annotated[Text, *_word(*_PROTOCOLS)] | None = Field(
        default=None, description="how the brokers are spoken to"
    )
    mechanism: Annotated[Text, *_word(*_MECHANISMS)] | None = Field(default=None, description="the mechanism of SASL")
    username: FilledText | None = Field(default=None, description="the user of SASL")
    password: FilledText | None = Field(default=None, description="the password of SASL")
    ca: FilledPath | None = Field(default=None, description="the PEM file that verifies the brokers")
    cert: FilledPath | None = Field(default=None, description="the PEM file of the client's certificate")
    key: FilledPath | None = Field(default=None, description="the PEM file of its key")


class KafkaKeys(Keys):
    """Topics of a cluster. Omitted keys are taken from a `kafka://` sink URI and its dispatch rules."""

    brokers: Annotated[Texts, AfterValidator(_brokers)] = Field(
        default=(), description="the brokers, as a list or with commas between them", examples=["host:9092,other:9092"]
    )
    topics: Annotated[Texts, AfterValidator(_topics)] = Field(
        default=(), description="names of topics", examples=[["shop"]]
    )
    pattern: Annotated[Text, AfterValidator(_pattern)] | None = Field(
        default=None,
        description="a regular expression for whole names of topics. It matches none of Kafka's own topics",
        examples=["shop_.*"],
    )
    starting: Annotated[KafkaStart, PlainValidator(_start), WithJsonSchema(_START)] = Field(
        default=KafkaStart(),
        description="where the first read of a topic begins: `earliest` (the default), `latest`, at a time in "
        "milliseconds, or at offsets, where other partitions begin at `earliest`; partitions that are added later are "
        "read from their first message",
        examples=[{"timestamp": 1754000000000}, {"offsets": {"topic": {"0": 1000}}}],
    )
    security: SecurityKeys = Field(
        default_factory=SecurityKeys,
        description="the login: `SASL_SSL`, with `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`, and PEM files",
        examples=[{"protocol": "SASL_SSL", "mechanism": "SCRAM-SHA-512", "username": "u", "password": {"env": "P"}}],
    )
    options: Annotated[FreeSettings, AfterValidator(_options)] = Field(
        default=Settings(), description="other settings of librdkafka under its own names"
    )
    max_messages: Annotated[int, *_count(LANDED_MESSAGES_MAX)] = Field(
        default=LANDED_MESSAGES_MAX, description="the most messages that one run lands; the next run continues"
    )
    max_bytes: Annotated[int, *_count(LANDED_BYTES_MAX)] = Field(
        default=LANDED_BYTES_MAX,
        description="the most bytes of keys and values that one run lands (a task may exceed its share by 4 MiB)",
    )
    run_after_s: Annotated[int, *_count(RUN_AFTER_S)] = Field(
        default=RUN_AFTER_S,
        description="the [sensor](dagster.md#sensors-and-schedules) requests a run when the smallest watermark of the "
        "partitions has advanced by this many seconds, or a message has waited that long",
    )
    days_kept: Annotated[int | None, *_count(30, DAYS_KEPT_MAX)] = Field(
        default=None,
        description="how many days decoded messages stay in the table `messages`, at most 36525; default: for ever. "
        "`ticdc-assets maintain` removes them, once all changefeeds that read them have decoded them",
    )
