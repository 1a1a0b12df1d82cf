"""The sets from a seed: what is written is the same every time, what is published serves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import beside, synthetic
from benchmarks.zipf import BLOCK, LENGTHS, SUBJECTS, TOPICS, Script
from retrieve.generation import Generation
from retrieve.model_folder import ModelFolder
from retrieve.model_library import ModelLibrary
from tests.generations import directions

MODELS = Path(__file__).parents[2] / ".data" / "models"


@pytest.fixture(scope="module")
def default_model() -> ModelFolder:
    return ModelLibrary(MODELS).add("default")


@pytest.fixture(scope="module")
def real(default_model: ModelFolder) -> Script:
    """With the words of the default embedder."""
    return Script.open(default_model.tokenizer)


def test_a_set_is_the_beginning_of_every_larger_one(real: Script) -> None:
    small, large = [list(block) for block in real.blocks(500)], list(real.blocks(BLOCK + 100))
    assert small[0] == large[0][:500]
    assert [len(block) for block in large] == [BLOCK, 100]


def test_equal_seeds_write_equal_texts(real: Script, default_model: ModelFolder) -> None:
    again = Script.open(default_model.tokenizer)
    assert again.block(3)[:50] == real.block(3)[:50]
    assert again.questions(50) == real.questions(50)


def test_passages_are_as_long_as_passages_are(real: Script) -> None:
    words = [len(text.text.split()) for text in real.block(0)]
    assert LENGTHS[0] <= min(words)
    assert max(words) <= LENGTHS[1]
    assert 90 < np.mean(words) < 110


def test_passages_of_a_document_are_on_its_subject(real: Script) -> None:
    block = real.block(0)
    assert len({text.subject for text in block[:8]}) == 1
    assert len({text.document for text in block}) == BLOCK // 8
    title = block[0].title.lower().split()
    named = sum(text.text.lower().count(word) for text in block[:8] for word in title)
    assert named > 8


def test_questions_differ_and_are_as_long_as_questions_are(real: Script) -> None:
    asked = real.questions(2000)
    assert len(set(asked)) == 2000
    assert all(5 <= len(question.split()) <= 20 for question in asked)


def test_a_few_words_are_common_and_most_are_rare(real: Script) -> None:
    words: dict[str, int] = {}
    for text in real.block(0)[:4000]:
        for word in set(text.text.lower().replace(".", "").split()):
            words[word] = words.get(word, 0) + 1
    counts = sorted(words.values(), reverse=True)
    assert counts[0] > 0.8 * 4000  # "the"
    assert np.median(counts) < 0.003 * 4000


def test_every_subject_has_an_abstract_that_names_it(real: Script) -> None:
    abstracts = real.abstracts()
    assert len(abstracts) == TOPICS * SUBJECTS
    assert all(abstract.startswith(f"{title}\n") for abstract, title in zip(abstracts, real.titles, strict=True))


def test_a_published_set_holds_the_scripts_passages_and_is_made_once(
    tmp_path: Path, default_model: ModelFolder
) -> None:
    file = synthetic.subjects_file(tmp_path, default_model.fingerprint)
    (tmp_path / "models").symlink_to(MODELS, target_is_directory=True)
    np.save(file, directions(TOPICS * SUBJECTS, synthetic.DIMENSIONS))
    made = synthetic.made(300, kept=tmp_path)
    generation = Generation.open(made.ref, embedder=made.embedder)
    texts = list(made.texts())
    assert [generation.segments[0].table.passage(row).text for row in range(300)] == [text.text for text in texts]
    assert np.allclose(np.linalg.norm(generation.segments[0].vectors, axis=1), 1, atol=1e-5)
    assert synthetic.made(300, kept=tmp_path).ref == made.ref


def test_exact_neighbours_do_not_depend_on_how_rows_are_parted(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, asked = directions(500), directions(7, seed=3)
    whole = np.argsort(-(asked @ rows.T), axis=1)[:, :20].tolist()
    monkeypatch.setattr(beside, "AT_ONCE", 64)
    assert beside.nearest(rows, asked, 20) == whole
