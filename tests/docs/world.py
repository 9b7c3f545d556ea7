"""A folder that has what the pages' examples name: stores, indexes, question files, settings; all small."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

SETTINGS = """
algorithm = "sampo"
iterations = 1
[env]
id = "agent_gym/Sokoban-v0"
prompt = "compact"
history_length = 0
[rollout]
max_reply_tokens = 6
max_context_tokens = 256
"""


def make_world(folder: Path) -> Path:
    """Fill a folder."""
    from agent_gym.envs.searchqa.data.generator import (
        GeneratedSplit,
        QuestionSpec,
        WorldKey,
        WorldSpec,
        export_world,
    )
    from agent_gym.envs.webshop.data.catalogues import generate_store
    from agent_gym.envs.webshop.options import shop_spec
    from agent_gym.retrieval import build_index

    for name in ("webshop", "small"):
        generate_store(shop_spec("tiny", {"products": 30}), folder / "stores" / name)
    made = folder / "made"
    export_world(WorldKey(WorldSpec(entities=60), GeneratedSplit.TEST, 0), QuestionSpec(), 10, made)
    for source in ("nq",):  # rows tell their source, so a second copy would repeat their ids
        (folder / "searchqa" / source).mkdir(parents=True)
        shutil.copy(made / "questions.jsonl", folder / "searchqa" / source / "test.jsonl")
    corpus = made / "corpus.jsonl"
    (folder / "wiki-18.jsonl.gz").write_bytes(gzip.compress(corpus.read_bytes()))
    for name in ("wiki.index", "wiki-18.index"):
        build_index(corpus, folder / name)
    (folder / "run.toml").write_text(SETTINGS, "utf-8")
    (folder / "lift.toml").write_text(SETTINGS, "utf-8")
    return folder
