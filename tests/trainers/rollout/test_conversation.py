"""Tokens in, tokens out: prompts are built around the very ids that were sampled."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_gym.core.prompts import ContextMode, Exchange, PromptBuilder, PromptTemplate
from agent_gym.support.errors import ConfigError
from tests.toy import COMPACT, PROMPT
from tests.trainers.loop import QWEN_LIKE, door_encoder, spelled
from tests.trainers.toys import tiny_policy
from trainers.policy.policy import Policy
from trainers.policy.tiny import CHAT_TEMPLATE
from trainers.rollout.conversation import Conversation, PromptEncoder

BY_KEY = """{% block goal %}{{ info.goal }}{% endblock %}
{% block observation %}{{ info["turn"] }}{{ info["prompt_observation"] }}{% endblock %}
{% block actions %}{% for name in info["admissible_actions"] %}{{ name }}{% endfor %}{% endblock %}"""
WHOLE = "{% block observation %}{{ info | items | sort | map('last') | join(' ') }}{% endblock %}"
UP = "<action>up</action>"


def info(turn: int, text: str = "The dial shows 3.") -> dict[str, Any]:
    return {
        "goal": "Open the door at 5.",
        "prompt_observation": f"{text} ({turn})",
        "admissible_actions": ("up", "down", "open"),
        "action_templates": (),
        "turn": turn,
    }


def policy_with(template: str) -> Policy:
    policy = tiny_policy()
    tokenizer = type(policy.tokenizer)(
        tokenizer_object=policy.tokenizer.backend_tokenizer,
        eos_token=policy.tokenizer.eos_token,
        pad_token=policy.tokenizer.pad_token,
    )
    tokenizer.chat_template = template
    return Policy(policy.model, tokenizer, device="cpu")


@pytest.mark.parametrize("template", [CHAT_TEMPLATE, QWEN_LIKE], ids=["tiny", "line break after the end"])
def test_full_context_has_the_ids_of_the_template_when_replies_are_canonical(template: str) -> None:
    policy = policy_with(template)
    encoder = door_encoder(policy, ContextMode.FULL)
    conversation = Conversation(encoder)
    messages = list(encoder.builder.opening(info(0)))
    prompt = conversation.prompt(info(0))
    for turn in range(3):
        assert prompt == tuple(policy.encode_chat(messages))
        conversation.add(info(turn), "up", (*policy.encode(UP), policy.end_id), info(turn + 1))
        messages += [{"role": "assistant", "content": UP}, encoder.builder.follow_up(info(turn + 1))]
        prompt = conversation.prompt(info(turn + 1))
    assert prompt == tuple(policy.encode_chat(messages))


def test_two_id_lists_may_share_one_text() -> None:
    policy = tiny_policy()
    assert spelled(policy, UP) != tuple(policy.encode(UP))
    assert policy.decode(spelled(policy, UP)) == policy.decode(policy.encode(UP)) == UP


@pytest.mark.parametrize("template", [CHAT_TEMPLATE, QWEN_LIKE], ids=["tiny", "line break after the end"])
def test_full_context_goes_on_from_the_exact_ids_of_another_tokenisation(template: str) -> None:
    policy = policy_with(template)
    encoder = door_encoder(policy, ContextMode.FULL)
    conversation = Conversation(encoder)
    sampled = (*spelled(policy, UP), policy.end_id)
    first = conversation.prompt(info(0))
    assert first is not None
    conversation.add(info(0), "up", sampled, info(1))
    second = conversation.prompt(info(1))
    assert second is not None
    assert second[: len(first) + len(sampled)] == first + sampled
    assert policy.decode(second) == policy.decode((*first, *policy.encode(UP))) + policy.decode(
        second[len(first) + len(sampled) - 1 :]
    )


@given(st.lists(st.integers(0, 300), min_size=1, max_size=12))
@settings(max_examples=30, deadline=None)
def test_any_sampled_ids_are_kept_as_they_are(ids: list[int]) -> None:
    policy = tiny_policy()
    conversation = Conversation(door_encoder(policy, ContextMode.FULL))
    first = conversation.prompt(info(0))
    assert first is not None
    conversation.add(info(0), None, ids, info(1))
    second = conversation.prompt(info(1))
    assert second is not None
    assert second[: len(first) + len(ids)] == (*first, *ids)


def test_the_end_token_is_not_doubled_and_a_cut_reply_gets_one() -> None:
    policy = tiny_policy()
    encoder = door_encoder(policy, ContextMode.FULL)
    message = encoder.builder.follow_up(info(1))
    whole, cut = policy.encode(UP), policy.encode(UP)[:2]
    after_end = encoder.glue(message, (*whole, policy.end_id))
    after_cut = encoder.glue(message, cut)
    assert after_end[0] != policy.end_id
    assert after_cut == (policy.end_id, *after_end)


def test_follow_ups_hold_only_what_is_new() -> None:
    policy = tiny_policy()
    conversation = Conversation(door_encoder(policy, ContextMode.FULL))
    first = conversation.prompt(info(0))
    assert first is not None
    reply = (*policy.encode(UP), policy.end_id)
    conversation.add(info(0), "up", reply, info(1))
    second = conversation.prompt(info(1))
    assert second is not None
    fresh = policy.decode(second[len(first) + len(reply) :])
    assert "(1)" in fresh
    assert "Actions: up" in fresh
    assert "Open the door" not in fresh
    assert "You stand before" not in fresh


def test_an_over_long_prompt_drops_the_oldest_history_first() -> None:
    policy = tiny_policy()
    roomy = door_encoder(policy, ContextMode.WINDOW, history_length=3)
    histories = [f"The dial shows {number}." for number in range(3)]

    def prompt(limit: int) -> str | None:
        conversation = Conversation(door_encoder(policy, ContextMode.WINDOW, limit=limit, history_length=3))
        for turn, text in enumerate(histories):
            conversation.add(info(turn, text), "up", (), info(turn + 1))
        ids = conversation.prompt(info(3, "Now."))
        return None if ids is None else policy.decode(ids)

    whole = prompt(10_000)
    assert whole is not None
    sizes = [len(roomy.encode(roomy.builder.prompt(info(3, "Now."), (), 0).messages())), len(policy.encode(whole))]
    shown = []
    for limit in range(sizes[0] - 1, sizes[1] + 1):
        text = prompt(limit)
        shown.append(None if text is None else tuple(n for n in range(3) if histories[n] in text))
        if text is not None:
            assert len(policy.encode(text)) <= limit
            # Only history goes: what stands around it is whole.
            assert text.startswith("<|user|>You stand before a door with a dial.")
            assert "Open the door at 5." in text
            assert "Now. (3)" in text
            assert text.endswith("Reply with <action>...</action>.<|end|><|assistant|>")
    assert sorted(set(shown), key=shown.index) == [None, (), (2,), (1, 2), (0, 1, 2)]


def test_history_numbers_stay_true_when_old_turns_are_dropped() -> None:
    policy = tiny_policy()
    conversation = Conversation(door_encoder(policy, ContextMode.WINDOW, history_length=1))
    for turn in range(3):
        conversation.add(info(turn), None if turn == 2 else "up", (), info(turn + 1))
    ids = conversation.prompt(info(3))
    assert ids is not None
    assert "3. saw The dial shows 3. (2) did (no valid action)" in policy.decode(ids)


def test_a_conversation_that_does_not_fit_is_refused_whole() -> None:
    policy = tiny_policy()
    first = Conversation(door_encoder(policy, ContextMode.FULL)).prompt(info(0))
    assert first is not None
    conversation = Conversation(door_encoder(policy, ContextMode.FULL, limit=len(first) + 10))
    assert conversation.prompt(info(0)) == first
    conversation.add(info(0), "up", (*policy.encode(UP), policy.end_id), info(1))
    assert conversation.prompt(info(1)) is None


@pytest.mark.parametrize("source", [PROMPT, COMPACT, BY_KEY, WHOLE])
def test_equal_prompts_are_encoded_once_and_different_ones_never_taken_for_each_other(source: str) -> None:
    policy = tiny_policy()
    encoder = PromptEncoder(policy, PromptBuilder(PromptTemplate(source), 2), ContextMode.WINDOW, 10_000)
    history = [Exchange("a", "up"), Exchange("b", "down"), Exchange("c", "up")]
    changed: list[dict[str, Any]] = [
        {},
        {"goal": "Another."},
        {"turn": 1},
        {"admissible_actions": ("up",)},
        {"action_templates": ("say {text}",)},
        {"prompt_observation": "else"},
    ]
    for change in changed:
        for past, shown in ((history[:0], None), (history[:2], None), (history, None), (history, 1), (history, 0)):
            state = {**info(0), **change}
            wanted = tuple(policy.encode_chat(encoder.builder.prompt(state, past, shown).messages()))
            first = encoder.window(state, past, shown)
            assert first == wanted
            assert encoder.window(dict(state), list(past), shown) is first


def test_a_template_that_hides_earlier_replies_is_refused_in_full_context() -> None:
    forgetful = (
        "{% for m in messages %}{% if m['role'] == 'user' %}<|user|>{{ m['content'] }}{% endif %}{% endfor %}"
    )
    encoder = door_encoder(policy_with(forgetful), ContextMode.FULL)
    with pytest.raises(ConfigError, match="context='window'"):
        encoder.glue({"role": "user", "content": "next"}, (1, 2))
