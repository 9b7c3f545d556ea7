"""Dense and hybrid search over vectors on disk."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tokenizers", reason="the extra [search] is not installed")
pytest.importorskip("safetensors", reason="the extra [search] is not installed")

from agent_gym.retrieval import Hit, MemoryBm25, Passage, build_index, open_index, open_retriever
from agent_gym.retrieval.dense import vectors
from agent_gym.retrieval.dense.embedding import EmbeddingModel
from agent_gym.retrieval.dense.retriever import DenseRetriever, open_dense
from agent_gym.retrieval.dense.vectors import embed_index, read_dense, read_vectors
from agent_gym.retrieval.hybrid import HybridRetriever, fuse
from agent_gym.support.errors import ConfigError, DataError
from tests.retrieval.conftest import make_passages, write_corpus
from tests.retrieval.tiny_bert import write_tiny_bert


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> EmbeddingModel:
    return EmbeddingModel(write_tiny_bert(tmp_path_factory.mktemp("bert") / "tiny"))


@pytest.fixture(scope="module")
def index(model: EmbeddingModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dense")
    build_index(write_corpus(folder / "corpus.jsonl", make_passages(120)), folder / "index")
    embed_index(folder / "index", model, query_prefix="q ", passage_prefix="p ")
    return folder / "index"


@pytest.fixture(scope="module")
def dense(index: Path, model: EmbeddingModel) -> DenseRetriever:
    return open_dense(index, model.folder)


def test_hits_are_the_nearest_vectors(index: Path, dense: DenseRetriever, model: EmbeddingModel) -> None:
    passages = make_passages(120)
    stored = read_vectors(index, read_dense(index)).astype(np.float32)
    np.testing.assert_allclose(stored, model.embed([p.contents for p in passages], "p "), atol=1e-3)
    similarities = stored @ model.embed(["castle item6"], "q ")[0]
    hits = dense.search("castle item6", 10)
    assert [hit.score for hit in hits] == pytest.approx(sorted(similarities, reverse=True)[:10], abs=2e-5)
    assert all(similarities[hit.doc] == pytest.approx(hit.score, abs=2e-5) for hit in hits)
    assert [p.id for p in dense.passages(hits)] == [hit.id for hit in hits]


def test_batches_and_single_queries_agree(dense: DenseRetriever) -> None:
    queries = ["river", "", "a much longer query about a castle", "!?", "item44"]
    together = dense.search_many(queries, 5)
    assert [[hit.id for hit in hits] for hits in together] == [[h.id for h in dense.search(q, 5)] for q in queries]
    assert together[1] == together[3] == []
    assert len(dense.search("river", 1000)) == 120


def test_sharing(dense: DenseRetriever, index: Path) -> None:
    assert copy.deepcopy(dense) is dense and pickle.loads(pickle.dumps(dense)) is dense
    assert dense.fingerprint != open_index(index).fingerprint


def test_an_interrupted_computation_goes_on(
    index: Path, model: EmbeddingModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_index(index.parent / "corpus.jsonl", tmp_path / "index")
    monkeypatch.setattr(vectors, "_BATCH", 16)

    def stop(done: int, total: int) -> None:
        if done >= 48:
            raise KeyboardInterrupt

    prefixes = {"query_prefix": "q ", "passage_prefix": "p "}
    with pytest.raises(KeyboardInterrupt):
        embed_index(tmp_path / "index", model, **prefixes, on_progress=stop)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="has no vectors"):
        open_dense(tmp_path / "index", model.folder)
    partial = tmp_path / "index" / "dense.partial" / "vectors.f16"
    with partial.open("ab") as stream:
        stream.write(b"torn")
    reports: list[int] = []
    embed_index(
        tmp_path / "index",
        model,
        **prefixes,  # type: ignore[arg-type]
        on_progress=lambda done, total: reports.append(done),
    )
    assert reports[0] == 48 and reports[-1] == 120
    found = read_vectors(tmp_path / "index", read_dense(tmp_path / "index"))
    np.testing.assert_allclose(found, read_vectors(index, read_dense(index)), atol=1e-3)


def test_vectors_are_computed_once(index: Path, model: EmbeddingModel) -> None:
    embed_index(
        index,
        model,
        query_prefix="q ",
        passage_prefix="p ",
        on_progress=lambda *args: pytest.fail("computed again"),
    )


def test_another_model_is_refused(index: Path, tmp_path: Path) -> None:
    other = write_tiny_bert(tmp_path / "other", seed=1)
    with pytest.raises(DataError, match="are of the model tiny@"):
        open_dense(index, other)


def test_vectors_of_other_passages_are_refused(index: Path, model: EmbeddingModel, tmp_path: Path) -> None:
    import shutil

    build_index(write_corpus(tmp_path / "corpus.jsonl", make_passages(119)), tmp_path / "index")
    shutil.copytree(index / "dense", tmp_path / "index" / "dense")
    with pytest.raises(DataError, match="belong to other passages"):
        open_dense(tmp_path / "index", model.folder)


def test_many_vectors_are_searched_by_faiss(
    model: EmbeddingModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("faiss", reason="the extra [search] is not installed")
    from agent_gym.retrieval.dense import retriever as dense_module

    passages = make_passages(700)
    build_index(write_corpus(tmp_path / "corpus.jsonl", passages), tmp_path / "index")
    monkeypatch.setattr(vectors, "EXACT_UP_TO", 100)
    monkeypatch.setattr(dense_module, "EXACT_UP_TO", 100)
    embed_index(tmp_path / "index", model)
    retriever = DenseRetriever(tmp_path / "index", model)
    stored = read_vectors(tmp_path / "index", read_dense(tmp_path / "index")).astype(np.float32)
    found = 0
    for number in range(0, 700, 35):
        query = passages[number].contents
        best = np.argsort(-(stored @ model.embed([query])[0]), kind="stable")[:10]
        hits = retriever.search(query, 10)
        assert hits == sorted(hits, key=lambda hit: (-hit.score, hit.doc))
        found += len(set(best) & {hit.doc for hit in hits})
    assert found >= 170  # of 200: near-equal texts have near-equal vectors, which 8 bits cannot tell apart
    assert pickle.loads(pickle.dumps(retriever)).search("river", 5) == retriever.search("river", 5)


def test_reciprocal_ranks_are_summed() -> None:
    def hit(doc: int) -> Hit:
        return Hit(doc, str(doc), 1.0)

    fused = fuse([[hit(5), hit(2), hit(7)], [hit(2), hit(9)]], 4)
    assert [h.doc for h in fused] == [2, 5, 9, 7]
    assert [h.score for h in fused] == pytest.approx([1 / 62 + 1 / 61, 1 / 61, 1 / 62, 1 / 63], abs=1e-9)


def test_hybrid_fuses_both_rankings(index: Path, dense: DenseRetriever) -> None:
    lexical = open_index(index)
    hybrid = HybridRetriever([lexical, dense])
    assert hybrid.size == 120 and len({hybrid.fingerprint, lexical.fingerprint, dense.fingerprint}) == 3
    hits = hybrid.search("castle item6", 5)
    assert hits == fuse([part.search("castle item6", 50) for part in (lexical, dense)], 5)
    assert hybrid.passages(hits) == [hybrid.passage(hit.id) for hit in hits]
    assert hybrid.search("castle item6", 3) == hits[:3]
    assert pickle.loads(pickle.dumps(hybrid)).search("castle item6", 5) == hits


def test_hybrid_of_other_corpora_is_refused(dense: DenseRetriever) -> None:
    with pytest.raises(ConfigError, match="of one corpus"):
        HybridRetriever([dense, MemoryBm25([Passage("a", "", "b")])])
    with pytest.raises(ConfigError, match="at least two"):
        HybridRetriever([dense])


def test_dense_search_needs_vectors(index_folder: Path) -> None:
    from agent_gym.retrieval import RetrieverKind

    with pytest.raises(DataError, match="agent-gym index embed"):
        open_retriever(index_folder, RetrieverKind.DENSE)
