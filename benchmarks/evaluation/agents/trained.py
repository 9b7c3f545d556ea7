"""The policy of a training run, played as the run plays it: its prompt, context, reply rules and sampling."""

from __future__ import annotations

import json
import shlex
import warnings
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_gym.core.make import full_id
from agent_gym.play.driver import EnvHandle
from agent_gym.support.checks import check_choice
from agent_gym.support.errors import AgentGymWarning, ConfigError, DataError
from benchmarks.evaluation.agents.base import AgentKind, AgentSettings, Contestant
from benchmarks.evaluation.agents.play_options import no_options

if TYPE_CHECKING:
    from trainers.settings.env import EnvSettings
    from trainers.settings.run import TrainConfig


class Weights(StrEnum):
    """Which of a run's policies plays."""

    LATEST = "latest"
    """That of the latest whole checkpoint."""
    BEST = "best"
    """That of the checkpoint with the best evaluation."""
    REFERENCE = "reference"
    """The one before reinforcement learning."""


class RunKind(AgentKind):
    """`run:FOLDER` plays the latest whole checkpoint, `run:FOLDER@best` the one of the best evaluation,
    `run:FOLDER@reference` the policy before reinforcement learning."""

    name = "run"
    usage = "run:FOLDER[@latest|@best|@reference]"
    summary = "a policy that `agent-gym train` made"

    def make(self, argument: str, handle: EnvHandle, settings: AgentSettings) -> Contestant:
        """Load the policy and make its agent; imports torch."""
        no_options(self.name, settings.options)
        from trainers.policy.devices import configure_torch
        from trainers.policy.loading import load_trained
        from trainers.rollout.agent import EpisodeDraws, PolicyAgent
        from trainers.rollout.conversation import prompt_encoder
        from trainers.rollout.environments import prompt_builder
        from trainers.rollout.samplers.hf import HFSampler
        from trainers.run.folder import RunFolder

        path, which = _parse(argument)
        folder = RunFolder.open(path)
        config = folder.config()
        configure_torch(config.run)
        weights, step = _weights(folder, which)
        policy = load_trained(weights, config.model, settings.device)
        sampling = config.evaluation_sampling
        env = _settings_for(config, handle.env_id)
        encoder = prompt_encoder(policy, prompt_builder(handle, env), config)
        draws = None if sampling.greedy else EpisodeDraws()
        player = PolicyAgent(encoder, HFSampler(policy, max_batch=settings.parallel), sampling, draws)
        identity: dict[str, Any] = {
            "checkpoint": which.value,
            "step": step,
            "checksum": policy.checksum(),
            "parameters": policy.n_parameters,
            "algorithm": config.algorithm_name,
            "training_seed": config.seed,
            "trained_on": {"env_id": env.id, "split": env.train_split},
            "prompt": env.prompt,
            "context": config.env.context.value,
            "history_length": env.history_length,
            "thoughts": config.env.thoughts,
            "reply_mode": config.env.reply_mode.value,
            "sampling": asdict(sampling),
        }
        return Contestant(f"{self.name}:{argument}", player, identity, config.env.reply_mode)

    def environment(self, argument: str) -> tuple[str, dict[str, Any]]:
        """Return the environment that the run trains on; of a mix the first one, and a warning names the others."""
        from trainers.run.folder import RunFolder
        from trainers.settings.env import at_stage, parts

        path = _parse(argument)[0]
        first, *others = (at_stage(part.settings, -1) for part in parts(RunFolder.open(path).config().env))
        if others:
            warnings.warn(
                f"{path} trains on {len(others) + 1} environments, of which this plays {first.id}; "
                f"for the others give {' or '.join(_arguments(env) for env in others)}",
                AgentGymWarning,
                stacklevel=2,
            )
        return first.id, dict(first.options)

    def seed(self, argument: str) -> int:
        """Return the run's seed, with which it evaluates itself: the same tasks are the same episodes."""
        from trainers.run.folder import RunFolder

        return RunFolder.open(_parse(argument)[0]).config().seed


def _arguments(env: EnvSettings) -> str:
    """Return an environment as it is named on a command line."""
    words = ["--env", env.id]
    for name, value in env.options.items():
        words += ["--option", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    return shlex.join(words)


def _settings_for(config: TrainConfig, env_id: str = "") -> EnvSettings:
    """Return the run's settings of an environment, at its last stage; the first one's where there is no such."""
    from trainers.settings.env import at_stage, parts

    found = [at_stage(part.settings, -1) for part in parts(config.env)]
    return next((env for env in found if full_id(env.id) == env_id), found[0])


def _parse(argument: str) -> tuple[Path, Weights]:
    """Split `FOLDER@which`; a folder whose own name holds an @ is taken as it is."""
    if not argument:
        raise ConfigError(f"agent 'run' needs a run folder: {RunKind.usage}")
    folder, at, which = argument.rpartition("@")
    if not at or Path(argument).is_dir():
        return Path(argument), Weights.LATEST
    return Path(folder), check_choice(f"run:{argument}: what stands after the @", Weights, which)


def _weights(folder: Any, which: Weights) -> tuple[Path, int | None]:
    """Return the folder of the weights and the iteration they are from."""
    from trainers.run.checkpoint import CheckpointStore

    if which is Weights.REFERENCE:
        if not folder.reference.is_dir():
            raise DataError(f"{folder.path} holds no {which} policy yet; let the run get through its start")
        return folder.reference, None
    store = CheckpointStore(folder.checkpoints)
    checkpoint = store.best() if which is Weights.BEST else store.latest()
    if checkpoint is None:
        what = "evaluated checkpoint" if which is Weights.BEST else "whole checkpoint"
        raise DataError(
            f"{folder.path} holds no {what}; `run:{folder.path}@{Weights.REFERENCE}` plays the policy before "
            "reinforcement learning"
        )
    return checkpoint.model_folder, checkpoint.step
