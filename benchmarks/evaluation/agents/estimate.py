"""What an evaluation by a paid service will take, before it starts.

A few episodes are rehearsed: chance plays in place of the model, and the characters of what would have been asked
are counted. The real counts depend on the model: one that wins early asks less often.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_gym.core.replies import ParsedReply
from agent_gym.play.agents import random_action
from agent_gym.play.driver import EnvHandle, LiveEpisode, play_episodes
from agent_gym.play.reply import Reply
from agent_gym.play.request import EpisodeRequest
from agent_gym.play.runner import EnvRunner, InProcessRunner
from benchmarks.evaluation.agents.conversation import Conversation
from benchmarks.evaluation.agents.ledger import Prices

CHARACTERS_PER_TOKEN = 4.0
"""Usual for English text and byte-pair encodings."""
REHEARSED = 3
"""Episodes that are rehearsed."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Tokens and cost of the episodes that are still to be played.

    Attributes:
        episodes: How many they are.
        rehearsed: Episodes the figures come from.
        turns: Turns of a rehearsed episode, on average.
        max_turns: Turn limit.
        prompt_tokens: Tokens to read if the episodes are as long as the rehearsed ones.
        reply_tokens: Tokens to write, if every reply is as long as it may be.
        most_prompt_tokens: Tokens to read if every episode goes to the turn limit, each turn with the longest
            prompt that was rehearsed. No bound: other prompts may be longer, and requests that are tried again are
            not counted.
        most_reply_tokens: Tokens to write then.
        cost: Price of the first two, None without prices.
        most_cost: Price of the last two.
    """

    episodes: int
    rehearsed: int
    turns: float
    max_turns: int
    prompt_tokens: int
    reply_tokens: int
    most_prompt_tokens: int
    most_reply_tokens: int
    cost: float | None
    most_cost: float | None

    def text(self) -> str:
        """Return the estimate in two sentences."""
        rehearsed = f"{self.rehearsed} rehearsed with chance, {self.turns:.1f} turns each"
        about = f"{self.prompt_tokens:,} tokens to read and up to {self.reply_tokens:,} to write"
        most = f"about {self.most_prompt_tokens:,} and {self.most_reply_tokens:,}"
        money = (
            "Cost: unknown, give prompt_price and reply_price (per million tokens)"
            if self.cost is None or self.most_cost is None
            else f"Cost: about {_money(self.cost)}, or about {_money(self.most_cost)} if all turns are taken"
        )
        whole = f"{most} if all {self.max_turns} turns are taken"
        return f"{self.episodes:,} episodes: about {about} ({rehearsed}); {whole}. {money}."


def _money(value: float) -> str:
    return f"{value:,.2f}" if value >= 1 else f"{value:.2g}"


@dataclass
class Rehearsal:
    """Plays by chance and counts what a model would have been asked.

    Attributes:
        conversation: What the model would be shown.
        max_reply_tokens: Longest reply.
        prices: Prices of the service.
    """

    conversation: Conversation
    max_reply_tokens: int
    prices: Prices
    _characters: list[int] = field(default_factory=list)

    def estimate(self, handle: EnvHandle, requests: Sequence[EpisodeRequest]) -> Estimate:
        """Return the estimate for episodes.

        Args:
            handle: Their environment.
            requests: The episodes; the first ones are rehearsed.
        """
        self._characters.clear()
        tried = requests[:REHEARSED]
        with InProcessRunner((handle.env_id, handle.options), 1) as runner:
            played = play_episodes(handle, runner, self, tried).whole
        fixed = len(json.dumps(self.conversation.form.request()))
        count, turns = len(requests), len(self._characters)
        done = len(played) or 1
        read = (sum(self._characters) + fixed * turns) / CHARACTERS_PER_TOKEN
        longest = (max(self._characters, default=0) + fixed) / CHARACTERS_PER_TOKEN
        limit = handle.env.max_turns
        prompt, reply = round(count * read / done), round(count * turns / done * self.max_reply_tokens)
        most_prompt, most_reply = round(count * limit * longest), count * limit * self.max_reply_tokens
        return Estimate(
            episodes=count,
            rehearsed=len(played),
            turns=turns / done,
            max_turns=limit,
            prompt_tokens=prompt,
            reply_tokens=reply,
            most_prompt_tokens=max(prompt, most_prompt),
            most_reply_tokens=most_reply,
            cost=self.prices.cost(prompt, reply),
            most_cost=self.prices.cost(max(prompt, most_prompt), most_reply),
        )

    def act(self, episodes: Sequence[LiveEpisode], runner: EnvRunner) -> list[Reply]:
        """Return replies by chance, and count the conversations."""
        return [self._reply(episode) for episode in episodes]

    def _reply(self, episode: LiveEpisode) -> Reply:
        messages = self.conversation.messages(episode)
        self._characters.append(sum(len(message["content"]) for message in messages))
        return Reply(self.conversation.form.grammar.wrap(random_action(episode.info, episode.request.seed)))

    def observe(self, episode: LiveEpisode, parsed: ParsedReply, before: dict[str, Any], reply: Reply) -> None:
        """Let the conversation grow by a reply of the longest length."""
        longest = round(self.max_reply_tokens * CHARACTERS_PER_TOKEN)
        self.conversation.add(episode, parsed, before, {"content": reply.text.ljust(longest)})
