"""Buckets laid out by other options than those known here: what holds a table names the option."""

from __future__ import annotations

import pytest

from ticdc_assets.sources.storage.paths import Layout
from ticdc_assets.sources.storage.scan import Cursor
from ticdc_assets_tests.sources.storage.bucket import JULY_31, PHYSICAL_DAY, T1, Bucket, after, paths

FOLDERS = {"none": "", "day": "/2025-08-01", "month": "/2025-08", "year": "/2025"}
AS_MADE = {
    "none": "files that are in no folder of a date, as date-separator none makes them",
    "day": "a folder by day, as date-separator day makes them",
    "month": "a folder by month, as date-separator month makes them",
    "year": "a folder by year, as date-separator year makes them",
}


@pytest.mark.parametrize("known", ["none", "day", "month"])
@pytest.mark.parametrize("there", ["none", "day", "month", "year"])
def test_another_date_separator_is_named(tmp_path, known: str, there: str):
    if known == there or there == "year":  # a folder of four digits may be a partition's
        return
    bucket = Bucket(tmp_path, Layout(known))
    bucket.schema("shop", "t1", 100)
    bucket.files(f"{T1}/100{FOLDERS[there]}", 1)

    [problem] = bucket.scan().problems

    assert f"date-separator is {known}, found {AS_MADE[there]}" in problem.sentence
    assert "Give the changefeed's own date-separator in its configuration here" in problem.sentence


CHANGES = [(before, now) for before in FOLDERS for now in FOLDERS if before != now]
SECOND = {"none": "", "day": "/2025-08-02", "month": "/2025-09", "year": "/2026"}


@pytest.mark.parametrize("is_followed", [True, False])
@pytest.mark.parametrize(("before", "now"), CHANGES)
def test_after_a_change_of_date_separator_every_file_is_read_once(tmp_path, before: str, now: str, is_followed: bool):
    if before == "year" and now != "none" and not is_followed:  # a folder of four digits may be a partition's
        return
    bucket, cursor = Bucket(tmp_path, Layout(before), JULY_31 + PHYSICAL_DAY), Cursor.empty()
    bucket.schema("shop", "t1", 100)
    expected = bucket.files(f"{T1}/100{FOLDERS[before]}", 1)
    found = []

    def read(cursor: Cursor) -> Cursor:
        seen = bucket.scan(cursor, recognises_repeats=True)
        assert seen.problems == ()
        found.extend(paths(seen))
        return after(seen, cursor)

    if is_followed:
        cursor = read(cursor)
    expected += bucket.files(f"{T1}/100{FOLDERS[before]}", 2)
    expected += bucket.files(f"{T1}/100{SECOND[now]}", 1)
    bucket.layout = Layout(now)
    for days in (400, 800):
        bucket.checkpoint(JULY_31 + days * PHYSICAL_DAY)
        cursor = read(cursor)
    expected += bucket.files(f"{T1}/100{SECOND[now]}", 2)
    read(read(cursor))

    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(("before", "now"), [("day", "none"), ("none", "day"), ("day", "month")])
def test_rows_in_order_of_arrival_wait_after_a_change_of_date_separator(tmp_path, before: str, now: str):
    bucket = Bucket(tmp_path, Layout(now), JULY_31 + PHYSICAL_DAY)
    bucket.schema("shop", "t1", 100)
    for separator in (before, now):
        bucket.files(f"{T1}/100{FOLDERS[separator]}", 1)

    [problem] = bucket.scan().problems

    assert f"date-separator is {now}, found {AS_MADE[before]}" in problem.sentence


def test_files_of_another_protocol_are_reported(tmp_path):
    bucket = Bucket(tmp_path, Layout("none", extension="json"))
    bucket.schema("shop", "t1", 100)
    bucket.files(f"{T1}/100", 1)
    bucket.layout = Layout("none")

    [problem] = bucket.scan().problems

    assert "Give the changefeed's own protocol in its configuration here" in problem.sentence


def test_folders_by_table_id_that_are_not_known_of_are_named(tmp_path):
    bucket = Bucket(tmp_path)
    bucket.schema("shop", "t1", 100, folder="112")
    bucket.files("112/100", 1)

    problems = bucket.scan().problems

    assert [problem.table for problem in problems] == ["t1"]
    assert "found the table shop.t1 in a folder by its id" in problems[0].sentence
    assert "Set use-table-id-as-path" in problems[0].sentence
