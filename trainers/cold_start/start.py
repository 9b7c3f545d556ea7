"""The policy that training starts from: loaded or built, cloned from experts, and kept in the run folder."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from agent_gym.core.prompts import PromptBuilder
from agent_gym.core.tasks import TaskSet
from agent_gym.play.request import EpisodeRequest
from agent_gym.support.errors import ConfigError
from agent_gym.support.seeding import derive_seed
from trainers.cold_start.cloning import Cloning, CloningStep
from trainers.cold_start.experts import ExpertEpisode, corpus, expert_rows, play_expert
from trainers.context import RunContext, RunStoppedError
from trainers.policy.loading import load_policy, load_trained, prepare_training, tiny_policy
from trainers.policy.policy import Policy
from trainers.rollout.conversation import prompt_encoder
from trainers.rollout.curriculum import apportion
from trainers.rollout.environments import TrainEnvs, prompt_builder
from trainers.rollout.task_order import TaskSampler
from trainers.run.checkpoint import CheckpointStore
from trainers.settings.model import TINY
from trainers.settings.run import TrainConfig

_SAVE_SECONDS = 60.0
"""Time between checkpoints of cloning: what a kill costs at most."""
THOUGHTLESS = (
    "The prompt asks for a thought (env.thoughts=true), but the experts' replies hold none: cloning teaches the "
    "policy to answer without thinking. A model that can think needs no cloning (cloning.episodes=0); else set "
    "env.thoughts=false."
)
"""What is said before the replies of experts are cloned for a prompt that asks for thoughts."""
_TOKENIZER_EPISODES = 100  # oracle episodes that a tokenizer is trained on when none are cloned


class ColdStart:
    """Makes or loads the policy that a run starts from.

    It is kept in the run folder, so that a resumed run starts from the same one. A single process may be stopped
    meanwhile; of several, the main one makes the policy, and the others wait for it and load it.

    Args:
        context: The run.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._config, self._folder = context.config, context.folder
        self._reporter, self._ranks = context.reporter, context.ranks

    def policy(self, envs: TrainEnvs) -> Policy:
        """Return the policy after the cold start, loaded if an earlier part of the run made it.

        Raises:
            RunStoppedError: The run was asked to stop meanwhile.
        """
        config = self._config
        device = self._ranks.device(config.device)
        made = self._ranks.from_main(self._folder.reference.is_dir())
        if not made and self._ranks.size == 1:
            return self._cold_start(envs, device)
        if not made:
            self._ranks.main_first("cold start", lambda: self._cold_start(envs, device))
        return self._prepared(load_trained(self._folder.reference, config.model, device))

    def _cold_start(self, envs: TrainEnvs, device: str) -> Policy:
        """Make the policy that training starts from, and keep it."""
        config = self._config
        started = time.perf_counter()
        tiny = config.model.path == TINY
        # A model is loaded first: what is wrong with it shows before the experts play.
        loaded = None if tiny else self._prepared(load_policy(config.model, device))
        if config.cloning.episodes and config.env.thoughts:
            self._reporter.say(THOUGHTLESS)
        experts = self._experts(envs, config.cloning.episodes or (_TOKENIZER_EPISODES if tiny else 0))
        if loaded is None:
            texts = [text for builder, played in experts for text in corpus(played, builder)]
            grammars = [env.train.handle.env.reply_grammar for env in envs.envs]
            policy = self._prepared(tiny_policy(texts, config.model, config.seed, device, grammars))
        else:
            policy = loaded
        n_experts = sum(len(played) for _, played in experts)
        report: dict[str, Any] = {"parameters": policy.n_parameters, "oracle_episodes": n_experts}
        if config.cloning.episodes:
            rows = [
                row
                for builder, played in experts
                for row in expert_rows(played, prompt_encoder(policy, builder, config), policy)
            ]
            last = self._clone(Cloning(policy, rows, config.cloning, seed=derive_seed(config.seed, "cloning")))
            report |= {"rows": len(rows), "steps": last.total, "loss": last.loss}
        report["seconds"] = round(time.perf_counter() - started, 2)
        self._folder.save_reference(policy)
        self._folder.update_summary({"cold_start": report})
        return policy

    def _clone(self, cloning: Cloning) -> CloningStep:
        """Take the steps that are left, saving them now and then, and return the last one."""
        store = CheckpointStore(self._folder.cold_start, keep_last=1)
        found = store.latest()
        if found is not None and cloning.resume(found):
            self._reporter.say(f"Resuming the cold start after step {cloning.done} of {cloning.total}.")
        saved = time.monotonic()
        with self._reporter.phase("Cloning", cloning.total - cloning.done) as advance:
            for step in cloning.steps():
                advance(f"loss {step.loss:.3f}, action accuracy {step.content_accuracy:.2f}")
                left = cloning.total - cloning.done
                stop = left > 0 and self._stopping()
                if stop or (left > 0 and time.monotonic() - saved > _SAVE_SECONDS):
                    cloning.save(store)
                    saved = time.monotonic()
                if stop:
                    raise RunStoppedError
        return step

    def _stopping(self) -> bool:
        return self._ranks.size == 1 and self._context.should_stop()

    def _check(self) -> None:
        if self._stopping():
            raise RunStoppedError

    def _prepared(self, policy: Policy) -> Policy:
        for note in prepare_training(policy, self._config):
            self._reporter.say(note)
        return policy

    def _experts(self, envs: TrainEnvs, count: int) -> list[tuple[PromptBuilder, list[ExpertEpisode]]]:
        """Play the oracle in every environment, as often as its weight says, at the first stage."""
        config = self._config
        found: list[tuple[PromptBuilder, list[ExpertEpisode]]] = []
        for env, share in zip(
            envs.envs,
            apportion(count, [env.weight for env in envs.envs]),
            strict=True,
        ):
            builder = prompt_builder(env.train.handle, env.settings)
            if not share:
                found.append((builder, []))
                continue
            ids = TaskSampler(outside_pool(env.train.handle.env.tasks, config), config.seed).draw(share)
            requests = [EpisodeRequest(task, derive_seed(config.seed, "expert", task)) for task in ids]
            of = f" of {env.name}" if env.name else ""
            with self._reporter.phase(f"Oracle episodes{of}", len(requests)) as advance:

                def progress(*_: object, advance: Callable[..., None] = advance) -> None:
                    advance()
                    self._check()

                played = play_expert(
                    env.train.handle,
                    env.train.runner,
                    requests,
                    config.cloning.min_score,
                    noise=config.cloning.noise,
                    on_episode=progress,
                )
            found.append((builder, played))
        return found


def outside_pool(tasks: TaskSet, config: TrainConfig) -> TaskSet:
    """Return the tasks that cloning may play: all but the pool, so that the pool is new to the policy."""
    size = config.env.pool_size
    if size is None:
        return tasks
    if len(tasks.ids) <= size:
        raise ConfigError(
            f"env.pool_size={size} takes all {len(tasks.ids)} tasks of split {tasks.split!r}, so that none is left "
            "to clone on; lower it"
        )
    return tasks.subset(tasks.ids[size : size + max(config.cloning.episodes, _TOKENIZER_EPISODES)])
