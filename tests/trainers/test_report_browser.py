"""The report page in a real browser: it draws, fits phones and desks, reacts, and asks the network for nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.trainers.reports import write_run
from trainers.report import write_report

pytestmark = pytest.mark.slow
WIDTHS = (375, 1440)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    binary = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("no Chromium with its chromedriver on this machine")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield found
    found.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The page of a healthy run, of a ruined one, and of both."""
    root = tmp_path_factory.mktemp("pages")
    runs = [write_run(root / "healthy"), write_run(root / "ruined", "algorithm=cispo", ruined=True)]
    return {
        "healthy": write_report(runs[:1]),
        "ruined": write_report(runs[1:]),
        "both": write_report(runs, root / "both.html"),
    }


def show(browser: Any, page: Path, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get_log("browser")
    browser.get(page.as_uri())


@pytest.mark.parametrize("name", ["healthy", "ruined", "both"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_draws_every_chart_and_fits(browser: Any, pages: dict[str, Path], name: str, width: int) -> None:
    show(browser, pages[name], width)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    empty = browser.execute_script(
        "return [...document.querySelectorAll('.chart')]"
        ".filter(chart => !chart.querySelector('svg path, svg rect, svg circle')).map(chart => chart.textContent)"
    )
    assert empty == []
    assert "NaN" not in browser.execute_script("return document.querySelector('main').innerHTML")
    assert browser.title != "taken"
    assert browser.get_log("browser") == []
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0


def test_the_pointer_shows_values_and_the_button_switches_the_theme(browser: Any, pages: dict[str, Path]) -> None:
    show(browser, pages["ruined"], 1440)
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By

    chart = browser.find_element(By.CSS_SELECTOR, "#outcome .chart svg")
    ActionChains(browser).move_to_element(chart).perform()
    tip = browser.find_element(By.CSS_SELECTOR, "#outcome .tip").text
    assert "iteration" in tip
    assert "training" in tip
    colour = "return getComputedStyle(document.body).backgroundColor"
    before = browser.execute_script(colour)
    browser.find_element(By.ID, "theme").click()
    assert browser.execute_script(colour) != before


def test_charts_are_drawn_again_at_another_width(browser: Any, pages: dict[str, Path]) -> None:
    show(browser, pages["healthy"], 1440)
    size = "return document.querySelector('#buckets .chart svg').viewBox.baseVal.width"
    wide = browser.execute_script(size)
    override = {"width": 375, "height": 900, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", override)
    browser.execute_async_script("const done = arguments[0]; setTimeout(done, 300)")
    assert browser.execute_script(size) < min(wide, 375)
