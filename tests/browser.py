"""A real browser for pages of ours, Chromium by Playwright; a test that wants it is skipped where either is missing."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

_FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update"
    " --disable-sync"
)


@contextmanager
def pages(**settings: Any) -> Iterator[Any]:
    """A page of a browser, and what it complained of or fetched in `page.told`, which must stay empty."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no Chromium on the PATH")
    with sync_api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, headless=True, args=_FLAGS.split())
        try:
            page = browser.new_context(**settings).new_page()
            page.told = []
            page.on("console", lambda message: page.told.append(f"{message.type}: {message.text}"))
            page.on("pageerror", lambda error: page.told.append(f"error: {error}"))
            page.on("dialog", lambda dialog: (page.told.append(f"dialog: {dialog.message}"), dialog.dismiss()))
            yield page
        finally:
            browser.close()
