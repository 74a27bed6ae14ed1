"""A real Kafka broker of one node on loopback, with listeners in plain text, with TLS and with passwords."""

from __future__ import annotations

import logging
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from ticdc_assets_tests.services.jars import fetched
from ticdc_assets_tests.services.processes import DIES_WITH_THE_TESTS, free_ports

VERSION = "4.1.2"
START_TIMEOUT_S = 120
SCRAM_USER, SCRAM_PASSWORD = "ticdc", "ticdc-test"
PLAIN_USER, PLAIN_PASSWORD = "reader", "reader-test"
_CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{plain},CONTROLLER://127.0.0.1:{controller},SASL_SSL://127.0.0.1:{tls},\
SASL_PLAINTEXT://127.0.0.1:{sasl},SSL://127.0.0.1:{mutual}
advertised.listeners=PLAINTEXT://127.0.0.1:{plain},SASL_SSL://127.0.0.1:{tls},SASL_PLAINTEXT://127.0.0.1:{sasl},\
SSL://127.0.0.1:{mutual}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,\
SSL:SSL
sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512,PLAIN
{logins}
ssl.keystore.type=PEM
ssl.keystore.location={folder}/server.pem
ssl.client.auth=none
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
listener.name.ssl.ssl.client.auth=required
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
super.users=User:ANONYMOUS
log.dirs={folder}/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
message.max.bytes=10485760
log.retention.ms=-1
log.retention.check.interval.ms=500
log.initial.task.delay.ms=500
log.cleaner.backoff.ms=100
"""
_LOGGING = """status=error
rootLogger.level=WARN
rootLogger.appenderRef.c.ref=C
appender.c.type=Console
appender.c.name=C
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%d %p %c{1} %m%n
"""


class KafkaServer:
    """A broker below a folder. `start` may be called again after `stop`: data and ports stay."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = dict(zip(("plain", "controller", "tls", "sasl", "mutual"), free_ports(5), strict=True))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def brokers(self) -> str:
        return f"127.0.0.1:{self._ports['plain']}"

    @property
    def tls_brokers(self) -> str:
        return f"127.0.0.1:{self._ports['tls']}"

    @property
    def sasl_brokers(self) -> str:
        return f"127.0.0.1:{self._ports['sasl']}"

    @property
    def mutual_brokers(self) -> str:
        """The listener that asks clients for a certificate."""
        return f"127.0.0.1:{self._ports['mutual']}"

    def file(self, name: str) -> Path:
        """A PEM file: `client.crt` and `client.key`, or `other-ca.pem`, an authority that has signed nothing."""
        return self._folder / name

    @property
    def authority(self) -> Path:
        """The certificate of the authority that the server's certificate is signed by."""
        return self._folder / "ca.pem"

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        if not (self._folder / "server.pem").exists():
            _make_certificates(self._folder)
            self._configure()
            self._run("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", self._config, *_scram_users())
        self._process = subprocess.Popen(
            [*DIES_WITH_THE_TESTS, *self._java("-Xmx512m", "kafka.Kafka", self._config)],
            stdout=(self._folder / "kafka.log").open("ab"),
            stderr=subprocess.STDOUT,
        )
        self._wait()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=30)
            self._process = None

    def _wait(self) -> None:
        until = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < until:
            assert self._process is not None
            if self._process.poll() is not None:
                break
            with ExitStack() as stack:
                stack.callback(time.sleep, 0.5)
                try:
                    AdminClient({"bootstrap.servers": self.brokers}, logger=_silent()).list_topics(timeout=5)
                except KafkaException:
                    continue
                stack.pop_all()
                return
        raise RuntimeError(f"Kafka did not start:\n{(self._folder / 'kafka.log').read_text()[-3000:]}")

    def _configure(self) -> None:
        logins = [
            f"listener.name.{name}.{mechanism}.sasl.jaas.config={module}"
            for name in ("sasl_ssl", "sasl_plaintext")
            for mechanism, module in _MODULES.items()
        ]
        text = _PROPERTIES.format(folder=self._folder, logins="\n".join(logins), **self._ports)
        Path(self._config).write_text(text)
        (self._folder / "log4j2.properties").write_text(_LOGGING)

    @property
    def _config(self) -> str:
        return str(self._folder / "server.properties")

    def _java(self, *arguments: str) -> list[str]:
        libs = fetched("org.apache.kafka", "kafka_2.13", VERSION)
        logging = f"-Dlog4j2.configurationFile={self._folder}/log4j2.properties"
        options = [a for a in arguments if a.startswith("-X")]
        return ["java", *options, logging, "-cp", f"{libs}/*", *(a for a in arguments if not a.startswith("-X"))]

    def _run(self, *arguments: str) -> None:
        subprocess.run(self._java(*arguments), check=True, timeout=START_TIMEOUT_S, stdout=subprocess.DEVNULL)

    # -- what tests do ------------------------------------------------------------------------------------------------

    def make_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        try:
            _wait_for(self._admin.create_topics([NewTopic(name, partitions, 1, config=settings)]))
        except KafkaException as error:
            # The client sends a slow request again, and the broker has created the topic by then.
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        self._wait_for_partitions(name, partitions)

    def remove_topic(self, name: str) -> None:
        _wait_for(self._admin.delete_topics([name]))
        until = time.monotonic() + 30
        while name in self._admin.list_topics(timeout=10).topics and time.monotonic() < until:
            time.sleep(0.2)

    def grow_topic(self, name: str, partitions: int) -> None:
        _wait_for(self._admin.create_partitions([NewPartitions(name, partitions)]))
        self._wait_for_partitions(name, partitions)

    def _wait_for_partitions(self, topic: str, count: int) -> None:
        """Wait until the broker tells clients all partitions: the request ends before, and a producer fails then."""
        until = time.monotonic() + 30
        while time.monotonic() < until:
            described = self._admin.list_topics(topic, timeout=10).topics[topic]
            if len(described.partitions) == count and all(p.leader >= 0 for p in described.partitions.values()):
                return
            time.sleep(0.1)
        raise RuntimeError(f"{topic}: expected {count} partitions with a leader")

    def remove_messages_before(self, topic: str, partition: int, offset: int) -> None:
        """What retention does: the partition begins at the offset from now on."""
        _wait_for(self._admin.delete_records([TopicPartition(topic, partition, offset)]))

    def send(self, messages: Iterable[Mapping[str, Any]]) -> int:
        """Send messages (topic, partition, key, value, ts_ms, perhaps headers) in order; how many."""
        settings = {"linger.ms": 5, "message.max.bytes": 10 << 20}
        # Without idempotence a request that is tried again may come after the next one.
        producer = Producer({"bootstrap.servers": self.brokers, "enable.idempotence": True, **settings})
        count = 0
        for message in messages:
            fields = {name: message[name] for name in ("topic", "partition", "key", "value")}
            fields["headers"] = message.get("headers")
            producer.produce(**fields, timestamp=message["ts_ms"], on_delivery=_raise_if_lost)
            producer.poll(0)
            count += 1
        assert producer.flush(60) == 0
        return count

    def send_in_transactions(self, *groups: Iterable[Mapping[str, Any]]) -> None:
        """Send each group of messages in a transaction of its own, whose end takes an offset too."""
        producer = Producer({"bootstrap.servers": self.brokers, "transactional.id": "tests"})
        producer.init_transactions(30)
        for group in groups:
            producer.begin_transaction()
            for message in group:
                fields = {name: message[name] for name in ("topic", "partition", "key", "value")}
                producer.produce(**fields, timestamp=message["ts_ms"], on_delivery=_raise_if_lost)
            producer.commit_transaction(30)

    def begin_transaction(self, messages: Iterable[Mapping[str, Any]]) -> Producer:
        """Send messages in a transaction that the caller ends."""
        producer = Producer({"bootstrap.servers": self.brokers, "transactional.id": "tests-open"})
        producer.init_transactions(30)
        producer.begin_transaction()
        for message in messages:
            fields = {name: message[name] for name in ("topic", "partition", "key", "value")}
            producer.produce(**fields, timestamp=message["ts_ms"], on_delivery=_raise_if_lost)
        assert producer.flush(30) == 0
        return producer

    def offsets_of(self, topic: str, partition: int) -> list[int]:
        """The offsets of the partition's committed messages."""
        consumer = Consumer({"bootstrap.servers": self.brokers, "group.id": "tests", "enable.partition.eof": True})
        consumer.assign([TopicPartition(topic, partition, 0)])
        found = []
        try:
            while (message := consumer.poll(20)) is not None and message.error() is None:
                found.append(message.offset())
        finally:
            consumer.close()
        return found

    def wait_for_compaction(self, topic: str, partition: int, count: int) -> list[int]:
        """Wait until compaction has left at most so many messages; their offsets."""
        until = time.monotonic() + 60
        while len(found := self.offsets_of(topic, partition)) > count:
            assert time.monotonic() < until, f"{topic} has {len(found)} messages after 60 s"
            time.sleep(0.2)
        return found

    def allow_only(self, topic: str, user: str, *operations: AclOperation) -> None:
        """Let a user do only this with the topic, and others nothing."""
        rules = [
            AclBinding(
                ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{user}", "*", operation,
                AclPermissionType.ALLOW,
            )
            for operation in operations
        ]  # fmt: skip
        _wait_for(self._admin.create_acls(rules))

    def end_of(self, topic: str, partition: int) -> int:
        """The offset after the partition's last message."""
        consumer = Consumer({"bootstrap.servers": self.brokers, "group.id": "tests"})
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=20)[1])
        finally:
            consumer.close()

    @cached_property
    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.brokers}, logger=_silent())


