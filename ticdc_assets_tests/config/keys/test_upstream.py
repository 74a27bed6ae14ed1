"""The TiDB of a changefeed: its defaults, its password and files, and the faults of what names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ticdc_assets.config import Secret, Upstream, UpstreamTls
from ticdc_assets_tests.config.config_file import feed, loaded, refused, with_feed


def test_an_upstream_has_tidbs_port_and_no_tls_by_default(tmp_path):
    upstream = feed(tmp_path, upstream={"host": "tidb.example", "user": "reader"}).large_rows.upstream

    assert upstream == Upstream("tidb.example", "reader", 4000, None, None)
    assert feed(tmp_path).large_rows.upstream is None


def test_an_upstream_takes_its_password_from_the_environment_and_its_files_from_the_folder_of_the_config(tmp_path):
    tls = {"ca": "ca.pem", "cert": "/etc/c.pem", "key": "k.pem"}
    upstream = {"host": "h", "port": {"env": "PORT"}, "user": "u", "password": {"env": "PASSWORD"}, "tls": tls}

    config = loaded(tmp_path, with_feed(upstream=upstream), PASSWORD="hunter2", PORT="4001")

    found = config.changefeed("shop").large_rows.upstream
    assert found == Upstream(
        "h", "u", 4001, Secret("hunter2"), UpstreamTls(tmp_path / "ca.pem", Path("/etc/c.pem"), tmp_path / "k.pem")
    )
    assert "hunter2" not in repr(config)


@pytest.mark.parametrize(("written", "wanted"), [(True, UpstreamTls()), (False, None)])
def test_tls_of_an_upstream_may_be_switched(tmp_path, written, wanted):
    assert feed(tmp_path, upstream={"host": "h", "user": "u", "tls": written}).large_rows.upstream.tls == wanted


@pytest.mark.parametrize(
    ("upstream", "words"),
    [
        ({"user": "u"}, "the name or address of a TiDB server"),
        ({"host": "h"}, "who reads there"),
        ({"host": "h", "user": "u", "port": 0}, "a port between 1 and 65535"),
        ({"host": "h", "user": "u", "port": 65536}, "a port between 1 and 65535"),
        ({"host": "h", "user": "u", "port": "mysql"}, "a port between 1 and 65535"),
        ({"host": "h", "user": "u", "port": 40.5}, "a port between 1 and 65535"),
        ({"host": "h", "user": "u", "password": 12}, "a text"),
        ({"host": "h", "user": "u", "tls": {"cert": "c.pem"}}, "cert and key, or neither"),
        ({"host": "h", "user": "u", "tls": "yes"}, "a mapping"),
        ({"host": "h", "user": "u", "tls": {"authority": "c.pem"}}, "a known key"),
        ("tidb:4000", "a mapping"),
    ],
)
def test_settings_of_an_upstream_that_cannot_be_right_are_refused(tmp_path, upstream, words):
    assert words in str(refused(tmp_path, with_feed(upstream=upstream)))
