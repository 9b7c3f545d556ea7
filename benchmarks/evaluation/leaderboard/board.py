"""Entries of one task list in one table, and paired differences between them.

Two agents are compared on the tasks that both have a valid attempt at; their difference is a mean over those tasks,
with an interval over tasks. Results over different task lists never share a table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_gym.support.errors import ConfigError, suggest
from agent_gym.support.intervals import Interval, paired_difference
from benchmarks.evaluation.leaderboard.entries import DIGITS, Contest, Entry, Outcome


@dataclass(frozen=True)
class Comparison:
    """An entry against the reference of its table.

    Attributes:
        success: Difference of the success rates, with its interval over the common tasks.
        score: Difference of the task scores.
        common: Tasks that both played.
    """

    success: Interval
    score: Interval
    common: int


@dataclass(frozen=True)
class Row:
    """One line of a table.

    Attributes:
        name: Name of the agent, unlike the others of the table.
        entry: Its result.
        comparison: The difference to the reference; None for the reference itself, and where there is none.
    """

    name: str
    entry: Entry
    comparison: Comparison | None


@dataclass(frozen=True)
class Section:
    """One table.

    Attributes:
        contest: What all its rows share.
        rows: Best success first, then best score; results with episodes missing or in error come last.
        reference: Name of the agent that the others are compared with, "" when it is not in this table.
    """

    contest: Contest
    rows: tuple[Row, ...]
    reference: str

    @property
    def has_scores(self) -> bool:
        """Whether a score says more than success does."""
        return any(row.entry.figures.score.value != row.entry.figures.success.value for row in self.rows)

    @property
    def counts_tokens(self) -> bool:
        """Whether the tokens sampled are known of any row."""
        return any(row.entry.figures.reply_tokens is not None for row in self.rows)

    @property
    def attempts(self) -> list[int]:
        """Numbers of attempts k > 1 for which pass@k is known of any row."""
        return sorted({k for row in self.rows for k in row.entry.figures.pass_at if k > 1})

    @property
    def types(self) -> list[str]:
        """Task types of all rows."""
        return sorted({kind for row in self.rows for kind in row.entry.figures.by_type})


@dataclass(frozen=True)
class Board:
    """All tables, by environment and split."""

    sections: tuple[Section, ...]

    @property
    def agents(self) -> list[str]:
        """Names of all agents, in order of their first place."""
        return list(dict.fromkeys(row.name for section in self.sections for row in section.rows))


def make_board(entries: Sequence[Entry], *, against: str | None = None, separate: bool = False) -> Board:
    """Arrange entries in tables.

    Args:
        entries: Results.
        against: Agent that the others are compared with; the first row of each table when None.
        separate: Give each task list a table of its own where results of one environment and split are of different
            lists or turn limits. Without it that is an error.

    Raises:
        ConfigError: Results of one environment and split cannot share a table, or there is no agent `against`.
    """
    contests: dict[Contest, list[Entry]] = defaultdict(list)
    for entry in entries:
        contests[entry.contest].append(entry)
    if not separate:
        _refuse_mixture(contests)
    ordered = sorted(contests, key=lambda c: (c.env_id, c.options, c.split, c.tasks, c.digest, c.max_turns))
    sections = tuple(_section(contest, contests[contest], against) for contest in ordered)
    board = Board(sections)
    if against is not None and not any(section.reference for section in sections):
        raise ConfigError(
            f"no agent {against!r} among the results.{suggest(against, board.agents)} "
            f"Agents: {', '.join(board.agents)}"
        )
    return board


def _refuse_mixture(contests: dict[Contest, list[Entry]]) -> None:
    """Raise when two results look alike but were played on different tasks or under different turn limits."""
    seen: dict[tuple[str, str, str], Contest] = {}
    for contest in contests:
        key = (contest.env_id, contest.options, contest.split)
        other = seen.setdefault(key, contest)
        if other == contest:
            continue
        first, second = contests[other][0], contests[contest][0]
        raise ConfigError(
            f"results of {contest.name}, split {contest.split!r}, cannot share a table: "
            f"{first.source or first.agent} has {_list_of(other)}, {second.source or second.agent} has "
            f"{_list_of(contest)}. Evaluate the agents on one list (the same --episodes and --max-turns), or add "
            "--separate for a table each"
        )


def _list_of(contest: Contest) -> str:
    limit = f"at most {contest.max_turns} turns" if contest.max_turns else "a turn limit for each task"
    return f"task list {contest.digest[:12]} ({contest.tasks} tasks, {limit})"


def _section(contest: Contest, entries: Sequence[Entry], against: str | None) -> Section:
    def rank(pair: tuple[str, Entry]) -> tuple[bool, float, float, str]:
        figures = pair[1].figures
        best = -round(figures.success.value, DIGITS), -round(figures.score.value, DIGITS)
        return not figures.whole, *best, pair[0]  # a rate of the tasks that happened to be played is no rank

    ranked = sorted(zip(_names(entries), entries, strict=True), key=rank)
    reference: tuple[str, Entry] | None = ranked[0]
    if against is not None:
        reference = next((pair for pair in ranked if against in (pair[0], pair[1].agent)), None)
    rows = tuple(
        Row(name, entry, None if reference is None or entry is reference[1] else compare(entry, reference[1]))
        for name, entry in ranked
    )
    return Section(contest, rows, "" if reference is None else reference[0])


def compare(entry: Entry, reference: Entry) -> Comparison | None:
    """Return the paired difference of two entries on their common tasks, None where they have none."""
    common = sorted(reference.outcomes.keys() & entry.outcomes.keys())  # one order, one interval
    if not common:
        return None

    def difference(of: Callable[[Outcome], float]) -> Interval:
        ours = [of(entry.outcomes[key]) for key in common]
        return paired_difference(ours, [of(reference.outcomes[key]) for key in common])

    return Comparison(
        difference(lambda outcome: outcome.success), difference(lambda outcome: outcome.score), len(common)
    )


def _names(entries: Sequence[Entry]) -> list[str]:
    """Return names that tell the entries of a table apart."""
    names = [entry.agent for entry in entries]
    for name in {name for name in names if names.count(name) > 1}:
        places = [place for place, other in enumerate(names) if other == name]
        for place, addition in zip(places, _tell_apart([entries[place] for place in places]), strict=True):
            names[place] = f"{name} ({addition})"
    return names


def _tell_apart(entries: Sequence[Entry]) -> list[str]:
    """Return what tells entries of one agent name apart: a setting or two, seeds, files, or their number."""
    settings = list(dict.fromkeys(name for entry in entries for name in entry.identity))
    differing = [name for name in settings if len({str(entry.identity.get(name)) for entry in entries}) > 1]
    readable = [name for name in differing if name != "checksum"][:2]
    candidates = (
        [", ".join(f"{name}={entry.identity.get(name)}" for name in readable) for entry in entries],
        ["seeds " + " ".join(map(str, entry.seeds)) for entry in entries],
        [entry.source for entry in entries],
    )
    for texts in candidates:
        if all(texts) and len(set(texts)) == len(texts):
            return list(texts)
    return [str(number) for number in range(1, len(entries) + 1)]


def select(entries: Sequence[Entry], env: str | None = None, split: str | None = None) -> list[Entry]:
    """Return the results of one environment (a part of its id) or split.

    Raises:
        ConfigError: There is none.
    """
    kept = [
        entry
        for entry in entries
        if (env is None or env.lower() in entry.contest.env_id.lower())
        and (split is None or split == entry.contest.split)
    ]
    if not kept:
        of_env = [entry.contest for entry in entries if env is None or env.lower() in entry.contest.env_id.lower()]
        known = sorted({contest.split for contest in of_env} or {entry.contest.env_id for entry in entries})
        asked = [
            f"{name} {value!r}" for name, value in (("environment", env), ("split", split)) if value is not None
        ]
        raise ConfigError(f"no results of {' and '.join(asked)}; there are: {', '.join(known)}")
    return kept
