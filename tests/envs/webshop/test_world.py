from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_gym.envs.webshop.data.catalogues import ShopWorld
from agent_gym.envs.webshop.data.generator import ShopSpec
from agent_gym.envs.webshop.data.store import MANIFEST
from agent_gym.envs.webshop.world.kinds import GoalKind

ROOT = Path(__file__).resolve().parents[3]


def test_a_generated_catalogue_is_kept_and_a_damaged_one_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_GYM_CACHE", str(tmp_path))
    first = ShopWorld(ShopSpec(products=5, seed=901)).store()
    manifests = list(tmp_path.rglob(MANIFEST))
    assert len(manifests) == 1
    (manifests[0].parent / "index" / "docs.npy").write_bytes(b"")
    os.utime(manifests[0], ns=(1, 1))
    code = (
        "from agent_gym.envs.webshop.data.generator import ShopSpec\n"
        "from agent_gym.envs.webshop.data.catalogues import ShopWorld\n"
        "store = ShopWorld(ShopSpec(products=5, seed=901)).store()\n"
        "assert len(store.search(store.product(0).title, 5))\n"
        "print(store.digest)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == first.digest
    assert list(tmp_path.rglob(MANIFEST)) == manifests


def test_without_a_writable_cache_the_catalogue_is_made_for_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    monkeypatch.setenv("AGENT_GYM_CACHE", str(blocked))
    store = ShopWorld(ShopSpec(products=5, seed=902)).store()
    assert len(store) == 5


@pytest.mark.slow
def test_processes_that_start_together_make_one_store(tmp_path: Path) -> None:
    code = (
        "from agent_gym.envs.webshop.env import WebShopEnv\n"
        "env = WebShopEnv(products=300, catalog_seed=903)\n"
        "print(env.reset(seed=1)[1]['goal'])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "AGENT_GYM_CACHE": str(tmp_path)}
    running = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE) for _ in range(4)
    ]
    printed = {process.communicate()[0] for process in running}
    assert [process.returncode for process in running] == [0] * 4
    assert len(printed) == 1
    assert len(list((tmp_path / "webshop").iterdir())) == 1


def test_sites_with_other_noun_tables_are_told_apart_by_what_these_hold(tmp_path: Path) -> None:
    site_digest = pytest.importorskip("agent_gym.envs.webshop.site.setup").site_digest
    world = ShopWorld(ShopSpec(products=5, seed=901))
    asin = world.store().asin(0)
    digests = {}
    for name, nouns in (("a", ["lamp"]), ("b", ["lamp"]), ("c", ["sofa"])):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({asin: nouns}))
        digests[name] = site_digest(world, GoalKind.HUMAN, {"nouns": str(path)})
    assert digests["a"] == digests["b"] != digests["c"]
    assert site_digest(world, GoalKind.HUMAN, {}) not in digests.values()
