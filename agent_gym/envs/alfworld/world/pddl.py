"""A small PDDL problem reader: text to objects, initial facts and a goal expression.

It reads what ALFWorld problems use (typed objects, positive facts, one goal) and nothing else: no domains,
no numeric effects. Nesting and size are bounded before any work is done, so a hostile file costs little, and
every refusal is a `DataError` that says what was expected and where.

Everything is lower-cased, as the original engine does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from agent_gym.support.errors import DataError, suggest

SExpr = str | list["SExpr"]
"""An atom, or a bracketed list of expressions."""

MAX_PROBLEM_CHARS: Final = 8_000_000
"""Longest problem text read; the largest real one has 130 thousand characters."""

MAX_DEPTH: Final = 40
"""Deepest nesting of brackets; real problems use 7."""

_OBJECT, _RECEPTACLE, _AGENT, _LOCATION = "object", "receptacle", "agent", "location"

PREDICATES: Final[dict[str, tuple[str, ...]]] = {
    "atlocation": (_AGENT, _LOCATION),
    "receptacleatlocation": (_RECEPTACLE, _LOCATION),
    "objectatlocation": (_OBJECT, _LOCATION),
    "openable": (_RECEPTACLE,),
    "opened": (_RECEPTACLE,),
    "inreceptacle": (_OBJECT, _RECEPTACLE),
    "isreceptacleobject": (_OBJECT,),
    "inreceptacleobject": (_OBJECT, _OBJECT),
    "isreceptacleobjectfull": (_OBJECT,),
    "wasinreceptacle": (_OBJECT, _RECEPTACLE),
    "checked": (_RECEPTACLE,),
    "examined": (_LOCATION,),
    "receptacletype": (_RECEPTACLE, "rtype"),
    "cancontain": ("rtype", "otype"),
    "objecttype": (_OBJECT, "otype"),
    "holds": (_AGENT, _OBJECT),
    "holdsany": (_AGENT,),
    "holdsanyreceptacleobject": (_AGENT,),
    "full": (_RECEPTACLE,),
    "isclean": (_OBJECT,),
    "cleanable": (_OBJECT,),
    "ishot": (_OBJECT,),
    "heatable": (_OBJECT,),
    "iscool": (_OBJECT,),
    "coolable": (_OBJECT,),
    "pickupable": (_OBJECT,),
    "moveable": (_OBJECT,),
    "toggleable": (_OBJECT,),
    "ison": (_OBJECT,),
    "istoggled": (_OBJECT,),
    "sliceable": (_OBJECT,),
    "issliced": (_OBJECT,),
}
"""Predicates of the ALFRED domain (lower-cased) with the types of their arguments."""

_TYPES: Final = frozenset({"agent", "location", "receptacle", "object", "rtype", "otype"})
_TOKEN: Final = re.compile(r"[()]|[^\s()]+")
_COMMENT: Final = re.compile(r";[^\n]*")


@dataclass(frozen=True)
class Problem:
    """A parsed problem.

    Attributes:
        name: Problem name.
        types: Type of every declared object, by name.
        facts: Initial facts in file order, each `(predicate, *arguments)`.
        goal: The goal expression.
    """

    name: str
    types: dict[str, str]
    facts: tuple[tuple[str, ...], ...]
    goal: SExpr


def parse_expressions(text: str) -> list[SExpr]:
    """Read a text as a sequence of bracketed expressions, without recursion.

    Args:
        text: PDDL text; comments run from `;` to the end of the line.

    Returns:
        The top-level expressions.

    Raises:
        DataError: Text too long, nesting too deep, or brackets that do not match.
    """
    if len(text) > MAX_PROBLEM_CHARS:
        raise DataError(f"PDDL text has {len(text):,} characters; at most {MAX_PROBLEM_CHARS:,} are read")
    if ";" in text:
        text = _COMMENT.sub("", text)
    current: list[SExpr] = []
    stack: list[list[SExpr]] = []
    for token in _TOKEN.findall(text.lower()):
        if token == "(":
            if len(stack) >= MAX_DEPTH:
                raise DataError(f"PDDL text nests more than {MAX_DEPTH} brackets; real problems nest 7")
            stack.append(current)
            fresh: list[SExpr] = []
            current.append(fresh)
            current = fresh
        elif token == ")":
            if not stack:
                raise DataError("PDDL text closes a bracket that was never opened")
            current = stack.pop()
        else:
            current.append(token)
    if stack:
        raise DataError(f"PDDL text ends with {len(stack)} unclosed brackets; the file looks truncated")
    return current


def parse_problem(text: str) -> Problem:
    """Read the text of a PDDL problem of the ALFRED domain.

    Args:
        text: Problem text, as in a game file's `pddl_problem`.

    Returns:
        The problem, lower-cased.

    Raises:
        DataError: Malformed text, another domain, unknown predicates or types, undeclared names, or a
            missing section.
    """
    expressions = parse_expressions(text)
    if len(expressions) != 1 or not isinstance(expressions[0], list) or expressions[0][:1] != ["define"]:
        raise DataError("PDDL problem must be one (define (problem ...) ...) expression")
    sections: dict[str, list[SExpr]] = {}
    for section in expressions[0][1:]:
        if not isinstance(section, list) or not section or not isinstance(section[0], str):
            raise DataError("PDDL problem holds something that is not a (:section ...)")
        if section[0] in sections:
            raise DataError(f"PDDL problem has two {section[0]!r} sections")
        sections[section[0]] = section[1:]
    for needed in ("problem", ":domain", ":objects", ":init", ":goal"):
        if needed not in sections:
            raise DataError(f"PDDL problem has no {needed!r} section; found {sorted(sections)}")
    if sections[":domain"] != ["alfred"]:
        raise DataError(f"PDDL problem is of domain {_show(sections[':domain'])}; expected 'alfred'")
    types = _declared(sections[":objects"])
    facts = tuple(_fact(node, types) for node in sections[":init"] if not _is_cost(node))
    if len(sections[":goal"]) != 1:
        raise DataError(f"PDDL goal must be one expression, found {len(sections[':goal'])}")
    name = sections["problem"][0] if sections["problem"] else ""
    return Problem(name if isinstance(name, str) else "", types, facts, sections[":goal"][0])


def _declared(nodes: list[SExpr]) -> dict[str, str]:
    types: dict[str, str] = {}
    pending: list[str] = []
    words = iter(nodes)
    for word in words:
        if not isinstance(word, str):
            raise DataError(f"PDDL objects must be names, found {_show(word)}")
        if word != "-":
            pending.append(word)
            continue
        kind = next(words, None)
        if not isinstance(kind, str) or kind not in _TYPES:
            raise DataError(f"PDDL object type must be one of {sorted(_TYPES)}, found {_show(kind)}")
        for name in pending:
            if types.setdefault(name, kind) != kind:
                raise DataError(f"PDDL object {name!r} is declared as {types[name]!r} and as {kind!r}")
        pending.clear()
    if pending:
        raise DataError(f"PDDL object {pending[0]!r} has no type")
    return types


def _is_cost(node: SExpr) -> bool:
    """Whether an init entry only sets a numeric fluent, which no rule of the game reads."""
    return isinstance(node, list) and len(node) == 3 and node[0] == "="


def _fact(node: SExpr, types: dict[str, str]) -> tuple[str, ...]:
    if not isinstance(node, list) or not node or not all(isinstance(word, str) for word in node):
        raise DataError(f"PDDL init must hold plain facts, found {_show(node)}")
    fact: tuple[str, ...] = tuple(node)  # type: ignore[arg-type]  # all words, checked above
    expected = PREDICATES.get(fact[0])
    if expected is None:
        raise DataError(
            f"PDDL init uses predicate {fact[0]!r}, which the ALFRED domain does not have."
            + suggest(fact[0], PREDICATES)
        )
    if len(fact) != len(expected) + 1:
        raise DataError(f"PDDL fact {_show(node)} has {len(fact) - 1} arguments; expected {len(expected)}")
    for name, kind in zip(fact[1:], expected, strict=True):
        found = types.get(name)
        if found != kind:
            what = f"of type {found!r}" if found else "not declared"
            raise DataError(f"PDDL fact {_show(node)}: {name!r} is {what}; expected a {kind!r}")
    return fact


def _show(node: object, limit: int = 80) -> str:
    """Return an expression as text for a message, cut to `limit` characters."""

    def render(part: object) -> str:
        return "(" + " ".join(render(inner) for inner in part) + ")" if isinstance(part, list) else str(part)

    text = render(node)
    return text if len(text) <= limit else text[: limit - 3] + "..."
