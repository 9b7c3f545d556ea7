"""What a trainer has to know of a chat template: how it ends a turn, what it drops, whether it reads a clock."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jinja2 import TemplateError

DAY = datetime(2026, 1, 1, 12)
"""What a template that asks for the time is told, always, so that a prompt is the same on every day."""

_MARK = "\N{SNOWMAN}reply\N{SNOWMAN}"
_THOUGHT = "\N{SNOWMAN}thought\N{SNOWMAN}"
_CLOCK = re.compile(r"""strftime_now\(\s*(["'])(.*?)\1\s*\)""")


@dataclass(frozen=True, slots=True)
class TemplateFacts:
    """What was found.

    Attributes:
        text: The template with the clock standing still; None for none, or for several by name.
        end_id: Id of the special token that ends the assistant's turn; None where it ends with none.
        reads_clock: Whether the template asks for the time.
        drops_thoughts: Whether it leaves the thoughts out of earlier replies.
    """

    text: str | None = None
    end_id: int | None = None
    reads_clock: bool = False
    drops_thoughts: bool = False

    def notes(self, eos_ids: frozenset[int], tokenizer: Any, full_context: bool) -> list[str]:
        """Return a sentence for everything that a user should know.

        Args:
            eos_ids: Ids that end a reply.
            tokenizer: For their texts.
            full_context: Whether prompts hold the whole conversation.
        """
        found = []
        if self.end_id is not None and self.end_id not in eos_ids:
            own, *ends = (repr(tokenizer.convert_ids_to_tokens(end)) for end in (self.end_id, *sorted(eos_ids)))
            found.append(
                f"The chat template ends a turn with {own}, which is no end token of this model (expected "
                f"{', '.join(ends)}): replies go on past it. Add it to eos_token_id in the model's "
                "generation_config.json."
            )
        if self.reads_clock:
            found.append(
                f"The chat template reads the clock; it is told {DAY:%d %B %Y} always, so that prompts do not "
                "change from day to day."
            )
        if self.drops_thoughts and full_context:
            found.append(
                "The chat template leaves thoughts out of earlier replies, but with env.context='full' the policy "
                "reads them as it wrote them, in training and evaluation here; other programs will not show them."
            )
        return found


def read_template(tokenizer: Any, variables: Mapping[str, Any]) -> TemplateFacts:
    """Look what the chat template of a tokenizer does.

    Args:
        tokenizer: The tokenizer.
        variables: Extra variables of the template.
    """
    template = tokenizer.chat_template
    if not isinstance(template, str):
        return TemplateFacts()
    still = _CLOCK.sub(lambda found: repr(DAY.strftime(found[2])), template)

    def render(*replies: str) -> str:
        messages = [{"role": "user", "content": "."}]
        for reply in replies:
            messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": "."}]
        if len(replies) == 1:
            messages.pop()
        try:
            text: str = tokenizer.apply_chat_template(
                messages, tokenize=False, **{**variables, "chat_template": still}
            )
        # Templates may refuse a conversation, by an error of theirs or by stumbling over it.
        except (TemplateError, ValueError, TypeError, KeyError, AttributeError):
            return ""
        return text

    after = render(_MARK).partition(_MARK)[2].lstrip()
    ids = tokenizer.encode(after, add_special_tokens=False) if after else []
    special = {id_ for id_, token in tokenizer.added_tokens_decoder.items() if token.special}
    end_id = int(ids[0]) if ids and ids[0] in special | set(tokenizer.all_special_ids) else None
    earlier = render(f"<think>\n{_THOUGHT}\n</think>\n\n{_MARK}", _MARK)
    return TemplateFacts(
        text=still,
        end_id=end_id,
        reads_clock="strftime_now" in template,
        drops_thoughts=_MARK in earlier and _THOUGHT not in earlier,
    )
