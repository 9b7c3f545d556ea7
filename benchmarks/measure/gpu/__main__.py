"""Measures training on one large GPU in under ten minutes: tokens per second, memory, a short learning curve.

    python -m benchmarks.measure.smollm models/smollm2
    python -m benchmarks.measure.gpu --model models/smollm2 --output gpu.json

`--smoke` runs every stage with small sizes on a CPU, with a tiny model when none is given.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def main(arguments: list[str]) -> int:
    """Run the stages and write the figures after each, so that a run that is cut keeps what it has."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.measure.gpu", description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="folder of a causal language model")
    parser.add_argument("--output", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--curve-seconds", type=float, help="seconds of training [240]")
    parser.add_argument("--smoke", action="store_true", help="small sizes, any device")
    given = parser.parse_args(arguments)
    if given.model is None and not given.smoke:
        parser.error("--model is needed (or --smoke)")

    import torch
    import transformers

    from agent_gym._version import __version__
    from benchmarks.measure.figures import write_figures
    from benchmarks.measure.gpu.stages import LARGE, SMALL, learning_curve, sampling, scoring
    from trainers.policy.policy import Policy

    sizes = SMALL if given.smoke else LARGE
    if given.curve_seconds is not None:
        sizes = dataclasses.replace(sizes, curve_seconds=given.curve_seconds)
    started = time.perf_counter()
    figures: dict[str, Any] = {
        "suite": "gpu",
        "package_version": __version__,
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "smoke": given.smoke,
    }

    def keep(**found: Any) -> None:
        figures.update(found, seconds=round(time.perf_counter() - started, 1))
        write_figures(given.output, figures)
        for name, value in found.items():
            sys.stdout.write(f"{name}: {json.dumps(value)}\n")
        sys.stdout.flush()

    with tempfile.TemporaryDirectory() as folder:
        model = given.model or _tiny(Path(folder) / "model")
        dtype = "bfloat16" if torch.cuda.is_available() else "float32"
        policy = Policy.load(model, device=given.device, dtype=dtype)
        device = str(policy.device)
        name = torch.cuda.get_device_name(policy.device) if policy.device.type == "cuda" else platform.machine()
        keep(device=device, device_name=name, parameters=policy.n_parameters)
        keep(sampling=sampling(policy, sizes))
        keep(scoring=scoring(policy, sizes))
        del policy
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        keep(learning_curve=learning_curve(str(model), given.device, Path(folder) / "run", sizes))
    return 0


def _tiny(folder: Path) -> Path:
    """Write a tiny model whose tokenizer knows Sokoban's compact prompts."""
    from trainers.policy.tiny import TinySpec, build_tiny

    text = "# _ O X P √ S <action>left</action><action>up</action><action>right</action><action>down</action>"
    build_tiny([text] * 8, TinySpec(hidden=32, heads=2), device="cpu").save(folder)
    return folder


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
