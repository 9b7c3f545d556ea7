"""The parts of a run, made from its settings and put where the last checkpoint left them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass

import torch

from trainers.cold_start.start import ColdStart
from trainers.context import RunContext
from trainers.evaluate import RunEvaluator
from trainers.policy.devices import configure_torch
from trainers.policy.logprobs import Scorer
from trainers.policy.lora import reference_of
from trainers.policy.policy import Policy
from trainers.policy.ranks import Ranks
from trainers.preflight import check_parts, check_prompts
from trainers.rollout.collect import GroupCollector
from trainers.rollout.conversation import PromptEncoder, prompt_encoder
from trainers.rollout.environments import TrainEnv, TrainEnvs, prompt_builder
from trainers.rollout.masked_prompts import PromptSources
from trainers.rollout.samplers.base import Sampler
from trainers.rollout.samplers.make import make_sampler
from trainers.run.checkpoint import Checkpoint
from trainers.settings.run import TrainConfig
from trainers.update.schedules import LearningRate
from trainers.update.updater import Updater

ENVS = "lanes"
"""Key of the environments' state in a checkpoint, in the words of the first format."""


@dataclass(frozen=True)
class RunParts:
    """What a run is made of while it trains.

    Attributes:
        policy: The policy in training.
        envs: The environments, their tasks and curricula.
        sampler: Engine with the policy's weights.
        collector: Samples the groups of an iteration.
        updater: Takes optimiser steps.
        evaluator: Evaluates the policy.
        sources: What the prompts of an iteration were rendered from; None where nothing masks them.
        ranks: The processes of the run.
        first: Iterations done before.
    """

    policy: Policy
    envs: TrainEnvs
    sampler: Sampler
    collector: GroupCollector
    updater: Updater
    evaluator: RunEvaluator
    sources: PromptSources | None
    ranks: Ranks
    first: int

    def drawing(self) -> AbstractContextManager[None]:
        """Return a context in which the processes may draw from the policy without waiting for each other."""
        return _drawing(self.policy, self.ranks)


@contextmanager
def open_parts(context: RunContext, latest: Callable[[], Checkpoint | None]) -> Iterator[RunParts]:
    """Check the settings, make the parts, and close them afterwards.

    Args:
        context: The run.
        latest: Finds the checkpoint where the run goes on; None begins it, with the cold start.

    Raises:
        ConfigError: Something that the settings name is not here.
        RunStoppedError: The run was asked to stop during its cold start.
    """
    config, ranks = context.config, context.ranks
    check_parts(config, ranks, started=ranks.from_main(context.folder.reference.is_dir()))
    configure_torch(config.run)
    with ExitStack() as stack:
        envs = stack.enter_context(closing(TrainEnvs.make(config, ranks.size)))
        check_prompts(envs)
        checkpoint = latest()
        policy = ColdStart(context).policy(envs)
        updater = _updater(context, policy, checkpoint)
        first = 0
        if checkpoint is not None:
            state = checkpoint.restore(
                model=policy, optimizer=updater.optimizer, scheduler=updater.scheduler, weights=False
            )
            first = checkpoint.step
            envs.load_state_dict(state[ENVS])
            context.reporter.say(f"Resuming after iteration {first} of {config.iterations}.")
        sampler = stack.enter_context(closing(make_sampler(policy, config.rollout)))
        sources = None if config.algorithm.stapo is None else PromptSources()
        yield RunParts(
            policy=policy,
            envs=envs,
            sampler=sampler,
            collector=_collector(context, policy, envs, sampler, sources),
            updater=updater,
            evaluator=RunEvaluator(context, policy, sampler, envs, lambda: _drawing(policy, ranks)),
            sources=sources,
            ranks=ranks,
            first=first,
        )


def _updater(context: RunContext, policy: Policy, checkpoint: Checkpoint | None) -> Updater:
    """Return the updater of a policy, which is given its weights and spread over the processes."""
    config, ranks = context.config, context.ranks
    reference = reference_of(policy) if config.algorithm.kl_coef > 0 else None
    if checkpoint is not None:
        policy.load_weights(checkpoint.model_folder)
    _shard(policy, reference, ranks)
    optim = config.optim
    optimizer = torch.optim.AdamW(
        policy.parameters(),
        lr=optim.learning_rate,
        betas=(optim.beta1, optim.beta2),
        weight_decay=optim.weight_decay,
    )
    scheduler = LearningRate(optimizer, optim.learning_rate, optim.warmup_steps, optim.schedule, config.iterations)
    return Updater(
        policy,
        optimizer,
        scheduler,
        algorithm=config.algorithm,
        settings=optim,
        temperature=config.rollout.temperature,
        reference=reference,
        importance_cap=config.rollout.importance_cap if config.rollout.importance_correction else None,
        ranks=ranks,
    )


def _collector(
    context: RunContext, policy: Policy, envs: TrainEnvs, sampler: Sampler, sources: PromptSources | None
) -> GroupCollector:
    config: TrainConfig = context.config

    def encoder(env: TrainEnv) -> PromptEncoder:
        return prompt_encoder(policy, prompt_builder(env.train.handle, env.settings), config, sources)

    return GroupCollector(
        envs,
        encoder,
        sampler,
        sampling=config.rollout.sampling(),
        algorithm=config.algorithm,
        groups=config.rollout.groups,
        group_size=config.rollout.group_size,
        seed=config.seed,
        ranks=context.ranks,
    )


def _shard(policy: Policy, reference: Scorer | None, ranks: Ranks) -> None:
    if ranks.size > 1:
        from trainers.policy.sharding import shard

        shard(policy, ranks)
        if isinstance(reference, Policy):
            shard(reference, ranks)


def _drawing(policy: Policy, ranks: Ranks) -> AbstractContextManager[None]:
    if ranks.size == 1:
        return nullcontext()
    from trainers.policy.sharding import whole_weights

    return whole_weights(policy)
