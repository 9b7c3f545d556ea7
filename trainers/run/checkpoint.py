"""Checkpoints that stay whole: folders of safetensors and JSON, complete or not there at all.

A checkpoint is written to a temporary folder beside its place, flushed to disk, given a manifest with the
size and hash of every file, and renamed. A run that is killed at any moment leaves the checkpoints before it
intact. One process writes to a store at a time. Nothing is pickled, so that loading runs no foreign code.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors.torch import load_file, load_model, save_file, save_model

from agent_gym.support.errors import AgentGymWarning, ConfigError, DataError
from agent_gym.support.files import flush, settle
from trainers.run.state import (
    OptimizerState,
    decode,
    dump_json,
    encode,
    load_optimizer_state,
    optimizer_state,
)

_FORMAT = 1
_MANIFEST = "manifest.json"
_PREFIX = "step-"
_TEMPORARY = ".tmp-"


class CheckpointWarning(AgentGymWarning):
    """A checkpoint that was passed over because it is not whole."""


class Savable(Protocol):
    """A model that writes and reads its own folder; `trainers.policy.policy.Policy` is one."""

    def save(self, folder: str | Path) -> None:
        """Write the weights into an existing folder."""
        ...

    def load_weights(self, folder: str | Path) -> None:
        """Read them back, in place."""
        ...

    def named_parameters(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """Yield trainable parameters with stable names."""
        ...


class Stateful(Protocol):
    """Anything with a JSON state, such as a learning-rate scheduler."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state."""
        ...


class _Module:
    """A plain torch module as a `Savable`."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module

    def save(self, folder: str | Path) -> None:
        save_model(self._module, str(Path(folder) / "model.safetensors"))

    def load_weights(self, folder: str | Path) -> None:
        try:
            load_model(self._module, str(Path(folder) / "model.safetensors"))
        except RuntimeError as error:
            raise DataError(f"{str(folder)!r} does not hold weights for this model: {error}") from error

    def named_parameters(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        return self._module.named_parameters()


def _savable(model: Savable | torch.nn.Module) -> Savable:
    return _Module(model) if isinstance(model, torch.nn.Module) else model


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A whole checkpoint on disk.

    Attributes:
        path: Its folder; `path / "model"` loads with `Policy.load` when a policy was saved.
        step: The step it was saved at.
        score: The score it was saved with, or None.
        extra: The JSON data it was saved with (tuples have become lists).
    """

    path: Path
    step: int
    score: float | None
    extra: dict[str, Any]

    @property
    def model_folder(self) -> Path:
        """The folder the model was written to."""
        return self.path / "model"

    def restore(
        self,
        *,
        model: Savable | torch.nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        scheduler: Stateful | None = None,
        weights: bool = True,
    ) -> dict[str, Any]:
        """Put the given objects, in place, into the saved state; those not given are left alone.

        An optimiser needs its model, whose parameter names tell states apart. A scheduler is restored after
        its optimiser.

        Args:
            model: The model.
            optimizer: Its optimiser.
            scheduler: Learning-rate scheduler.
            weights: False where the model has its weights already, as one that is sharded after loading.

        Returns:
            `extra`.

        Raises:
            DataError: The checkpoint lacks a part that is asked for, or that part does not fit.
            ConfigError: An optimiser without its model.
        """
        if model is not None and weights:
            _savable(model).load_weights(self.model_folder)
        if optimizer is not None:
            if model is None:
                raise ConfigError("restoring an optimiser needs the model it trains; pass model=... too")
            tensors = load_file(str(self._part("optimizer.safetensors")))
            load_optimizer_state(
                optimizer, _savable(model).named_parameters(), tensors, self._json("optimizer.json")
            )
        if scheduler is not None:
            scheduler.load_state_dict(decode(self._json("scheduler.json")))
        return self.extra

    def _part(self, name: str) -> Path:
        path = self.path / name
        if not path.is_file():
            raise DataError(f"{str(self.path)!r} was saved without {name}; it cannot restore that part")
        return path

    def _json(self, name: str) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self._part(name).read_text("utf-8"))
        return data


