"""What every environment shares; nothing here knows a particular one."""

from agent_gym.core.batch import EnvRunner, InProcessRunner
from agent_gym.core.env import Outcome, Situation, TextEnv, resolve_tasks
from agent_gym.core.episode import Episode, EpisodeRecorder, EpisodeWriter, Turn, read_episodes
from agent_gym.core.errors import (
    AgentGymError,
    AgentGymWarning,
    ConfigError,
    DataError,
    InvalidActionError,
    ReplayMismatchError,
    UnknownTaskError,
    WorkerError,
)
from agent_gym.core.info import FinishReason, InvalidActionPolicy, StepInfo, StopReason
from agent_gym.core.pool import ProcessPoolRunner
from agent_gym.core.prompts import (
    ContextMode,
    Exchange,
    Prompt,
    PromptBuilder,
    PromptTemplate,
    Segment,
    template_for,
)
from agent_gym.core.replay import ReplayReport
from agent_gym.core.replies import (
    ParsedReply,
    RejectedReply,
    ReplyGrammar,
    ReplyMode,
    ThoughtRule,
    parse_reply,
)
from agent_gym.core.slots import EpisodeStart, Observed
from agent_gym.core.spaces import UnicodeText
from agent_gym.core.tasks import LazyTaskSet, ListTaskSet, SeedIds, Task, TaskSet, load_tasks, save_tasks

__all__ = [
    "AgentGymError",
    "AgentGymWarning",
    "ConfigError",
    "ContextMode",
    "DataError",
    "EnvRunner",
    "Episode",
    "EpisodeRecorder",
    "EpisodeStart",
    "EpisodeWriter",
    "Exchange",
    "FinishReason",
    "InProcessRunner",
    "InvalidActionError",
    "InvalidActionPolicy",
    "LazyTaskSet",
    "ListTaskSet",
    "Observed",
    "Outcome",
    "ParsedReply",
    "ProcessPoolRunner",
    "Prompt",
    "PromptBuilder",
    "PromptTemplate",
    "RejectedReply",
    "ReplayMismatchError",
    "ReplayReport",
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
    "Turn",
    "UnicodeText",
    "UnknownTaskError",
    "WorkerError",
    "load_tasks",
    "parse_reply",
    "read_episodes",
    "resolve_tasks",
    "save_tasks",
    "template_for",
]
