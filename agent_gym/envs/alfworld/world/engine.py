"""The rules: commands to effects to text, equal to the stock engine string for string.

Every value of a running game is immutable or replaced when it changes, so a copy is a handful of references
and the compiled game is shared. Sets of objects and receptacles are integers used as bit masks.

Behaviour that looks odd is the original's and is kept on purpose:

- Going to a receptacle at the agent's own location does nothing, also when it is another receptacle there.
- An object that starts in two receptacles stays in the second when it is taken from the first.
- "look" away from receptacles sees nothing; beside them it lists only objects that were taken out of one of
  them and now lie at the same location.
- Doors matter for taking and putting only, not for heating, cooling, switching or slicing.
- The game goes on after a win, and a win can be undone.
- A rejected command changes nothing and is not counted as a move.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from agent_gym.envs.alfworld.world.explain import explain
from agent_gym.envs.alfworld.world.game import Game
from agent_gym.envs.alfworld.world.gamefile import TASK_PREFIX, TextFormat, announce
from agent_gym.envs.alfworld.world.goals import TaskType
from agent_gym.envs.alfworld.world.names import Vocabulary, listing
from agent_gym.envs.alfworld.world.rules import RULES
from agent_gym.envs.alfworld.world.texts import MIDDLE_OF_ROOM, NOTHING_HAPPENS, TITLE, object_text

NOTHING: Final = -1
"""What `GameState.held` is when the hands are empty."""


class FeedbackStyle(StrEnum):
    """What a rejected command answers."""

    ORIGINAL = "original"
    """The original's text, "Nothing happens."."""
    EXPLAIN = "explain"
    """The same, followed by the reason."""


