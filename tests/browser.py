"""A real browser for pages of ours, Chromium by Playwright; a test that wants it is skipped where either is missing."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

#: Nothing that asks other servers, since a page that did would have to be told from it.
_QUIET = (
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


@contextmanager
def launched() -> "Iterator[Browser]":
    """Chromium without a window."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    # Without windows to draw, where it is installed, each page costs half as much.
    found = (shutil.which(name) for name in ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"))
    if not (chromium := next((place for place in found if place), "")):
        pytest.skip("Chromium is not installed: the pages were not tried in a browser (apt-get install chromium-headless-shell)")
    # Chromium's own sandbox does not start for root.
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=[*_QUIET, *(["--no-sandbox"] if root else [])])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def pages(browser: "Browser", **settings: Any) -> Iterator[Any]:
    """A page of a browser, and what it complained of or fetched in `page.told`, which must stay empty."""
    context = browser.new_context(**settings)
    try:
        page: Any = context.new_page()
        page.told = []
        page.on("console", lambda message: page.told.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: page.told.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (page.told.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        yield page
    finally:
        context.close()
