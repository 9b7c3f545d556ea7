"""The stock engine (packages textworld and alfworld) behind the native engine's interface.

For reference and for comparing both engines. It needs the extra `agent-gym[alfworld]`.

The stock packages have side effects, which are confined here: translating a problem replaces `sys.argv` and
swaps `sys.stdout`; importing alfworld creates a folder in the home directory and sets ALFWORLD_DATA; shuffled
names draw from the global generator. All of it is undone after each call, and calls take turns.

Most of a stock step goes into parsing the same text templates again and copying their contexts deeply. With
`cached=True` parsed templates and queries are kept and copies are shallow; the texts are the same.
"""

from __future__ import annotations

import copy
import os
import random
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache, lru_cache
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any, Final, cast

from agent_gym.envs.alfworld.data.export import stock_texts, with_stock_texts
from agent_gym.envs.alfworld.world.gamefile import GameRecord, TextFormat
from agent_gym.support.errors import ConfigError

_LOCK: Final = threading.RLock()
_CACHED_TEXTS: Final = 8192

_MISSING: Final = (
    'backend="textworld" needs the stock packages ({}); install them with '
    'pip install "agent-gym[alfworld]" (takes a C++ compiler and cmake), or use backend="native"'
)

_LIBRARIES: Final[list[Any]] = []
"""Planner libraries of closed games. Each is a loaded copy of a 34 MB file and cannot be unloaded: its exit
handlers stay registered and would crash the interpreter's end."""


class TextWorldState:
    """One game running on the stock engine.

    Args:
        content: Content of a game file, or a generated record.
        text_format: Texts to speak; None takes the content's. A 0.3 game is brought to 0.4 with the installed
            package's domain and grammar; the other way is not possible.
        cached: Keep parsed templates; the texts are the same and steps about ten times faster.
        shuffle: Numbers names in random order (the original's domain_randomization), drawn from this generator
            as the original draws from the global one.

    Attributes:
        text_format: Texts spoken.
        won: Whether the goal holds now.
        moves: Commands that were accepted.

    Raises:
        ConfigError: The extra is not installed, or a 0.4 game is to be played as 0.3.
        DataError: The content is no game.
    """

    def __init__(
        self,
        content: Mapping[str, Any],
        text_format: TextFormat | None = None,
        *,
        cached: bool = True,
        shuffle: random.Random | None = None,
    ) -> None:
        stock = _stock()
        record = GameRecord.from_mapping(content)
        self.text_format = text_format if text_format is not None else record.text_format
        if self.text_format is TextFormat.V03 and record.text_format is TextFormat.V04:
            raise ConfigError(
                "the stock engine plays text format 0.3 only from files of that format, whose grammar no "
                "package ships any more; use text='0.4' or the native engine"
            )
        if "grammar" not in content or self.text_format is not record.text_format:
            content = with_stock_texts(content, *stock_texts())
        self._cached = cached
        with self._confined():
            with _library_reuse(stock.pddl):
                engine = stock.pddl.PddlEnv(stock.infos(won=True, admissible_commands=True, moves=True))
            self._library: Any = engine.downward_lib
            self._env = stock.demangler(engine, shuffle=shuffle is not None)
            if shuffle is None:
                self._env.load(content)
            else:
                with _global_generator(shuffle):
                    self._env.load(content)
        self.won = False
        self.moves = 0
        self._admissible: list[str] = []

    def reset(self) -> str:
        """Start over.

        Returns:
            The intro.
        """
        with self._confined():
            state = self._env.reset()
        return self._take_over(state)

    def step(self, command: str) -> str:
        """Carry out a command.

        Args:
            command: Any text.

        Returns:
            The feedback; "Nothing happens." for anything that is not admissible.
        """
        with self._confined():
            state, _, _ = self._env.step(command)
        return self._take_over(state)

    def admissible(self) -> list[str]:
        """Return the commands that would be accepted now, sorted and without repeats."""
        return list(self._admissible)

    def close(self) -> None:
        """Hand back the planner library for the next game; the game cannot be played on."""
        if self._library is not None:
            self._library.cleanup()
            _LIBRARIES.append(self._library)
            self._library = None

    def _take_over(self, state: Any) -> str:
        self.won = bool(state["won"])
        self.moves = int(state["moves"])
        self._admissible = list(state["admissible_commands"])
        return cast(str, state.feedback)

    @contextmanager
    def _confined(self) -> Iterator[None]:
        """Run stock code alone, undoing what it does to the interpreter."""
        with _LOCK, ExitStack() as undo:
            undo.callback(setattr, sys, "argv", sys.argv)
            undo.callback(setattr, sys, "stdout", sys.stdout)
            if self._cached:
                undo.enter_context(_fast_texts())
            yield


