"""A small policy and small rows that several test files share."""

from __future__ import annotations

import functools
import random

import torch

from trainers.policy.policy import Policy
from trainers.policy.tiny import TinySpec, build_tiny
from trainers.policy.token_rows import TokenRow

CELLS = "#_O√XPS"
SPEC = TinySpec(hidden=32, layers=2, heads=2, max_positions=256)


def board(generator: random.Random, size: int = 6) -> str:
    """Return a board of space-separated symbols."""
    return "\n".join(" ".join(generator.choice(CELLS) for _ in range(size)) for _ in range(size))


def corpus(count: int = 60) -> list[str]:
    """Return texts such as an environment shows."""
    generator = random.Random(5)
    return [
        f"Push every box onto a goal.\n{board(generator)}\nActions: up, down, push left.\n"
        "<think>the box is on the left</think><action>push left</action> <action>up</action>"
        for _ in range(count)
    ]


@functools.cache
def _saved() -> Policy:
    torch.set_num_threads(1)
    return build_tiny(corpus(), SPEC)


def tiny_policy() -> Policy:
    """Return a policy with its own weights; the same ones at every call."""
    policy = _saved().reference_copy()
    policy.model.requires_grad_(True)
    return policy


def random_rows(policy: Policy, lengths: list[tuple[int, int]], seed: int = 0) -> list[TokenRow]:
    """Return rows of random ids with the given (prompt, reply) lengths."""
    generator = random.Random(seed)
    vocab = len(policy.tokenizer)

    def ids(count: int) -> list[int]:
        return [generator.randrange(vocab) for _ in range(count)]

    return [
        TokenRow.from_reply(ids(prompt), ids(reply), segment=index, episode=index)
        for index, (prompt, reply) in enumerate(lengths)
    ]
