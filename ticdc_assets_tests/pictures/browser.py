"""Opens pages in a headless Chromium and writes a picture of each. Its input has their URLs by file."""

from __future__ import annotations

import importlib
import json
import sys

WIDTH, HEIGHT = 1600, 1000
QUIET_MS = 2500
"""How long a page has to draw after its last request."""


def main() -> None:
    """Read `{chromium, pages: {file: URL}, clips: {file: part of the page}}` from the standard input."""
    sync_playwright = importlib.import_module("playwright.sync_api").sync_playwright
    wanted = json.load(sys.stdin)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=wanted["chromium"], args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        for file, url in wanted["pages"].items():
            page.goto(url, wait_until="domcontentloaded", timeout=120_000)
            page.wait_for_timeout(4 * QUIET_MS)
            page.keyboard.press("Escape")
            page.wait_for_timeout(QUIET_MS)
            page.screenshot(path=file, clip=wanted["clips"].get(file))
        browser.close()


if __name__ == "__main__":
    main()
