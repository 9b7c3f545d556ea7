"""The page of recorded episodes: everything in it, nothing hostile in it, usable with thousands of episodes."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_gym.core.prompts import ContextMode, Exchange, PromptBuilder, template_for
from agent_gym.play.agents import RandomAgent
from agent_gym.play.driver import EnvHandle, LiveEpisode, play_episodes
from agent_gym.play.episode import Episode, EpisodeWriter
from agent_gym.play.reply import Reply
from agent_gym.play.request import EpisodeRequest
from agent_gym.play.runner import InProcessRunner
from agent_gym.support.errors import ConfigError, DataError
from benchmarks.evaluation.plan import EvalConfig
from benchmarks.evaluation.run import evaluate
from benchmarks.evaluation.viewer.page import render_view, write_view
from benchmarks.evaluation.viewer.prompts import PromptRebuilder
from benchmarks.evaluation.viewer.recipes import Recipe, provenance
from benchmarks.evaluation.viewer.records import BLOCK, ViewOptions, read_view
from benchmarks.evaluation.viewer.tokens import TokenTexts
from tests.benchmarks.evaluation.boards import HOSTILE, episodes
from tests.browser import WIDTHS, assert_stands_alone, show


def write(path: Path, found: Sequence[Episode]) -> Path:
    with EpisodeWriter(path) as writer:
        for episode in found:
            writer.write(episode)
    return path


def unpack(text: str) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(text)).decode("utf-8", "surrogatepass"))


def blocks_of(page: str) -> dict[str, Any]:
    found = re.findall(r'<script type="text/plain" id="(\w+)">([^<]*)</script>', page)
    return {name: unpack(text) for name, text in found}


def test_every_text_arrives_as_it_was_and_none_becomes_markup(tmp_path: Path) -> None:
    played = list(episodes(60))
    data = write_view([write(tmp_path / "e.jsonl", played)], tmp_path / "e.html")
    page = (tmp_path / "e.html").read_text("utf-8")
    assert "onerror" not in page
    assert "\u2028" not in page
    assert page.count("<script") == 2 + len(data.blocks)
    found = blocks_of(page)
    assert [row["task"] for row in found["index"]["rows"]] == [episode.task_id for episode in played]
    whole = [record for number in range(len(data.blocks)) for record in found[f"block{number}"]]
    for record, episode in zip(whole, played, strict=True):
        assert [turn["reply"] for turn in record["turns"]] == [turn.reply for turn in episode.turns]
        assert [turn["seen"] for turn in record["turns"]] == [turn.observation for turn in episode.turns]
        assert record["goal"] == episode.goal
    assert HOSTILE in whole[3]["turns"][0]["reply"]


def test_the_limit_takes_the_first_episodes_and_says_how_many_there_were(tmp_path: Path) -> None:
    path = write(tmp_path / "e.jsonl", list(episodes(BLOCK + 5)))
    data = read_view([path], ViewOptions(limit=BLOCK + 1))
    assert (len(data.index), data.total, [len(block) for block in data.blocks]) == (
        BLOCK + 1,
        BLOCK + 5,
        [BLOCK, 1],
    )
    assert f"the first {BLOCK + 1} of {BLOCK + 5} episodes" in render_view(data)
    with pytest.raises(ConfigError, match="limit"):
        ViewOptions(limit=0)
    with pytest.raises(DataError, match="no episode file"):
        read_view([tmp_path / "missing.jsonl"])


class PromptedAgent(RandomAgent):
    """Plays at random and keeps the prompt that a model would have read at each turn."""

    def __init__(self, handle: EnvHandle, recipe: Recipe) -> None:
        super().__init__(handle.env.reply_grammar)
        self.builder = PromptBuilder(
            template_for(handle.env, recipe.prompt), recipe.history_length, recipe.thoughts
        )
        self.full = recipe.context is ContextMode.FULL
        self.read: dict[int, list[str]] = {}
        self.history: dict[int, list[Exchange]] = {}

    def act(self, live: Sequence[LiveEpisode], runner: Any) -> list[Reply]:
        for episode in live:
            read, info = self.read.setdefault(episode.index, []), episode.info
            if self.full and read:
                read.append(self.builder.follow_up(info)["content"])
            else:
                read.append(self.builder.prompt(info, self.history.get(episode.index, [])).text())
        return super().act(live, runner)

    def observe(self, episode: LiveEpisode, parsed: Any, before: dict[str, Any], reply: Reply) -> None:
        exchange = Exchange(before["prompt_observation"], str(parsed.action))
        self.history.setdefault(episode.index, []).append(exchange)


@pytest.mark.parametrize("env_id", ["agent_gym/Sokoban-v0", "agent_gym/ALFWorld-Small-v0"])
@pytest.mark.parametrize(
    "recipe", [Recipe(), Recipe("compact", 1, thoughts=True), Recipe("prompt", 0, ContextMode.FULL)]
)
def test_prompts_are_rendered_again_as_the_agent_read_them(env_id: str, recipe: Recipe) -> None:
    handle = EnvHandle.make(env_id, {"split": "test", "max_turns": 6})
    agent = PromptedAgent(handle, recipe)
    requests = [EpisodeRequest(None, seed) for seed in range(3)]
    played = play_episodes(handle, InProcessRunner((env_id, handle.options), 2), agent, requests)
    with PromptRebuilder() as rebuilder:
        for index, episode in enumerate(played.whole):
            found = rebuilder.segments(episode, recipe)
            separator = agent.builder.prompt(handle.env.reset(seed=0)[1]).separator
            assert [separator.join(text for _, text in segments) for segments in found] == agent.read[index]


def test_a_training_run_gives_prompts_and_token_texts_to_its_episodes(run_folder: Path) -> None:
    from tokenizers import Tokenizer

    around = provenance(run_folder / "episodes" / "test-after.jsonl")
    assert around.recipe == Recipe("compact", 0)
    assert around.tokenizer is not None
    texts = TokenTexts(around.tokenizer)
    data = read_view([run_folder])
    records = [record for block in data.blocks for record in block]
    turns = [turn for record in records for turn in record["turns"]]
    assert all([name for name, _ in turn["prompt"]] for turn in turns)
    sampled = [turn for turn in turns if "tokens" in turn]
    assert sampled
    assert all(len(turn["tokens"]) == len(turn["logprobs"]) == turn["said"] for turn in sampled)
    text = "<action>push up</action> then  two blanks"
    ids = Tokenizer.from_file(str(around.tokenizer)).encode(text).ids
    assert "".join(texts.texts(ids)) == texts.text(ids)
    assert len(texts.texts(ids)) == len(ids) > 3


def test_an_episode_that_does_not_replay_is_shown_without_prompts(tmp_path: Path) -> None:
    path = write(tmp_path / "e.jsonl", list(episodes(2)))
    data = read_view([path], ViewOptions(recipe=Recipe()))
    notes = [record["note"] for block in data.blocks for record in block]
    assert all("could not be rendered" in note for note in notes)


# In a browser ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of three thousand episodes."""
    folder = tmp_path_factory.mktemp("view")
    write_view([write(folder / "many.jsonl", list(episodes(3_000)))], folder / "many.html")
    return folder / "many.html"


