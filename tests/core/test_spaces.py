"""The Unicode text space, alone and in Gymnasium's vector environments."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from gymnasium.vector.utils import (
    batch_space,
    create_empty_array,
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)
from hypothesis import given
from hypothesis import strategies as st

from agent_gym.core.spaces import UnicodeText

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=40)  # lone surrogates included
AWKWARD = ["é √ 你", "", "\ud800 half a pair", "🙂" * 16, "\x00nul", "a" * 64]


class Echo(gym.Env[str, str]):
    """Shows each of some texts in turn."""

    def __init__(self, texts: list[str]) -> None:
        self.observation_space = UnicodeText(64)
        self.action_space = UnicodeText(64)
        self.texts = texts
        self.turn = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        self.turn = 0
        return self.texts[0], {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turn += 1
        return self.texts[self.turn], 0.0, False, False, {"said": action}


class TestSpace:
    @given(text=ANY_TEXT)
    def test_any_text_up_to_the_length_is_inside(self, text: str) -> None:
        assert (text in UnicodeText(20)) == (len(text) <= 20)

    def test_other_things_are_outside(self) -> None:
        for thing in (None, 1, b"a", ["a"]):
            assert thing not in UnicodeText(5)

    def test_samples_are_seeded_inside_and_use_no_global_generator(self) -> None:
        np.random.seed(0)
        state = np.random.get_state()[1].tolist()  # type: ignore[index]
        one, two = UnicodeText(7, seed=3), UnicodeText(7, seed=3)
        drawn = [one.sample() for _ in range(50)]
        assert drawn == [two.sample() for _ in range(50)]
        assert all(text in one for text in drawn)
        assert len(set(drawn)) > 10
        assert state == np.random.get_state()[1].tolist()  # type: ignore[index]

    def test_equality_copies_and_json_forms(self) -> None:
        space = UnicodeText(9)
        assert space == UnicodeText(9) != UnicodeText(8)
        assert hash(space) == hash(UnicodeText(9))
        assert pickle.loads(pickle.dumps(space)) == copy.deepcopy(space) == space
        assert space.from_jsonable(space.to_jsonable(AWKWARD)) == AWKWARD
        with pytest.raises(ValueError, match="at least 1, got 0"):
            UnicodeText(0)


class TestSharedMemory:
    @given(texts=st.lists(ANY_TEXT, min_size=1, max_size=4))
    def test_what_is_written_is_read(self, texts: list[Any]) -> None:
        space = UnicodeText(40)
        memory = create_shared_memory(space, len(texts), multiprocessing)
        for index, text in enumerate(texts):
            write_to_shared_memory(space, index, text, memory)
        seen = read_from_shared_memory(space, memory, len(texts))
        assert list(seen) == texts
        kept = copy.deepcopy(seen)
        other: Any = "other"
        for index in range(len(texts)):
            write_to_shared_memory(space, index, other, memory)
        assert kept == tuple(texts), "a deep copy keeps what it read"
        assert list(seen) == ["other"] * len(texts), "the view is live"

    def test_a_text_beyond_the_length_is_refused(self) -> None:
        space = UnicodeText(2)
        memory = create_shared_memory(space, 1, multiprocessing)
        fitting: Any = "🙂🙂"
        longer: Any = "a" * 9
        write_to_shared_memory(space, 0, fitting, memory)
        with pytest.raises(ValueError, match=r"9 characters.*2"):
            write_to_shared_memory(space, 0, longer, memory)

    def test_batches_of_texts_are_tuples(self) -> None:
        assert create_empty_array(UnicodeText(4), 3) == ("", "", "")
        assert ("a", "é") in batch_space(UnicodeText(4), 2)


class TestVectorEnvironments:
    @pytest.mark.parametrize("context", ["fork", "spawn"])
    def test_async_environments_carry_any_text_and_nothing_stale(self, context: str) -> None:
        makers = [lambda: Echo(AWKWARD), lambda: Echo(AWKWARD[::-1])]
        vector = AsyncVectorEnv(makers, context=context, shared_memory=True)
        try:
            shown = [vector.reset()[0]]
            for turn in range(1, len(AWKWARD)):
                shown.append(vector.step(("é", "\udfff"))[0])
                assert shown[turn] == (AWKWARD[turn], AWKWARD[-1 - turn])
            assert shown[0] == (AWKWARD[0], AWKWARD[-1]), "earlier observations stay as they were"
        finally:
            vector.close()

    def test_sync_environments_carry_any_text(self) -> None:
        vector = SyncVectorEnv([lambda: Echo(AWKWARD), lambda: Echo(AWKWARD[::-1])])
        assert tuple(vector.reset()[0]) == (AWKWARD[0], AWKWARD[-1])
        assert tuple(vector.step(("a", "b"))[0]) == (AWKWARD[1], AWKWARD[-2])
