"""What an agent answers, and the sample behind it where a language model of this process drew it."""

from __future__ import annotations

from dataclasses import dataclass

from agent_gym.core.info import FinishReason, StopReason


@dataclass(frozen=True, slots=True)
class Sample:
    """One sampled reply, exactly as drawn.

    Attributes:
        ids: Sampled ids, the end token included when it was sampled.
        logprobs: Log-probability of each id at the sampling temperature, before truncation, in nats.
        finish_reason: Whether the model ended the reply or the limit cut it.
        entropies: Entropy in nats at each id, before truncation; None unless asked for.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: FinishReason
    entropies: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """An agent's answer to one running episode.

    Attributes:
        text: The reply, in the environment's reply grammar.
        finish_reason: Why it ended.
        stop: Set to end the episode instead of answering (a context that no longer fits).
        prompt_ids: Token ids of the prompt, where the agent has them.
        sample: What was sampled, where the agent has it.
        prompt_tokens: Tokens of the prompt, where the agent knows their number only.
        reply_tokens: Tokens of the reply, likewise.
        seconds: Wall-clock seconds that this reply took; None where replies are made together.
        error: With `stop`: what failed beside the agent, as `name: explanation`.
    """

    text: str
    finish_reason: FinishReason = FinishReason.STOP
    stop: StopReason | None = None
    prompt_ids: tuple[int, ...] | None = None
    sample: Sample | None = None
    prompt_tokens: int | None = None
    reply_tokens: int | None = None
    seconds: float | None = None
    error: str | None = None

    @classmethod
    def sampled(cls, text: str, prompt_ids: tuple[int, ...], sample: Sample) -> Reply:
        """Return the reply that a sample says.

        Args:
            text: The sample's text.
            prompt_ids: Token ids of the prompt.
            sample: What was drawn; it says why the reply ended.
        """
        return cls(text, sample.finish_reason, prompt_ids=prompt_ids, sample=sample)
