"""Every kind of cell has its own look, in text and in pixels, at every tile size."""

from __future__ import annotations

import numpy as np
import pytest

from agent_gym.envs.sokoban.render import render_rgb
from agent_gym.envs.sokoban.world.board import Board, Direction, Level
from agent_gym.support.errors import ConfigError

_ALL = "########\n#+ $ * #\n#   .  #\n########"
_PLAIN = "########\n#@.$ * #\n#      #\n########"


def _tile(picture: np.ndarray, row: int, column: int, tile: int) -> np.ndarray:
    return picture[row * tile : (row + 1) * tile, column * tile : (column + 1) * tile]


@pytest.mark.parametrize("tile", [8, 16, 32, 33])
def test_cells_are_told_apart_by_their_pixels(tile: int) -> None:
    board = Board(Level.from_xsb(_ALL, equal_counts=False))
    picture = render_rgb(board, tile)
    assert picture.shape == (4 * tile, 8 * tile, 3)
    assert picture.dtype == np.uint8
    plain = render_rgb(Board(Level.from_xsb(_PLAIN)), tile)
    kinds = [_tile(picture, *at, tile) for at in [(0, 0), (1, 1), (1, 2), (1, 3), (1, 5), (2, 4)]]
    kinds.append(_tile(plain, 1, 1, tile))
    assert len({kind.tobytes() for kind in kinds}) == 7
    means = np.array([kind.reshape(-1, 3).mean(axis=0) for kind in kinds])
    distances = np.abs(means[:, None] - means[None]).sum(axis=-1)[np.triu_indices(7, 1)]
    assert distances.min() > 5


def test_pictures_follow_the_board_and_belong_to_the_caller() -> None:
    board = Board(Level.from_xsb(_PLAIN))
    before = render_rgb(board, 16)
    board.push(Direction.DOWN)
    after = render_rgb(board, 16)
    changed = {(row // 16, column // 16) for row, column in np.argwhere((before != after).any(axis=-1)).tolist()}
    assert changed == {(1, 1), (2, 1)}
    after[:] = 0
    board.push(Direction.UP)
    assert np.array_equal(render_rgb(board, 16), before)


def test_tile_sizes_out_of_range_are_refused() -> None:
    board = Board(Level.from_xsb(_PLAIN))
    for tile in (0, 7, 129):
        with pytest.raises(ConfigError, match=f"8 to 128 pixels, found {tile}"):
            render_rgb(board, tile)
