"""An expert that knows the whole state and plays a shortest scripted plan.

A plan is a sequence of visits: put away what is in the way, fetch the object, treat it, bring it to its place.
Each visit costs a "go to" unless the agent is already at that location, and an "open" unless the receptacle is
open. All choices of object, source, tool and target are compared by their exact cost, so plans are short by
construction; they use admissible commands only and start from any state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Final

from agent_gym.envs.alfworld.world.engine import GameState
from agent_gym.envs.alfworld.world.gamefile import TextFormat
from agent_gym.envs.alfworld.world.goals import TaskType

_FAR: Final = 1 << 30


@dataclass(frozen=True)
class _Visit:
    """One errand: at a receptacle, do something with an object.

    Attributes:
        verb: "take", "put", "heat", "cool", "clean", "use", or "go" to be there only.
        thing: Object number.
        receptacle: Receptacle number.
    """

    verb: str
    thing: int
    receptacle: int

    @property
    def needs_open(self) -> bool:
        """Whether a closed door is in the way."""
        return self.verb in ("take", "put")


def plan(state: GameState) -> tuple[str, ...] | None:
    """Return a shortest scripted way to win.

    Args:
        state: Any state of a game; it is not changed.

    Returns:
        Commands, empty when the goal holds already; None when the game cannot be won any more (for example
        with something in hand that no receptacle accepts).
    """
    if state.won:
        return ()
    best: tuple[int, tuple[_Visit, ...]] = (_FAR, ())
    for visits in _candidates(state):
        cost = _cost(state, visits)
        if cost < best[0]:
            best = (cost, visits)
    return tuple(_commands(state, best[1])) if best[1] else None


class Oracle:
    """Plays a game to its win, one command at a time.

    The plan is kept while the game follows it and made anew when it does not.
    """

    def __init__(self) -> None:
        self._plan: tuple[str, ...] = ()
        self._expected: tuple[Any, ...] | None = None

    def action(self, state: GameState) -> str | None:
        """Return the next command.

        Args:
            state: The game; it is not changed.

        Returns:
            An admissible command, or None when the game is won or cannot be won.
        """
        key = (id(state.game), id(state.vocabulary), state.text_format, state.key())
        if not self._plan or key != self._expected:
            self._plan = plan(state) or ()
        if not self._plan:
            self._expected = None
            return None
        command, self._plan = self._plan[0], self._plan[1:]
        after = state.copy()
        after.step(command)
        self._expected = (id(state.game), id(state.vocabulary), state.text_format, after.key())
        return command


def _candidates(state: GameState) -> Iterator[tuple[_Visit, ...]]:
    """Yield sequences of visits that win; a shortest one is among them."""
    task_type = state.game.goal.task_type
    if task_type is TaskType.LIGHT:
        yield from _light(state)
    elif task_type is TaskType.TWO:
        yield from _two(state)
    else:
        yield from _place(state)


def _place(state: GameState) -> Iterator[tuple[_Visit, ...]]:
    game = state.game
    verb, tools, done = {
        TaskType.PLACE: ("", 0, -1),
        TaskType.CLEAN: ("clean", state.washers, state.clean),
        TaskType.HEAT: ("heat", game.heaters, state.hot),
        TaskType.COOL: ("cool", game.coolers, state.cool),
    }[game.goal.task_type]
    tool_numbers = [r for r, place in enumerate(game.place_of) if tools >> r & 1 and place >= 0]
    for thing in _numbers(game.goal_eligible):
        for fetch in _fetches(state, thing):
            if done >> thing & 1:
                treatments: list[tuple[_Visit, ...]] = [()]
            else:
                treatments = [(_Visit(verb, thing, tool),) for tool in tool_numbers]
            left = fetch[-1].receptacle if fetch else -1
            for treat in treatments:
                if any(r != left and thing in state.contents[r] for r in game.goal_receptacles):
                    yield fetch + treat  # it also lies where it has to go: the treatment wins
                for target in _targets(state, thing, (*fetch, *treat)):
                    yield (*fetch, *treat, _Visit("put", thing, target))


def _two(state: GameState) -> Iterator[tuple[_Visit, ...]]:
    game = state.game
    things = [o for o in _numbers(game.goal_eligible) if o == state.held or _sources(state, o)]
    fetches = {o: list(_fetches(state, o)) for o in things}
    for r in game.goal_receptacles:
        if game.place_of[r] >= 0 and any(o in state.contents[r] for o in things):
            for thing in things:
                if thing not in state.contents[r] and game.accepts[r] >> thing & 1:
                    for fetch in fetches[thing]:
                        yield (*fetch, _Visit("put", thing, r))
    for first, second in permutations(things, 2):
        if second == state.held:
            continue
        for fetch in fetches[first]:
            for source in _sources(state, second):
                again = _Visit("take", second, source)
                for target in _targets(state, first, (*fetch, again)):
                    if game.accepts[target] >> second & 1:
                        yield (*fetch, _Visit("put", first, target), again, _Visit("put", second, target))


def _light(state: GameState) -> Iterator[tuple[_Visit, ...]]:
    game = state.game
    stands = [(lamp, r) for lamp in _numbers(game.goal_lamps) for r in _sources(state, lamp, fixed=True)]
    for thing in _numbers(game.goal_objects):
        for fetch in _fetches(state, thing):
            for lamp, stand in stands:
                verb = "go" if state.toggled >> lamp & 1 else "use"
                yield (*fetch, _Visit(verb, lamp, stand))


def _fetches(state: GameState, thing: int) -> Iterator[tuple[_Visit, ...]]:
    """Yield ways to get a thing in hand, putting away first what is there."""
    if thing == state.held:
        yield ()
        return
    for source in _sources(state, thing):
        take = _Visit("take", thing, source)
        if state.held < 0:
            yield (take,)
        else:
            accepting = (r for r, mask in enumerate(state.game.accepts) if mask >> state.held & 1)
            for drop in _nearest(state, accepting, (source,)):
                yield (_Visit("put", state.held, drop), take)


def _sources(state: GameState, thing: int, *, fixed: bool = False) -> list[int]:
    """Receptacles from which a thing can be had; for fixed ones, where it stands."""
    game = state.game
    if not fixed and not game.pickupable >> thing & 1:
        return []
    return [r for r, inside in enumerate(state.contents) if thing in inside and game.place_of[r] >= 0]


def _targets(state: GameState, thing: int, before: Iterable[_Visit]) -> list[int]:
    accepts = state.game.accepts
    goal = (r for r in state.game.goal_receptacles if accepts[r] >> thing & 1)
    return _nearest(state, goal, [visit.receptacle for visit in before])


def _nearest(state: GameState, receptacles: Iterable[int], on_the_way: Iterable[int]) -> list[int]:
    """Thin out equivalent receptacles.

    What distinguishes them is whether they lie where the agent passes anyway and whether they are open, so one
    at each such place and one anywhere else are enough, open ones first, besides those on the way themselves.
    """
    place_of, way = state.game.place_of, set(on_the_way)
    places = {state.place, *(place_of[r] for r in way)}
    best: dict[int, int] = {}
    chosen = []
    for r in receptacles:
        place = place_of[r]
        if place < 0:
            continue
        if r in way:
            chosen.append(r)
        key = place if place in places else -1
        if key not in best or (state.reachable(r) and not state.reachable(best[key])):
            best[key] = r
    return sorted({*chosen, *best.values()})


def _numbers(mask: int) -> list[int]:
    return [n for n in range(mask.bit_length()) if mask >> n & 1]


def _cost(state: GameState, visits: Iterable[_Visit]) -> int:
    """Number of commands that a sequence of visits takes."""
    place_of = state.game.place_of
    place, reachable, cost = state.place, state.opened | ~state.game.openable, 0
    for visit in visits:
        where = place_of[visit.receptacle]
        if where != place:
            place = where
            cost += 1
        if visit.needs_open and not reachable >> visit.receptacle & 1:
            reachable |= 1 << visit.receptacle
            cost += 1
        cost += visit.verb != "go"
    return cost


def _commands(state: GameState, visits: Iterable[_Visit]) -> Iterator[str]:
    names, place_of = state.vocabulary, state.game.place_of
    place, reachable = state.place, state.opened | ~state.game.openable
    forms = {
        "take": "take {thing} from {receptacle}",
        "put": "move {thing} to {receptacle}",
        "use": "use {thing}",
        "go": "",
    }
    if state.text_format is TextFormat.V03:
        forms["put"] = "put {thing} in/on {receptacle}"
    for visit in visits:
        receptacle = names.receptacles[visit.receptacle]
        if place_of[visit.receptacle] != place:
            place = place_of[visit.receptacle]
            yield f"go to {receptacle}"
        if visit.needs_open and not reachable >> visit.receptacle & 1:
            reachable |= 1 << visit.receptacle
            yield f"open {receptacle}"
        form = forms.get(visit.verb, f"{visit.verb} {{thing}} with {{receptacle}}")
        if form:
            yield form.format(thing=names.objects[visit.thing], receptacle=receptacle)
