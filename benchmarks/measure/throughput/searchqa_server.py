"""A Search-R1 style retrieval server for the throughput suite: the passages of a generated world, over HTTP."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent_gym.envs.searchqa.data.generator import WorldKey
from agent_gym.envs.searchqa.data.library import generated_world
from agent_gym.envs.searchqa.env import SearchQAEnv
from benchmarks.measure.server import start_server, stop_server

_LISTENING = " passages at "


@contextmanager
def serving(options: Mapping[str, Any]) -> Iterator[str]:
    """Serve a world's passages with `agent-gym serve retriever`; yields the address.

    Raises:
        AgentGymError: The server did not start.
    """
    task = SearchQAEnv(**options).tasks[0]
    world = generated_world(WorldKey.from_record(task.record["metadata"]["world"]))
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus.jsonl"
        with corpus.open("w", encoding="utf-8") as stream:
            for passage in world.passages:
                stream.write(json.dumps({"id": passage.id, "contents": passage.contents}) + "\n")
        server, line = start_server("retriever", str(corpus), "--port", "0", ready=_LISTENING)
        try:
            yield line.rpartition(_LISTENING)[2].strip().removesuffix("/retrieve")
        finally:
            stop_server(server)
