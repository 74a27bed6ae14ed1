"""The newest histories are kept, and given for equal events alone."""

from __future__ import annotations

from ticdc_assets.schema.history.fold.events import Folds, Known, fold
from ticdc_assets_tests.schema.history.histories import event

EVENTS = [event(number, f"t{number}", f"CREATE TABLE `t{number}` (`id` INT PRIMARY KEY)") for number in range(6)]


def test_equal_events_in_any_order_have_one_history():
    folds = Folds(Known())

    first = folds.of(EVENTS[:2])

    assert first == fold(EVENTS[:2])
    assert folds.of(EVENTS[1::-1]) is first
    assert folds.of(EVENTS[:3]) == fold(EVENTS[:3])
    assert folds.of(EVENTS[:2]) is first


def test_the_four_histories_that_were_asked_for_last_are_kept():
    folds = Folds(Known())
    histories = [folds.of(EVENTS[: number + 1]) for number in range(4)]
    assert folds.of(EVENTS[:1]) is histories[0]

    fifth = folds.of(EVENTS[:5])

    assert [folds.of(EVENTS[: number + 1]) is histories[number] for number in (0, 2, 3)] == [True] * 3
    assert folds.of(EVENTS[:5]) is fifth
    assert folds.of(EVENTS[:2]) is not histories[1]
