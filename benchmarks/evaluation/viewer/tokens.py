"""The text of each sampled token, where the agent's tokenizer is at hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_gym.support.errors import ConfigError, DataError


class TokenTexts:
    """Texts of tokens by one tokenizer.

    A token's text may depend on the one before it (a blank at the start of a word, half a character), so pairs are
    decoded and remembered.

    Args:
        path: A `tokenizer.json`, or a folder that holds one.

    Raises:
        ConfigError: The package `tokenizers` is not installed.
        DataError: There is no tokenizer, or it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise ConfigError(
                "tokens are turned into text by the package tokenizers, which is not installed: "
                "pip install 'agent-gym[train]'"
            ) from None
        file = path / "tokenizer.json" if path.is_dir() else path
        if not file.is_file():
            raise DataError(
                f"no tokenizer at {file}; expected a tokenizer.json of the Hugging Face tokenizers package"
            )
        try:
            self._tokenizer: Any = Tokenizer.from_file(str(file))
        except Exception as error:  # the package raises bare exceptions
            raise DataError(f"{file} is not a tokenizer ({error})") from error
        self._known: dict[tuple[int, int], str] = {}

    def texts(self, ids: Sequence[int]) -> list[str]:
        """Return the texts of tokens in order."""
        return [self._text(ids[place - 1] if place else -1, token) for place, token in enumerate(ids)]

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of all tokens together."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    def _text(self, before: int, token: int) -> str:
        found = self._known.get((before, token))
        if found is None:
            context = [] if before < 0 else [before]
            head = self.text(context) if context else ""
            whole = self.text([*context, token])
            found = whole[len(head) :] if whole.startswith(head) else self.text([token])
            self._known[before, token] = found
        return found
