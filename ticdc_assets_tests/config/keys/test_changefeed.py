"""The settings of a changefeed that only this project reads: filters, keys, partitions, files and choices."""

from __future__ import annotations

from datetime import date, datetime

import pytest

from ticdc_assets.config import BadInputPolicy, OnBadMessage, OnDrop, PartitionField, ZeroDates
from ticdc_assets_tests.config.config_file import feed, refused, with_feed


def test_the_filter_follows_the_changefeeds_case_sensitivity(tmp_path):
    tables = ["Shop.*", "!Shop.tmp_*"]

    loose = feed(tmp_path, tables=tables)
    strict = feed(tmp_path, tables=tables, config={"case-sensitive": True})

    assert loose.tables.matches("shop", "a")
    assert not loose.tables.matches("shop", "TMP_a")
    assert not strict.tables.matches("shop", "a")
    assert "filter rule" in str(refused(tmp_path, with_feed(tables=["shop"])))


def test_keys_and_partitions_are_given_by_pattern_and_the_last_match_decides(tmp_path):
    shop = feed(
        tmp_path,
        keys={"*.*": ["id"], 'shop."a.b"': ["x", "y"]},
        partition={"*.*": "bucket(16)", "shop.log*": ["days(created)", "bucket(4, user_id)"], "shop.tiny": "none"},
    )

    assert shop.mirror.key_of("shop", "a.b") == ("x", "y")
    assert shop.mirror.key_of("shop", "c") == ("id",)
    assert shop.mirror.partition_of("shop", "orders") == (PartitionField("bucket", 16, None),)
    assert shop.mirror.partition_of("shop", "logs") == (
        PartitionField("day", None, "created"),
        PartitionField("bucket", 4, "user_id"),
    )
    assert shop.mirror.partition_of("shop", "tiny") == ()
    assert feed(tmp_path, partition="truncate(4, name)").mirror.partition_of("a", "b") == (
        PartitionField("truncate", 4, "name"),
    )


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"keys": {"shop.t": []}}, "key's columns"),
        ({"keys": {"shop.t": ["a", "a"]}}, "key's columns"),
        ({"keys": {"shop": ["a"]}}, "filter rule"),
        ({"keys": ["a"]}, "a mapping"),
        ({"partition": "buket(16)"}, "Did you mean bucket(...)?"),
        ({"partition": "bucket(id)"}, "a number"),
        ({"partition": "bucket(0)"}, "a number"),
        ({"partition": "day(3, a)"}, "a number"),
        ({"partition": "day()"}, "Write day(column)."),
        ({"partition": {"*.*": "truncate(4)"}}, "a column"),
        ({"format_version": "3"}, "2 or 3"),
        ({"format_version": True}, "2 or 3"),
        ({"format_version": 2.0}, "2 or 3"),
        ({"format_version": 4}, "2 or 3"),
        ({"tables": []}, "a rule by which tables are read"),
        ({"tables": ["!shop.*"]}, "a rule by which tables are read"),
        ({"zero_dates": "nul"}, "Did you mean null?"),
        ({"schema_files": ["none/*.sql"]}, "none that match"),
        ({"ddl_from": "shop"}, "another changefeed"),
        ({"ddl_from": "other"}, "another changefeed"),
        ({"config": {"sink": {}}, "config_file": "x.toml"}, "both"),
        ({"config_file": "none.toml"}, "none.toml"),
        ({"config": "sink"}, "a mapping"),
        ({"time_zone": "../etc/passwd"}, "IANA"),
        ({"target": {"mirror": "{schema}.{tble}"}}, "target.mirror"),
    ],
)
def test_faults_of_the_settings_that_only_this_project_reads(tmp_path, keys, words):
    assert words in str(refused(tmp_path, with_feed(**keys)))


def test_schema_files_are_found_in_order(tmp_path):
    for name in ("b.sql", "a.sql", "sub/c.sql", "d.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")

    shop = feed(tmp_path, schema_files=["*.sql", "sub/c.sql", str(tmp_path / "**" / "*.txt")])

    assert [path.name for path in shop.schemas.files] == ["a.sql", "b.sql", "c.sql", "d.txt"]


def test_a_toml_fault_names_the_file_and_the_line_without_quoting_it(tmp_path):
    (tmp_path / "c.toml").write_text('[sink]\nsasl-password = hunter2"\n')

    error = refused(tmp_path, with_feed(config_file="c.toml"))

    assert "c.toml" in str(error)
    assert "line 2" in str(error)
    assert "hunter2" not in str(error)


def test_a_changefeed_has_the_choices_of_its_config(tmp_path):
    shop = feed(
        tmp_path, zero_dates="error", on_bad_message="stop", on_drop="drop", format_version=2, skip_files="*/CDC01.csv"
    )

    assert shop.bad_input == BadInputPolicy(OnBadMessage.STOP, ZeroDates.ERROR, ("*/CDC01.csv",))
    assert (shop.mirror.on_drop, shop.mirror.format_version) == (OnDrop.DROP, 2)
    assert feed(tmp_path, zero_dates=None).bad_input.zero_dates is ZeroDates.NULL
    assert feed(tmp_path, zero_dates="null").bad_input.zero_dates is ZeroDates.NULL


