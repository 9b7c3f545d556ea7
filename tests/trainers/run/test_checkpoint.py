from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_gym.support.errors import ConfigError, DataError
from tests.trainers.toys import random_rows, tiny_policy
from trainers.policy.policy import Policy
from trainers.policy.token_rows import pad_rows
from trainers.rollout.samplers.hf import HFSampler
from trainers.run.checkpoint import CheckpointStore, CheckpointWarning, open_checkpoint
from trainers.run.state import decode, encode
from trainers.settings.sampling import SamplingSettings

OPTIMIZERS = {
    "adamw": lambda values: torch.optim.AdamW(values, lr=3e-3, weight_decay=0.1),
    "sgd": lambda values: torch.optim.SGD(values, lr=3e-2, momentum=0.9),
    "adafactor": lambda values: torch.optim.Adafactor(values, lr=3e-3),
    "amsgrad": lambda values: torch.optim.Adam(values, lr=3e-3, amsgrad=True),
    "capturable": lambda values: torch.optim.Adam(values, lr=torch.tensor(3e-3)),
}


def linear(value=1.0):
    module = torch.nn.Linear(2, 2)
    with torch.no_grad():
        module.weight.fill_(value)
    return module


class Run:
    """A training run with everything that a resume has to bring back."""

    def __init__(self, make):
        self.policy = tiny_policy()
        self.optimizer = make(self.policy.parameters())
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda n: 1.0 / (1 + n))
        self.texts = []

    def step(self):
        settings = SamplingSettings(max_reply_tokens=5)
        number = self.scheduler.last_epoch  # all randomness of a step derives from its number
        prompts = [(1 + number, 5), (7, 8)]
        samples = HFSampler(self.policy).generate(prompts, settings, torch.Generator().manual_seed(number))
        self.texts.append([sample.ids for sample in samples])
        rows = random_rows(self.policy, [(3, 4), (5, 2)], seed=number)
        self.optimizer.zero_grad()
        (-self.policy.token_stats(pad_rows(rows, 0)).logp.mean()).backward()
        self.optimizer.step()
        self.scheduler.step()

    def parts(self):
        return {
            "model": self.policy,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
        }


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_four_steps_equal_two_steps_resume_and_two_steps(tmp_path, name):
    unbroken = Run(OPTIMIZERS[name])
    for _ in range(4):
        unbroken.step()

    first = Run(OPTIMIZERS[name])
    for _ in range(2):
        first.step()
    store = CheckpointStore(tmp_path)
    store.save(2, extra={"position": 2, "ids": [1, 2]}, score=0.5, **first.parts())

    resumed = Run(OPTIMIZERS[name])
    resumed.step()  # whatever it did before, the checkpoint decides
    checkpoint = store.latest()
    assert checkpoint.restore(**resumed.parts()) == {"position": 2, "ids": [1, 2]}
    for _ in range(2):
        resumed.step()
    assert resumed.policy.checksum() == unbroken.policy.checksum()
    assert resumed.texts[1:] == unbroken.texts[2:]
    assert resumed.scheduler.get_last_lr() == unbroken.scheduler.get_last_lr()


def test_a_checkpoint_is_safetensors_and_json_and_its_model_loads_by_itself(tmp_path):
    run = Run(OPTIMIZERS["adamw"])
    run.step()
    path = CheckpointStore(tmp_path).save(1, **run.parts())
    suffixes = {file.suffix for file in path.rglob("*") if file.is_file()}
    assert suffixes <= {".json", ".safetensors", ".jinja"}
    assert Policy.load(path / "model", device="cpu").checksum() == run.policy.checksum()


def test_parameters_are_matched_by_name_not_by_order(tmp_path):
    model = torch.nn.Sequential(linear(), linear(2.0))
    values = list(model.parameters())
    optimizer = torch.optim.Adam(values, lr=0.1)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    store = CheckpointStore(tmp_path)
    store.save(1, model=model, optimizer=optimizer)
    other = torch.optim.Adam(values[::-1], lr=0.5)
    store.latest().restore(model=model, optimizer=other)
    for value in values:
        assert torch.equal(other.state[value]["exp_avg"], optimizer.state[value]["exp_avg"])
    assert other.param_groups[0]["lr"] == 0.1
    assert other.param_groups[0]["betas"] == (0.9, 0.999)


