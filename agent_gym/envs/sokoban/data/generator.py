"""Random solvable rooms of a given size, number of boxes and difficulty, and their splits.

A floor plan is carved, goals and player are placed, and the start is found by reverse play. Difficulty is the
fewest pushes that solve the room, from the solver. Every loop is bounded: a specification that cannot be
met is refused when it is made, or ends in an error that says what was found instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b

import numpy as np

from agent_gym.envs.sokoban.data.carving import carve, walk_length
from agent_gym.envs.sokoban.data.draws import Draws
from agent_gym.envs.sokoban.data.reverse_play import Start, reverse_play
from agent_gym.envs.sokoban.world.geometry import bitboard
from agent_gym.envs.sokoban.world.level import Level
from agent_gym.envs.sokoban.world.solver import Budget, NotSolvedError, solve
from agent_gym.support.errors import ConfigError, suggest

MAX_ROOM_SIDE = 50
"""Most rows or columns of a generated room."""
MAX_ROOM_BOXES = 40
"""Most boxes of a generated room."""

_LAYOUTS = 2000
"""Floor plans to try for one room."""
_SETTLE_AFTER = 20
"""Starts with boxes on goals to see before the best of them is accepted."""
_LONGER_EVERY = 20
"""Floor plans without room for a start after which the walk grows by its length."""
_SOLVED_ROOMS = 500
"""Rooms to solve in search of a difficulty."""
_MAX_STATES = 400
_MAX_PULLS = 120
_SOLVE_BUDGET = Budget(nodes=20_000, greedy_nodes=0)
_BUCKETS = 10


class Split(StrEnum):
    """Parts of the generated rooms that share no room."""

    TRAIN = "train"
    VALID = "valid"
    TEST = "test"


@dataclass(frozen=True)
class RoomSpec:
    """What rooms to generate.

    Attributes:
        height: Rows of the grid, with the border of walls.
        width: Columns of the grid, with the border of walls.
        boxes: Number of boxes, and of goals.
        min_pushes: Fewest pushes that the shortest solution may have, None for any.
        max_pushes: Most pushes that the shortest solution may have, None for any.
        max_moves: Most steps that the solver's solution may have, None for any; keeps rooms within a turn
        limit.
        open_floor: No walls inside the border, and goals, boxes and player at random places, kept when the
            solver solves the room.

    Raises:
        ConfigError: No room can meet the specification.
    """

    height: int
    width: int
    boxes: int
    min_pushes: int | None = None
    max_pushes: int | None = None
    max_moves: int | None = None
    open_floor: bool = False

    def __post_init__(self) -> None:
        short, long = sorted((self.height, self.width))
        if short < 3 or long < 5 or long > MAX_ROOM_SIDE:
            raise ConfigError(
                "expected a room of at least 3x5 cells with its border, so that a box can be pushed, and at most "
                f"{MAX_ROOM_SIDE}x{MAX_ROOM_SIDE}, found height={self.height}, width={self.width}"
            )
        inside = (self.height - 2) * (self.width - 2)
        most = min(inside - 2, MAX_ROOM_BOXES)
        if not 1 <= self.boxes <= most:
            raise ConfigError(
                f"expected 1 to {most} boxes in a {self.height}x{self.width} room ({inside} cells inside its "
                f"border, two of which the player needs; never above {MAX_ROOM_BOXES}), found boxes={self.boxes}"
            )
        for name in ("min_pushes", "max_pushes", "max_moves"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"expected {name} of at least 1 or None, found {value}")
        for name in ("max_pushes", "max_moves"):
            value = getattr(self, name)
            if value is not None and self.min_pushes is not None and value < self.min_pushes:
                raise ConfigError(
                    f"expected {name} of at least min_pushes, found min_pushes={self.min_pushes}, {name}={value}"
                )

    @property
    def graded(self) -> bool:
        """Whether rooms have to be solved to know if they are wanted."""
        return self.open_floor or (self.min_pushes, self.max_pushes, self.max_moves) != (None, None, None)

    def __str__(self) -> str:
        kind = "open " if self.open_floor else ""
        plural = "es" if self.boxes > 1 else ""
        parts = [f"{kind}{self.height}x{self.width} with {self.boxes} box{plural}"]
        parts += [
            f"{name}={getattr(self, name)}"
            for name in ("min_pushes", "max_pushes", "max_moves")
            if getattr(self, name) is not None
        ]
        return ", ".join(parts)


def generate_room(spec: RoomSpec, rng: np.random.Generator) -> Level:
    """Generate one room.

    Args:
        spec: What room.
        rng: The only source of randomness.

    Raises:
        ConfigError: No room of the wanted difficulty was found in a bounded number of rooms.
    """
    return _generate(spec, Draws(rng), None)


def room_from_seed(spec: RoomSpec, split: Split | str, seed: int) -> Level:
    """Return the room of a seed, the same on every machine, from the rooms that belong to a split.

    Splits are told apart by the room's content, so no two of them share a room, even up to rotation and
    reflection. (Telling them apart by walls and goals alone would be stricter, but small layouts are so much
    more frequent than large ones that the splits would differ in difficulty.)

    Raises:
        ConfigError: The split is unknown, or no such room was found in a bounded number of rooms.
    """
    wanted = _split(split)
    limits = f"{spec.min_pushes}/{spec.max_pushes}/{spec.max_moves}" + ("/open" if spec.open_floor else "")
    text = f"sokoban/{spec.height}x{spec.width}-{spec.boxes}/{limits}/{wanted}/{seed}"
    digest = blake2b(text.encode(), digest_size=16).digest()
    # The words of PCG64 from an integer seed are among the streams that NumPy keeps.
    rng = np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))
    return _generate(spec, Draws(rng), wanted)


def split_of(level: Level) -> Split:
    """Return the split that a room belongs to: of ten rooms, one to test, one to valid, eight to train."""
    bucket = int(level.content_key(), 16) % _BUCKETS
    return {0: Split.TEST, 1: Split.VALID}.get(bucket, Split.TRAIN)


def _split(name: str) -> Split:
    try:
        return Split(name)
    except ValueError:
        raise ConfigError(
            f"expected a split of {', '.join(Split)}, found {name!r}.{suggest(name, Split)}"
        ) from None


def _generate(spec: RoomSpec, draws: Draws, split: Split | None) -> Level:
    if not spec.graded:
        return _ungraded(spec, draws, split)
    found: list[int] = []
    for _ in range(_SOLVED_ROOMS):
        level = _open_room(spec, draws, split) if spec.open_floor else _ungraded(spec, draws, split)
        try:
            solution = solve(level, _SOLVE_BUDGET)
        except NotSolvedError:
            continue
        found.append(solution.pushes)
        if (spec.min_pushes or 0) <= solution.pushes <= (spec.max_pushes or solution.pushes) and (
            spec.max_moves is None or len(solution.moves) <= spec.max_moves
        ):
            return level
    shown = f"their solutions have {min(found)} to {max(found)} pushes" if found else "none was solved in time"
    raise ConfigError(
        f"no room of {spec} among {_SOLVED_ROOMS} rooms: {shown}; widen the range or change size and boxes"
    )


def _ungraded(spec: RoomSpec, draws: Draws, split: Split | None) -> Level:
    settled: tuple[Level, Start] | None = None
    seen = cramped = 0
    for _ in range(_LAYOUTS):
        steps = walk_length(spec.height, spec.width) * (1 + cramped // _LONGER_EVERY)
        layout = _layout(spec, steps, draws)
        if layout is None:
            cramped += 1
            continue
        candidate = layout.start(draws)
        if candidate is None:
            cramped += 1
            continue
        if split is not None and split_of(candidate[0]) is not split:
            continue
        seen += 1
        if settled is None or _rank(candidate[1]) < _rank(settled[1]):
            settled = candidate
        if settled[1].on_goals == 0 or seen == _SETTLE_AFTER:
            return settled[0]
    if settled is not None:
        return settled[0]
    belonging = "" if split is None else f" of the {split} split"
    raise ConfigError(f"no room of {spec}{belonging} in {_LAYOUTS} floor plans; use a larger room or fewer boxes")


def _open_room(spec: RoomSpec, draws: Draws, split: Split | None) -> Level:
    """Place goals, boxes and player at random on an open floor; the room may have no solution."""
    height, width = spec.height, spec.width
    cells = [row * width + column for row in range(1, height - 1) for column in range(1, width - 1)]
    walls = frozenset(range(height * width)).difference(cells)
    for _ in range(_LAYOUTS):
        *placed, player = draws.sample(cells, 2 * spec.boxes + 1)
        level = Level(
            height,
            width,
            walls=walls,
            goals=frozenset(placed[: spec.boxes]),
            boxes=frozenset(placed[spec.boxes :]),
            player=player,
        )
        if split is None or split_of(level) is split:
            return level
    raise ConfigError(f"no room of {spec} of the {split} split in {_LAYOUTS} rooms; use a larger room")


def _rank(start: Start) -> tuple[int, int]:
    return (start.on_goals, -start.score)


@dataclass(frozen=True)
class _Layout:
    """A floor with goals, and the player's place when they are all covered."""

    spec: RoomSpec
    cells: list[int]
    goals: list[int]
    player: int

    def start(self, draws: Draws) -> tuple[Level, Start] | None:
        """Play backwards to a start; None where no box can be pulled."""
        height, width = self.spec.height, self.spec.width
        start = reverse_play(
            bitboard(self.cells),
            width,
            self.goals,
            self.player,
            draws,
            max_states=_MAX_STATES,
            max_pulls=_MAX_PULLS,
        )
        if start is None:
            return None
        walls = frozenset(range(height * width)).difference(self.cells)
        return Level(
            height, width, walls=walls, goals=frozenset(self.goals), boxes=start.boxes, player=start.player
        ), start


def _layout(spec: RoomSpec, steps: int, draws: Draws) -> _Layout | None:
    """Carve a floor and place goals and player; None where it is too small."""
    cells = carve(spec.height, spec.width, steps, draws)
    if len(cells) < spec.boxes + 2:
        return None
    *goals, player = draws.sample(cells, spec.boxes + 1)
    return _Layout(spec, cells, goals, player)