def ready(browser: Any) -> None:
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(browser, 20).until(lambda b: b.execute_script("return document.body.dataset.ready") == "yes")


def until(browser: Any, text: str) -> None:
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(browser, 20).until(lambda b: b.find_element("id", "count").text.startswith(text))


def choose(browser: Any, name: str, value: str) -> None:
    script = (
        "const made = document.getElementById(arguments[0]); made.value = arguments[1];"
        "made.dispatchEvent(new Event('change', {bubbles: true}))"
    )
    browser.execute_script(script, name, value)


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_thousands_of_episodes_are_listed_filtered_searched_and_read(browser: Any, many: Path, width: int) -> None:
    show(browser, many, width)
    ready(browser)
    until(browser, "3,000 of 3,000 episodes, 50.0 % solved")
    assert len(browser.find_elements("css selector", ".item")) < 60  # only what is in sight
    choose(browser, "f-won", "1")
    choose(browser, "f-env", "=agent_gym/Sokoban-v0")
    until(browser, "500 of 3,000 episodes, 100.0 % solved")
    choose(browser, "f-env", "")
    choose(browser, "f-won", "")
    search = browser.find_element("id", "search")
    search.send_keys("step 2997<")  # in replies only
    until(browser, "1 of 3,000 episodes,")
    search.clear()
    search.send_keys("needle 29")
    until(browser, "12 of 3,000 episodes,")
    browser.execute_script("document.querySelector('.item').click()")
    browser.execute_async_script("setTimeout(arguments[0], 300)")
    assert "needle 29" in browser.find_element("css selector", "#episode .goal").text
    assert browser.find_elements("css selector", "#episode .hit")
    assert_stands_alone(browser, width)


@pytest.mark.slow
def test_boards_are_drawn_tokens_coloured_and_hostile_text_is_text(browser: Any, many: Path) -> None:
    show(browser, Path(f"{many}"), 1440)
    ready(browser)
    assert browser.find_elements("css selector", "#episode .turn svg.board-svg rect")
    assert not browser.find_elements("css selector", "#episode .mark")
    choose(browser, "colour", "entropies")
    browser.execute_async_script("setTimeout(arguments[0], 300)")
    marks = browser.find_elements("css selector", "#episode .mark")
    assert "entropy 1.5 nats" in marks[1].get_attribute("title")
    for _ in range(3):
        browser.execute_script("document.getElementById('after').click()")
        browser.execute_async_script("setTimeout(arguments[0], 200)")
    assert HOSTILE[:60] in browser.find_element("id", "episode").text
    assert not browser.find_elements("css selector", "#episode img, #episode script")
    assert browser.title == "Episodes · agent-gym"
    assert_stands_alone(browser, 1440)


def test_an_episode_that_an_evaluation_wrote_twice_is_shown_once(tmp_path: Path) -> None:
    played = list(episodes(6))
    twice = write(tmp_path / "r.episodes.jsonl", [*played, *played[:4]])
    data = read_view([twice])
    assert (len(data.index), data.total, data.repeated) == (6, 6, 4)
    group = read_view([write(tmp_path / "train.jsonl", [played[0]] * 3)])  # training plays a task in groups
    assert (len(group.index), group.repeated) == (3, 0)


def test_a_result_stands_for_the_episodes_beside_it(tmp_path: Path) -> None:
    output = tmp_path / "random.json"
    evaluate(EvalConfig(env_id="agent_gym/Sokoban-v0", episodes=3, output=output), "random")
    by_result, by_file = read_view([output]), read_view([tmp_path / "random.episodes.jsonl"])
    assert by_result.index == by_file.index
    assert len(by_result.index) == 3
    assert read_view([tmp_path]).index == by_file.index
