"""The Kafka cluster, topics and login of a changefeed: from `source.kafka`, else from the sink URI."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ticdc_assets.config.kafka_keys import SECURITY_FILES, KafkaKeys, SecurityKeys
from ticdc_assets.config.reading import Section, nearest, shown
from ticdc_assets.config.secrets import Settings, query_of
from ticdc_assets.config.sink import KAFKA_SCHEMES, SinkOptions, split_uri
from ticdc_assets.config.source_model import KafkaSource, KafkaStart
from ticdc_assets.errors import ConfigError

LOGIN_PARAMETERS: Final = frozenset({"enable-tls", "sasl-user", "sasl-password", "sasl-mechanism"})
"""The parameters of a sink URI that this project logs in with."""


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
