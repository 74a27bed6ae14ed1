"""Every module has tests, which a command names."""

from __future__ import annotations

import ast
import subprocess
import sys

from ticdc_assets_tests.imports import PACKAGE, TESTS, modules
from ticdc_assets_tests.module_tests import nearest_tests


def test_every_module_has_tests():
    with_code = {name for name, file in modules().items() if len(ast.parse(file.read_text()).body) > 1}
    assert [name for name, tests in nearest_tests().items() if name in with_code and not tests] == []


def test_the_command_names_the_tests_of_a_module():
    command = [sys.executable, "-m", "ticdc_assets_tests.module_tests", str(PACKAGE / "changes" / "identity.py")]
    printed = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=True).stdout
    assert printed == "ticdc_assets_tests/changes/test_identity.py\n"
