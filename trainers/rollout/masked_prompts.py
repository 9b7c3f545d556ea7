"""Prompts of the sampled turns once more, with some segments blanked.

A prompt's text is made of segments while an episode is played, and only its ids are kept with the turn. To build
the same prompt without its goal and history later, for a few turns, what each prompt was rendered from is
remembered for one iteration: references to infos that are there anyway, no copies. Rendering and encoding happen
for the turns that are asked for only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from agent_gym.core.prompts import Segment
from agent_gym.support.errors import DataError

if TYPE_CHECKING:
    from trainers.rollout.conversation import PromptEncoder

Ids = tuple[int, ...]


class PromptSources:
    """What the prompts of one iteration were rendered from, by their ids.

    Two prompts of equal ids are equal texts, and are taken to be made of equal segments.
    """

    def __init__(self) -> None:
        self._known: dict[Ids, tuple[PromptEncoder, Mapping[str, Any]]] = {}
        self._masked: dict[tuple[Ids, frozenset[Segment]], Ids] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, ids: Ids) -> bool:
        return ids in self._known

    def clear(self) -> None:
        """Forget everything, before the next iteration is sampled."""
        self._known.clear()
        self._masked.clear()

    def remember(self, ids: Ids, encoder: PromptEncoder, values: Mapping[str, Any]) -> None:
        """Keep what a prompt was rendered from.

        Args:
            ids: The prompt.
            encoder: Encoder that made it.
            values: What its template read, see `PromptBuilder.values`.
        """
        self._known.setdefault(ids, (encoder, values))

    def masked(self, ids: Ids, segments: Iterable[Segment]) -> Ids:
        """Return the ids of a prompt with segments blanked.

        Raises:
            DataError: The prompt is none of this iteration's.
        """
        names = frozenset(segments)
        done = self._masked.get((ids, names))
        if done is None:
            if ids not in self._known:
                raise DataError(
                    f"a prompt of {len(ids)} tokens is none of the {len(self)} sampled in this iteration, "
                    "so it cannot be masked"
                )
            encoder, values = self._known[ids]
            prompt = encoder.builder.template.render(values).masked(names)
            done = self._masked[ids, names] = encoder.encode(prompt.messages())
        return done
