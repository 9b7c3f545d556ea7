from __future__ import annotations

import subprocess
import sys

import pytest

import benchmarks


def test_the_short_names_are_those_of_the_rooms():
    from benchmarks.evaluation.agents import AgentKind, Contestant
    from benchmarks.evaluation.plan import EvalConfig
    from benchmarks.evaluation.run import evaluate

    found = [benchmarks.AgentKind, benchmarks.Contestant, benchmarks.EvalConfig, benchmarks.evaluate]
    assert found == [AgentKind, Contestant, EvalConfig, evaluate]
    assert set(benchmarks.__all__) <= set(dir(benchmarks))


def test_other_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'evaluat'"):
        benchmarks.evaluat  # noqa: B018


def test_importing_the_package_and_its_names_loads_no_torch():
    code = (
        "import sys, benchmarks; assert 'benchmarks.evaluation' not in sys.modules; "
        "from benchmarks import AgentKind, Contestant, EvalConfig, evaluate; assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
