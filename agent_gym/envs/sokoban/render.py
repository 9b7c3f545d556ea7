"""Pictures of a board: RGB tiles, drawn here from shapes, no image files."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from agent_gym.envs.sokoban.world.board import Board
from agent_gym.envs.sokoban.world.level import BOX, BOX_ON_GOAL, FLOOR, GOAL, PLAYER, PLAYER_ON_GOAL, WALL
from agent_gym.support.errors import ConfigError

MIN_TILE, MAX_TILE = 8, 128
"""Least and greatest side of a tile in pixels."""

_ORDER = (FLOOR, WALL, GOAL, BOX, BOX_ON_GOAL, PLAYER, PLAYER_ON_GOAL)
_INDEX = {symbol: index for index, symbol in enumerate(_ORDER)}
_OVERSAMPLING = 4

_FLOOR_RGB, _FLOOR_EDGE_RGB = (233, 226, 208), (220, 212, 192)
_MORTAR_RGB, _BRICK_RGB, _BRICK_LIGHT_RGB = (92, 80, 76), (158, 84, 66), (176, 100, 80)
_GOAL_RGB = (214, 72, 62)
_CRATE_RGB, _CRATE_DARK_RGB, _CRATE_LIGHT_RGB = (196, 142, 76), (132, 88, 42), (216, 166, 102)
_DONE_RGB, _DONE_DARK_RGB, _DONE_LIGHT_RGB = (112, 172, 84), (60, 108, 46), (142, 196, 114)
_SKIN_RGB, _SHIRT_RGB, _TROUSERS_RGB, _HAIR_RGB = (240, 196, 160), (52, 104, 188), (44, 52, 84), (84, 56, 36)

_Colour = tuple[int, int, int]
_Image = npt.NDArray[np.uint8]
_Mask = npt.NDArray[np.bool_]
_Canvas = npt.NDArray[np.float64]


def render_rgb(board: Board, tile: int = 32) -> _Image:
    """Return the board as a picture.

    Args:
        board: What to show.
        tile: Side of a cell in pixels, 8 to 128.

    Returns:
        uint8 array of shape [height * tile, width * tile, 3].

    Raises:
        ConfigError: The tile size is out of range.
    """
    if not MIN_TILE <= tile <= MAX_TILE:
        raise ConfigError(f"expected a tile of {MIN_TILE} to {MAX_TILE} pixels, found {tile}")
    rows = board.rows()
    indices = np.array([[_INDEX[symbol] for symbol in row] for row in rows])
    height, width = indices.shape
    # [height, width, tile, tile, 3] to [height, tile, width, tile, 3]
    pixels = _tiles(tile)[indices].transpose(0, 2, 1, 3, 4)
    picture: _Image = pixels.reshape(height * tile, width * tile, 3)
    return picture


@lru_cache(maxsize=8)
def _tiles(tile: int) -> _Image:
    """Return the tiles in the order of `_ORDER`, uint8 of shape [7, tile, tile, 3]."""
    drawn = {
        FLOOR: _floor(tile),
        WALL: _wall(tile),
        GOAL: _goal(_floor(tile), 0.24),
        BOX: _crate(_floor(tile), _CRATE_RGB, _CRATE_DARK_RGB, _CRATE_LIGHT_RGB),
        BOX_ON_GOAL: _dot(_crate(_floor(tile), _DONE_RGB, _DONE_DARK_RGB, _DONE_LIGHT_RGB)),
        PLAYER: _player(_floor(tile)),
        PLAYER_ON_GOAL: _player(_goal(_floor(tile), 0.42)),
    }
    shrunk = [
        drawn[symbol].reshape(tile, _OVERSAMPLING, tile, _OVERSAMPLING, 3).mean(axis=(1, 3)) for symbol in _ORDER
    ]
    tiles: _Image = np.rint(np.stack(shrunk)).astype(np.uint8)
    tiles.setflags(write=False)
    return tiles


def _grid(canvas: _Canvas) -> tuple[_Canvas, _Canvas]:
    """Return the row and column of every sample, from 0 at the top left to 1."""
    side = canvas.shape[0]
    along = (np.arange(side) + 0.5) / side
    return along[:, None], along[None, :]


def _paint(canvas: _Canvas, mask: _Mask, colour: _Colour) -> None:
    canvas[np.broadcast_to(mask, canvas.shape[:2])] = colour


def _box(canvas: _Canvas, top: float, left: float, bottom: float, right: float, *, colour: _Colour) -> None:
    row, column = _grid(canvas)
    _paint(canvas, (row >= top) & (row < bottom) & (column >= left) & (column < right), colour)


def _disc(canvas: _Canvas, row_at: float, column_at: float, radius: float, colour: _Colour) -> None:
    row, column = _grid(canvas)
    _paint(canvas, (row - row_at) ** 2 + (column - column_at) ** 2 <= radius**2, colour)


def _floor(tile: int) -> _Canvas:
    canvas = np.empty((tile * _OVERSAMPLING, tile * _OVERSAMPLING, 3))
    canvas[:] = _FLOOR_EDGE_RGB
    _box(canvas, 0.03, 0.03, 0.97, 0.97, colour=_FLOOR_RGB)
    return canvas


def _wall(tile: int) -> _Canvas:
    canvas = np.empty((tile * _OVERSAMPLING, tile * _OVERSAMPLING, 3))
    canvas[:] = _MORTAR_RGB
    courses, gap = 4, 0.025
    for course in range(courses):
        top, bottom = course / courses + gap, (course + 1) / courses - gap
        # Every other course is shifted by half a brick, so that bricks join over neighbouring tiles.
        for left in (0.0, 0.5) if course % 2 == 0 else (-0.25, 0.25, 0.75):
            _box(canvas, top, left + gap, bottom, left + 0.5 - gap, colour=_BRICK_RGB)
            _box(canvas, top, left + gap, top + 0.05, left + 0.5 - gap, colour=_BRICK_LIGHT_RGB)
    return canvas


def _goal(canvas: _Canvas, radius: float) -> _Canvas:
    """Draw a target: a ring with a point in its middle."""
    _disc(canvas, 0.5, 0.5, radius, _GOAL_RGB)
    _disc(canvas, 0.5, 0.5, radius - 0.09, _FLOOR_RGB)
    _disc(canvas, 0.5, 0.5, 0.07, _GOAL_RGB)
    return canvas


def _crate(canvas: _Canvas, wood: _Colour, dark: _Colour, light: _Colour) -> _Canvas:
    _box(canvas, 0.07, 0.07, 0.93, 0.93, colour=dark)
    _box(canvas, 0.1, 0.1, 0.9, 0.9, colour=light)
    _box(canvas, 0.22, 0.22, 0.78, 0.78, colour=dark)
    for plank in range(3):
        left = 0.25 + plank * 0.18
        _box(canvas, 0.25, left, 0.75, left + 0.15, colour=wood)
    row, column = _grid(canvas)
    inside = (row > 0.22) & (row < 0.78) & (column > 0.22) & (column < 0.78)
    across = np.abs(row + column - 1)
    _paint(canvas, inside & (across < 0.14), dark)
    _paint(canvas, inside & (across < 0.1), light)
    return canvas


def _dot(canvas: _Canvas) -> _Canvas:
    """Draw the mark of a goal on the lid of a crate."""
    _disc(canvas, 0.5, 0.5, 0.15, _FLOOR_RGB)
    _disc(canvas, 0.5, 0.5, 0.1, _GOAL_RGB)
    return canvas


def _player(canvas: _Canvas) -> _Canvas:
    _box(canvas, 0.66, 0.37, 0.9, 0.48, colour=_TROUSERS_RGB)
    _box(canvas, 0.66, 0.52, 0.9, 0.63, colour=_TROUSERS_RGB)
    _box(canvas, 0.43, 0.34, 0.7, 0.66, colour=_SHIRT_RGB)
    _box(canvas, 0.44, 0.23, 0.53, 0.77, colour=_SHIRT_RGB)
    _disc(canvas, 0.49, 0.21, 0.06, _SKIN_RGB)
    _disc(canvas, 0.49, 0.79, 0.06, _SKIN_RGB)
    _disc(canvas, 0.26, 0.5, 0.17, _HAIR_RGB)
    _disc(canvas, 0.29, 0.5, 0.14, _SKIN_RGB)
    _disc(canvas, 0.28, 0.45, 0.025, _HAIR_RGB)
    _disc(canvas, 0.28, 0.55, 0.025, _HAIR_RGB)
    return canvas
