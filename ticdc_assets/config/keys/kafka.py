"""The Kafka cluster, topics and login of a changefeed: from `source.kafka`, else from the sink URI."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, PlainValidator, ValidationInfo, WithJsonSchema

from ticdc_assets.config.model.sink import KAFKA_SCHEMES, SinkOptions, split_uri
from ticdc_assets.config.model.source import LANDED_BYTES_MAX, LANDED_MESSAGES_MAX, RUN_AFTER_S, KafkaSource, KafkaStart
from ticdc_assets.config.reading.secrets import Settings, query_of
from ticdc_assets.config.reading.sections import Section, nearest, shown
from ticdc_assets.config.reading.validation import Context, Keys, Refusal, refuse_any, refused
from ticdc_assets.config.reading.values import VARIABLE, FilledPath, FilledText, FreeSettings, Text, Texts, only
from ticdc_assets.errors import ConfigError

LOGIN_PARAMETERS: Final = frozenset({"enable-tls", "sasl-user", "sasl-password", "sasl-mechanism"})
"""The parameters of a sink URI that this project logs in with."""
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


def _topic_names(topics: tuple[str, ...]) -> tuple[str, ...]:
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
    topics: Annotated[Texts, AfterValidator(_topic_names)] = Field(
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


def kafka_of_sink_uri(uri: str, sink: SinkOptions, config: Mapping[str, Any]) -> KafkaSource:
    """The cluster and topics in a `kafka://` sink URI and its dispatch rules.

    Raises:
        ConfigError: the URI names no broker or no topic.
    """
    _, brokers, path = split_uri(uri, "")
    topic = path.strip("/")
    if not brokers or not topic:
        advice = "Write kafka://host:9092/topic, or add source.kafka."
        raise ConfigError("", "brokers and a topic", "no topic" if brokers else "no brokers", advice)
    topics, pattern = _topics(topic, sink.dispatch.topics)
    return KafkaSource(tuple(brokers.split(",")), topics, pattern, _login_of_ticdc(uri, sink, config))


def kafka_of(keys: KafkaKeys, section: Section, uri: str, sink: SinkOptions, config: Mapping[str, Any]) -> KafkaSource:
    """The source of `source.kafka`, the keys of `section`; brokers, topics and login default to the sink URI's."""
    named = _named_or_none(uri, sink, config)
    if "brokers" not in section and named is None:
        section.problem("brokers", "brokers", "none", "Write brokers: host:9092.")
    if "topics" not in section and "pattern" not in section and named is None:
        section.problem("topics", "topics or pattern", "none", 'Write topics: ["..."].')
    if not keys.topics and keys.pattern is None and section.values.get("topics") == []:
        advice = 'Write topics: ["..."], or pattern for a regular expression, or remove the key.'
        section.problem("topics", "names of topics", "an empty list", advice)
    topics, pattern = keys.topics, keys.pattern
    if not (topics or pattern) and named is not None:
        topics, pattern = named.topics, named.pattern
    _check_started_topics(section, keys.starting, topics, pattern)
    inherited = named.options if named else Settings()
    return KafkaSource(
        keys.brokers or (named.brokers if named else ()),
        topics,
        pattern,
        inherited | _security(keys.security, section.below("security"), inherited | keys.options) | keys.options,
        keys.starting,
        keys.max_messages,
        keys.max_bytes,
        keys.days_kept,
        keys.run_after_s,
    )


def kafka_config_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The section `sink.kafka-config` of a changefeed's configuration, with kebab-case keys."""
    sink = config.get("sink")
    below_sink = sink if isinstance(sink, Mapping) else {}
    kafka = below_sink.get("kafka-config", below_sink.get("kafka_config"))
    return {str(k).replace("_", "-"): v for k, v in kafka.items()} if isinstance(kafka, Mapping) else {}


# ---- topics ----------------------------------------------------------------------------------------------------------


