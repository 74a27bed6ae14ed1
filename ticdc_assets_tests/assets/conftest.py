from __future__ import annotations

from ticdc_assets_tests.assets.feeds import without_java

__all__ = ["without_java"]
