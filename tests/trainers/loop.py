"""A world, prompts and scripted replies for tests of the training loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import torch

from agent_gym.core import Outcome, Situation
from agent_gym.core.info import FinishReason
from agent_gym.core.prompts import ContextMode, PromptBuilder, PromptTemplate
from agent_gym.play.driver import EnvHandle, PlayResult, play_episodes
from agent_gym.play.reply import Sample
from agent_gym.play.request import EpisodeRequest
from agent_gym.play.runner import InProcessRunner
from tests.toy import COMPACT, PROMPT, DoorEnv
from trainers.policy.policy import Policy
from trainers.rollout.agent import PolicyAgent
from trainers.rollout.conversation import PromptEncoder
from trainers.rollout.environments import SplitEnvs
from trainers.rollout.samplers.base import Sampler
from trainers.settings.sampling import SamplingSettings

DOOR = "toy/Door-v0"
FAULTY = "toy/FaultyDoor-v0"
LEVER = "toy/Lever-v0"

QWEN_LIKE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>\\n' + message['content'] + '<|end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"
)
"""A template with a line break behind the end token, as ChatML has."""


class LeverEnv(DoorEnv):
    """Pull the left one of two levers; the right one earns nothing. One turn."""

    default_max_turns = 1

    def _text(self) -> str:
        return "Two levers."

    def _act(self, action: str) -> Outcome:
        won = action == "left"
        return Outcome("Done.", reward=float(won), success=won, score=float(won), ended=True)

    def _situation(self) -> Situation:
        return Situation(self._text(), ("left", "right"))

    def oracle_action(self) -> str:
        return "left"


gym.register(LEVER, entry_point="tests.trainers.loop:LeverEnv", disable_env_checker=True)


def door_builder(history_length: int = 2) -> PromptBuilder:
    """Return the prompt builder of the toy's full template."""
    return PromptBuilder(PromptTemplate(PROMPT), history_length)


def door_encoder(
    policy: Policy, context: ContextMode, *, limit: int = 10_000, history_length: int = 2, compact: bool = False
) -> PromptEncoder:
    """Return an encoder of the toy's prompts."""
    if compact:
        return PromptEncoder(policy, PromptBuilder(PromptTemplate(COMPACT), 0), context, limit)
    return PromptEncoder(policy, door_builder(history_length), context, limit)


def door_split(slots: int = 16, env_id: str = DOOR, **options: Any) -> SplitEnvs:
    """Return one split of the toy world."""
    options = {"split": "train", **options}
    handle = EnvHandle.make(env_id, options)
    return SplitEnvs(handle, InProcessRunner((env_id, options), slots))


def spelled(policy: Policy, text: str) -> tuple[int, ...]:
    """Return ids of `text` with one token a byte: another list than `policy.encode` gives, for the same text."""
    return tuple(token for character in text for token in policy.encode(character))


@dataclass
class ScriptedSampler:
    """Says what a function of the prompt and the number of the call says; remembers the prompts it was given."""

    say: Callable[[tuple[int, ...], int], tuple[tuple[int, ...], FinishReason]]
    prompts: list[tuple[int, ...]] = field(default_factory=list)
    calls: int = 0

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        settings: SamplingSettings,
        generator: torch.Generator | Sequence[torch.Generator] | None = None,
    ) -> list[Sample]:
        samples = []
        for prompt in prompts:
            self.prompts.append(tuple(prompt))
            ids, reason = self.say(tuple(prompt), self.calls)
            logprobs = tuple(-0.5 - 0.01 * place for place in range(len(ids)))
            samples.append(Sample(ids, logprobs, reason))
        self.calls += 1
        return samples

    def sync(self, policy: Policy) -> None:
        """Nothing is read from the policy."""

    def close(self) -> None:
        """Nothing is held."""


def script(policy: Policy, replies: Sequence[str], encode: Callable[[str], Sequence[int]] | None = None) -> Any:
    """Return a sampler that says the replies one after the other, each ended by the end token.

    A reply that ends in "…" is cut: it has no end token and finish reason `max_tokens`.
    """
    encode = encode or policy.encode

    def say(prompt: tuple[int, ...], call: int) -> tuple[tuple[int, ...], FinishReason]:
        text = replies[call % len(replies)]
        if text.endswith("…"):
            return tuple(encode(text[:-1])), FinishReason.MAX_TOKENS
        return (*encode(text), policy.end_id), FinishReason.STOP

    return ScriptedSampler(say)


def play(
    split: SplitEnvs,
    encoder: PromptEncoder,
    sampler: Sampler,
    requests: Sequence[EpisodeRequest] = (EpisodeRequest("door/3", 1),),
    settings: SamplingSettings | None = None,
) -> PlayResult:
    """Play requests with a policy agent."""
    agent = PolicyAgent(
        encoder, sampler, settings or SamplingSettings(max_reply_tokens=40), torch.Generator().manual_seed(0)
    )
    with split.runner:
        return play_episodes(split.handle, split.runner, agent, requests)
