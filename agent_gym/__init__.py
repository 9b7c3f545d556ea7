"""Multi-turn text environments for LLM agents behind one Gymnasium API.

Importing the package registers its ids with Gymnasium:

    import gymnasium as gym, agent_gym
    env = gym.make("agent_gym/Sokoban-v0", split="train")
    observation, info = env.reset(seed=7)
    observation, reward, terminated, truncated, info = env.step(info["admissible_actions"][0])
"""

from agent_gym._version import __version__
from agent_gym.core import Task, TaskSet, TextEnv
from agent_gym.core.make import known_ids, make_env
from agent_gym.registration import register_all, register_env

register_all()

__all__ = ["Task", "TaskSet", "TextEnv", "__version__", "known_ids", "make_env", "register_env"]
