"""A cursor before the first message, for a table that earlier runs did not follow."""

from __future__ import annotations

from ticdc_assets.pipeline.stream.offsets.cursor import StreamCursor

P, Q = ("feed", 0), ("feed", 1)


def test_a_rewound_cursor_keeps_what_is_known_of_the_stream_and_has_consumed_nothing():
    """Of a partition with gaps, some messages below the end were not read: none counts as read."""
    cursor = StreamCursor(
        offsets={P: 9, Q: 9},
        watermarks={P: 50, Q: 60},
        tables_by_topic={"feed": frozenset({("s", "t")})},
        passed={P: 40},
        begins={P: 3, Q: 4},
        read={P: 12, Q: 13},
        gaps={P: ((5, 6),)},
        digests={P: {3: "digest"}},
        messages=18,
    )

    rewound = cursor.rewound()

    assert rewound == StreamCursor(
        watermarks={P: 50, Q: 60},
        tables_by_topic={"feed": frozenset({("s", "t")})},
        begins={P: 3, Q: 4},
        read={Q: 13},
        digests={P: {3: "digest"}},
    )
    assert (cursor.has_consumed, rewound.has_consumed) == (True, False)
    assert rewound.in_part == {Q: (4, 13)}
