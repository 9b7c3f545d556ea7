"""The selective term of STAPO (arXiv 2607.04963): act on turns that neglect their trajectory, and on no others.

With x the prompt of an outlier turn, x~ the same prompt without goal and history, and y its sampled reply:

    R_TA(y) = mean over tokens of min( KL( pi(.|x, y<t) || pi(.|x~, y<t) ), kappa )
    P_TI(y) = mean entropy of pi(.|x, y<t), and that of pi(.|x~, y<t)

    loss += ( - alpha sum R_TA + beta sum H(pi|x) + gamma_s sum H(pi|x~) ) / outliers of the minibatch

The reward asks the reply to depend on goal and history. By itself it could be raised by blowing up either
distribution; the two entropies stop that. They push entropy down, so each is switched off for a reply whose mean
entropy is below `entropy_floor`. Nothing of it enters the advantages, and without an outlier or with zero weights
the update is that of the algorithm without the term, bit for bit.

The divergence is computed from whole distributions, or from the `top_k` likeliest tokens and one bucket for the
rest. An estimate from the sampled tokens alone would not do: maximising it can push a sampled token's probability
down. Gradients flow through both prompts.

Departures from the paper, whose text leaves these open: the cap kappa, the floor, and the reading of P_TI as the
pair of entropies (the double entropy of arXiv 2507.06448).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from agent_gym.support.errors import DataError
from trainers.policy.logprobs import entropy_of
from trainers.policy.policy import Policy
from trainers.policy.token_rows import NO_SEGMENT, TokenRow, pad_rows, plan_microbatches
from trainers.settings.stapo import StapoSettings

_LOGITS_PER_PASS = 2**26
"""Log-probabilities held at once: 256 MiB in float32, and several times that for their gradient."""


@dataclass(frozen=True, eq=False)
class TurnTerms:
    """The parts of the term for S turns; tensors [S], with graph where it was asked for."""

    reward: Tensor
    """R_TA; 0 where no masked prompt was given."""
    entropy: Tensor
    """Mean entropy under the full prompt."""
    masked_entropy: Tensor
    """Mean entropy under the masked prompt; 0 where none was given."""
    capped: Tensor
    """Share of tokens whose divergence is above the cap."""


@dataclass(frozen=True)
class SelectiveReport:
    """Sums over the outlier turns of one optimiser step; those of ranks add up."""

    turns: float = 0.0
    """Outlier turns."""
    reward: float = 0.0
    """Sum of R_TA."""
    entropy: float = 0.0
    """Sum of entropies under the full prompt."""
    masked_entropy: float = 0.0
    """Sum of entropies under the masked prompt."""
    capped: float = 0.0
    """Sum of shares of tokens above the cap."""
    unmasked: float = 0.0
    """Turns whose prompt held nothing to mask."""
    loss: float = 0.0
    """What the term added to the loss."""

    @property
    def name(self) -> str:
        """Name of the term in metrics."""
        return "stapo"

    def __add__(self, other: SelectiveReport) -> SelectiveReport:
        return SelectiveReport(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def stats(self) -> dict[str, float]:
        """Return metrics (`trainers.run.metrics.METRICS`) as means over the turns; none without a turn."""
        if not self.turns:
            return {}
        return {
            "stapo/reward": self.reward / self.turns,
            "stapo/entropy_full": self.entropy / self.turns,
            "stapo/entropy_masked": self.masked_entropy / self.turns,
            "stapo/capped_share": self.capped / self.turns,
            "stapo/unmasked_share": self.unmasked / self.turns,
        }


def divergence(logp_NV: Tensor, other_NV: Tensor, top_k: int = 0) -> Tensor:
    """KL( p || q ) of N pairs of normalised log-distributions, [N], in nats.

    Args:
        logp_NV: log p.
        other_NV: log q.
        top_k: 0 sums over the vocabulary. k sums over the k likeliest tokens of p and one bucket that holds the
            rest of both, which is a lower bound of the whole sum (merging outcomes loses information).
    """
    least = torch.finfo(logp_NV.dtype).min
    p, q = logp_NV.clamp_min(least), other_NV.clamp_min(least)
    if not 0 < top_k < p.shape[-1]:
        return (p.exp() * (p - q)).sum(-1)
    ids = p.detach().topk(top_k, dim=-1).indices
    p, q = p.gather(-1, ids), q.gather(-1, ids)
    head = (p.exp() * (p - q)).sum(-1)
    tiny = torch.finfo(logp_NV.dtype).eps
    rest_p, rest_q = ((1 - side.exp().sum(-1)).clamp_min(tiny) for side in (p, q))
    return head + rest_p * (rest_p / rest_q).log()


def turn_terms(
    logp_NV: Tensor, masked_NV: Tensor | None, turn_N: Tensor, n_turns: int, settings: StapoSettings
) -> TurnTerms:
    """Compute reward and entropies of each turn.

    Args:
        logp_NV: Log-distributions at the N sampled tokens under the full prompts.
        masked_NV: The same under the masked prompts, token by token; None when nothing reads them.
        turn_N: Turn of each token, int64, from 0 to `n_turns` - 1.
        n_turns: S.
        settings: Cap and `top_k`.
    """
    count = torch.bincount(turn_N, minlength=n_turns).clamp_min(1)

    def mean(values_N: Tensor) -> Tensor:
        return values_N.new_zeros(n_turns).index_add(0, turn_N, values_N) / count

    entropy = mean(entropy_of(logp_NV))
    if masked_NV is None:
        nothing = torch.zeros_like(entropy.detach())
        return TurnTerms(nothing, entropy, nothing, nothing)
    kl_N = divergence(logp_NV, masked_NV, settings.top_k)
    return TurnTerms(
        reward=mean(kl_N.clamp_max(settings.kappa)),
        entropy=entropy,
        masked_entropy=mean(entropy_of(masked_NV)),
        capped=mean((kl_N.detach() > settings.kappa).to(kl_N.dtype)),
    )


def selective_loss(terms: TurnTerms, settings: StapoSettings, n_outliers: int) -> Tensor:
    """Return the term's share of the loss, a scalar, for some of the outlier turns of a minibatch.

    Args:
        terms: Parts of these turns.
        settings: Weights and floor.
        n_outliers: Outlier turns of the whole minibatch, over all micro-batches and ranks.
    """
    alpha, beta, gamma_s = settings.weights

    def penalised(entropy_S: Tensor) -> Tensor:
        return torch.where(entropy_S >= settings.entropy_floor, entropy_S, 0.0).sum()

    total = -alpha * terms.reward.sum()
    if beta:
        total = total + beta * penalised(terms.entropy)
    if gamma_s:
        total = total + gamma_s * penalised(terms.masked_entropy)
    return total / max(n_outliers, 1)


def masked_row(row: TokenRow, prompt: Sequence[int]) -> TokenRow:
    """Return a turn's row with another prompt before the same reply.

    Args:
        row: Row of one turn: a prompt, then a reply.
        prompt: Ids of the other prompt.

    Raises:
        DataError: The row holds something after its reply, or several replies.
    """
    start = split_row(row)
    return TokenRow.from_reply(prompt, row.ids[start:], segment=turn_of(row), episode=row.episode)


def split_row(row: TokenRow) -> int:
    """Return where the reply of a turn's row starts.

    Raises:
        DataError: The row is no prompt followed by one reply.
    """
    if not any(row.mask) or not all(row.mask[row.mask.index(True) :]):
        raise DataError(
            "a prompt can be masked in rows of one turn (env.context='window'), a prompt followed by its reply; "
            f"this row of {len(row)} tokens has its {row.reply_tokens} sampled ones elsewhere"
        )
    return row.mask.index(True)


def plan_selective(
    policy: Policy,
    rows: Sequence[TokenRow],
    masked: Mapping[int, Sequence[int]],
    settings: StapoSettings,
    max_tokens: int,
) -> list[tuple[int, ...]]:
    """Cut outlier rows into micro-batches within the budgets of tokens and of log-probabilities.

    Args:
        policy: The policy, for the size of its vocabulary.
        rows: Rows of outlier turns, one turn each.
        masked: Turn -> ids of its masked prompt.
        settings: Settings.
        max_tokens: Most tokens in a forward pass, padding included.

    Returns:
        Indices of rows; a pure function of the arguments, so that ranks know each other's number of passes.
    """
    copies = 2 if settings.masks else 1
    vocabulary = int(policy.model.config.get_text_config().vocab_size)
    lengths = []
    for row in rows:
        longest = len(row)
        if settings.masks:
            longest = max(longest, len(masked[turn_of(row)]) + row.reply_tokens)
        # As many tokens as would fill the budget of tokens to the degree that the log-probabilities fill theirs.
        share = row.reply_tokens * vocabulary / _LOGITS_PER_PASS
        lengths.append(copies * max(longest, int(share * max_tokens)))
    return plan_microbatches(lengths, max_tokens)


def selective_backward(
    policy: Policy,
    rows: Sequence[TokenRow],
    plan: Sequence[Sequence[int]],
    masked: Mapping[int, Sequence[int]],
    settings: StapoSettings,
    *,
    n_outliers: int,
    temperature: float,
    passes: int = 0,
) -> tuple[SelectiveReport, dict[int, float]]:
    """Add the gradient of the term over outlier turns to the policy's.

    Full and masked rows of a micro-batch run in one forward pass.

    Args:
        policy: The policy in training.
        rows: Rows of outlier turns, one turn each.
        plan: Micro-batches of them, see `plan_selective`.
        masked: Turn -> ids of its masked prompt; read only when a term needs it.
        settings: Settings.
        n_outliers: Outlier turns of the whole minibatch, over all ranks.
        temperature: Sampling temperature, at which distributions are evaluated.
        passes: Passes to take at least; empty ones make up the number that other ranks need.

    Returns:
        The sums, and R_TA of each turn.
    """
    report = SelectiveReport()
    rewards: dict[int, float] = {}
    for part in plan:
        turns = [rows[index] for index in part]
        twins = [masked_row(row, masked[turn_of(row)]) for row in turns] if settings.masks else []
        padded = pad_rows([*turns, *twins], policy.pad_id)
        logp_NV = policy.log_distributions(padded, temperature)
        lengths = torch.tensor([row.reply_tokens for row in turns])
        turn_N = torch.repeat_interleave(torch.arange(len(turns)), lengths).to(logp_NV.device)
        full_NV = logp_NV[: len(turn_N)]
        terms = turn_terms(full_NV, logp_NV[len(turn_N) :] if twins else None, turn_N, len(turns), settings)
        loss = selective_loss(terms, settings, n_outliers)
        loss.backward()
        report += SelectiveReport(
            turns=float(len(turns)),
            reward=float(terms.reward.detach().sum()),
            entropy=float(terms.entropy.detach().sum()),
            masked_entropy=float(terms.masked_entropy.detach().sum()),
            capped=float(terms.capped.sum()),
            unmasked=float(sum(row.ids == twin.ids for row, twin in zip(turns, twins, strict=False))),
            loss=float(loss.detach()),
        )
        values = terms.reward.detach().tolist()
        rewards |= {turn_of(row): value for row, value in zip(turns, values, strict=True)}
    for _ in range(passes - len(plan)):
        nothing = TokenRow((policy.pad_id,), (False,), (NO_SEGMENT,))
        policy.log_distributions(pad_rows([nothing], policy.pad_id), temperature).sum().backward()
    return report, rewards


def turn_of(row: TokenRow) -> int:
    """Return the turn of a row that holds one: the segment of its sampled tokens.

    Raises:
        DataError: As `split_row`.
    """
    return 0 if row.segments is None else row.segments[split_row(row)]