@contextmanager
def kafka_server(folder: Path) -> Iterator[KafkaServer]:
    """A broker while the body runs."""
    server = KafkaServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()


_MODULES = {
    "scram-sha-256": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
    "scram-sha-512": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
    "plain": f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{PLAIN_USER}="{PLAIN_PASSWORD}";',
}


def _scram_users() -> list[str]:
    return [
        word
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        for word in ("-S", f"{mechanism}=[name={SCRAM_USER},password={SCRAM_PASSWORD}]")
    ]


def _make_certificates(folder: Path) -> None:
    """A certificate for 127.0.0.1, signed by an authority of its own; both are made for this folder alone."""
    (folder / "san").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    for command in (
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.pem",
        "req -newkey rsa:2048 -nodes -subj /CN=127.0.0.1 -keyout server.key -out server.csr",
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile san -out server.crt",
        "pkcs8 -topk8 -nocrypt -in server.key -out server.pk8",
        "req -newkey rsa:2048 -nodes -subj /CN=client -keyout client.key -out client.csr",
        "x509 -req -in client.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out client.crt",
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=other -keyout other-ca.key -out other-ca.pem",
    ):
        subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True, timeout=60)
    parts = ("server.pk8", "server.crt", "ca.pem")
    (folder / "server.pem").write_text("".join((folder / part).read_text() for part in parts))


def _silent() -> logging.Logger:
    logger = logging.getLogger("ticdc_assets_tests.kafka")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


def _wait_for(futures: Mapping[Any, Any]) -> None:
    for future in futures.values():
        future.result(timeout=30)


def _raise_if_lost(error: Any, _: Any) -> None:
    if error is not None:
        raise KafkaException(error)
