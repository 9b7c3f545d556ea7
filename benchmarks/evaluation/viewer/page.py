"""The page of recorded episodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from agent_gym.page import packed, page_environment, page_file
from agent_gym.support.files import write_whole
from benchmarks.evaluation.viewer.records import BLOCK, ViewData, ViewOptions, read_view

_FOLDER = Path(__file__).parent
_SCRIPTS = ("boards.js", "episode.js", "list.js")


def write_view(
    paths: Sequence[str | Path],
    output: str | Path,
    options: ViewOptions | None = None,
    on_episode: Callable[[int], None] | None = None,
) -> ViewData:
    """Write the page of episode files; returns what it holds.

    Args:
        paths: Episode files (JSON lines), or folders of them.
        output: File to write.
        options: What the page shows.
        on_episode: Called with the number of episodes read so far.

    Raises:
        DataError: A file is missing or holds something else.
        ConfigError: There is no episode, or an option is out of range.
    """
    data = read_view(paths, options, on_episode)
    write_whole(output, render_view(data))
    return data


def render_view(data: ViewData, title: str = "Episodes") -> str:
    """Return the page as HTML."""
    return (
        page_environment(_FOLDER)
        .get_template("page.html.j2")
        .render(
            title=title,
            index=packed({"rows": data.index, "files": data.files, "total": data.total}),
            blocks=[packed(block) for block in data.blocks],
            block_size=BLOCK,
            shown=len(data.index),
            total=data.total,
            files=data.files,
            style=page_file(_FOLDER / "style.css"),
            scripts=[page_file(_FOLDER / name) for name in _SCRIPTS],
        )
    )
