"""Many episodes at once: runners of environments, agents, the driver that joins them, and episodes as records."""

from agent_gym.play.episode import Episode, EpisodeRecorder, EpisodeWriter, Turn, read_episodes
from agent_gym.play.host import EpisodeStart, Observed
from agent_gym.play.pool import ProcessPoolRunner
from agent_gym.play.replay import ReplayReport
from agent_gym.play.runner import EnvRunner, InProcessRunner

__all__ = [
    "EnvRunner",
    "Episode",
    "EpisodeRecorder",
    "EpisodeStart",
    "EpisodeWriter",
    "InProcessRunner",
    "Observed",
    "ProcessPoolRunner",
    "ReplayReport",
    "Turn",
    "read_episodes",
]