def test_what_does_not_fit_is_refused_by_name(tmp_path):
    model = linear()
    store = CheckpointStore(tmp_path)
    store.save(1, model=model, optimizer=torch.optim.Adam(model.parameters()))
    checkpoint = store.latest()
    with pytest.raises(DataError, match="holds Adam state, expected SGD"):
        checkpoint.restore(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(DataError, match="differ in bias"):
        checkpoint.restore(model=model, optimizer=torch.optim.Adam([model.weight]))
    with pytest.raises(DataError, match=r"without scheduler\.json"):
        checkpoint.restore(scheduler=torch.optim.lr_scheduler.ConstantLR(torch.optim.Adam(model.parameters())))
    with pytest.raises(DataError, match="does not hold weights"):
        checkpoint.restore(model=torch.nn.Linear(3, 3))
    with pytest.raises(ConfigError, match="needs the model"):
        checkpoint.restore(optimizer=torch.optim.Adam(model.parameters()))


def test_what_cannot_be_written_is_refused_and_leaves_nothing_behind(tmp_path):
    model = linear()
    store = CheckpointStore(tmp_path)
    store.save(1, model=model)
    stranger = torch.optim.Adam(linear().parameters())
    with pytest.raises(ConfigError, match="extra must be JSON"):
        store.save(2, model=model, extra={"x": object()})
    with pytest.raises(ConfigError, match="the model does not"):
        store.save(2, model=model, optimizer=stranger)
    with pytest.raises(ConfigError, match="score must be finite"):
        store.save(2, model=model, score=float("nan"))
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


@pytest.mark.parametrize(
    "value", [None, {"a": (1, [2.5, (3,)])}, {2: 1, 5: 2}, [True, "x"], {"nested": {0: {"k": ()}}}]
)
def test_scheduler_states_keep_tuples_and_integer_keys(value):
    assert decode(json.loads(json.dumps(encode(value)))) == value


# -- what is kept --------------------------------------------------------------------------------------------


def test_the_newest_and_the_best_are_kept(tmp_path):
    store = CheckpointStore(tmp_path, keep_last=2)
    for step, score in enumerate([0.1, 0.9, None, 0.9, 0.2, 0.3]):
        store.save(step, model=linear(step), score=score)
    assert store.steps() == [3, 4, 5]
    assert store.best().step == 3
    assert store.latest().step == 5
    assert not list(tmp_path.glob(".tmp-*"))


def test_an_empty_store_has_neither_latest_nor_best(tmp_path):
    store = CheckpointStore(tmp_path / "none")
    assert (store.latest(), store.best(), store.steps()) == (None, None, [])


def test_a_checkpoint_of_the_same_step_is_replaced(tmp_path):
    store = CheckpointStore(tmp_path)
    for value in (1.0, 5.0):
        store.save(3, model=linear(value))
    model = linear(0.0)
    store.latest().restore(model=model)
    assert (model.weight == 5.0).all()


# -- damage --------------------------------------------------------------------------------------------------


def two_checkpoints(root):
    store = CheckpointStore(root, keep_last=5)
    for step in (1, 2):
        store.save(step, model=linear(step), extra={"n": step}, score=step)
    return store


def test_a_corrupt_file_is_named_with_both_hashes_and_the_previous_checkpoint_is_used(tmp_path):
    store = two_checkpoints(tmp_path)
    file = tmp_path / "step-00000002" / "model" / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(DataError, match=r"model\.safetensors.*expected blake2b [0-9a-f]{64}, got [0-9a-f]{64}"):
        open_checkpoint(tmp_path / "step-00000002")
    with pytest.warns(CheckpointWarning, match=r"model\.safetensors"):
        assert store.latest().step == 1
    with pytest.warns(CheckpointWarning):
        assert store.best().step == 1


def test_a_cut_a_missing_and_an_absent_manifest_are_told_apart(tmp_path):
    two_checkpoints(tmp_path)
    folder = tmp_path / "step-00000002"
    file = folder / "extra.json"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    with pytest.raises(DataError, match=f"expected {len(whole)} bytes, got {len(whole) - 1}"):
        open_checkpoint(folder)
    file.unlink()
    with pytest.raises(DataError, match=r"extra\.json' is missing"):
        open_checkpoint(folder)
    (folder / "manifest.json").unlink()
    with pytest.raises(DataError, match=r"it has no manifest\.json"):
        open_checkpoint(folder)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_changed_byte_is_noticed_or_harmless(tmp_path, data):
    root = tmp_path / "root"
    store = CheckpointStore(root)
    folder = store.save(1, model=linear(), extra={"n": 1})
    expected = open_checkpoint(folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    file = data.draw(st.sampled_from(files))
    content = bytearray(file.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    file.write_bytes(content)
    try:
        assert open_checkpoint(folder) == expected  # white space in the manifest
        assert file.name == "manifest.json"
    except DataError:
        pass


WRITER = """
import sys, time
from pathlib import Path
import torch
from trainers.run.checkpoint import CheckpointStore

class Slow:
    def __init__(self, pause):
        self.pause = pause
    def save(self, folder):
        torch.manual_seed(0)
        with open(Path(folder) / "weights.safetensors", "wb") as stream:
            for part in range(200):
                stream.write(bytes(1000))
                stream.flush()
                if part == 100 and self.pause:
                    print("half", flush=True)
                    time.sleep(60)
    def load_weights(self, folder): ...
    def named_parameters(self):
        return iter(())

store = CheckpointStore(sys.argv[1], keep_last=2)
mode = sys.argv[2]
if mode == "half":
    store.save(1, model=Slow(False), extra={"n": 1})
    store.save(2, model=Slow(True), extra={"n": 2})
print("go", flush=True)
for step in range(1, 100_000):
    store.save(step, model=Slow(False), extra={"n": step})
"""


def start_writer(root, mode):
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(root), mode],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return process, process.stdout.readline().strip()


def test_a_run_killed_in_the_middle_of_a_write_resumes_from_the_last_whole_checkpoint(tmp_path):
    process, said = start_writer(tmp_path, "half")
    assert said == "half"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert [path.name for path in tmp_path.glob(".tmp-*")] == [".tmp-step-00000002"]
    store = CheckpointStore(tmp_path)
    assert store.latest().extra == {"n": 1}
    store.save(2, model=linear(), extra={"n": 2})
    assert store.latest().extra == {"n": 2}
    assert not list(tmp_path.glob(".tmp-*"))


@pytest.mark.slow
def test_a_run_killed_at_any_moment_leaves_only_whole_checkpoints(tmp_path):
    generator = random.Random(0)
    for trial in range(6):
        root = Path(tmp_path / str(trial))
        process, said = start_writer(root, "loop")
        assert said == "go"
        while not list(root.glob("step-*")):
            assert process.poll() is None
            time.sleep(0.001)
        time.sleep(generator.random() * 0.2)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        store = CheckpointStore(root)
        for step in store.steps():
            assert open_checkpoint(root / f"step-{step:08d}").extra == {"n": step}
        assert store.latest() is not None
