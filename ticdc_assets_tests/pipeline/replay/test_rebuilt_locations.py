"""The location of the second mirror of a rebuild: beside the first one, or chosen by the catalog."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ticdc_assets.notes import Note, NoteCode
from ticdc_assets.pipeline.mirror import replayed as replay_mirror
from ticdc_assets.pipeline.mirror.rounds import Failure, MirrorJob
from ticdc_assets.tables.progress import Progress

REPLACEMENT = ("ticdc_feed", "rebuilt_1_2")


@pytest.mark.parametrize(
    ("of_mirror", "of_replacement"),
    [("s3://lake/feed/s/1/mirror", "s3://lake/feed/s/1/mirror_rebuilt_1_2"), (None, None)],
    ids=["a folder that this project chooses", "a folder that the catalog chooses"],
)
def test_a_mirror_is_rebuilt_in_a_folder_that_the_catalog_can_have(
    of_mirror: str | None, of_replacement: str | None, monkeypatch: pytest.MonkeyPatch
):
    placed: list[str | None] = []

    def catch_up(_: Any, jobs: list[MirrorJob], __: Any) -> list[Failure]:
        placed.extend(job.location for job in jobs)
        return [Failure(Note(NoteCode.MIRROR, "a test"))]

    monkeypatch.setattr(replay_mirror, "catch_up", catch_up)
    nothing: Any = SimpleNamespace(id="s.t@100")
    lake: Any = SimpleNamespace(
        catalog=SimpleNamespace(list_tables=lambda _: []), control=SimpleNamespace(namespace=("ticdc_feed",))
    )
    job = MirrorJob(nothing, nothing, of_mirror, nothing, Progress(), ())

    replay_mirror.rebuild_mirror(lake, nothing, job, nothing, SimpleNamespace(identifier=REPLACEMENT), (), nothing)  # type: ignore[arg-type]

    assert placed == [of_replacement]