class CheckpointStore:
    """The checkpoints of one run, `step-00000012` and so on, in one folder.

    Args:
        root: The folder; made when the first checkpoint is saved.
        keep_last: How many of the newest to keep.
        keep_best: Also keep the one with the highest score.
    """

    def __init__(self, root: str | Path, *, keep_last: int = 2, keep_best: bool = True) -> None:
        if keep_last < 1:
            raise ConfigError(f"keep_last must be at least 1, got {keep_last}")
        self.root = Path(root)
        self.keep_last = keep_last
        self.keep_best = keep_best

    def save(
        self,
        step: int,
        *,
        model: Savable | torch.nn.Module,
        optimizer: torch.optim.Optimizer | OptimizerState | None = None,
        scheduler: Stateful | None = None,
        extra: Mapping[str, Any] | None = None,
        score: float | None = None,
    ) -> Path:
        """Write one checkpoint, then remove those that are no longer kept.

        Args:
            step: Step of the run, 0 or more; a checkpoint of the same step is replaced.
            model: A policy, or any torch module.
            optimizer: Of the model's parameters, or its state.
            scheduler: Learning-rate scheduler.
            extra: JSON data: position in the task order, metrics, configuration.
            score: Higher is better; decides which checkpoint is the best.

        Returns:
            Its folder.

        Raises:
            ConfigError: Something cannot be written as tensors and JSON. Nothing is left behind then.
        """
        if step < 0:
            raise ConfigError(f"step must be 0 or more, got {step}")
        if score is not None and not math.isfinite(score):
            raise ConfigError(f"score must be finite or None, got {score}")
        self.root.mkdir(parents=True, exist_ok=True)
        for leftover in sorted(self.root.glob(_TEMPORARY + "*")):
            shutil.rmtree(leftover)
        final = self.root / f"{_PREFIX}{step:08d}"
        partial = self.root / f"{_TEMPORARY}{final.name}"
        try:
            (partial / "model").mkdir(parents=True)
            saver = _savable(model)
            saver.save(partial / "model")
            if optimizer is not None:
                if isinstance(optimizer, torch.optim.Optimizer):
                    optimizer = optimizer_state(optimizer, saver.named_parameters())
                tensors, rest = optimizer
                save_file(tensors, str(partial / "optimizer.safetensors"))
                _write(partial / "optimizer.json", dump_json(rest, "the optimiser's options"))
            if scheduler is not None:
                _write(
                    partial / "scheduler.json", dump_json(encode(scheduler.state_dict()), "the scheduler's state")
                )
            _write(partial / "extra.json", dump_json(dict(extra or {}), "extra"))
            files = {name: _fingerprint(partial / name) for name in _files(partial)}
            manifest: dict[str, Any] = {"format": _FORMAT, "step": step, "score": score, "files": files}
            manifest["blake2b"] = _manifest_digest(manifest)
            _write(partial / _MANIFEST, dump_json(manifest, "the manifest"))
            flush(partial)  # before an older checkpoint of this step goes
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        self._remove(final)
        settle(partial, final)
        self._prune(final)
        return final

    def set_score(self, step: int, score: float) -> bool:
        """Give a checkpoint that was saved without a score one that became known later.

        Returns:
            False when there is no whole checkpoint of that step, or it has a score already.
        """
        folder = self._path(step)
        try:
            manifest = _read_manifest(folder)
        except DataError:
            return False
        if manifest["score"] is not None or not math.isfinite(score):
            return False
        manifest["score"] = score
        manifest["blake2b"] = _manifest_digest(manifest)
        partial = folder / f"{_TEMPORARY}{_MANIFEST}"
        _write(partial, dump_json(manifest, "the manifest"))
        settle(partial, folder / _MANIFEST)
        return True

    def steps(self) -> list[int]:
        """Return the steps that have a folder, whole or not, in ascending order."""
        return sorted(
            int(path.name.removeprefix(_PREFIX))
            for path in self.root.glob(_PREFIX + "*")
            if path.is_dir() and path.name.removeprefix(_PREFIX).isdigit()
        )

    def latest(self) -> Checkpoint | None:
        """Return the newest whole checkpoint; ones that are not whole are passed over with a warning."""
        return self._first_whole(self._path(step) for step in reversed(self.steps()))

    def best(self) -> Checkpoint | None:
        """Return the whole checkpoint of the highest score (the newest of equals), or None without scores."""
        scored = self._scores()
        ranked = sorted(scored, key=lambda step: (-scored[step], -step))
        return self._first_whole(self._path(step) for step in ranked)

    def _first_whole(self, paths: Iterator[Path]) -> Checkpoint | None:
        for path in paths:
            try:
                return open_checkpoint(path)
            except DataError as error:
                warnings.warn(f"passed over a checkpoint: {error}", CheckpointWarning, stacklevel=3)
        return None

    def _path(self, step: int) -> Path:
        return self.root / f"{_PREFIX}{step:08d}"

    def _scores(self) -> dict[int, float]:
        found = {}
        for step in self.steps():
            try:
                score = _read_manifest(self._path(step))["score"]
            except DataError:
                continue
            if score is not None:
                found[step] = float(score)
        return found

    def _prune(self, newest: Path) -> None:
        steps = self.steps()
        kept = {self._path(step) for step in steps[-self.keep_last :]} | {newest}
        scored = self._scores()
        if self.keep_best and scored:
            kept.add(self._path(max(scored, key=lambda step: (scored[step], step))))
        for step in steps:
            if self._path(step) not in kept:
                self._remove(self._path(step))

    def _remove(self, path: Path) -> None:
        """Remove a checkpoint so that an interruption never leaves half of it under its name."""
        if path.exists():
            doomed = self.root / f"{_TEMPORARY}removed-{path.name}"
            os.rename(path, doomed)
            shutil.rmtree(doomed)


