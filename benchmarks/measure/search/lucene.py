"""Measures the exact Lucene ranking on a catalogue of any size, each stage in a process of its own."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from benchmarks.measure.memory import peak_mib
from benchmarks.measure.search.catalogue import products, queries

HITS = 50
"""Documents asked for, as WebShop does."""


def measure_build(job: Mapping[str, Any]) -> dict[str, Any]:
    """Build an index of generated products.

    Args:
        job: `count` products, `folder` of the index.

    Returns:
        CPU and wall seconds without the generator's own, the index's size and the memory it took.
    """
    import psutil

    from agent_gym.retrieval.lexical.lucene import LuceneIndex

    source = _Timed(products(job["count"]))
    wall, cpu = time.perf_counter(), time.process_time()
    LuceneIndex.build(source, job["folder"])
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    memory = psutil.Process().memory_info()
    return {
        "build_cpu_s": cpu - source.cpu,
        "build_wall_s": wall - source.wall,
        "index_bytes": sum(path.stat().st_size for path in Path(job["folder"]).iterdir()),
        "build_peak_bytes": round(peak_mib() * 2**20),
        "build_rss_bytes": memory.rss,
    }


def measure_queries(job: Mapping[str, Any]) -> dict[str, Any]:
    """Open the index and search it, single-threaded.

    Args:
        job: `folder` of the index, number of `queries`, and `warm` ones that are searched beforehand.

    Returns:
        Seconds to open, CPU milliseconds per query (median, 95th percentile, mean), postings per query as a share
        of the documents, and this process's memory: without and with what is mapped from files.
    """
    import psutil

    from agent_gym.retrieval.lexical.lucene import LuceneIndex

    process = psutil.Process()
    before = process.memory_info().rss
    begin = time.perf_counter()
    index = LuceneIndex.open(job["folder"])
    opened = time.perf_counter() - begin
    texts = queries(job["warm"] + job["queries"])
    taken, found = [], 0
    for text in texts:
        start = time.process_time()
        docs, _ = index.rank(text, HITS)
        taken.append(time.process_time() - start)
        found += len(docs)
    measured = np.array(taken[job["warm"] :]) * 1000
    memory = process.memory_info()
    return {
        "open_s": opened,
        "p50_ms": float(np.percentile(measured, 50)),
        "p95_ms": float(np.percentile(measured, 95)),
        "mean_ms": float(measured.mean()),
        "postings_per_document": mean(index.matching(text) for text in texts) / index.size,
        "hits": found / len(texts),
        "rss_before_bytes": before,
        "rss_bytes": memory.rss,
        # Linux tells apart what is mapped from files, which all processes that map it share.
        "own_bytes": memory.rss - getattr(memory, "shared", 0),
    }


class _Timed:
    """Documents whose making is timed apart."""

    def __init__(self, documents: Iterable[tuple[str, str]]) -> None:
        self.documents = documents
        self.cpu = self.wall = 0.0

    def __iter__(self) -> Iterator[tuple[str, str]]:
        iterator = iter(self.documents)
        while True:
            wall, cpu = time.perf_counter(), time.process_time()
            document = next(iterator, None)
            self.cpu += time.process_time() - cpu
            self.wall += time.perf_counter() - wall
            if document is None:
                return
            yield document


if __name__ == "__main__":
    job = json.load(sys.stdin)
    stage = {"build": measure_build, "queries": measure_queries}[job["stage"]]
    print(json.dumps(stage(job)))
