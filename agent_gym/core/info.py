"""What an environment says beside the observation, and why episodes and replies end."""

from __future__ import annotations

from enum import StrEnum
from typing import TypedDict


class StopReason(StrEnum):
    """Why an *episode* ended."""

    RUNNING = ""
    """The episode goes on."""
    SUCCESS = "success"
    """The task is solved."""
    FAILURE = "failure"
    """The environment ended the episode without success (a wrong purchase, a wrong answer)."""
    MAX_TURNS = "max_turns"
    """The turn limit was reached; the only reason that is a truncation set by the environment."""
    PARSE_ERROR = "parse_error"
    """A reply held no action and `invalid_action="terminate"` ends the episode then."""
    INVALID_ACTION = "invalid_action"
    """An action was not accepted and `invalid_action="terminate"` ends the episode then."""
    TOOL_ERROR = "tool_error"
    """A tool behind the environment (retriever, browser) failed; not the agent's failure."""
    CONTEXT_OVERFLOW = "context_overflow"
    """The next prompt did not fit the context limit; set by the rollout."""
    ABORTED = "aborted"
    """The rollout was stopped from outside; set by the rollout."""


class FinishReason(StrEnum):
    """Why one *reply* ended; belongs to a turn and is set by the rollout."""

    STOP = "stop"
    """The model ended its turn."""
    MAX_TOKENS = "max_tokens"
    """The reply was cut at the token limit."""


class InvalidActionPolicy(StrEnum):
    """What an environment does with a reply or an action that it cannot accept."""

    CONTINUE = "continue"
    """The turn counts, the world stays as it is, the observation is the original's or says why."""
    TERMINATE = "terminate"
    """The episode ends with stop reason `invalid_action` (or `parse_error`)."""
    RAISE = "raise"
    """`InvalidActionError`; the turn does not count."""


class AnchorKind(StrEnum):
    """What `info["anchor"]` holds."""

    STATE = "state"
    """The environment's canonical text of the visible state."""
    OBSERVATION = "observation"
    """The raw observation, as published step-group code uses it."""


class StepInfo(TypedDict):
    """Keys that `info` holds after every reset and every step.

    An environment adds its own keys under its name, for example `"sokoban/deadlocked"`.
    """

    task_id: str
    """Stable across machines and versions of the data."""
    task_type: str
    """Category used for per-type success tables."""
    goal: str
    """The instruction; never to be parsed out of the observation."""
    admissible_actions: tuple[str, ...]
    """Literal actions that would be accepted now and change something; empty when all actions are free
    text, and after the end."""
    action_templates: tuple[str, ...]
    """Accepted free-text forms, for example `search[{query}]`."""
    anchor: str
    """Canonical text of the visible current state without history: equal states have equal anchors."""
    prompt_observation: str
    """The observation as a prompt shows it: without the goal, which the prompt states itself."""
    valid_action: bool
    """Whether the last action was accepted (True after reset)."""
    success: bool
    """Whether the task is solved."""
    score: float
    """Task score in [0, 1]."""
    turn: int
    """Turns taken so far."""
    stop_reason: str
    """A `StopReason` value: why the episode ended, "" while it runs."""
