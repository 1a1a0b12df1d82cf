"""The small real model, where its extra is installed; and what is said where it is not."""

from __future__ import annotations

from contextlib import aclosing
from importlib.util import find_spec
from pathlib import Path

import pytest

from generate.local import WHEELS, LocalModel, LocalModelOptions
from generate.vllm import VllmGenerator
from pipeline.errors import Misconfigured, UpstreamFailed
from tests.prompts import context_of, prompt_of

INSTALLED = all(find_spec(wheel) is not None for wheel in WHEELS)


@pytest.mark.skipif(INSTALLED, reason="the extra 'llm' is installed here")
def test_without_the_extra_its_name_is_said(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"fleetfoot\[llm\]"), LocalModel.open(LocalModelOptions(tmp_path)):
        pass


@pytest.mark.slow
@pytest.mark.skipif(not INSTALLED, reason="needs the extra 'llm'")
async def test_a_real_model_answers_through_the_same_client(tmp_path: Path) -> None:
    prompt = prompt_of("How many people make a group?", context_of("A group is ten or more people on one ticket."))
    with LocalModel.open(LocalModelOptions(tmp_path)) as model:
        async with VllmGenerator.open(model.options()) as generator:
            assert await generator.check() is None
            async with aclosing(generator.generate(prompt)) as tokens:
                spoken = [token async for token in tokens]
    assert "".join(token.text for token in spoken).strip()  # which words a model of this size finds is no promise
    assert spoken[-1].usage is not None
    assert spoken[-1].usage.prompt > 100


@pytest.mark.slow
@pytest.mark.skipif(not INSTALLED, reason="needs the extra 'llm'")
def test_a_model_that_cannot_start_gives_the_end_of_its_log(tmp_path: Path) -> None:
    (tmp_path / "gemma-3-270m-q4_k_m.gguf").write_bytes(b"not a model")
    with (
        pytest.raises(UpstreamFailed, match="unexpected sha256"),
        LocalModel.open(LocalModelOptions(tmp_path)),
    ):
        pass
