"""OpenEnv: an environment behind OpenEnv's server, its client, and sessions for OpenEnv's own rollouts.

    uvicorn.run(create_app("Sokoban-v0"), port=8000)             # one process
    with AgentGymClient("http://127.0.0.1:8000").sync() as env:  # another
        result = env.reset(seed=7)
        result = env.step("<action>up</action>")

Each connection has an environment of its own. The server has no authentication: keep it on loopback or behind one.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import partial
from typing import Any

from agent_gym.adapters.episodes import ChatEpisode, missing
from agent_gym.support.errors import ConfigError

try:
    from openenv.core.client_types import StepResult
    from openenv.core.env_client import EnvClient
    from openenv.core.env_server import http_server
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.mcp_types import Tool
    from openenv.core.env_server.types import Action, Observation, State
    from openenv.core.harness import ResourceSessionFactory, StepEnvSessionAdapter, ToolResult, VerifyResult
except ImportError as error:
    raise missing("openenv", error) from error


class ReplyAction(Action):
    """A model's whole reply."""

    reply: str


class TurnObservation(Observation):
    """What is seen next: the user message, and the environment's info."""

    message: str
    info: dict[str, Any]


class EpisodeState(State):
    """The episode so far; `done` of OpenEnv is `terminated` or `truncated`."""

    task_id: str = ""
    total_reward: float = 0.0
    success: bool = False
    terminated: bool = False
    truncated: bool = False
    stop_reason: str = ""


class AgentGymEnvironment(Environment):
    """An environment on the server; the arguments are those of `ChatEpisode`."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, env_id: str, options: Mapping[str, Any] | None = None, **settings: Any) -> None:
        super().__init__()
        self._episode = ChatEpisode(env_id, options, **settings)
        self._episode_id: str | None = None

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, task_id: str | None = None, **unknown: Any
    ) -> TurnObservation:
        """Start an episode; see `ChatEpisode.start`.

        Raises:
            ConfigError: Another argument is given.
        """
        if unknown:
            raise ConfigError(f"reset takes seed, task_id and episode_id, got {sorted(unknown)}")
        message = self._episode.start(seed=seed, task_id=task_id)
        self._episode_id = episode_id or uuid.uuid4().hex
        return TurnObservation(message=message, info=self._episode.info)

    def step(self, action: ReplyAction, timeout_s: float | None = None, **_: Any) -> TurnObservation:
        """Take one turn; the reward is the turn's."""
        episode = self._episode
        message = episode.answer(action.reply)
        return TurnObservation(message=message, info=episode.info, reward=episode.reward, done=episode.over)

    @property
    def state(self) -> EpisodeState:
        """The episode so far."""
        episode = self._episode
        return EpisodeState(
            episode_id=self._episode_id,
            step_count=len(episode.replies),
            task_id=episode.info.get("task_id", ""),
            total_reward=episode.total_reward,
            success=episode.info.get("success", False),
            terminated=episode.terminated,
            truncated=episode.truncated,
            stop_reason=episode.info.get("stop_reason", ""),
        )

    def close(self) -> None:
        """Close the environment."""
        self._episode.close()


def create_app(
    env_id: str, options: Mapping[str, Any] | None = None, *, max_concurrent_envs: int = 64, **settings: Any
) -> Any:
    """Return the FastAPI application that serves an environment.

    Args:
        env_id: Full or short id.
        options: Arguments of the environment.
        max_concurrent_envs: Connections at once.
        settings: Further arguments of `ChatEpisode`.

    Raises:
        ConfigError: The id or an argument is unknown.
    """
    ChatEpisode(env_id, options, **settings).close()  # a fault shows here, not at the first connection
    make = partial(AgentGymEnvironment, env_id, options, **settings)
    return http_server.create_app(
        make, ReplyAction, TurnObservation, env_name=env_id, max_concurrent_envs=max_concurrent_envs
    )


class AgentGymClient(EnvClient[ReplyAction, TurnObservation, EpisodeState]):
    """Client of such a server; `step` takes a reply as text or as `ReplyAction`."""

    def _step_payload(self, action: ReplyAction | str) -> dict[str, Any]:
        return {"reply": action if isinstance(action, str) else action.reply}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[TurnObservation]:
        reward, done = payload.get("reward"), payload.get("done", False)
        seen = TurnObservation(**payload["observation"], reward=reward, done=done)
        return StepResult(observation=seen, reward=reward, done=done)

    def _parse_state(self, payload: dict[str, Any]) -> EpisodeState:
        return EpisodeState(**payload)


class AgentGymSessions(ResourceSessionFactory):
    """Sessions for OpenEnv's harnesses and its `CollectRunner`: one tool, `reply`, that takes a whole reply.

    A task is a mapping with `task_id` and `seed`. The reward of a rollout is the sum of its turns' rewards.

    Args:
        base_url: Address of the server.
    """

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url

    def create(
        self, task: Mapping[str, Any] | None, seed: int | None = None, episode_id: str | None = None
    ) -> StepEnvSessionAdapter:
        """Return a session of its own connection, already started."""
        schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        return StepEnvSessionAdapter(
            AgentGymClient(self.base_url),
            task=task,
            seed=seed,
            episode_id=episode_id,
            reset_kwargs={key: (task or {})[key] for key in ("task_id", "seed") if key in (task or {})},
            tool_specs=[Tool(name="reply", description="Send a reply, as the prompt asks.", input_schema=schema)],
            action_builder=lambda _, arguments: str(arguments["text"]),
            initial_messages_builder=lambda result, _: [{"role": "user", "content": result.observation.message}],
            tool_result_builder=lambda _, __, result, state: ToolResult(
                data=result.observation.message, done=result.done, metadata={"reward": state.total_reward}
            ),
            verify_builder=lambda _, __, ___, state: VerifyResult(
                env_reward=state.total_reward,
                done=state.terminated or state.truncated,
                metrics={"success": state.success, "turns": state.step_count, "stop_reason": state.stop_reason},
            ),
        )
