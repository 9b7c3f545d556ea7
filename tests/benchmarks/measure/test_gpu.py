from __future__ import annotations

import json

import pytest

from benchmarks.measure.gpu.__main__ import main


@pytest.mark.slow
def test_every_stage_runs_with_small_sizes(tmp_path, capsys):
    output = tmp_path / "out" / "gpu.json"
    assert main(["--smoke", "--output", str(output), "--device", "cpu"]) == 0
    found = json.loads(output.read_text("utf-8"))
    assert found["device"] == "cpu"
    assert [row["batch"] for row in found["sampling"]] == [1, 4]
    assert all(row["tokens_per_s"] > 0 for row in [*found["sampling"], *found["scoring"]])
    curve = found["learning_curve"]
    assert len(curve["iterations"]) == 2
    assert 0.0 <= curve["after"] <= 1.0
    assert {"sampling", "update"} <= set(curve["iterations"][0]["seconds"])
    assert "learning_curve" in capsys.readouterr().out


def test_a_model_is_needed_for_the_real_measurement(tmp_path):
    with pytest.raises(SystemExit):
        main(["--output", str(tmp_path / "x.json")])
