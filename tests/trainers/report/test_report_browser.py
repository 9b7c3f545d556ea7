"""The report page in a real browser: it draws, fits phones and desks, reacts, and asks the network for nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser import WIDTHS, assert_stands_alone, show
from tests.trainers.reports import write_run
from trainers.report import write_report

pytestmark = pytest.mark.slow


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


@pytest.mark.parametrize("name", ["healthy", "ruined", "both"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_draws_every_chart_and_fits(browser: Any, pages: dict[str, Path], name: str, width: int) -> None:
    show(browser, pages[name], width)
    empty = browser.execute_script(
        "return [...document.querySelectorAll('.chart')]"
        ".filter(chart => !chart.querySelector('svg path, svg rect, svg circle')).map(chart => chart.textContent)"
    )
    assert empty == []
    assert "NaN" not in browser.execute_script("return document.querySelector('main').innerHTML")
    assert browser.title != "taken"
    assert_stands_alone(browser, width)


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
