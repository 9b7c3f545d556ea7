"""The cold start: oracle episodes on training tasks, the tiny policy built from their text, and cloning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agent_gym.core.info import StopReason
from agent_gym.core.prompts import PromptBuilder
from agent_gym.core.replies import ParsedReply
from agent_gym.play.agents import OracleAgent, random_action
from agent_gym.play.driver import EnvHandle, LiveEpisode, play_episodes
from agent_gym.play.episode import Episode
from agent_gym.play.reply import Reply
from agent_gym.play.request import EpisodeRequest
from agent_gym.play.runner import EnvRunner
from agent_gym.support.errors import DataError
from agent_gym.support.seeding import generator
from trainers.policy.policy import Policy
from trainers.policy.token_rows import TokenRow
from trainers.rollout.conversation import Conversation, PromptEncoder


@dataclass(frozen=True)
class ExpertTurn:
    """One turn of the expert: what it saw, did and said."""

    info: dict[str, Any]
    action: str | None
    reply: str


@dataclass(frozen=True)
class ExpertEpisode:
    """An oracle episode with the infos that prompts are built from."""

    episode: Episode
    turns: tuple[ExpertTurn, ...]


class _WatchedOracle(OracleAgent):
    """The oracle, remembering what it saw."""

    def __init__(self, handle: EnvHandle, noise: float) -> None:
        super().__init__(handle.env.reply_grammar)
        self._handle = handle
        self._noise = noise
        self.turns: dict[int, list[ExpertTurn]] = {}

    def act(self, episodes: Sequence[LiveEpisode], runner: EnvRunner) -> list[Reply]:
        if self._noise:
            replies = [self._stray(episode) or self._steady(episode, runner) for episode in episodes]
        else:
            replies = super().act(episodes, runner)
        for episode, reply in zip(episodes, replies, strict=True):
            turns = self.turns.setdefault(episode.index, [])
            if reply.stop is None:  # nothing is to be learned from giving up
                turns.append(ExpertTurn(episode.info, self._handle.parse(reply.text).action, reply.text))
        return replies

    def _stray(self, episode: LiveEpisode) -> Reply | None:
        """Return a random action, or None where the oracle's stands."""
        info, seed = episode.info, episode.request.seed
        if generator("stray", seed, info["task_id"], info["turn"]).random() >= self._noise:
            return None
        return Reply(self._grammar.wrap(random_action(info, seed)))

    def _steady(self, episode: LiveEpisode, runner: EnvRunner) -> Reply:
        """Return the oracle's action; an episode that strayed to where nothing helps any more ends."""
        reply = super().act([episode], runner)[0]
        return reply if reply.stop is None else Reply("", stop=StopReason.ABORTED)

    def observe(self, episode: LiveEpisode, parsed: ParsedReply, before: dict[str, Any], reply: Reply) -> None:
        """Nothing to learn."""


def play_expert(
    handle: EnvHandle,
    runner: EnvRunner,
    requests: Sequence[EpisodeRequest],
    min_score: float,
    *,
    noise: float = 0.0,
    on_episode: Callable[[int, Episode], None] | None = None,
) -> list[ExpertEpisode]:
    """Play the oracle and keep the episodes that score more than `min_score`, without those that ended in an error.

    With `noise` above 0 the oracle strays: it takes a random admissible action with that chance a turn.

    Raises:
        DataError: None does.
    """
    oracle = _WatchedOracle(handle, noise)
    played = play_episodes(handle, runner, oracle, requests, on_episode=on_episode)
    kept = [
        ExpertEpisode(episode, tuple(oracle.turns[index]))
        for index, episode in enumerate(played.episodes)
        if episode is not None and episode.score > min_score and not episode.error
    ]
    if not kept:
        errors = (episode.error for episode in played.whole)
        first = next((found for found in (*played.errors.values(), *errors) if found), "")
        raise DataError(
            f"none of the {len(requests)} oracle episodes scores more than {min_score}, so there is nothing to "
            f"imitate. {first}"
        )
    return kept


def corpus(experts: Sequence[ExpertEpisode], builder: PromptBuilder) -> list[str]:
    """Return the texts that a tiny policy's tokenizer is trained on: every prompt and every reply."""
    texts = []
    for expert in experts:
        for turn in expert.turns:
            texts += [builder.prompt(turn.info).text(), turn.reply]
    return texts


def expert_rows(experts: Sequence[ExpertEpisode], encoder: PromptEncoder, policy: Policy) -> list[TokenRow]:
    """Return one row a turn: the prompt as the policy will see it, and the expert's reply with its end token."""
    rows = []
    for expert in experts:
        conversation = Conversation(encoder)
        for number, turn in enumerate(expert.turns):
            prompt = conversation.prompt(turn.info)
            if prompt is None:  # a policy would be stopped here too
                break
            reply = (*policy.encode(turn.reply), policy.end_id)
            rows.append(TokenRow.from_reply(prompt, reply))
            if number + 1 < len(expert.turns):
                conversation.add(turn.info, turn.action, reply, expert.turns[number + 1].info)
    return rows
