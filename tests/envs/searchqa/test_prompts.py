"""Prompts of the environment, and the tiny policy that reads the compact one."""

from __future__ import annotations

import pytest

from agent_gym.core.prompts import Exchange, PromptBuilder, template_for
from agent_gym.envs.searchqa.env import SearchQAEnv
from agent_gym.retrieval.lexical.bm25 import MemoryBm25
from tests.envs.searchqa.test_env import make


def test_the_prompt_holds_the_question_the_earlier_passages_and_both_tags(corpus: MemoryBm25) -> None:
    env = make(corpus)
    builder = PromptBuilder(template_for(env), history_length=4, thoughts=True)
    _, info = env.reset(seed=0)
    first = builder.prompt(info).text()
    history = [Exchange(info["prompt_observation"], "search[Counterparts]")]
    _, _, _, _, info = env.step("search[Counterparts]")
    history.append(Exchange(info["prompt_observation"], "search[Neil Peart]"))
    _, _, _, _, info = env.step("search[Neil Peart]")
    later = builder.prompt(info, history).text()
    for text in (first, later):
        assert text.count(f"Question: {info['goal']}") == 1
        assert all(tag in text for tag in ("<think>", "<search>", "<answer>"))
    assert later.index("search[Counterparts]") < later.index("search[Neil Peart]")
    assert later.count("</information>") == 3, "two searches, and the instructions' mention"


def test_the_compact_prompt_ends_with_what_is_asked_one_word_a_line() -> None:
    env = SearchQAEnv(style="terse", hops=2, types="bridge", entities=40, worlds=1, top_k=1, passage_style="plain")
    builder = PromptBuilder(template_for(env, "compact"), history_length=0)
    _, info = env.reset(seed=0)
    outer, inner, name = info["goal"].split(" of ")
    assert builder.prompt(info).text().split("\n")[-3:] == [outer, inner, name]
    _, _, _, _, info = env.step(env.oracle_action())
    lines = builder.prompt(info).text().split("\n")
    assert lines[0] == name
    assert lines[-4:] == ["?", outer, inner, name]
    assert all(" " not in line for line in lines)


def test_the_gist_shows_the_facts_that_the_question_asks_about_and_no_others() -> None:
    env = SearchQAEnv(style="terse", hops=2, types="bridge", entities=40, worlds=1, top_k=1, passage_style="plain")
    builder = PromptBuilder(template_for(env, "gist"), history_length=0)
    for seed in range(20):
        _, info = env.reset(seed=seed)
        outer, inner, name = info["goal"].split(" of ")
        assert builder.prompt(info).text() == f"{outer}\n{inner}\n{name}"
        _, _, _, _, info = env.step(env.oracle_action())
        query = env.oracle_action().removeprefix("search[").removesuffix("]")
        found, shown = builder.prompt(info).text().split("\n?\n")
        assert shown == f"{outer}\n{inner}\n{name}"
        assert found.startswith(f"{name}\n")
        assert f"\n{inner}\n{query.split(' ')[0]}" in found
        for fact in info["prompt_observation"].split(": ", 1)[1].split(". "):
            assert (f"\n{fact.split()[0]}\n" in found) == (fact.split()[0] in (outer, inner))
    _, _, _, _, info = env.step("answer[]")
    assert builder.prompt(info).text().startswith("none\n??\n"), "what is no passage"


def test_the_tags_of_the_grammar_are_single_tokens_of_a_tiny_policy() -> None:
    pytest.importorskip("torch")
    from trainers.policy.loading import tiny_policy
    from trainers.settings.model import ModelSettings

    policy = tiny_policy(["founder\nkadu"], ModelSettings(vocab_size=300), 0, "cpu", [SearchQAEnv.reply_grammar])
    for tag in ("<search>", "</search>", "<answer>", "</answer>", "<think>"):
        assert len(policy.encode(tag)) == 1