def open_checkpoint(path: str | Path) -> Checkpoint:
    """Check that every file of a checkpoint is what was written, and return it.

    Raises:
        DataError: The folder is not a checkpoint, or a file is missing, cut or changed; the message names the
            file with its expected and actual size or hash.
    """
    folder = Path(path)
    manifest = _read_manifest(folder)
    for name, expected in manifest["files"].items():
        file = folder / name
        if not file.is_file():
            raise DataError(f"checkpoint file {str(file)!r} is missing; use another checkpoint")
        size = file.stat().st_size
        if size != expected["bytes"]:
            raise DataError(
                f"checkpoint file {str(file)!r} is corrupt: expected {expected['bytes']} bytes, got {size}; "
                "use another checkpoint"
            )
        actual = _fingerprint(file)["blake2b"]
        if actual != expected["blake2b"]:
            raise DataError(
                f"checkpoint file {str(file)!r} is corrupt: expected blake2b {expected['blake2b']}, got "
                f"{actual}; use another checkpoint"
            )
    extra = json.loads((folder / "extra.json").read_text("utf-8"))
    return Checkpoint(folder, int(manifest["step"]), manifest["score"], extra)


def _read_manifest(folder: Path) -> dict[str, Any]:
    file = folder / _MANIFEST
    try:
        manifest: dict[str, Any] = json.loads(file.read_text("utf-8"))
        version, expected = manifest["format"], manifest["blake2b"]
        actual = _manifest_digest(manifest)
    except OSError as error:
        raise DataError(f"{str(folder)!r} is not a whole checkpoint: it has no {_MANIFEST}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"checkpoint file {str(file)!r} is corrupt: it is not a manifest ({error})") from error
    if actual != expected:
        raise DataError(
            f"checkpoint file {str(file)!r} is corrupt: expected blake2b {expected}, got {actual}; "
            "use another checkpoint"
        )
    if version != _FORMAT:
        raise DataError(f"checkpoint {str(folder)!r} has format {version!r}, expected {_FORMAT}")
    return manifest


def _manifest_digest(manifest: Mapping[str, Any]) -> str:
    body = {key: value for key, value in manifest.items() if key != "blake2b"}
    return hashlib.blake2b(json.dumps(body, sort_keys=True).encode(), digest_size=32).hexdigest()


def _files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _fingerprint(file: Path) -> dict[str, Any]:
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=32))
    return {"bytes": file.stat().st_size, "blake2b": digest.hexdigest()}


def _write(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
