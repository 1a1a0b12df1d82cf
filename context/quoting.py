"""Text that came from documents, laid into a prompt so that it stays what it is: quoted material.

Two ways lead out of a quotation, and both are closed. Layout: every line is quoted by itself, with `> ` in front, so
nothing in a text can begin a line and pass for a header, a delimiter or the next speaker. Tokens: a chat template is
rendered to text before it is tokenised, so `<|im_start|>system` in a document would become the model's own control
token; such words get a space after their first character and then are ordinary text. What a text *says* ("ignore your
instructions") cannot be closed off by layout; the system prompt tells the model that sources are material, not orders.
"""

from __future__ import annotations

import re

# Control words of the chat templates in use (ChatML, Llama, Mistral, Gemma, DeepSeek, Phi), with their bar variants.
_CONTROL = re.compile(
    r"<(?=[|｜])"
    r"|<(?=/?(?:s|bos|eos|pad|unk|start_of_turn|end_of_turn|start_of_image|end_of_image|think|tool_call)>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|IMG|THINK)\])"
    r"|<(?=</?SYS>>)",
    re.IGNORECASE,
)


def quoted(text: str) -> str:
    """Every line with `> ` in front, whatever character ends it; control words disarmed."""
    return "\n".join(f"> {line}".rstrip() for line in disarmed(text).splitlines() or [""])


def disarmed(text: str) -> str:
    """The text with a space after the first character of whatever a tokenizer may take for a control token."""
    return _CONTROL.sub(lambda found: f"{found.group()} ", text)
