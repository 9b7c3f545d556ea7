from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agent_gym.support.errors import ConfigError
from tests.trainers.toys import CELLS, SPEC, board, corpus, tiny_policy
from trainers.policy.policy import Policy
from trainers.policy.tiny import TinySpec, build_tiny, build_tokenizer


@given(st.text())
def test_any_text_survives_encoding_and_decoding(text):
    policy = tiny_policy_once()
    assert policy.decode(policy.encode(text)) == text


def tiny_policy_once(memo: list[Policy] = []) -> Policy:  # noqa: B006  one policy for all examples
    if not memo:
        memo.append(tiny_policy())
    return memo[0]


def test_board_cells_are_one_token_each():
    policy = tiny_policy()
    text = board(random.Random(1), 7)
    pieces = [policy.decode([token]) for token in policy.encode(text)]
    assert len(pieces) == 7 * 7 + 6
    assert {piece.strip() for piece in pieces} == {*CELLS, ""}


def test_cells_stay_whole_in_a_corpus_of_prose():
    prose = ["the quick brown fox jumps over the lazy dog while it rains in Spain " * 50, "a ⛝ b\n⛝ x"]
    tokenizer = build_tokenizer(prose)
    assert len(tokenizer.encode(" ⛝ ⛝\n⛝", add_special_tokens=False)) == 4


def test_replies_take_few_tokens():
    policy = tiny_policy()
    assert len(policy.encode("<action>up</action>")) == 3
    assert len(policy.encode("<action>push left</action>")) == 4
    assert policy.decode(policy.encode("<action>up</action>"), skip_special_tokens=True) == "<action>up</action>"


def test_a_conversation_keeps_turns_apart_and_grows_by_appending():
    policy = tiny_policy()
    messages = [{"role": "system", "content": "rules"}, {"role": "user", "content": "room"}]
    prompt = policy.encode_chat(messages)
    assert policy.decode(prompt) == "<|system|>rules<|end|><|user|>room<|end|><|assistant|>"
    reply = [*policy.encode("<action>up</action>"), policy.tokenizer.eos_token_id]
    longer = policy.encode_chat(
        [*messages, {"role": "assistant", "content": "<action>up</action>"}, {"role": "user", "content": "x"}]
    )
    assert longer[: len(prompt) + len(reply)] == prompt + reply


def test_saved_policy_loads_with_the_same_ids_and_weights(tmp_path):
    policy = tiny_policy()
    policy.save(tmp_path)
    again = Policy.load(tmp_path, device="cpu")
    texts = [*corpus(3), "é √ 你 \t  a<|end|> 😀 ##  ##don't 1234 <action> up</action>\r\n\n x"]
    assert [again.encode(text) for text in texts] == [policy.encode(text) for text in texts]
    assert again.decode(policy.encode(texts[-1])) == texts[-1]
    chat = [{"role": "user", "content": texts[0]}]
    assert again.encode_chat(chat) == policy.encode_chat(chat)
    assert (again.checksum(), again.eos_ids, again.pad_id) == (
        policy.checksum(),
        policy.eos_ids,
        policy.pad_id,
    )
    assert not list(tmp_path.glob("*.bin"))


def test_weights_depend_on_the_seed_only_and_leave_the_global_generator_alone():
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = build_tiny(corpus(), SPEC)
    assert torch.equal(state, torch.get_rng_state())
    torch.manual_seed(2)
    assert build_tiny(iter(corpus()), SPEC).checksum() == first.checksum()
    other = TinySpec(hidden=32, heads=2, max_positions=256, seed=1)
    assert build_tiny(corpus(), other).checksum() != first.checksum()


@pytest.mark.slow
def test_the_tokenizer_is_the_same_in_every_process():
    script = (
        "from tests.trainers.toys import corpus\nfrom trainers.policy.tiny import build_tokenizer\n"
        "import hashlib\ntext = build_tokenizer(corpus()).backend_tokenizer.to_str()\n"
        "print(hashlib.sha256(text.encode()).hexdigest())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[3],
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "random")
    }
    assert len(found) == 1


def test_default_size_is_small():
    policy = build_tiny(corpus())
    assert 100_000 <= policy.n_parameters <= 2_000_000
    assert len(policy.tokenizer) <= 512


def test_impossible_sizes_are_refused():
    with pytest.raises(ConfigError, match="multiple of heads"):
        TinySpec(hidden=30, heads=4)
    with pytest.raises(ConfigError, match="vocab_size must be at least"):
        TinySpec(vocab_size=100)


def test_importing_the_package_does_not_import_torch():
    done = subprocess.run(
        [sys.executable, "-c", "import sys, trainers; sys.exit('torch' in sys.modules)"], check=False
    )
    assert done.returncode == 0
