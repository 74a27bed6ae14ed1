"""The closed dates of a partition: exactly those, for each form of date, through their text."""

from __future__ import annotations

import pytest

from ticdc_assets.sources.storage.past_dates import PastDates

FORMS = {
    "day": [f"2024-{month:02}-{day:02}" for month, day in [(2, 27), (2, 28), (2, 29), (3, 1), (3, 2), (12, 31)]],
    "month": ["2024-11", "2024-12", "2025-01", "2025-02", "2026-02"],
    "year": ["2019", "2020", "2021", "2030"],
}


@pytest.mark.parametrize("names", FORMS.values(), ids=FORMS)
def test_every_set_of_dates_is_kept_exactly(names: list[str]):
    for chosen in range(1 << len(names)):
        wanted = {name for number, name in enumerate(names) if chosen >> number & 1}
        for order in (sorted(wanted), sorted(wanted, reverse=True)):
            dates = PastDates()
            for name in order:
                dates = dates.with_date(name)
            kept = PastDates.from_text(dates.to_text()) if wanted else dates

            assert {name for name in names if name in kept} == wanted
            for name in wanted:
                assert {other for other in names if other in kept.without(name)} == wanted - {name}


def test_the_text_of_earlier_cursors_means_every_date_up_to_it():
    dates = PastDates.from_text("2025-08-04").with_date("2025-08-07")

    assert [day for day in range(1, 10) if f"2025-08-{day:02}" in PastDates.from_text(dates.to_text())] == [
        1,
        2,
        3,
        4,
        7,
    ]


def test_dates_of_another_form_are_apart():
    dates = PastDates().with_date("2025-08-04")

    assert "2025-08" not in dates
    assert not dates.passed("2025-08")
    assert dates.passed("2025-08-03")
    assert "2025-08" in dates.with_date("2025-08")
    assert "2025-08-04" in dates.with_date("2025-08")


@pytest.mark.parametrize("name", ["", "7", "1234567", "1234567890", "2025-02-31", "2025-13", "2025-8-1", "20250804"])
def test_what_is_no_date_is_not_closed(name: str):
    assert name not in PastDates().with_date("2025-08-04")
    assert name not in PastDates().with_date("2025-08")


def test_a_year_of_days_is_short():
    dates = PastDates()
    for month in range(1, 13):
        for day in range(1, 29):
            dates = dates.with_date(f"2025-{month:02}-{day:02}")

    assert len(dates.to_text()) <= len("2025-12-28:") + 92
