"""Error sentences for faults that librdkafka reports.

A call such as `list_topics` raises an error without its cause (a wrong password, an unknown authority). The error
callback gets the cause, so the newest causes are kept and added to the sentence.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from ticdc_assets.errors import SourceError, TopicError

_KEPT: Final = 8
_POLLS: Final = 5
_POLL_S: Final = 0.1

_UNAVAILABLE: Final = (
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.KAFKA_STORAGE_ERROR,
)
_ADVICE_BY_CODE: Final = {
    KafkaError._AUTHENTICATION: "Check username, password and mechanism in source.kafka.security.",
    KafkaError.SASL_AUTHENTICATION_FAILED: "Check username, password and mechanism in source.kafka.security.",
    KafkaError._SSL: "Check source.kafka.security: protocol, the authority in ca, and cert and key if brokers ask.",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "Let this user READ and DESCRIBE the topic.",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "Let this user DESCRIBE the cluster.",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "Check source.kafka.topics; the topic may have been removed.",
    KafkaError._UNKNOWN_TOPIC: "Check source.kafka.topics; the topic may have been removed.",
    KafkaError._UNKNOWN_PARTITION: "The topic may have been created again with fewer partitions.",
    **dict.fromkeys(_UNAVAILABLE, "Check that the brokers of the partition run, then try again. Nothing is lost."),
    KafkaError._ALL_BROKERS_DOWN: (
        "Check that the brokers run, and source.kafka.security: a broker that asks for TLS or a login closes other "
        "connections. Nothing is lost."
    ),
    KafkaError._RESOLVE: "Check the names of the brokers in source.kafka.brokers.",
}
_OF_A_TOPIC: Final = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    *_UNAVAILABLE,
)
_LOGIN_CODES: Final = (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL)
_ADVICE_OFFSETS: Final = (
    "The retention of the topic has removed unread messages, or the topic was created again. Start at the "
    "first message that is left, with source.kafka.starting and a new target folder, or start a new changefeed."
)
_ADVICE: Final = "Check source.kafka.brokers and that the brokers can be reached, then try again. Nothing is lost."
_TLS_ALERT: Final = "SSL alert number"
_TLS_REFUSED: Final = re.compile(r"SSL[ _]handshake|SSL connection closed", re.IGNORECASE)
_ADVICE_TLS: Final = "Check source.kafka.security.protocol, and that the brokers run. Nothing is lost."
_CLOSED: Final = re.compile(r"Broken pipe|reset by peer|Disconnected|closed by peer")
_ADDRESS: Final = re.compile(r"^[^ ]*(?:\d+|bootstrap): ")


class Causes:
    """The newest errors that the error callback got from librdkafka."""

    def __init__(self) -> None:
        self._found: deque[KafkaError] = deque(maxlen=_KEPT)

    def add(self, error: KafkaError) -> None:
        """The error callback of a client."""
        self._found.append(error)

    def gather(self, consumer: Any) -> None:
        """Run the callback, which librdkafka calls only within `poll`."""
        for _ in range(_POLLS):
            message = consumer.poll(_POLL_S)
            if message is not None and message.error() is not None:
                self.add(message.error())

    @property
    def cause(self) -> KafkaError | None:
        """The most informative of the newest errors: one with another cause than that no broker answers, else one that
        has the reason why a connection failed."""
        return max(reversed(self._found), key=_says, default=None)

    @property
    def is_final(self) -> bool:
        """Whether retries are useless, as the login is refused."""
        return self.cause is not None and _code(self.cause) in _LOGIN_CODES

    @property
    def newest(self) -> str:
        """The newest cause as text; empty without one."""
        return _words(self.cause) if self.cause is not None else ""


def fault_of(error: KafkaException, where: str, what: str, causes: Causes) -> SourceError:
    """The error sentence for an error while `what` was requested."""
    found: KafkaError = error.args[0]
    if found.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        return TopicError(where, what, "an offset that the partition does not hold", _ADVICE_OFFSETS)
    is_cause = found.code() in _ADVICE_BY_CODE and found.code() != KafkaError._ALL_BROKERS_DOWN
    cause = found if is_cause else (causes.cause or found)
    kind = TopicError if _code(cause) in _OF_A_TOPIC else SourceError
    return kind(where, what, _words(cause), _todo(cause))


def _says(error: KafkaError) -> int:
    """How much an error reveals about the cause, as a rank."""
    return {KafkaError._ALL_BROKERS_DOWN: 0, KafkaError._TIMED_OUT: 0, KafkaError._TRANSPORT: 1}.get(_code(error), 2)


def _todo(cause: KafkaError) -> str:
    # librdkafka reports a failed handshake of TLS as any lost connection, in a text that depends on who closes first.
    if cause.code() == KafkaError._TRANSPORT and _TLS_REFUSED.search(cause.str()):
        return _ADVICE_TLS
    # A connection that the broker closes is reported as all brokers that are down, or as the request that failed.
    if cause.code() == KafkaError._TRANSPORT and _CLOSED.search(cause.str()):
        return _ADVICE_BY_CODE[KafkaError._ALL_BROKERS_DOWN]
    return _ADVICE_BY_CODE.get(_code(cause), _ADVICE)


def _code(error: KafkaError) -> int:
    """The error's code. A broker that refuses the client's certificate only closes the connection with a TLS alert."""
    return KafkaError._SSL if _TLS_ALERT in error.str() else int(error.code())


def _words(error: KafkaError) -> str:
    """The error's name and librdkafka's text, which has addresses but no credentials."""
    text = _ADDRESS.sub("", error.str()).rstrip(".")
    return f"{error.name().lstrip('_')}: {text}" if text else error.name().lstrip("_")
