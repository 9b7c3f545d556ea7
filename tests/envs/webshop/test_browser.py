from __future__ import annotations

import copy
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import gymnasium as gym
import pytest

from agent_gym.core.info import StopReason
from agent_gym.envs.webshop.browser import tools
from agent_gym.envs.webshop.world.actions import clickable
from agent_gym.envs.webshop.world.kinds import Compat
from agent_gym.support.errors import AgentGymError, ConfigError
from tests.envs.webshop.small_shop import AWKWARD

MISSING = tools.missing_tools()
needs_browser = pytest.mark.skipif(bool(MISSING), reason=MISSING)
BROWSER, TEXT = "agent_gym/WebShopBrowser-v0", "agent_gym/WebShop-v0"


def children(pid: int) -> list[tuple[int, str]]:
    """Process ids and command lines of everything below a process."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            parents.setdefault(parent, []).append(int(folder.name))
    found, waiting = [], [pid]
    while waiting:
        for child in parents.get(waiting.pop(), []):
            waiting.append(child)
            try:
                found.append(
                    (child, (Path("/proc") / str(child) / "cmdline").read_bytes().replace(b"\0", b" ").decode())
                )
            except OSError:
                continue
    return found


def alive(pids: list[int]) -> list[int]:
    def runs(pid: int) -> bool:
        try:
            return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    deadline = time.monotonic() + 20
    while (left := [pid for pid in pids if runs(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


@pytest.fixture(scope="module")
def browser_env():
    env = gym.make(BROWSER, render_mode="rgb_array", split="test", difficulty="tiny")
    yield env
    env.close()


def play_both(browser, text, start) -> float:
    """Follow the oracle in both environments; every step must show the same. Returns the reward."""
    assert browser.reset(**start) == text.reset(**start)
    ended = False
    while not ended:
        action = text.unwrapped.oracle_action()
        assert browser.unwrapped.oracle_action() == action
        shown, expected = browser.step(action), text.step(action)
        assert shown == expected, action
        ended = shown[2] or shown[3]
    return shown[1]


@needs_browser
def test_the_oracle_buys_with_the_observations_of_the_text_environment(browser_env):
    text = gym.make(TEXT, split="test", difficulty="tiny")
    assert play_both(browser_env, text, {"seed": 0}) == 1.0


@needs_browser
def test_an_option_that_is_chosen_can_be_clicked_again(browser_env):
    text = gym.make(TEXT, split="test", difficulty="tiny")
    for seed in range(20):
        text.reset(seed=seed)
        action = ""
        while (following := text.unwrapped.oracle_action()) != "click[buy now]":
            action = following
            chosen = text.step(action)[4]["webshop/options"]
        if chosen:
            break
    assert chosen
    assert browser_env.reset(seed=seed)[1]["task_id"] == text.reset(seed=seed)[1]["task_id"]
    while text.unwrapped.oracle_action() != "click[buy now]":
        following = text.unwrapped.oracle_action()
        assert browser_env.step(following) == text.step(following)
    assert browser_env.step(action) == text.step(action)


@needs_browser
def test_every_page_shows_what_the_text_environment_shows(browser_env):
    text = gym.make(TEXT, split="test", difficulty="tiny")
    assert browser_env.reset(seed=5) == text.reset(seed=5)
    for action in (
        "click[search]",
        "search[shirt é 你 😀 <b>]",
        "click[next >]",
        "click[< prev]",
        "search[  two  blanks ]",
        "click[back to search]",
        "search[" + "long " * 200 + "]",
        "nonsense",
    ):
        assert browser_env.step(action) == text.step(action), action


@needs_browser
def test_a_screenshot_is_an_image_of_the_window(browser_env):
    browser_env.reset(seed=1)
    shown = browser_env.render()
    assert shown.dtype == "uint8"
    assert shown.ndim == 3
    assert shown.shape[2] == 3
    assert min(shown.shape[:2]) > 300
    assert shown.std() > 1


@needs_browser
def test_a_copy_goes_on_from_the_same_page(browser_env):
    browser_env.reset(seed=2)
    browser_env.step(browser_env.unwrapped.oracle_action())
    twin = copy.deepcopy(browser_env)
    action = twin.unwrapped.oracle_action()
    assert twin.step(action) == browser_env.step(action)
    twin.close()
    sent = pickle.loads(pickle.dumps(browser_env))
    assert sent.step("click[back to search]")[4]["webshop/page"] == "index"
    assert sent.step("search[shirt]")[4]["stop_reason"] == ""
    sent.close()
    assert browser_env.step("click[back to search]")[4]["webshop/page"] == "index"


@needs_browser
@pytest.mark.slow
def test_a_lost_browser_ends_the_episode_as_tool_error_and_the_next_reset_starts_another():
    from agent_gym.envs.webshop.browser import tab

    env = gym.make(BROWSER, split="test", difficulty="tiny")
    first, _ = env.reset(seed=3)
    pid = tab._SHARED[0].process_id
    for child, command in children(pid):
        if "chromium" in command and "--type=" not in command:
            os.kill(child, signal.SIGKILL)
    observation, reward, terminated, truncated, info = env.step("search[shirt]")
    assert (reward, terminated, truncated, info["stop_reason"]) == (0.0, True, False, StopReason.TOOL_ERROR)
    assert not info["success"]
    assert "browser" in observation
    assert env.reset(seed=3)[0] == first
    assert env.step("search[shirt]")[4]["stop_reason"] == ""
    env.close()


@needs_browser
@pytest.mark.slow
def test_nothing_is_left_when_the_last_environment_is_closed_or_its_process_killed():
    folder = Path(tempfile.mkdtemp(prefix="ag-"))
    program = (
        "import sys, time, gymnasium as gym, agent_gym\n"
        f"env = gym.make({BROWSER!r}, difficulty='tiny')\n"
        "env.reset(seed=0)\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "env.close()\n"
        "print('closed', flush=True)\n"
        "env.reset(seed=0)\n"
        "print('again', flush=True)\n"
        "time.sleep(600)\n"
    )
    root = str(Path(__file__).parents[3])
    environment = {**os.environ, "PYTHONPATH": root, "TMPDIR": str(folder)}
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    )
    assert process.stdout is not None and process.stdin is not None
    try:
        assert process.stdout.readline() == "ready\n"
        first = [pid for pid, _ in children(process.pid)]
        assert len(first) > 2
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "closed\n"
        assert alive(first) == []
        assert list(folder.iterdir()) == []
        assert process.stdout.readline() == "again\n"
        second = [pid for pid, _ in children(process.pid)]
        assert len(second) > 2
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
    assert alive(second) == []
    deadline = time.monotonic() + 20
    while list(folder.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    folder.rmdir()


def test_missing_tools_are_named_with_the_remedy(monkeypatch):
    monkeypatch.setenv(tools.CHROMIUM_VARIABLE, "/no/such/browser")
    assert "Chromium is not installed" in tools.missing_tools() or "[webshop]" in tools.missing_tools()
    with pytest.raises(ConfigError, match=r"chromium-driver|\[webshop\]"):
        gym.make(BROWSER)
    monkeypatch.setattr(tools, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"\[webshop\]"):
        gym.make(BROWSER)
    with pytest.raises(ConfigError, match=r"\[webshop\]"):
        tools.require_site()


@needs_browser
def test_options_that_make_no_sense_in_a_browser_are_refused():
    with pytest.raises(ConfigError, match="drop observation="):
        gym.make(BROWSER, observation="html")
    with pytest.raises(ConfigError, match="address of a shop's site"):
        gym.make(BROWSER, url="localhost:3000")


def awkward_files(folder: Path) -> Path:
    """Official files of a product with awkward option values, and a goal for each value."""
    values = [{"value": value} for value in AWKWARD]
    record = {
        "asin": "B0AWKWARD1",
        "name": "A <b>warm</b> shirt & 'tie'",
        "full_description": "Soft.",
        "small_description": ["<i>Warm</i>", "Blue"],
        "pricing": "$20.00",
        "images": [],
        "category": "fashion",
        "query": "shirts",
        "product_category": "Clothing › Shirts",
        "customization_options": {"Size": values, 'Colour "x" <y>': [{"value": "red"}, {"value": "<script>"}]},
    }
    human = [
        {
            "asin": record["asin"],
            "instruction": f"I need a warm shirt in {value}",
            "attributes": ["warm"],
            "options": [],
            "instruction_attributes": ["warm"],
            "instruction_options": [value],
        }
        for value in AWKWARD
    ]
    folder.mkdir(exist_ok=True)
    contents = {
        "items_shuffle.json": [record],
        "items_ins_v2.json": {record["asin"]: {"attributes": ["warm"], "instruction": None}},
        "items_human_ins.json": {record["asin"]: human},
    }
    for name, content in contents.items():
        (folder / name).write_text(json.dumps(content), "utf-8")
    return folder


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("compat", Compat)
def test_awkward_option_values_are_the_same_in_text_and_browser(tmp_path, compat):
    options = {
        "catalog": awkward_files(tmp_path / "files"),
        "split": "all",
        "compat": compat.value,
        "max_turns": 100,
    }
    browser, text = gym.make(BROWSER, **options), gym.make(TEXT, **options)
    assert browser.reset(seed=0) == text.reset(seed=0)
    for action in ("search[warm shirt]", "click[b0awkward1]"):
        assert browser.step(action) == text.step(action)
    names = text.unwrapped.session.clickables()
    for name in names[6:]:
        shown = browser.step(f"click[{name}]")
        assert shown == text.step(f"click[{name}]"), name
        assert shown[4]["valid_action"] == clickable(name, compat)
        assert clickable(name, compat) == (compat is Compat.FIXED or "[" not in name)
    assert len(names) == 6 + len(AWKWARD) + 2
    if compat is Compat.FIXED:
        for task_id in text.unwrapped.tasks.ids[::4]:
            play_both(browser, text, {"seed": 0, "options": {"task_id": task_id}})
    browser.close()


@needs_browser
@pytest.mark.slow
def test_twenty_oracle_episodes_earn_full_reward_with_the_text_environments_observations():
    browser, text = gym.make(BROWSER, split="test"), gym.make(TEXT, split="test")
    ids = text.unwrapped.tasks.ids
    for number in range(20):
        start = {"seed": number, "options": {"task_id": ids[number * len(ids) // 20]}}
        assert play_both(browser, text, start) == 1.0
    browser.close()


@needs_browser
@pytest.mark.slow
def test_an_external_site_is_shopped_on_if_it_is_the_same_shop():
    command = [sys.executable, "-m", "agent_gym.cli.main", "serve", "webshop", "--port", "0"]
    root = str(Path(__file__).parents[3])
    site = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": root}, text=True)
    assert site.stdout is not None
    try:
        url = site.stdout.readline().split()[-1]
        browser, text = gym.make(BROWSER, url=url), gym.make(TEXT)
        assert play_both(browser, text, {"seed": 3}) == 1.0
        browser.close()
        with pytest.raises(ConfigError, match="another catalogue"):
            gym.make(BROWSER, url=url, difficulty="tiny").reset(seed=0)
        record = dict(text.unwrapped.task.record, canonical_index=-1)
        with pytest.raises(ConfigError, match="external site"):
            browser.reset(options={"task": record})
    finally:
        site.terminate()
        assert site.wait(20) in (0, -signal.SIGTERM)
        site.stdout.close()
    with pytest.raises(AgentGymError, match="agent-gym serve webshop"):
        browser.reset(seed=0)