def _topics(default: str, ruled: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    """The default topic, and a pattern for topics of dispatch rules, which TiCDC creates with their first message."""
    patterns = dict.fromkeys(_topic_pattern(expression) for expression in ruled if expression != default)
    return (default,), "|".join(patterns) or None


def _topic_pattern(expression: str) -> str:
    # TiCDC replaces each character that a topic name cannot have with _.
    return re.sub(r"\\\{(schema|table)\\\}", "[A-Za-z0-9._-]+", re.escape(expression))


def _named_or_none(uri: str, sink: SinkOptions, config: Mapping[str, Any]) -> KafkaSource | None:
    try:
        return kafka_of_sink_uri(uri, sink, config) if sink.scheme in KAFKA_SCHEMES else None
    except ConfigError:
        return None  # then source.kafka must name brokers and topics


def _check_started_topics(section: Section, start: KafkaStart, topics: Sequence[str], pattern: str | None) -> None:
    """Refuse first offsets of topics that are not read."""
    for topic in start.offsets:
        if topic not in topics and not (pattern and re.fullmatch(pattern, topic)):
            meant = nearest(topic, topics)
            advice = f"Did you mean {meant}?" if meant else "Name the topic in topics, or remove its offsets."
            section.problem("starting", "offsets of topics that are read", shown(topic), advice)


# ---- login -----------------------------------------------------------------------------------------------------------


def _security(keys: SecurityKeys, section: Section, others: Settings) -> Settings:
    """The login of `security`; `others` are the settings of the sink URI and of `options`."""
    login = _login(keys.protocol, keys.mechanism, keys.username, keys.password)
    if len(section) and not section.is_faulty:
        _check_login(section, others | login)
    files = {setting: getattr(keys, name) for name, setting in SECURITY_FILES.items()}
    return login | Settings({setting: str(path) for setting, path in files.items() if path is not None})


def _mechanism_in(login: Settings) -> str:
    return login.get("sasl.mechanism") or login.get("sasl.mechanisms") or ""  # librdkafka has both names


def _check_login(section: Section, login: Settings) -> None:
    """Refuse a login that is not complete, which librdkafka refuses without its name, or does not use."""
    protocol, mechanism = (login.get("security.protocol") or "PLAINTEXT").upper(), _mechanism_in(login)
    is_free = "protocol" in section or "security.protocol" not in login  # else it is written elsewhere
    file = next((name for name in SECURITY_FILES if name in section), None)
    if file and not protocol.endswith("SSL"):
        advice = f"Write protocol: {'SASL_SSL' if protocol.startswith('SASL_') else 'SSL'}, or remove {file}."
        section.problem("protocol" if is_free else file, f"one with SSL, for {file}", protocol, advice)
    if not protocol.startswith("SASL_"):
        unused = next((name for name in ("username", "password", "mechanism") if name in section), None)
        if unused:
            advice = f"Write protocol: SASL_{protocol}, or remove {unused}."
            section.problem("protocol" if is_free else unused, f"one with SASL, for a {unused}", protocol, advice)
        return
    if not (mechanism or "mechanism" in section):
        advice = "Add the mechanism of the brokers, such as SCRAM-SHA-512, with username and password."
        section.problem("mechanism", f"a mechanism for {protocol}", "none", advice)
    for key in ("username", "password") if mechanism.startswith(("PLAIN", "SCRAM")) else ():
        if key not in section and not login.get(f"sasl.{key}"):
            section.problem(key, f"a {key} for {mechanism}", "none", f"Add {key}.")


def _login_of_ticdc(uri: str, sink: SinkOptions, config: Mapping[str, Any]) -> Settings:
    """TiCDC's own login. Its files (ca, cert, key) are on TiCDC's machines and are not used here."""
    query = query_of(uri)
    kafka = kafka_config_of(config)

    def setting(name: str) -> str | None:
        value = query.get(name, kafka.get(name))
        return None if value is None or value == "" else str(value)

    tls = (setting("enable-tls") or "").lower() in {"true", "1"} or sink.scheme == "kafka+ssl"
    user, password = setting("sasl-user"), setting("sasl-password")
    protocol = f"{'SASL_' if user else ''}{'SSL' if tls else 'PLAINTEXT'}" if user or tls else None
    return _login(protocol, setting("sasl-mechanism"), user, password)


def _login(protocol: str | None, mechanism: str | None, user: str | None, password: str | None) -> Settings:
    """The login under librdkafka's names."""
    values: dict[str, str] = {}
    if user is not None:
        mechanism = mechanism or "PLAIN"
        values |= {"sasl.username": user, "sasl.password": password or ""}
        protocol = protocol or "SASL_PLAINTEXT"
    if mechanism is not None:
        values["sasl.mechanism"] = mechanism.upper()
    if protocol is not None:
        values["security.protocol"] = protocol.upper()
    return Settings(values)
