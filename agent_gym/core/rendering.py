"""A window for `render_mode="human"`."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.error import DependencyNotInstalled


class HumanWindow:
    """Shows images in a window at a fixed rate.

    Args:
        title: Title of the window.
        fps: Images shown per second; `show` waits to keep the rate.

    Raises:
        DependencyNotInstalled: pygame is missing.
    """

    def __init__(self, title: str, fps: int) -> None:
        try:
            import pygame
        except ImportError as error:
            raise DependencyNotInstalled(
                "render_mode='human' needs pygame: pip install 'agent-gym[render]'"
            ) from error
        self._pygame: Any = pygame
        self._title, self._fps = title, fps
        self._surface: Any = None
        self._clock = pygame.time.Clock()

    def show(self, pixels: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
        """Show an image, uint8 [height, width, 3]."""
        pygame = self._pygame
        size = (pixels.shape[1], pixels.shape[0])
        if self._surface is None or self._surface.get_size() != size:
            pygame.display.init()
            self._surface = pygame.display.set_mode(size)
            pygame.display.set_caption(self._title)
        pygame.event.pump()  # keeps the window responsive
        self._surface.blit(pygame.surfarray.make_surface(pixels.swapaxes(0, 1)), (0, 0))
        pygame.display.flip()
        self._clock.tick(self._fps)

    def close(self) -> None:
        """Close the window."""
        if self._surface is not None:
            self._pygame.display.quit()
            self._surface = None

    def __deepcopy__(self, memo: dict[int, Any]) -> HumanWindow:
        return self  # copies of an environment share the screen
