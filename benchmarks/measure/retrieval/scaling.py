"""Measures the word index on a corpus of any size, each stage in a process of its own."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure.memory import peak_mib, private_kib
from benchmarks.measure.retrieval.corpus import queries, write_corpus

K = 3


def measure_build(job: Mapping[str, Any]) -> dict[str, Any]:
    """Build the index of a corpus file.

    Args:
        job: `corpus` and `index`.

    Returns:
        CPU and wall seconds, bytes of the corpus, the passages and the words, and the most memory it took.
    """
    from agent_gym.retrieval import build_index

    wall, cpu = time.perf_counter(), time.process_time()
    manifest = build_index(Path(job["corpus"]), Path(job["index"]))
    return {
        "build_wall_s": time.perf_counter() - wall,
        "build_cpu_s": time.process_time() - cpu,
        "build_peak_bytes": round(peak_mib() * 2**20),
        "corpus_bytes": Path(job["corpus"]).stat().st_size,
        "passages_bytes": sum(r.bytes for name, r in manifest.files.items() if name.startswith("passages")),
        "words_bytes": sum(r.bytes for name, r in manifest.files.items() if not name.startswith("passages")),
        "passages": manifest.size,
    }


def measure_queries(job: Mapping[str, Any]) -> dict[str, Any]:
    """Open the index and search it with one thread.

    Args:
        job: `index`, number of `queries` and `warm` ones that are searched beforehand.

    Returns:
        Milliseconds to open, milliseconds per query in CPU and wall time (median and 95th percentile), and the
        memory that the index added to this process: its own, and with the mapped files it touched.
    """
    import psutil

    from agent_gym.retrieval import open_index
    from agent_gym.retrieval.lexical.words import query_words
    from agent_gym.retrieval.manifest import read_manifest

    query_words("loads the library")
    asked = queries(job["warm"] + job["queries"], read_manifest(Path(job["index"])).size)
    process = psutil.Process()
    before, own_before = process.memory_info(), own_bytes()
    wall = time.perf_counter()
    retriever = open_index(job["index"])
    opened = time.perf_counter() - wall
    cpu_ms, wall_ms, found = [], [], 0
    for query in asked:
        wall, cpu = time.perf_counter(), time.process_time()
        hits = retriever.search(query, K)
        retriever.passages(hits)
        cpu_ms.append(1000 * (time.process_time() - cpu))
        wall_ms.append(1000 * (time.perf_counter() - wall))
        found += len(hits)
    after, own_after = process.memory_info(), own_bytes()
    return {
        "open_ms": 1000 * opened,
        "p50_cpu_ms": float(np.percentile(cpu_ms[job["warm"] :], 50)),
        "p95_cpu_ms": float(np.percentile(cpu_ms[job["warm"] :], 95)),
        "p50_wall_ms": float(np.percentile(wall_ms[job["warm"] :], 50)),
        "p95_wall_ms": float(np.percentile(wall_ms[job["warm"] :], 95)),
        "hits_per_query": found / len(cpu_ms),
        "added_private_bytes": own_after - own_before,
        "added_resident_bytes": after.rss - before.rss,
    }


def measure_sharing(job: Mapping[str, Any]) -> dict[str, Any]:
    """Search from several forked processes at once.

    Args:
        job: `index`, `processes`, and `seconds` of each.

    Returns:
        Queries per second of all together, per CPU second of one, and the memory that
        a child shares with nobody.
    """
    import multiprocessing

    from agent_gym.retrieval import open_index

    retriever = open_index(job["index"])
    asked = queries(400, retriever.size)
    for query in asked[:50]:
        retriever.search(query, K)
    context = multiprocessing.get_context("fork")
    results: Any = context.SimpleQueue()

    def work(offset: int) -> None:
        done, cpu, wall = 0, time.process_time(), time.perf_counter()
        while time.perf_counter() - wall < job["seconds"]:
            retriever.passages(retriever.search(asked[(offset + done) % len(asked)], K))
            done += 1
        spent = time.perf_counter() - wall
        results.put((done / spent, done / (time.process_time() - cpu), own_bytes()))

    children = [context.Process(target=work, args=(97 * n,)) for n in range(job["processes"])]
    for child in children:
        child.start()
    found = [results.get() for _ in children]
    for child in children:
        child.join()
    return {
        "queries_per_s": sum(rate for rate, _, _ in found),
        "queries_per_cpu_s": float(np.mean([rate for _, rate, _ in found])),
        "child_private_bytes": max(memory for _, _, memory in found),
        "processes": job["processes"],
    }


def own_bytes() -> int:
    """Return the memory of this process that no other could share: written pages, not those of mapped files."""
    written = private_kib("Private_Dirty")
    if written is None:  # pages of files that only this process maps are counted too
        import psutil

        return int(psutil.Process().memory_full_info().uss)
    return 1024 * written


def measure_corpus(job: Mapping[str, Any]) -> dict[str, Any]:
    """Write a generated corpus of `count` passages to `corpus`."""
    write_corpus(Path(job["corpus"]), job["count"])
    return {}


if __name__ == "__main__":
    job = json.load(sys.stdin)
    stages = {
        "corpus": measure_corpus,
        "build": measure_build,
        "queries": measure_queries,
        "sharing": measure_sharing,
    }
    print(json.dumps(stages[job["stage"]](job)))
