"""What the tests of several servers and buckets share."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ticdc_assets_tests.sources.storage.bucket import Bucket


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for the loopback address, signed by itself, with its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("makes its certificate with openssl")
    key, made = tmp_path / "key.pem", tmp_path / "certificate.pem"
    request = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([openssl, *request, *names, "-keyout", key, "-out", made], check=True, capture_output=True)
    both = tmp_path / "both.pem"
    both.write_bytes(key.read_bytes() + made.read_bytes())
    return both


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    """Tables t1 and t2 of schema shop, each with version 100."""
    bucket = Bucket(tmp_path)
    bucket.schema("shop", "t1", 100)
    bucket.schema("shop", "t2", 100)
    return bucket
