"""Question files of every format, their splits, sources and weights."""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent_gym.envs.searchqa.questions.files import find_files, load_split
from agent_gym.envs.searchqa.questions.formats import read_questions
from agent_gym.envs.searchqa.tasks import choose_tasks
from agent_gym.support.errors import ConfigError, DataError
from trainers.rollout.task_order import TaskSampler

FLASHRAG = {
    "id": "test_0",
    "question": "who wrote it",
    "golden_answers": ["A", "B"],
    "metadata": {"supporting_facts": {"title": ["X", "Y", "X"], "sent_id": [0, 1, 2]}, "context": "long"},
}
HOTPOT = {
    "_id": "5a7",
    "question": "which band",
    "answer": "Rush",
    "type": "bridge",
    "level": "hard",
    "supporting_facts": [["Neil Peart", 0], ["Rush", 1]],
    "context": [["Neil Peart", ["He drums."]]],
}
MUSIQUE = {
    "id": "3hop1__1_2_3",
    "question": "who founded it",
    "answer": "Ann",
    "answer_aliases": ["Annie"],
    "answerable": True,
    "question_decomposition": [{}, {}, {}],
    "paragraphs": [
        {"idx": 0, "title": "T1", "paragraph_text": "..", "is_supporting": True},
        {"idx": 1, "title": "T2", "paragraph_text": "..", "is_supporting": False},
    ],
}
SEARCH_R1 = {
    "data_source": "nq",
    "prompt": [
        {
            "role": "user",
            "content": "Answer the question. For example <answer> Beijing </answer>. Question: who sang?\n",
        }
    ],
    "ability": "fact-reasoning",
    "reward_model": {"style": "rule", "ground_truth": {"target": ["Cher"]}},
    "extra_info": {"split": "train", "index": 7},
}


def write_lines(path: Path, rows: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, "utf-8")
    return path


