"""Plays many episodes at once with one agent.

The agent sees all running episodes together and answers them together, so a language model can decode them as
one batch. Finished episodes leave the batch at once and the next ones take their slots. Training, cloning and
evaluation all play through here.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from agent_gym.core.env import TextEnv
from agent_gym.core.make import full_id, make_env
from agent_gym.core.replies import ParsedReply, RejectedReply, ReplyMode, parse_reply
from agent_gym.play.episode import Episode, EpisodeRecorder
from agent_gym.play.host import Observed
from agent_gym.play.reply import Reply
from agent_gym.play.request import EpisodeRequest
from agent_gym.play.runner import EnvRunner
from agent_gym.support.errors import ConfigError, WorkerError
from agent_gym.support.faults import place_of

_SHORT = 80  # characters up to which a reply is likely to be said again


@dataclass(slots=True)
class LiveEpisode:
    """A running episode as an agent sees it.

    Attributes:
        index: Position in the list of requests.
        slot: Slot of the runner that plays it.
        request: What was asked for, with the seed that was drawn where it named none.
        recorder: Turns so far; `recorder.current` is what the environment last returned.
        memory: The agent's own state for this episode.
    """

    index: int
    slot: int
    request: EpisodeRequest
    recorder: EpisodeRecorder
    memory: dict[str, Any] = field(default_factory=dict)

    @property
    def info(self) -> dict[str, Any]:
        """Info of the current state."""
        return self.recorder.current.info


class Agent(Protocol):
    """Answers running episodes; one class of a dozen lines makes a new agent."""

    def act(self, episodes: Sequence[LiveEpisode], runner: EnvRunner) -> Sequence[Reply | None]:
        """Return one reply for each episode, in order.

        None stands for a reply that is still being made: its episode waits while others go on, and is in the
        next call again. At least one reply must be there.
        """
        ...

    def observe(self, episode: LiveEpisode, parsed: ParsedReply, before: dict[str, Any], reply: Reply) -> None:
        """Learn what came of a reply, unless it ended the episode; `before` is the info that the agent saw."""
        ...


@dataclass(frozen=True)
class EnvHandle:
    """What is known of an environment before it plays: its id, options and reply grammar.

    Attributes:
        env_id: Registered id.
        options: Its arguments.
        env: One instance, never reset; grammar, prompts and tasks are read from it.
        reply_mode: How strictly replies are parsed.
    """

    env_id: str
    options: Mapping[str, Any]
    env: TextEnv
    reply_mode: ReplyMode = ReplyMode.LENIENT

    @classmethod
    def make(cls, env_id: str, options: Mapping[str, Any], reply_mode: ReplyMode = ReplyMode.LENIENT) -> EnvHandle:
        """Make the instance of an id.

        Raises:
            ConfigError: The id or an option is unknown, it is no environment that agents can play, or the
                task file is of another one.
        """
        made = make_env(env_id, options).unwrapped
        if not isinstance(made, TextEnv):
            raise ConfigError(
                f"{env_id} is a {type(made).__module__}.{type(made).__name__}; agents play environments that "
                "extend agent_gym.core.TextEnv"
            )
        if isinstance(options.get("tasks"), str | Path):
            _check_tasks(full_id(env_id), options["tasks"], made)
        return cls(full_id(env_id), dict(options), made, reply_mode)

    def parse(self, text: str) -> ParsedReply:
        """Parse a reply in the environment's grammar."""
        return parse_reply(text, self.env.reply_grammar, self.reply_mode, self.env.canonical_action)


def _check_tasks(env_id: str, path: str | Path, env: TextEnv) -> None:
    """Check that the first task of a file is one of the environment's.

    Raises:
        ConfigError: It is not.
    """
    first = env.tasks[0]
    try:
        env.task_from_record(first.record)
    except NotImplementedError:
        return
    except Exception as error:  # a record of another environment may fail in any way
        raise ConfigError(
            f"{path} holds no tasks of {env_id}: its first one, {first.id!r}, does not fit ({error})"
        ) from error


@dataclass(frozen=True, slots=True)
class PlayResult:
    """Played episodes.

    Attributes:
        episodes: One entry a request, in order; None where the environment failed or playing was stopped.
        errors: Index of a request -> what failed. Such episodes say nothing about the agent.
    """

    episodes: list[Episode | None]
    errors: dict[int, str]

    @property
    def whole(self) -> list[Episode]:
        """The episodes that were played."""
        return [episode for episode in self.episodes if episode is not None]


