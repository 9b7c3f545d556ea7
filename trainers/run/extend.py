"""What may be changed of a run that has begun: settings that leave all that was done as it is."""

from __future__ import annotations

from collections.abc import Sequence

from agent_gym.support.errors import ConfigError
from trainers.run.folder import RunFolder
from trainers.settings.reading import merge, parse_override, resolve_config, to_values

CHANGEABLE = (
    "iterations",
    "run.checkpoint_every",
    "run.keep_checkpoints",
    "run.episodes_every",
    "run.episodes_groups",
    "run.stop_on",
)
"""How long a run goes on and what is kept of it. Left out: threads and determinism, which change the rounding of
what follows, and the evaluation, whose results before and after could no longer be compared."""


def check_changes(overrides: Sequence[str]) -> None:
    """Check that a resumed run may take the settings.

    Args:
        overrides: `section.field=value`, as on the command line.

    Raises:
        ConfigError: One would make another run of it.
    """
    refused = [text for text in overrides if ".".join(parse_override(text)[0]) not in CHANGEABLE]
    if refused:
        raise ConfigError(
            "--resume continues a run with the settings in its folder; of these only "
            f"{', '.join(CHANGEABLE)} may be changed (got {', '.join(refused)})"
        )


def extend(folder: RunFolder, overrides: Sequence[str]) -> None:
    """Change settings of a run, for good, before it goes on.

    Iterations that are done stay as they are, so that at a constant learning rate the run becomes what it would
    have been with the new number from the start; other courses of the rate follow the new number from here on. The
    results of its end are dropped, for it is no longer the end; an evaluation that was due in the iteration which
    used to be the last one is not made up for.

    Args:
        folder: Folder of the run.
        overrides: `section.field=value`, as on the command line.

    Raises:
        ConfigError: A setting may not be changed, or there are more iterations already.
    """
    check_changes(overrides)
    before = folder.config()
    config = resolve_config(merge(to_values(before), overrides))
    if config == before:
        return
    from trainers.run.checkpoint import CheckpointStore  # imports torch

    done = max(CheckpointStore(folder.checkpoints).steps(), default=0)
    if config.iterations < done:
        raise ConfigError(
            f"iterations must be at least {done}, which {folder.path} has done already, got {config.iterations}"
        )
    folder.reopen(config)
