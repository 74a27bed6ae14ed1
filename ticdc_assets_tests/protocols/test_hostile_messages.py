"""Damaged messages: each is decoded or refused with a DecodeError, within a second, in bounded memory."""

from __future__ import annotations

import pytest

from ticdc_assets_tests.protocols.hostile import NUMBER, bombard
from ticdc_assets_tests.protocols.hostile_messages import seeds, streams, target
from ticdc_assets_tests.protocols.mutations import Mutator

STREAMS = streams()
every_stream = pytest.mark.parametrize("name", STREAMS)


@every_stream
def test_a_damaged_message_is_decoded_or_refused(name):
    outcome = bombard(target(STREAMS[name]), Mutator(seeds(STREAMS[name]), NUMBER))

    assert outcome.taken > outcome.inputs // 50  # the damage reaches what lies behind the parser