def play_episodes(
    handle: EnvHandle,
    runner: EnvRunner,
    agent: Agent,
    requests: Sequence[EpisodeRequest],
    *,
    on_episode: Callable[[int, Episode], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    policy_version: int | None = None,
) -> PlayResult:
    """Play every request, as many at once as the runner has slots.

    Args:
        handle: The environment.
        runner: Runner of the same environment.
        agent: Who plays.
        requests: Episodes to play.
        on_episode: Called with index and episode when one is finished.
        should_stop: Asked before every turn; True ends playing, unfinished episodes are None.
        policy_version: Written into the episodes.

    Raises:
        AgentGymError: An environment refused a task or an option (a fault of the request, not of the world).
        WorkerError: No worker is left to play.
        ConfigError: The agent returned something else than replies.
    """
    player = _Player(handle, runner, agent, on_episode, policy_version)
    waiting = deque(enumerate(requests))
    result = PlayResult([None] * len(requests), {})
    free = list(range(runner.n_slots))[::-1]
    live: list[LiveEpisode] = []
    while waiting or live:
        if should_stop is not None and should_stop():
            break
        starting = [(*waiting.popleft(), free.pop()) for _ in range(min(len(waiting), len(free)))]
        live += player.start(starting, free, result)
        live = player.turn(live, free, result)
    return result


class _Player:
    """The steps of `play_episodes`."""

    def __init__(
        self,
        handle: EnvHandle,
        runner: EnvRunner,
        agent: Agent,
        on_episode: Callable[[int, Episode], None] | None,
        policy_version: int | None,
    ) -> None:
        self.handle, self.runner, self.agent = handle, runner, agent
        self.on_episode, self.policy_version = on_episode, policy_version
        self._parsed: dict[str, ParsedReply] = {}  # many episodes say the same few replies

    def start(
        self, starting: list[tuple[int, EpisodeRequest, int]], free: list[int], result: PlayResult
    ) -> list[LiveEpisode]:
        """Reset the slots of new episodes."""
        if not starting:
            return []
        requests = {slot: request for _, request, slot in starting}
        observed = self._call(lambda: self.runner.reset(requests))
        live = []
        for index, request, slot in starting:
            if slot not in observed:
                result.errors[index] = str(self.runner.last_errors[slot])
                free.append(slot)
                continue
            recorder = EpisodeRecorder(
                self.handle.env_id,
                self.handle.options,
                self.runner.request_of(slot).seed,
                observed[slot],
                split=self.handle.env.tasks.split,
                group_id=request.group_id,
                policy_version=self.policy_version,
            )
            live.append(LiveEpisode(index, slot, self.runner.request_of(slot), recorder))
        return live

    def turn(self, live: list[LiveEpisode], free: list[int], result: PlayResult) -> list[LiveEpisode]:
        """Take one turn in every running episode; returns those that go on."""
        if not live:
            return []
        begin = time.perf_counter()
        replies = self._replies(live)
        parsed = [None if reply is None or reply.stop else self._parse(reply.text) for reply in replies]
        actions = {
            episode.slot: _action(reply, parse)
            for episode, reply, parse in zip(live, replies, parsed, strict=True)
            if reply is not None and parse is not None
        }
        observed = self._call(lambda: self.runner.step(actions)) if actions else {}
        seconds = (time.perf_counter() - begin) / (sum(reply is not None for reply in replies) or 1)
        going_on = []
        for episode, reply, parse in zip(live, replies, parsed, strict=True):
            if reply is None:
                going_on.append(episode)
                continue
            if parse is not None and episode.slot not in observed:
                result.errors[episode.index] = str(self.runner.last_errors[episode.slot])
            elif parse is None or self._record(episode, reply, parse, observed[episode.slot], seconds):
                finished = episode.recorder.finish(reply.stop, reply.error)
                result.episodes[episode.index] = finished
                if self.on_episode is not None:
                    self.on_episode(episode.index, finished)
            else:
                going_on.append(episode)
                continue
            free.append(episode.slot)
        return going_on

    def _replies(self, live: list[LiveEpisode]) -> Sequence[Reply | None]:
        """Return the agent's replies, which no type checker may have seen."""
        replies = self.agent.act(live, self.runner)
        if not isinstance(replies, Sequence) or isinstance(replies, str):
            got = type(replies).__name__
        elif len(replies) != len(live):
            got = f"{len(replies)} of them"
        else:
            wrong = next((reply for reply in replies if not isinstance(reply, Reply | None)), None)
            if wrong is None and any(reply is not None for reply in replies):
                return replies
            got = "no reply at all" if wrong is None else f"a {type(wrong).__name__} among them"
        place = place_of(self.agent.act)
        raise ConfigError(
            f"{type(self.agent).__name__}.act must return a list of one Reply or None for each of the {len(live)} "
            f"running episodes, in order, got {got}{f' ({place})' if place else ''}"
        )

    def _parse(self, text: str) -> ParsedReply:
        if len(text) > _SHORT:
            return self.handle.parse(text)
        parsed = self._parsed.get(text)
        if parsed is None:
            parsed = self._parsed[text] = self.handle.parse(text)
        return parsed

    def _record(
        self, episode: LiveEpisode, reply: Reply, parsed: ParsedReply, observed: Observed, seconds: float
    ) -> bool:
        before = episode.info
        episode.recorder.add(reply, parsed, observed, seconds=seconds if reply.seconds is None else reply.seconds)
        if not observed.over:
            self.agent.observe(episode, parsed, before, reply)
        return observed.over

    def _call(self, call: Callable[[], dict[int, Observed]]) -> dict[int, Observed]:
        try:
            return call()
        except WorkerError:
            if not self.runner.last_errors:  # of no slot: there is nothing to go on with
                raise
            others = [e for e in self.runner.last_errors.values() if not isinstance(e, WorkerError)]
            if others:
                raise others[0] from None
            return self.runner.last_results


def _action(reply: Reply, parsed: ParsedReply) -> str:
    if parsed.action is not None:
        return parsed.action
    return RejectedReply(reply.text, parsed.reason)
