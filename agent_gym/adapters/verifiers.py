"""verifiers: a taskset, the environment that plays it, and a harness that needs no program.

    environment = load_environment("Sokoban-v0", count=64)
    async with environment.serving():
        for task in environment.taskset:
            [slot] = environment.slots(task)
            episode = await environment.run_slot(slot, model)

verifiers (0.4) has no MultiTurnEnv and no Rubric any more: an `Env` plays a task with the seat `agent`, one `turn`
after another, and writes rewards and metrics onto the trace. The reward is the sum of the turns' rewards; the
metrics are those of `ChatEpisode.summary`. The whole conversation is the model's context.

verifiers finds plugins by the name of a top-level module. Importing this module makes it known as
`agent_gym_verifiers` in this process; for the `vf-eval` command and for prime-rl, which start processes of their
own, put a file of that name on the path that imports the three names of `__all__` from here.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from agent_gym.adapters.episodes import ChatEpisode, missing, task_rows

try:
    import httpx
    import verifiers.v1 as vf
    from verifiers.v1.dialects.chat import message_to_wire
except ImportError as error:
    raise missing("verifiers", error) from error

__all__ = ["AgentGymEnv", "AgentGymHarness", "AgentGymTaskset"]

PLUGIN = "agent_gym_verifiers"
sys.modules.setdefault(PLUGIN, sys.modules[__name__])


class AgentGymConfig(vf.TasksetConfig):
    """Which tasks: an id with its arguments, and how many (see `task_rows`)."""

    env_id: str = "Sokoban-v0"
    options: dict[str, Any] = {}  # noqa: RUF012 (pydantic copies it)
    count: int | None = None
    """Tasks; the whole set when None."""
    draw: int | None = None
    """Seed that draws the tasks; None takes them in the set's order."""
    reply_mode: str = "lenient"
    template: str = "prompt"
    thoughts: bool = False


class AgentGymData(vf.TaskData):
    """One task; `id` is the task id."""

    seed: int


class AgentGymTask(vf.Task[AgentGymData]):
    """One task; the environment scores it."""


class AgentGymTaskset(vf.Taskset[AgentGymTask, AgentGymConfig]):
    """The tasks of an id."""

    def load(self) -> Iterator[AgentGymTask]:
        """Yield the tasks."""
        config = self.config
        for row in task_rows(config.env_id, config.options, count=config.count, seed=config.draw):
            name = f"{config.env_id}#{row['task_id']}"
            yield AgentGymTask(AgentGymData(id=row["task_id"], name=name, seed=row["seed"]), config.task)

    def episode(self) -> ChatEpisode:
        """Return an environment for one episode."""
        config = self.config
        return ChatEpisode(
            config.env_id,
            config.options,
            reply_mode=config.reply_mode,
            template=config.template,
            thoughts=config.thoughts,
        )


class AgentGymHarnessConfig(vf.HarnessConfig):
    """Nothing to choose."""


class AgentGymHarness(vf.Harness[AgentGymHarnessConfig]):
    """One chat completion a turn, asked for in this process: nothing to install and nothing to start."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Send the conversation to the model, through verifiers' interception server, which records the turn."""
        system, prompt = self.resolve_prompt(data)
        messages = [] if system is None else [{"role": "system", "content": system}]
        given = [vf.UserMessage(content=prompt)] if isinstance(prompt, str) else prompt or []
        messages += [message_to_wire(message) for message in given]
        async with httpx.AsyncClient(timeout=None, trust_env=False, verify=_certificates()) as client:
            answer = await client.post(
                f"{endpoint}/chat/completions",
                headers={"Authorization": f"Bearer {secret}"},
                json={"model": ctx.model, "messages": messages},
            )
        return vf.ProgramResult(int(not answer.is_success), "", "" if answer.is_success else answer.text)


@cache
def _certificates() -> ssl.SSLContext:
    return ssl.create_default_context()  # takes longer to load than a turn does


class AgentGymEnvConfig(vf.EnvConfig):
    """The one seat, `agent`, on this machine."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class AgentGymEnv(vf.Env[AgentGymEnvConfig]):
    """Plays a task to its end and scores it."""

    async def run(self, task: AgentGymTask, agents: vf.Agents) -> None:
        """Play one episode; a model or a limit that gives up leaves the rewards so far."""
        episode = self.taskset.episode()
        # Searches and browsers wait, so every turn leaves the event loop.
        message = await asyncio.to_thread(episode.start, seed=task.data.seed, task_id=task.data.id)
        async with agents.agent.interaction(task) as interaction:
            while not episode.over:
                segment = await interaction.turn(message)
                if segment.terminated:
                    break
                message = await asyncio.to_thread(episode.answer, segment.last_reply)
        trace = interaction.trace
        if not trace.errors:
            trace.record_reward("return", episode.total_reward)
            trace.record_metrics(episode.summary())
            trace.info.update(task_id=episode.info["task_id"], stop_reason=episode.info["stop_reason"])
        episode.close()


def load_environment(env_id: str, options: Mapping[str, Any] | None = None, **settings: Any) -> AgentGymEnv:
    """Return the environment of an id.

    Args:
        env_id: Full or short id.
        options: Arguments of the environment.
        settings: Further fields of `AgentGymConfig`.
    """
    taskset = {"id": PLUGIN, "env_id": env_id, "options": dict(options or {}), **settings}
    return AgentGymEnv(AgentGymEnvConfig.model_validate({"taskset": taskset}))
