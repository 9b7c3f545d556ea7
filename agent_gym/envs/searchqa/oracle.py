"""An expert that searches and reads: it takes from the record what to look for, and every fact from retrieved text.

Generated questions hold a plan (`composer.Step`); each step is read off the passages retrieved so far, or searched
for. Questions of files are searched by their supporting titles, or by their own text where no titles are known, and
the gold answer is given only if the evidence has been found: the expert wins what the corpus lets be solved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent_gym.envs.searchqa.actions import answer_action, search_action
from agent_gym.envs.searchqa.questions.question import Question
from agent_gym.envs.searchqa.questions.scoring import mentions_answer
from agent_gym.envs.searchqa.world.facts import telling_word
from agent_gym.envs.searchqa.world.reading import read_fact, read_subject
from agent_gym.envs.searchqa.world.relations import BY_NAME, Kind
from agent_gym.retrieval.base import Passage

UNKNOWN = "unknown"
"""Answered when the evidence cannot be found."""


def next_action(question: Question, seen: Sequence[Passage], queries: Sequence[str], turns_left: int) -> str:
    """Return the expert's next action.

    Args:
        question: The question.
        seen: Passages shown so far.
        queries: Queries made so far.
        turns_left: Turns left, this one included.
    """
    plan = question.metadata.get("plan")
    if plan:
        found, wanted = _follow(plan, seen, parted=bool(question.metadata["world"]["facts_per_passage"]))
    else:
        found, wanted = _evidence(question, seen)
    if found is not None:
        return answer_action(found)
    query = next((query for query in wanted if query not in queries), None)
    if query is None or turns_left <= 1:
        return answer_action(UNKNOWN)
    return search_action(query)


def _follow(
    plan: Sequence[Mapping[str, Any]], seen: Sequence[Passage], *, parted: bool
) -> tuple[str | None, list[str]]:
    """Return the answer that a plan arrives at, or None with the queries that would help.

    Where an entity's facts are spread over passages (`parted`), a name alone finds too many of them: queries say
    first what is wanted.
    """
    values: list[str] = []
    subjects: list[str] = []

    def resolve(ref: str | int) -> str:
        return values[ref] if isinstance(ref, int) else ref

    for step in plan:
        subject, value, queries = "", None, []
        if "read" in step:
            subject, relation, kind = resolve(step["of"]), step["read"], Kind(step["kind"])
            value = read_fact(seen, kind, subject, relation)
            queries = [subject, _worded(kind, relation, subject)]
        elif "find" in step:
            kind = Kind(step["find"])
            where = [(relation, resolve(ref)) for relation, ref in step["where"]]
            value = read_subject(seen, kind, where)
            telling = [(relation, telling_word(text)) for relation, text in where]
            queries = [
                " ".join(word for _, word in telling),
                " ".join(text for _, text in where),
                " ".join(_worded(kind, relation, word) for relation, word in telling),
            ]
        else:
            pair = sorted(step["compare"], key=lambda place: int(values[place]), reverse=not step["least"])
            value = subjects[pair[0]]
        if value is None:
            return None, queries[::-1] if parted else queries
        values.append(value)
        subjects.append(subject)
    return values[-1], []


def _worded(kind: Kind, relation: str, name: str) -> str:
    """Return a query of a name and the words in which its relation is stated."""
    sentences = " ".join(BY_NAME[kind, relation].sentences)
    words = dict.fromkeys(sentences.replace("{s}", "").replace("{o}", "").replace(".", "").lower().split())
    return " ".join((name, *words))


def _evidence(question: Question, seen: Sequence[Passage]) -> tuple[str | None, list[str]]:
    """Return the gold answer if the evidence has been seen, or None with the queries that would help."""
    titles = question.supporting_titles
    have = {passage.title for passage in seen}
    missing = [title for title in titles if title not in have]
    if titles:
        complete = not missing
    else:
        complete = any(mentions_answer(passage.contents, question.golds) for passage in seen)
    if complete:
        return question.golds[0], []
    return None, missing or [question.question]