class TestFormats:
    @pytest.mark.parametrize("name", ["test.jsonl", "test.jsonl.gz"])
    def test_flashrag_rows_keep_supporting_titles_and_drop_contexts(self, tmp_path: Path, name: str) -> None:
        (question,) = read_questions(write_lines(tmp_path / name, [FLASHRAG]), "nq")
        assert (question.source, question.id, question.golds) == ("nq", "test_0", ("A", "B"))
        assert question.supporting_titles == ("X", "Y")
        assert "context" not in question.metadata

    def test_hotpotqa_and_2wiki_lists(self, tmp_path: Path) -> None:
        path = tmp_path / "hotpot_dev_distractor_v1.json"
        path.write_text(json.dumps([HOTPOT]), "utf-8")
        (question,) = read_questions(path, "hotpotqa")
        assert (question.id, question.golds, question.metadata["type"]) == ("5a7", ("Rush",), "bridge")
        assert question.supporting_titles == ("Neil Peart", "Rush")

    def test_musique_rows_have_aliases_hops_and_supporting_titles(self, tmp_path: Path) -> None:
        (question,) = read_questions(write_lines(tmp_path / "musique_ans_v1.0_dev.jsonl", [MUSIQUE]), "musique")
        assert (question.golds, question.hops, question.supporting_titles) == (("Ann", "Annie"), 3, ("T1",))

    def test_search_r1_parquet_takes_the_question_from_the_prompts_end(self, tmp_path: Path) -> None:
        parquet = pytest.importorskip("pyarrow.parquet")
        table = pytest.importorskip("pyarrow").Table.from_pylist
        parquet.write_table(table([SEARCH_R1]), tmp_path / "train.parquet")
        (question,) = read_questions(tmp_path / "train.parquet", "x")
        assert (question.source, question.id, question.question, question.golds) == (
            "nq",
            "7",
            "who sang?",
            ("Cher",),
        )

    def test_tables_take_one_answer_or_a_json_list(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.csv"
        with path.open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([["question", "answer"], ["a, b?", "1"], ["c?", '["2", "two"]']])
        assert [(q.id, q.question, q.golds) for q in read_questions(path, "mine")] == [
            ("0", "a, b?", ("1",)),
            ("1", "c?", ("2", "two")),
        ]

    @pytest.mark.parametrize(
        ("row", "problem"),
        [
            ({"question": "x"}, "golden_answers"),
            ({"question": "x", "golden_answers": []}, "no answer"),
            ({"question": " ", "golden_answers": ["a"]}, "'question'"),
            ({"golden_answers": ["a"]}, "expected a 'question'"),
            (["x"], "expected an object"),
            ({"reward_model": {}, "prompt": []}, "ground_truth"),
        ],
    )
    def test_a_malformed_row_is_named_with_its_place(self, tmp_path: Path, row: Any, problem: str) -> None:
        path = write_lines(tmp_path / "test.jsonl", [FLASHRAG, row])
        with pytest.raises(DataError, match=rf"test\.jsonl, row 2: .*{problem}"):
            list(read_questions(path, "nq"))

    def test_broken_files_are_named(self, tmp_path: Path) -> None:
        for name in ("a.json", "b.jsonl", "c.txt", "d.jsonl.gz", "e.parquet"):
            path = tmp_path / name
            path.write_text("{not json", "utf-8")
            with pytest.raises(DataError, match=name):
                list(read_questions(path, "x"))
        torn = gzip.compress(b"x")[:10] + b"\xff" * 20
        for name, content in (("f.jsonl.gz", torn), ("g.json", b"[" * 99_999), ("h.jsonl", b"[" * 99_999)):
            (tmp_path / name).write_bytes(content)
            with pytest.raises(DataError, match=name):
                list(read_questions(tmp_path / name, "x"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    def rows(name: str, count: int) -> list[Any]:
        return [{**FLASHRAG, "id": f"{name}_{number}"} for number in range(count)]

    write_lines(tmp_path / "nq" / "train.jsonl", rows("train", 6))
    write_lines(tmp_path / "nq" / "dev.jsonl", rows("dev", 2))
    write_lines(tmp_path / "nq" / "test.jsonl", rows("test", 3))
    write_lines(tmp_path / "hotpotqa" / "train.jsonl", rows("train", 4))
    write_lines(tmp_path / "hotpotqa" / "dev.jsonl", rows("dev", 5))
    write_lines(tmp_path / "corpus.jsonl", [{"id": 1, "contents": "x"}])
    return tmp_path


class TestSplits:
    def sizes(self, folder: Path, split: str | None) -> dict[str, int]:
        return {source: len(rows) for source, rows in load_split(find_files(folder), split)[1].items()}

    def test_a_source_without_a_test_file_is_tested_on_its_dev_file(self, folder: Path) -> None:
        assert self.sizes(folder, "train") == {"hotpotqa": 4, "nq": 6}
        assert self.sizes(folder, "test") == {"hotpotqa": 5, "nq": 3}
        assert self.sizes(folder, "valid") == {"nq": 2}
        assert self.sizes(folder, None) == self.sizes(folder, "train")

    def test_files_without_a_split_are_divided_without_overlap(self, tmp_path: Path) -> None:
        rows = [{**FLASHRAG, "id": str(n), "question": f"who wrote number {n}"} for n in range(300)]
        path = write_lines(tmp_path / "mine.jsonl", rows)
        parts = [load_split(find_files(path), split)[1]["mine"] for split in ("train", "valid", "test")]
        ids = [{question.id for question in part} for part in parts]
        assert sum(map(len, ids)) == len(set.union(*ids)) == 300
        assert 200 < len(ids[0]) < 270
        assert len(load_split(find_files(path), None)[1]["mine"]) == 300

    def test_copies_of_a_question_share_a_split_whatever_their_source_and_spelling(self, tmp_path: Path) -> None:
        asked = ("who wrote it", "Who wrote it?", " Who  wrote it ", "who wrote the it!")
        for name in ("one", "two"):
            rows = [{"question": asked[n % 4], "answer": "A"} for n in range(30)]
            write_lines(tmp_path / f"{name}.jsonl", rows)
        files = find_files([tmp_path / "one.jsonl", tmp_path / "two.jsonl"])
        sizes = []
        for split in ("train", "valid", "test"):
            try:
                sizes.append(sum(map(len, load_split(files, split)[1].values())))
            except ConfigError:  # one question cannot fill three splits
                continue
        assert sizes == [60]

    def test_rows_without_ids_of_several_files_are_told_apart(self, tmp_path: Path) -> None:
        bare = [{"question": f"q{number}", "answer": "A"} for number in range(3)]
        indexed = [{**SEARCH_R1, "extra_info": {"index": number}} for number in range(2)]
        for split in ("train", "dev", "test"):
            write_lines(tmp_path / "mine" / f"{split}.jsonl", bare)
            write_lines(tmp_path / "nq" / f"{split}.jsonl", indexed)
        ids = choose_tasks(tmp_path, "all", None).ids
        assert len(set(ids)) == len(ids) == 15
        assert {"mine/train_0", "mine/valid_2", "nq/test_1"} <= set(ids)
        assert list(choose_tasks(tmp_path / "mine", "test", None).ids) == [
            "mine/test_0",
            "mine/test_1",
            "mine/test_2",
        ]

    def test_what_is_not_there_is_named(self, folder: Path, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"'train'.*got 'trian'.*Did you mean 'train'"):
            load_split(find_files(folder), "trian")
        with pytest.raises(ConfigError, match=r"no question in split 'test'.*nq: train"):
            load_split(find_files(folder / "nq" / "train.jsonl"), "test")
        row = {"id": "one", "question": "who wrote it?", "answer": "A"}
        divided = find_files(write_lines(tmp_path / "mine" / "a.jsonl", [row]))
        for split in ("valid", "test"):  # the hash puts this question into train
            said = rf"no question in split '{split}' \(no file's name tells a split.*\); add --split all"
            with pytest.raises(ConfigError, match=said):
                load_split(divided, split)
        with pytest.raises(DataError, match=r"k\.jsonl is empty"):
            load_split(find_files(write_lines(tmp_path / "mine" / "k.jsonl", [])), "test")
        (tmp_path / "empty").mkdir()
        with pytest.raises(DataError, match="no question file"):
            find_files(tmp_path / "empty")
        with pytest.raises(DataError, match="no data at"):
            find_files("nowhere.jsonl")

    def test_ids_and_types_name_the_source(self, folder: Path) -> None:
        tasks = choose_tasks({"mine": folder / "nq"}, "test", None)
        assert tasks.ids == ("mine/test_0", "mine/test_1", "mine/test_2")
        assert {task.type for task in tasks} == {"mine"}
        both = choose_tasks([folder / "nq", folder / "hotpotqa"], "test", None)
        assert [len([task for task in both if task.type == name]) for name in ("nq", "hotpotqa")] == [3, 5]


class TestWeights:
    def test_sources_are_drawn_by_weight_by_resets_and_by_the_trainer(self, folder: Path) -> None:
        tasks = choose_tasks(folder, "train", {"nq": 3})
        rng = np.random.default_rng(0)
        drawn = Counter(tasks.sample(rng).type for _ in range(2_000))
        assert drawn["nq"] / 2_000 == pytest.approx(0.75, abs=0.04)
        sampler = TaskSampler(tasks, seed=1)
        first = sampler.draw(2_000)
        counts = Counter(task_id.partition("/")[0] for task_id in first)
        assert counts["nq"] / 2_000 == pytest.approx(0.75, abs=0.04)
        assert TaskSampler(tasks, seed=1, position=1_990).draw(10) == first[1_990:]

    def test_weight_zero_leaves_a_source_out(self, folder: Path) -> None:
        assert {task.type for task in choose_tasks(folder, "train", {"nq": 0})} == {"hotpotqa"}

    def test_unknown_sources_and_impossible_weights_are_refused(self, folder: Path) -> None:
        with pytest.raises(ConfigError, match=r"'nqq'.*Did you mean 'nq'"):
            choose_tasks(folder, "train", {"nqq": 1})
        for weights in ({"nq": 0, "hotpotqa": 0}, {"nq": -1}):
            with pytest.raises(DataError, match="at least 0"):
                choose_tasks(folder, "train", weights)
