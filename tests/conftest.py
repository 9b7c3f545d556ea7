"""Fixtures shared by every test."""

from __future__ import annotations

import os

# One thread per process: small models are faster with it, and results do not depend on the core count.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