def test_histories_are_asked_for_by_pattern_where_rows_have_a_commit_ts(tmp_path):
    uri = "kafka://h:1/t?protocol=open-protocol"
    history = feed(tmp_path, sink_uri=uri, history=["shop.*", "!shop.tmp_*"]).mirror.history

    assert (history.matches("shop", "users"), history.matches("shop", "tmp_1")) == (True, False)
    assert not feed(tmp_path).mirror.history.takes_any
    for without in ("kafka://h:1/t?protocol=canal-json", "kafka://h:1/t?protocol=avro"):
        said = str(refused(tmp_path, with_feed(sink_uri=without, history="shop.*")))
        assert "expected a stream with commit_ts and watermarks" in said


def test_views_are_asked_for_by_a_template_where_there_is_a_tso_to_read_at(tmp_path):
    uri, template = "kafka://h:1/t?protocol=open-protocol", "{schema}__recorded.{table}"
    assert feed(tmp_path, sink_uri=uri, views=template).target.view == template
    assert feed(tmp_path).target.view is None
    for without in ("kafka://h:1/t?protocol=canal-json", "kafka://h:1/t?protocol=avro"):
        said = str(refused(tmp_path, with_feed(sink_uri=without, views="v.{table}")))
        assert "views (line 4): expected a stream with commit_ts and watermarks" in said


@pytest.mark.parametrize(
    ("views", "said"),
    [
        ("{schema}.{table}", "views (line 4): expected identifiers that no mirror can have"),
        ("{schema}__changes.{table}", "views (line 4): expected identifiers that no changelog can have"),
        ("views.all", "views (line 4): expected {table} in the template"),
        ("{table}", "views (line 4): expected namespace and table with a dot between"),
        ("v.{tabel}", "views (line 4): expected only the fields schema, table, changefeed"),
    ],
)
def test_templates_of_views_that_could_be_those_of_tables_are_refused(tmp_path, views, said):
    uri = "kafka://h:1/t?protocol=open-protocol"
    assert said in str(refused(tmp_path, with_feed(sink_uri=uri, views=views)))


def test_views_in_a_catalog_without_them_are_refused(tmp_path):
    values = {"catalog": {"type": "glue", "warehouse": "s3://lake/w"}, **with_feed(views="{schema}__recorded.{table}")}
    said = str(refused(tmp_path, values))
    assert ": expected a catalog with Iceberg's views, found one of type glue. Remove it" in said


@pytest.mark.parametrize("kind", ["glue", "hive"])
def test_tables_that_move_together_in_a_catalog_that_commits_each_alone_are_refused(tmp_path, kind):
    catalog = {"type": kind, "warehouse": "s3://lake/w", **({"uri": "thrift://h:9083"} if kind == "hive" else {})}
    said = str(refused(tmp_path, {"catalog": catalog, **with_feed(publish="together")}))
    assert f": expected a catalog that commits several tables at once: sql or rest, found one of type {kind}." in said


def test_tables_of_a_stream_without_commit_ts_do_not_move_together(tmp_path):
    said = str(refused(tmp_path, with_feed(sink_uri="kafka://h:1/t?protocol=canal-json", publish="together")))
    assert "publish (line 3): expected a stream with commit_ts and watermarks, found one without" in said


def test_what_dagster_shows_of_a_table_is_given_by_pattern(tmp_path):
    shown = feed(
        tmp_path,
        dagster={
            "sensor": True,
            "max_lag": "2 h",
            "owners": {"*.*": ["team:data"], "shop.o*": ["ann@example.com", "team:data"]},
            "tags": {"*.*": {"domain": "sales", "tier": "2"}, "shop.orders": {"tier": "1"}},
        },
    ).dagster

    assert (shown.sensor_runs, shown.max_lag_s) == (True, 7200)
    assert shown.owners_of("shop", "orders") == ("team:data", "ann@example.com")
    assert shown.tags_of("shop", "orders") == {"domain": "sales", "tier": "1"}
    assert shown.tags_of("crm", "users") == {"domain": "sales", "tier": "2"}
    assert not feed(tmp_path).dagster.sensor_runs


@pytest.mark.parametrize("day", ["2025-07-31", date(2025, 7, 31)])
def test_the_first_day_is_a_date_of_yaml_or_a_text(tmp_path, day):
    uri = "kafka://h:1/t?protocol=open-protocol"

    assert feed(tmp_path, sink_uri=uri, dagster={"days_from": day}).dagster.days_from == date(2025, 7, 31)
    for wrong in ("31.7.2025", 20250731.5, datetime(2025, 7, 31, 12)):
        assert "2025-07-31" in str(refused(tmp_path, with_feed(sink_uri=uri, dagster={"days_from": wrong})))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sensor": "yes"}, "true or false"),
        ({"max_lag": "59s"}, "at least a minute"),
        ({"max_lag": 30}, "at least a minute"),
        ({"max_lag": "soon"}, '"30m"'),
        ({"days_from": "2025-07-31"}, "commit_ts and watermarks"),
        ({"owners": {"shop.*": ["ann"]}}, "team:NAME"),
        ({"owners": {"shop": ["team:data"]}}, "filter rule"),
        ({"tags": {"shop.*": ["x"]}}, "a mapping of tags"),
        ({"tags": {"shop.*": {"a b": "x"}}}, "tags that Dagster accepts"),
        ({"tags": {"shop.*": {"tier": 1}}}, "quote numbers"),
        ({"verify": 1}, "true or false"),
        ({"verify": True}, "`upstream` in the changefeed"),
        ({"sensors": True}, "sensor"),
    ],
)
def test_what_dagster_would_refuse_is_refused_when_the_config_loads(tmp_path, settings, words):
    assert words in str(refused(tmp_path, with_feed(dagster=settings)))