class GameState:
    """One running game.

    Args:
        game: The compiled game.
        text_format: Texts to speak; None takes the format of the game's file.
        feedback: What a rejected command answers.
        vocabulary: Names to use; None takes the game's usual ones.
        task: Goal sentence to announce; None takes the game's own.

    Attributes:
        game: The compiled game.
        text_format: Texts spoken.
        vocabulary: Names in use.
        task_line: Last line of the intro.
        place: The agent's location.
        held: The object in hand, or `NOTHING`.
        contents: For each receptacle, the objects in it, ascending.
        opened: Mask of open receptacles.
        clean: Mask of clean objects; likewise hot, cool, sliced and toggled (switched on at least once).
        objects_at: (object, location) pairs that hold.
        taken_out: (object, receptacle) pairs known not to hold since the object was taken.
        won: Whether the goal holds now.
        moves: Commands that were accepted.
    """

    __slots__ = (
        "clean",
        "contents",
        "cool",
        "feedback",
        "game",
        "held",
        "hot",
        "moves",
        "objects_at",
        "opened",
        "place",
        "sliced",
        "taken_out",
        "task_line",
        "text_format",
        "toggled",
        "vocabulary",
        "won",
    )

    def __init__(
        self,
        game: Game,
        text_format: TextFormat | None = None,
        *,
        feedback: FeedbackStyle = FeedbackStyle.ORIGINAL,
        vocabulary: Vocabulary | None = None,
        task: str | None = None,
    ) -> None:
        self.game = game
        self.text_format = text_format if text_format is not None else game.text_format
        self.feedback = feedback
        self.vocabulary = vocabulary if vocabulary is not None else game.vocabulary()
        self.task_line = game.task_line if task is None else announce(task)
        self._restart()

    @property
    def task(self) -> str:
        """The goal sentence in use, without the words and the full stop around it."""
        return self.task_line.removeprefix(TASK_PREFIX).removesuffix(".")

    def reset(self) -> str:
        """Start over.

        Returns:
            The intro: a title, what there is to see, and the task.
        """
        self._restart()
        return self.intro()

    def step(self, command: str) -> str:
        """Carry out a command.

        Args:
            command: Any text. It must equal an admissible command once blanks around it are removed.

        Returns:
            The feedback; "Nothing happens." for anything that is not admissible.
        """
        command = command.strip()
        verb, _, rest = command.partition(" ")
        rule = RULES[self.text_format].get(verb)
        text = rule(self, rest) if rule is not None else None
        if text is not None:
            self.moves += 1
            return text
        if self.feedback is FeedbackStyle.EXPLAIN:
            return f"{NOTHING_HAPPENS} {explain(self, command)}"
        return NOTHING_HAPPENS

    def admissible(self) -> list[str]:
        """Return the commands that would be accepted now, sorted and without repeats."""
        game, names, held = self.game, self.vocabulary, self.held
        new = self.text_format is TextFormat.V04
        commands = list(names.standing[self.place])
        if new:
            commands.append("help")
        here = names.here[self.place]
        open_mask = self.opened | ~game.openable
        if held >= 0:
            thing = names.objects[held]
            commands.append(f"examine {thing}")
            for r in here:
                place = names.receptacles[r]
                if game.accepts[r] >> held & 1 and open_mask >> r & 1:
                    commands.append(f"move {thing} to {place}" if new else f"put {thing} in/on {place}")
                if game.heaters >> r & game.heatable >> held & 1:
                    commands.append(f"heat {thing} with {place}")
                if game.coolers >> r & game.coolable >> held & 1:
                    commands.append(f"cool {thing} with {place}")
                if self.washers >> r & game.cleanable >> held & 1:
                    commands.append(f"clean {thing} with {place}")
            if game.knives >> held & 1 and game.sliceable:
                commands += [
                    f"slice {names.objects[o]} with {thing}"
                    for o, where in self.objects_at
                    if where == self.place and game.sliceable >> o & 1
                ]
        else:
            for r in here:
                if open_mask >> r & 1:
                    place = names.receptacles[r]
                    pickupable = game.pickupable
                    commands += [
                        f"take {names.objects[o]} from {place}" for o in self.contents[r] if pickupable >> o & 1
                    ]
        for r in here:
            if game.openable >> r & 1:
                verb = "close" if self.opened >> r & 1 else "open"
                commands.append(f"{verb} {names.receptacles[r]}")
        if game.toggleable:
            lamps = {o for r in here for o in self.contents[r] if game.toggleable >> o & 1}
            commands += [f"use {names.objects[o]}" for o in lamps]
        commands.sort()
        return commands

    def intro(self) -> str:
        """Return the text that opens a game in the present state."""
        game, names = self.game, self.vocabulary
        if game.here[self.place]:
            seen = self.surroundings()
        else:  # the one place where the receptacles of the room are listed
            reachable = [f"a {name}" for name, p in zip(names.receptacles, game.place_of, strict=True) if p >= 0]
            seen = f"{MIDDLE_OF_ROOM} {listing(reachable)}."
        return f"{TITLE}\n\n{seen}\n\n{self.task_line}"

    def anchor(self) -> str:
        """Return the visible state as text, without history.

        It names the place, what can be seen there, lamps there that were switched on, and what is held with its
        condition (clean, hot, cool, sliced).
        """
        game, names, held = self.game, self.vocabulary, self.held
        around = game.here[self.place]
        lines = ["place: " + (", ".join(names.receptacles[r] for r in around) or "middle of a room")]
        lines += [self.receptacle_text(r) for r in around]
        lit = game.toggleable & self.toggled
        if lit:
            shining = sorted({o for r in around for o in self.contents[r] if lit >> o & 1})
            lines += [f"switched on: {names.objects[o]}" for o in shining]
        if held < 0:
            lines.append("holding: nothing")
        else:
            masks = {"clean": self.clean, "hot": self.hot, "cool": self.cool, "sliced": self.sliced}
            condition = ", ".join(word for word, mask in masks.items() if mask >> held & 1)
            lines.append(f"holding: {names.objects[held]}" + (f" ({condition})" if condition else ""))
        return "\n".join(lines)

    def key(self) -> tuple[Any, ...]:
        """Return a hashable value that is equal for equal states of one game, `moves` aside."""
        return (
            self.place,
            self.held,
            tuple(self.contents),
            self.opened,
            self.clean,
            self.hot,
            self.cool,
            self.sliced,
            self.toggled,
            self.objects_at,
            self.taken_out,
        )

    def copy(self) -> GameState:
        """Return an independent copy that shares the compiled game."""
        twin: GameState = object.__new__(GameState)
        for name in GameState.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.contents = self.contents[:]
        return twin

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> GameState:
        return self.copy()

    # state and goal

    def _restart(self) -> None:
        game = self.game
        self.place = game.start
        self.held = game.held
        self.contents = list(game.contents)
        self.opened, self.clean, self.hot, self.cool = game.opened, game.clean, game.hot, game.cool
        self.sliced, self.toggled = game.sliced, game.toggled
        self.objects_at = game.objects_at
        self.taken_out: frozenset[tuple[int, int]] = frozenset()
        self.moves = 0
        self.won = self.goal_holds()

    def goal_holds(self) -> bool:
        """Return whether the goal holds in the present state."""
        game = self.game
        task_type = game.goal.task_type
        if task_type is TaskType.LIGHT:
            if self.held < 0 or not game.goal_objects >> self.held & 1:
                return False
            lit = game.goal_lamps & self.toggled
            return bool(lit) and any(lit >> o & 1 for r in game.here[self.place] for o in self.contents[r])
        eligible = game.goal_eligible
        if task_type is TaskType.CLEAN:
            eligible &= self.clean
        elif task_type is TaskType.HEAT:
            eligible &= self.hot
        elif task_type is TaskType.COOL:
            eligible &= self.cool
        if not eligible:
            return False
        needed = 2 if task_type is TaskType.TWO else 1
        for r in game.goal_receptacles:
            count = 0
            for o in self.contents[r]:
                count += eligible >> o & 1
            if count >= needed:
                return True
        return False

    @property
    def washers(self) -> int:
        """Mask of receptacles that clean, under the domain of the text format in use."""
        return self.game.washers if self.text_format is TextFormat.V04 else self.game.old_washers

    def receptacle_here(self, name: str) -> int:
        """Return the number of a receptacle at the agent's location, -1 for any other name."""
        r = self.vocabulary.receptacle_number.get(name, NOTHING)
        return r if r >= 0 and self.game.place_of[r] == self.place else NOTHING

    def reachable(self, r: int) -> bool:
        """Return whether no closed door is in the way of a receptacle's inside."""
        return bool((self.opened | ~self.game.openable) >> r & 1)

    # texts

    def surroundings(self) -> str:
        """Return what "look" says."""
        game, names = self.game, self.vocabulary
        around = game.here[self.place]
        if not around:
            return f"{MIDDLE_OF_ROOM} nothing."
        # Only what was taken out is known to be outside, so untouched objects are never listed.
        floor = [
            names.a_object[o]
            for o, r in sorted(self.taken_out)
            if game.place_of[r] == self.place and (o, self.place) in self.objects_at
        ]
        facing = listing([names.receptacles[r] for r in around])
        return f"You are facing the {facing}. Next to it, you see {listing(floor)}."

    def receptacle_text(self, r: int) -> str:
        """Return what there is to see of a receptacle."""
        name = self.vocabulary.receptacles[r]
        if not self.game.openable >> r & 1:
            return f"On the {name}, you see {self._inside(r)}."
        if self.opened >> r & 1:
            return f"The {name} is open. In it, you see {self._inside(r)}."
        return f"The {name} is closed."

    def _inside(self, r: int) -> str:
        a_object = self.vocabulary.a_object
        return listing([a_object[o] for o in self.contents[r]])

    def describe(self, o: int) -> str:
        """Return what "examine" says of an object."""
        game, names = self.game, self.vocabulary
        return object_text(
            names.objects[o],
            inner=[names.a_object[i] for i in game.inner.get(o, ())] if game.holders >> o & 1 else None,
            hot=bool(self.hot >> o & 1),
            cool=bool(self.cool >> o & 1),
            clean=bool(self.clean >> o & 1),
            sliced=bool(self.sliced >> o & 1),
            sliceable=bool(game.sliceable >> o & 1),
            lit=bool(game.toggleable & self.toggled >> o & 1),
        )
