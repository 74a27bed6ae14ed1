"""The Kafka cluster, topics and login of a changefeed: from `source.kafka`, else from the sink URI."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ticdc_assets.config.files import absolute_path
from ticdc_assets.config.reading import Section, nearest, shown
from ticdc_assets.config.secrets import Settings, query_of
from ticdc_assets.config.sink import KAFKA_SCHEMES, SinkOptions, split_uri
from ticdc_assets.config.source_model import LANDED_BYTES_MAX, LANDED_MESSAGES_MAX, RUN_AFTER_S, KafkaSource, KafkaStart
from ticdc_assets.errors import ConfigError

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
_WORDS: Final = {
    "protocol": ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "mechanism": ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"),
}
_BROKER: Final = re.compile(
    r"((PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)://)?([\w.-]+|\[[0-9A-Fa-f:.%\w]+\])(:(?P<port>[0-9]{1,5}))?",
    re.IGNORECASE,
)
"""A broker as librdkafka reads it, which takes another port as far as it is a number."""
_PORT_MAX: Final = 65535
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,8}")
LOGIN_PARAMETERS: Final = frozenset({"enable-tls", "sasl-user", "sasl-password", "sasl-mechanism"})
"""The parameters of a sink URI that this project logs in with."""
_SECURITY_FILES: Final = {"ca": "ssl.ca.location", "cert": "ssl.certificate.location", "key": "ssl.key.location"}


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


def read_kafka(section: Section, uri: str, sink: SinkOptions, config: Mapping[str, Any], base: Path) -> KafkaSource:
    """The source in `source.kafka`; brokers, topics and login default to those of the sink URI."""
    named = _named_or_none(uri, sink, config)
    brokers, topics, pattern = _brokers(section), _named_topics(section), _pattern(section)
    options = _options(section)
    inherited = named.options if named else Settings()
    security = _security(section.section("security"), base, inherited | options)
    start = _start(section)
    messages_max = _count(section, "max_messages", LANDED_MESSAGES_MAX)
    bytes_max = _count(section, "max_bytes", LANDED_BYTES_MAX)
    days_kept = _count(section, "days_kept", 30, DAYS_KEPT_MAX)
    run_after_s = _count(section, "run_after_s", RUN_AFTER_S)
    section.close()
    if "brokers" not in section and named is None:
        section.problem("brokers", "brokers", "none", "Write brokers: host:9092.")
    if "topics" not in section and "pattern" not in section and named is None:
        section.problem("topics", "topics or pattern", "none", 'Write topics: ["..."].')
    if not (topics or pattern) and named is not None:
        topics, pattern = named.topics, named.pattern
    _check_started_topics(section, start, topics, pattern)
    return KafkaSource(
        brokers or (named.brokers if named else ()),
        topics,
        pattern,
        inherited | security | options,
        start,
        messages_max or LANDED_MESSAGES_MAX,
        bytes_max or LANDED_BYTES_MAX,
        days_kept,
        run_after_s or RUN_AFTER_S,
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


def _brokers(section: Section) -> tuple[str, ...]:
    """The brokers in `brokers`; none if it is unset or invalid."""
    texts = section.texts("brokers")
    brokers = tuple(broker.strip() for text in texts for broker in text.split(","))
    wrong = [broker for broker in brokers if not _is_broker(broker)]
    if wrong or (section.raw("brokers") == []):
        found = shown(wrong[0]) if wrong else "an empty list"
        section.problem("brokers", "brokers as host:port", found, "Write brokers: host:9092, or remove the key.")
        return ()
    return brokers


def _is_broker(text: str) -> bool:
    found = _BROKER.fullmatch(text)
    return found is not None and 0 < int(found["port"] or 9092) <= _PORT_MAX


def _named_topics(section: Section) -> tuple[str, ...]:
    """The topics in `topics`; none if it is unset or invalid, or empty beside a `pattern`."""
    topics = section.texts("topics")
    wrong = [topic for topic in topics if not _TOPIC.fullmatch(topic) or topic in (".", "..")]
    if wrong or (section.raw("topics") == [] and "pattern" not in section):
        found = shown(wrong[0]) if wrong else "an empty list"
        advice = 'Write topics: ["..."], or pattern for a regular expression, or remove the key.'
        section.problem("topics", "names of topics: 1 to 249 letters, digits, dots, _ and -", found, advice)
        return ()
    return topics


def _pattern(section: Section) -> str | None:
    """The regular expression in `pattern`; None if it is unset or invalid."""
    pattern = section.text("pattern")
    if pattern is None:
        return None
    if not pattern:
        section.problem("pattern", "a regular expression", "an empty one", "Write one, or remove the key.")
        return None
    try:
        re.compile(pattern)
    except re.error:
        section.problem("pattern", "a regular expression", "one that does not compile", "Check its brackets.")
        return None
    return pattern


def _count(section: Section, name: str, example: int, most: int = OFFSET_MAX) -> int | None:
    """A whole number from 1 to `most`; None if it is unset or invalid."""
    written = section.raw(name)
    if isinstance(written, int) and not isinstance(written, bool) and 0 < written <= most:
        return written
    if written is not None:
        expected = "a whole number from 1 " + ("on" if most == OFFSET_MAX else f"to {most}")
        section.problem(name, expected, shown(str(written)), f"Write {name}: {example}.")
    return None


# ---- where reading begins --------------------------------------------------------------------------------------------


def _start(section: Section) -> KafkaStart:
    written = section.raw("starting")
    if written is None or written in ("earliest", "latest"):
        return KafkaStart(written or "earliest")
    advice = 'Write earliest, latest, {timestamp: 1754000000000} or {offsets: {topic: {"0": 1000}}}.'
    if isinstance(written, dict) and list(written) == ["timestamp"] and _is_offset(written["timestamp"]):
        return KafkaStart(timestamp_ms=written["timestamp"])
    if isinstance(written, dict) and list(written) == ["offsets"]:
        offsets = written["offsets"]
        if isinstance(offsets, dict) and offsets and all(_are_offsets(of_topic) for of_topic in offsets.values()):
            return KafkaStart(
                offsets={str(topic): {int(p): o for p, o in of_topic.items()} for topic, of_topic in offsets.items()}
            )
    found = shown(written) if isinstance(written, str) else "another form"
    section.problem("starting", "earliest, latest, a timestamp in milliseconds or offsets", found, advice)
    return KafkaStart()


def _are_offsets(value: Any) -> bool:
    """Whether this is a mapping of at least one partition, each written in one way, to its offset."""
    return isinstance(value, dict) and bool(value) and all(_NUMBER.fullmatch(p) and _is_offset(value[p]) for p in value)


def _check_started_topics(section: Section, start: KafkaStart, topics: Sequence[str], pattern: str | None) -> None:
    """Refuse first offsets of topics that are not read."""
    for topic in start.offsets:
        if topic not in topics and not (pattern and re.fullmatch(pattern, topic)):
            meant = nearest(topic, topics)
            advice = f"Did you mean {meant}?" if meant else "Name the topic in topics, or remove its offsets."
            section.problem("starting", "offsets of topics that are read", shown(topic), advice)


def _is_offset(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= OFFSET_MAX


# ---- login -----------------------------------------------------------------------------------------------------------


def _options(section: Section) -> Settings:
    options = section.settings("options")
    for name in options:
        own = _OWN_OPTIONS.get(name.removeprefix("topic."))
        if own is not None:
            advice = f"This project sets it. {own}"
            section.problem("options", "settings of librdkafka that are free", name, advice)
        elif "_" in name or name in _PYTHONS_OPTIONS:
            advice = "Remove it: it takes no text."
            section.problem("options", "settings of librdkafka in its own spelling", name, advice)
    return options


def _security(section: Section, base: Path, others: Settings) -> Settings:
    """The login of `security`; `others` are the settings of the sink URI and of `options`."""
    faults = len(section.problems.found)
    protocol, mechanism = (_word(section, name, known) for name, known in _WORDS.items())
    user, password = section.text("username"), section.text("password")
    files = {setting: section.text(name) for name, setting in _SECURITY_FILES.items()}
    section.close()
    login = _login(protocol, mechanism, user, password)
    for name in ("username", "password", *_SECURITY_FILES):
        if section.text(name) == "":
            section.problem(name, f"a {name}", "an empty one", "Write it, or remove the key.")
    if len(section) and len(section.problems.found) == faults:
        _check_login(section, others | login)
    return login | Settings({setting: absolute_path(base, path) for setting, path in files.items() if path})


def _word(section: Section, key: str, known: tuple[str, ...]) -> str | None:
    """One of the words that librdkafka knows, in upper or lower case; None if it is unset or invalid."""
    written = section.text(key)
    if written is None or written.upper() in known:
        return written
    meant = nearest(written, known)
    advice = f"Did you mean {meant}?" if meant else f"Write one of {', '.join(known)}."
    section.problem(key, f"one of {', '.join(known)}", shown(written), advice)
    return None


def _mechanism_in(login: Settings) -> str:
    return login.get("sasl.mechanism") or login.get("sasl.mechanisms") or ""  # librdkafka has both names


def _check_login(section: Section, login: Settings) -> None:
    """Refuse a login that is not complete, which librdkafka refuses without its name, or does not use."""
    protocol, mechanism = (login.get("security.protocol") or "PLAINTEXT").upper(), _mechanism_in(login)
    is_free = "protocol" in section or "security.protocol" not in login  # else it is written elsewhere
    file = next((name for name in _SECURITY_FILES if name in section), None)
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
