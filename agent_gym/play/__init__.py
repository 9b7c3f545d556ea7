"""Many episodes at once: runners of environments, agents, the driver that joins them, and episodes as records."""

from agent_gym.play.episode import Episode, EpisodeRecorder, EpisodeWriter, Turn, read_episodes
from agent_gym.play.host import Observed
from agent_gym.play.pool import ProcessPoolRunner
from agent_gym.play.replay import ReplayReport
from agent_gym.play.reply import Reply, Sample
from agent_gym.play.request import EpisodeRequest
from agent_gym.play.runner import EnvRunner, InProcessRunner

__all__ = [
    "EnvRunner",
    "Episode",
    "EpisodeRecorder",
    "EpisodeRequest",
    "EpisodeWriter",
    "InProcessRunner",
    "Observed",
    "ProcessPoolRunner",
    "ReplayReport",
    "Reply",
    "Sample",
    "Turn",
    "read_episodes",
]
