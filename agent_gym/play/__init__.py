"""Many episodes at once: runners of environments, agents, the driver that joins them, and episodes as records."""

from agent_gym.play.agents import OracleAgent, RandomAgent
from agent_gym.play.driver import Agent, EnvHandle, LiveEpisode, PlayResult, play_episodes
from agent_gym.play.episode import Episode, EpisodeRecorder, EpisodeWriter, Turn, read_episodes
from agent_gym.play.host import Observed
from agent_gym.play.pool import ProcessPoolRunner
from agent_gym.play.replay import ReplayReport
from agent_gym.play.reply import Reply, Sample
from agent_gym.play.request import EpisodeRequest, evaluation_requests
from agent_gym.play.runner import EnvRunner, InProcessRunner

__all__ = [
    "Agent",
    "EnvHandle",
    "EnvRunner",
    "Episode",
    "EpisodeRecorder",
    "EpisodeRequest",
    "EpisodeWriter",
    "InProcessRunner",
    "LiveEpisode",
    "Observed",
    "OracleAgent",
    "PlayResult",
    "ProcessPoolRunner",
    "RandomAgent",
    "ReplayReport",
    "Reply",
    "Sample",
    "Turn",
    "evaluation_requests",
    "play_episodes",
    "read_episodes",
]
