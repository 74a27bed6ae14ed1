"""Damaged messages: each is decoded or refused with a DecodeError, within a second, in bounded memory."""

from __future__ import annotations

import pytest

from ticdc_assets.protocols.formats.compression import Compression
from ticdc_assets_tests.protocols.hostile.mutations import Mutator
from ticdc_assets_tests.protocols.hostile.seeds import claim_target, claims, compressed, seeds, streams, target
from ticdc_assets_tests.protocols.hostile.targets import INPUTS, NUMBER, bombard

STREAMS = streams()
PACKED = [name for name, stream in STREAMS.items() if hasattr(stream.options, "compression")]
CLAIMING = [name for name, stream in STREAMS.items() if stream.known.open_claim is not None]


@pytest.mark.parametrize("name", STREAMS)
def test_a_damaged_message_is_decoded_or_refused(name: str):
    outcome = bombard(target(STREAMS[name]), Mutator(seeds(STREAMS[name]), NUMBER))

    assert outcome.taken > outcome.inputs // 50  # the damage reaches what lies behind the parser


@pytest.mark.parametrize("compression", [Compression.LZ4, Compression.SNAPPY])
@pytest.mark.parametrize("name", PACKED)
def test_a_damaged_compressed_message_is_decoded_or_refused(name: str, compression: Compression):
    stream, packed = compressed(STREAMS[name], compression)

    outcome = bombard(target(stream), Mutator(packed, NUMBER), INPUTS // 50)

    assert outcome.taken  # snappy has no checksum, and so takes some damage for text


@pytest.mark.parametrize("name", CLAIMING)
def test_a_damaged_claim_is_opened_or_refused(name: str):
    outcome = bombard(claim_target(STREAMS[name]), Mutator(claims(STREAMS[name]), NUMBER), INPUTS // 50)

    assert outcome.taken
