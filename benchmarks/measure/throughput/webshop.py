"""Measures WebShop: steps by kind of page through the text environment, resets, construction, memory.

The original is not measured beside it: it needs Java and a search index of its own. Its figure on a 1,000-product
catalogue, measured once with search stubbed, is 65 steps per CPU second.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from agent_gym.core.make import make_env
from agent_gym.support.seeding import generator
from benchmarks.measure.child import module_command, run_child
from benchmarks.measure.memory import private_kib, resident_mib
from benchmarks.measure.throughput.rates import cpu_rate, durations

ENV_ID = "WebShop-v0"
COUNTS = (1, 16, 256)
"""Environments of the memory measurement."""
_ENDLESS = 10**9
_NEW_QUERIES = 2000


def make_job(seconds: float, repeats: int, data: Path | None = None) -> dict[str, Any]:
    """Return what is measured.

    Args:
        seconds: CPU seconds of one measurement.
        repeats: Measurements.
        data: A store, None for the generated catalogue.
    """
    options = {} if data is None else {"catalog": str(data.absolute()), "split": "all"}
    return {"options": options, "seconds": seconds, "repeats": repeats, "counts": COUNTS}


def measure(job: Mapping[str, Any]) -> dict[str, Any]:
    """Measure a job of `make_job`: rates per CPU second, medians of the repeats."""
    seconds, repeats = job["seconds"], job["repeats"]
    env = make_env(ENV_ID, {"max_turns": _ENDLESS, **job["options"]})
    env.reset(seed=0)
    rates = {}
    for name, (prepare, play, steps) in _players(env).items():
        prepare()
        play()
        rates[name] = [cpu_rate(play, steps, seconds) for _ in range(repeats)]
    inner: Any = env.unwrapped
    ids = inner.tasks.ids
    picked = [ids[place * len(ids) // 64] for place in range(64)]
    resets = durations(lambda n: env.reset(options={"task_id": picked[n % 64]}), seconds, 100)
    constructions = durations(lambda n: make_env(ENV_ID, job["options"]), seconds, 20)
    return {
        "steps_per_s": {name: median(values) for name, values in rates.items()},
        "new_searches_per_s": _new_searches(env, seconds),
        "resets_per_s": len(resets) / sum(resets),
        "construction_ms": 1000 * median(constructions),
        "products": len(inner.world.store()),
        "memory": [_memory_child(job["options"], count) for count in job["counts"]],
    }


def _players(env: Any) -> dict[str, tuple[Callable[[], None], Callable[[], None], int]]:
    """Return by name: how to get to the page, a loop of steps that ends where it began, and how many they are."""
    step = env.step
    inner = env.unwrapped

    def to_results() -> None:
        env.reset(seed=0)
        step(inner.oracle_action())

    def to_item() -> None:
        to_results()
        found = next(product for product in inner.session.page().products if product.options)
        step(f"click[{found.asin.lower()}]")

    def turn_pages() -> None:
        step("click[next >]")
        step("click[< prev]")

    def open_items() -> None:
        for product in inner.session.page().products[:5]:
            step(f"click[{product.asin.lower()}]")
            step("click[< prev]")

    def choose() -> None:
        for value in inner.session.product.values[:4]:
            step(f"click[{value}]")

    def read() -> None:
        for name in ("description", "features"):
            step(f"click[{name}]")
            step("click[< prev]")

    def search() -> None:
        for query in ("power bank", "red shirt", "gluten free snack", "floor lamp"):
            step(f"search[{query}]")

    def episode() -> None:
        env.reset(options={"task_id": task_id})
        for action in expert:
            step(action)

    def nothing() -> None:
        step("click[no such thing]")

    expert: list[str] = []
    task_id = env.reset(seed=0)[1]["task_id"]
    while not inner.session.done:
        expert.append(inner.oracle_action())
        step(expert[-1])
    to_item()
    values = len(inner.session.product.values[:4])
    return {
        "search, query seen before": (to_results, search, 4),
        "results, page turned": (to_results, turn_pages, 2),
        "item opened and left": (to_results, open_items, 10),
        "option chosen": (to_item, choose, values),
        "sub page opened and left": (to_item, read, 4),
        "rejected action": (to_results, nothing, 1),
        "whole expert episode, with reset": (lambda: None, episode, len(expert)),
    }


def _new_searches(env: Any, seconds: float) -> float:
    """Return searches per CPU second for queries that were never asked before."""
    words = [word for task in list(env.unwrapped.tasks[:200]) for word in task.record["instruction_text"].split()]
    rng = generator("webshop throughput")
    queries = [" ".join(words[int(n)] for n in rng.integers(len(words), size=6)) for _ in range(_NEW_QUERIES)]
    env.reset(seed=0)
    taken = durations(lambda n: env.step(f"search[{queries[n % len(queries)]} {n}]"), seconds, 100)
    return len(taken) / sum(taken)


def _memory_child(options: Mapping[str, Any], count: int) -> dict[str, float]:
    """Return the resident memory in MiB of a fresh process with so many environments, each amid an episode."""
    command = module_command("benchmarks.measure.throughput.webshop", "memory")
    return run_child(command, {"options": dict(options), "count": count})


def memory(job: Mapping[str, Any]) -> dict[str, float]:
    """Return resident memory before and after making environments and playing in them."""
    before = resident_mib()
    begin = time.process_time()
    envs = [make_env(ENV_ID, job["options"]) for _ in range(job["count"])]
    for number, env in enumerate(envs):
        env.reset(seed=number)
        for _ in range(3):
            env.step(env.unwrapped.oracle_action())  # type: ignore[attr-defined]
    after, private = resident_mib(), private_kib("Private_Clean", "Private_Dirty")
    return {
        "envs": job["count"],
        "before_mib": before,
        "after_mib": after,
        "private_mib": None if private is None else private / 1024,
        "cpu_s": time.process_time() - begin,
    }


if __name__ == "__main__":
    work = memory if sys.argv[1:] == ["memory"] else measure
    print(json.dumps(work(json.load(sys.stdin))))
