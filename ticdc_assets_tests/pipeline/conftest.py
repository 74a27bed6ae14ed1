from __future__ import annotations

from ticdc_assets_tests.pipeline.broken_tables import sink

__all__ = ["sink"]
