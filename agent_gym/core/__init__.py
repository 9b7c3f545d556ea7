"""What every environment shares; nothing here knows a particular one."""

from agent_gym.core.env import Outcome, Situation, TextEnv, resolve_tasks
from agent_gym.core.info import FinishReason, InvalidActionPolicy, StepInfo, StopReason
from agent_gym.core.prompts import (
    ContextMode,
    Exchange,
    Prompt,
    PromptBuilder,
    PromptTemplate,
    Segment,
    template_for,
)
from agent_gym.core.replies import (
    ParsedReply,
    RejectedReply,
    ReplyGrammar,
    ReplyMode,
    ThoughtRule,
    parse_reply,
)
from agent_gym.core.spaces import UnicodeText
from agent_gym.core.tasks import LazyTaskSet, ListTaskSet, SeedIds, Task, TaskSet, load_tasks, save_tasks
from agent_gym.support.errors import (
    AgentGymError,
    AgentGymWarning,
    ConfigError,
    DataError,
    InvalidActionError,
    ReplayMismatchError,
    UnknownTaskError,
    WorkerError,
)

__all__ = [
    "AgentGymError",
    "AgentGymWarning",
    "ConfigError",
    "ContextMode",
    "DataError",
    "Exchange",
    "FinishReason",
    "InvalidActionError",
    "InvalidActionPolicy",
    "LazyTaskSet",
    "ListTaskSet",
    "Outcome",
    "ParsedReply",
    "Prompt",
    "PromptBuilder",
    "PromptTemplate",
    "RejectedReply",
    "ReplayMismatchError",
    "ReplyGrammar",
    "ReplyMode",
    "SeedIds",
    "Segment",
    "Situation",
    "StepInfo",
    "StopReason",
    "Task",
    "TaskSet",
    "TextEnv",
    "ThoughtRule",
    "UnicodeText",
    "UnknownTaskError",
    "WorkerError",
    "load_tasks",
    "parse_reply",
    "resolve_tasks",
    "save_tasks",
    "template_for",
]