class StockGame:
    """A game on the stock engine that can be copied: a copy replays its commands.

    Args:
        content: Content of a game file, or a generated record.
        text_format: Version of the texts.
        shuffle_seed: Seed of shuffled names, None for the usual ones.
    """

    def __init__(self, content: Mapping[str, Any], text_format: TextFormat, shuffle_seed: int | None) -> None:
        shuffle = None if shuffle_seed is None else random.Random(shuffle_seed)
        self._arguments = (content, text_format, shuffle_seed)
        self._game = TextWorldState(content, text_format, shuffle=shuffle)
        self._commands: list[str] = []

    def reset(self) -> str:
        """Start over; returns the intro."""
        self._commands = []
        return self._game.reset()

    def step(self, command: str) -> str:
        """Carry out a command; returns the feedback."""
        self._commands.append(command)
        return self._game.step(command)

    def admissible(self) -> list[str]:
        """Return the commands that would be accepted now."""
        return self._game.admissible()

    @property
    def won(self) -> bool:
        """Whether the goal holds."""
        return self._game.won

    @property
    def moves(self) -> int:
        """Accepted commands."""
        return self._game.moves

    def close(self) -> None:
        """Hand back the engine."""
        self._game.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> StockGame:
        twin = StockGame(*self._arguments)
        twin.reset()
        for command in self._commands:
            twin.step(command)
        return twin


def require_stock() -> None:
    """Check that the stock packages are there, without importing them (which takes seconds).

    Raises:
        ConfigError: They are not; the message says how to install them.
    """
    missing = [name for name in ("textworld", "alfworld") if find_spec(name) is None]
    if missing:
        raise ConfigError(_MISSING.format(f"no package {' and '.join(missing)}"))


@cache
def _stock() -> SimpleNamespace:
    """Import the stock packages, leaving home directory and environment as they were."""
    with _LOCK, tempfile.TemporaryDirectory() as scratch:
        before = os.environ.get("ALFWORLD_DATA")
        os.environ["ALFWORLD_DATA"] = before or scratch
        try:
            from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
            from textworld import EnvInfos
            from textworld.envs.pddl import pddl, textgen
        except ImportError as error:
            raise ConfigError(_MISSING.format(error)) from error
        finally:
            if before is None:
                del os.environ["ALFWORLD_DATA"]
    return SimpleNamespace(
        demangler=AlfredDemangler,
        pddl=pddl,
        infos=EnvInfos,
        textgen=textgen,
    )


@contextmanager
def _library_reuse(pddl: Any) -> Iterator[None]:
    """Let the stock environment's constructor take a planner library from a closed game, if there is one."""
    before = pddl.fast_downward
    pddl.fast_downward = SimpleNamespace(load_lib=_LIBRARIES.pop if _LIBRARIES else before.load_lib)
    try:
        yield
    finally:
        pddl.fast_downward = before


@contextmanager
def _global_generator(source: random.Random) -> Iterator[None]:
    """Let code that draws from the global generator draw from another, and leave the global one untouched."""
    before = random.getstate()
    random.setstate(source.getstate())
    try:
        yield
    finally:
        source.setstate(random.getstate())
        random.setstate(before)


@contextmanager
def _fast_texts() -> Iterator[None]:
    """Replace three functions of the stock text generator by equivalent faster ones for a while."""
    textgen = _stock().textgen
    fast = _replacements()
    before = {name: getattr(textgen, name) for name in fast}
    for name, value in fast.items():
        setattr(textgen, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(textgen, name, value)


@cache
def _replacements() -> dict[str, Any]:
    textgen = _stock().textgen
    parse: Callable[..., list[Any]] = lru_cache(maxsize=_CACHED_TEXTS)(textgen._parse_and_convert)

    def parse_and_convert(*args: Any, **kwargs: Any) -> list[Any]:
        return [_fresh(symbol) for symbol in parse(*args, **kwargs)]

    def copy_context(context: dict[str, Any]) -> dict[str, Any]:
        twin = dict(context)
        twin["variables"], twin["mapping"] = dict(context["variables"]), dict(context["mapping"])
        return twin

    queries = SimpleNamespace(
        parse_conjunctive_query=lru_cache(maxsize=_CACHED_TEXTS)(textgen.Rule.parse_conjunctive_query)
    )
    return {"_parse_and_convert": parse_and_convert, "copy_context": copy_context, "Rule": queries}


def _fresh(symbol: Any) -> Any:
    """Copy a parsed symbol and those inside it: deriving a text leaves its context in them."""
    twin = copy.copy(symbol)
    for name in ("symbol", "expression"):
        inner = getattr(twin, name, None)
        if hasattr(inner, "context"):
            setattr(twin, name, _fresh(inner))
    return twin
