"""What a sampler is: prompts in, sampled ids with their log-probabilities out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from agent_gym.play.reply import Sample
from trainers.settings.sampling import SamplingSettings

if TYPE_CHECKING:
    import torch

    from trainers.policy.policy import Policy

    Draws = torch.Generator | Sequence[torch.Generator]


class Sampler(Protocol):
    """Draws replies from a policy. It keeps no random state between calls."""

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        settings: SamplingSettings,
        generator: Draws | None = None,
    ) -> list[Sample]:
        """Draw one reply per prompt, in the order of `prompts`.

        Args:
            prompts: Prompt ids; lengths may differ, equal prompts are independent draws.
            settings: How to draw.
            generator: CPU generator that all randomness comes from, or one a prompt, so that a reply does not
                depend on the prompts it is batched with; not needed when greedy.
        """
        ...

    def sync(self, policy: Policy) -> None:
        """Draw from the current weights of `policy` from now on."""
        ...

    def close(self) -> None:
        """Give back what outlives the sampler, such as files; it draws no more. A second call does nothing."""
        ...
