"""A headless Chromium for tests of pages.

Tests that need it are skipped if it is missing, unless ``OPINFO_BROWSER=required`` (as in CI) makes
that an error.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--no-first-run", "--force-device-scale-factor=1")  # fmt: skip
NAMES = ("chromium", "chromium-browser", "google-chrome")


def missing() -> str:
    """What is missing to drive a browser; empty if nothing is."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium"
    if not any(map(shutil.which, NAMES)):
        return "chromium"
    return "" if shutil.which("chromedriver") else "chromedriver"


@contextmanager
def browser(width: int = 1400, height: int = 1000) -> Iterator[Any]:
    """A selenium driver that records the console."""
    absent = missing()
    if absent:
        text = f"no {absent}: apt-get install chromium chromium-driver, pip install selenium"
        assert os.environ.get("OPINFO_BROWSER") != "required", text
        pytest.skip(text)
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = next(filter(None, map(shutil.which, NAMES)))
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
            options.add_argument(flag)
        driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            yield driver
        finally:
            driver.quit()


def opened(driver: Any, path: Path, width: int = 1400) -> None:
    """Open a page in a window of this inner width."""
    driver.set_window_size(width, 1000)
    driver.get(path.as_uri())
    inside = driver.execute_script("return window.innerWidth")
    driver.set_window_size(2 * width - inside, 1000)
