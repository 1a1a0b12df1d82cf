"""Sets of any size from a seed, published as ingest would: text by a Zipf script, vectors as noisy mixtures.

    python -m benchmarks.synthetic [--passages 100000]

A text on each of 2,000 subjects is really encoded, once, by the default embedder. A passage's vector is its subject's,
some of what the topic's other subjects have, and noise with the covariance of all of them, half of it for the document
and half for the passage. So a passage's neighbours are its document, then its subject, then its topic, then whatever
lies near. Only queries are encoded when they are asked. Made this way, search is harder than among real vectors: a
question's nearest passage has a cosine of .38 (SciFact: .63) and the space has 126 effective dimensions (SciFact: 66),
so a graph that finds .985 of the nearest hundred among SciFact's passages finds .95 among as many of these.

Everything is kept under .bench/synthetic, by seed and version; what is there already is used again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from assembly import Encoding, IngestOptions, StorageOptions, open_encoding, usable_cores
from benchmarks.zipf import BLOCK, PASSAGES_A_DOCUMENT, SEED, SUBJECTS, TOPICS, Script, Text
from benchmarks.zipf import VERSION as TEXTS
from ingest.backlog import Backlog, Step
from ingest.catalog import Catalog
from ingest.generations import Generations, Made, Plan
from ingest.layers import Layer, Stack
from ingest.passage import content_hash
from pipeline.passages import Passage, Upload
from pipeline.ports import GenerationRef
from retrieve.encoder import as_rows, as_vectors
from retrieve.manifest import FORMAT, Manifest
from retrieve.model_library import ModelLibrary
from retrieve.segment import VECTORS

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / ".bench" / "synthetic"
VERSION = 1  # change it with anything here that changes a vector
COLLECTION, TENANT = "synthetic", "default"
DIMENSIONS = 384  # of the default embedder
OTHERS, DOCUMENT_NOISE, PASSAGE_NOISE = 0.5, 0.4, 0.5  # beside 1 for a passage's own subject


@dataclass(frozen=True, slots=True)
class Built:
    """Seconds that making took: encoding the subjects (0 when they were kept), drawing vectors, writing the generation
    (tokenising, postings, dense index, checksums), and how many bytes the generation has."""

    passages: int
    encoded: float
    drawn: float
    written: float
    bytes: int


@dataclass(frozen=True, slots=True)
class Synthetic:
    """A published set. `data` is a data folder that `fleetfoot serve` can be given, with one collection in it."""

    data: Path
    script: Script
    ref: GenerationRef
    embedder: str
    built: Built

    @property
    def passages(self) -> int:
        """How many there are."""
        return self.built.passages

    def texts(self) -> Iterator[Text]:
        """Every passage, in the order of rows; written anew by the script, as they are kept by the generation."""
        for block in self.script.blocks(self.passages):
            yield from block

    def vectors(self) -> NDArray[np.float32]:
        """`[passages, dimensions]`, mapped from the generation itself."""
        manifest = Manifest.read(self.ref)
        (part,) = manifest.parts
        return cast("NDArray[np.float32]", np.load(manifest.folder(self.ref.folder, part) / VECTORS, mmap_mode="r"))

    def write_for_peers(self) -> Path:
        """A folder with `passages.jsonl` (title and text) and `vectors.npy`, for those who build indexes of their own.

        Passages are named by their row.
        """
        folder = self.data.parent / "peers"
        if not folder.is_dir():
            unfinished = folder.with_name("peers-unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            with (unfinished / "passages.jsonl").open("w") as lines:
                for text in self.texts():
                    lines.write(json.dumps({"title": text.title, "text": text.text}) + "\n")
            np.save(unfinished / "vectors.npy", self.vectors())
            unfinished.rename(folder)
        return folder


def made(passages: int, *, kept: Path = KEPT, rebuild: bool = False) -> Synthetic:
    """The set of that size, from the cache or new. `rebuild` writes its generation anew, to measure that."""
    home = kept / f"{passages}-{SEED}-{TEXTS}.{VERSION}-format{FORMAT}"
    storage = StorageOptions(home / "data")
    model = ModelLibrary(kept / "models").add("default")
    script = Script.open(model.tokenizer)
    told = home / "built.json"
    if rebuild or not told.exists():
        shutil.rmtree(home, ignore_errors=True)
        storage.data.mkdir(parents=True)
        storage.models.symlink_to(kept.resolve() / "models", target_is_directory=True)
        built = _build(passages, storage, script, kept)
        told.write_text(json.dumps(asdict(built)))
    with Catalog.open(storage.catalog()) as catalog:
        ref = catalog.current(TENANT, COLLECTION)
    assert ref is not None
    return Synthetic(storage.data, script, ref, model.fingerprint, Built(**json.loads(told.read_text())))


def _build(passages: int, storage: StorageOptions, script: Script, kept: Path) -> Built:
    """Writes and publishes through what ingest publishes with: its encoder, its writer, its catalog."""
    options = IngestOptions(storage, threads=usable_cores())
    with open_encoding(options) as encoding, Catalog.open(storage.catalog()) as catalog:
        began = time.perf_counter()
        subjects = _subjects(script, encoding, kept)
        encoded = time.perf_counter()
        vectors = _mixed(subjects, script, passages)
        drawn = time.perf_counter()
        generations = Generations(catalog, Backlog(catalog))
        plan = _begun(catalog, generations)
        home = generations.home(plan.collection_id)
        embedder, chunker = encoding.encoder.fingerprint, f"zipf-{TEXTS}.{VERSION}"
        rows = (_passage(text) for block in script.blocks(passages) for text in block)
        base = encoding.writer.write_segment(home, rows, as_vectors(vectors))
        generation = encoding.writer.write_generation(
            home,
            plan.collection,
            plan.number,
            embedder=embedder,
            chunker=chunker,
            previous=None,
            keep=(),
            gone=(),
            added=base,
        )
        written = time.perf_counter()
        size = sum(file.stat().st_size for file in home.rglob("*") if file.is_file())
        stack = Stack((Layer(base.name, 0, base.passages, size),), generation.passages)
        made_of = Made(generation.digest, stack, embedder, chunker, written - drawn)
        generations.commit(plan, made_of, whole=True)
    return Built(passages, encoded - began, drawn - encoded, written - drawn, size)


def _begun(catalog: Catalog, generations: Generations) -> Plan:
    """A collection without documents, whose first generation is asked for: what this publish fills is not in them."""
    job = catalog.accept(TENANT, COLLECTION, [Upload("nothing", b"nothing")])
    catalog.cancel(TENANT, job.id)
    catalog.refresh(TENANT, COLLECTION)
    (due,) = (due for due in Backlog(catalog).due() if due.step is Step.PUBLISH)
    plan = generations.begin(due.collection_id)
    assert plan is not None
    return plan


def _subjects(script: Script, encoding: Encoding, kept: Path) -> NDArray[np.float32]:
    """`[subjects, dimensions]`, encoded once for sets of every size: some 40 s of a processor."""
    file = subjects_file(kept, encoding.encoder.fingerprint)
    if not file.exists():
        kept.mkdir(parents=True, exist_ok=True)
        vectors = as_rows(encoding.encoder.encode(script.abstracts()))
        unfinished = file.with_name(f"unfinished-{file.name}")
        np.save(unfinished, vectors)
        unfinished.replace(file)
    return cast("NDArray[np.float32]", np.load(file))


def subjects_file(kept: Path, embedder: str) -> Path:
    """Where the encoded subjects of every size of set are."""
    return kept / f"subjects-{SEED}-{TEXTS}-{embedder}.npy"


def _mixed(subjects: NDArray[np.float32], script: Script, passages: int) -> NDArray[np.float32]:
    """`[passages, dimensions]`, L2-normalised."""
    variances, directions = np.linalg.eigh(np.cov(subjects.T))
    spread = (directions * np.sqrt(np.maximum(variances, 0))).T.astype(np.float32)
    by_topic = subjects.reshape(TOPICS, SUBJECTS, -1)
    vectors = np.empty((passages, subjects.shape[1]), np.float32)
    for number, first in enumerate(range(0, passages, BLOCK)):
        draw = np.random.default_rng((SEED, VERSION, 11, number))
        subject = np.repeat(script.subjects_of(number), PASSAGES_A_DOCUMENT)
        weights = OTHERS * draw.random((BLOCK, SUBJECTS), dtype=np.float32)
        weights[np.arange(BLOCK), subject % SUBJECTS] = 1
        rows = np.matmul(weights[:, None, :], by_topic[subject // SUBJECTS])[:, 0]
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        noise = draw.standard_normal((BLOCK // PASSAGES_A_DOCUMENT, rows.shape[1]), dtype=np.float32) @ spread
        rows += DOCUMENT_NOISE * np.repeat(noise, PASSAGES_A_DOCUMENT, axis=0)
        rows += PASSAGE_NOISE * (draw.standard_normal(rows.shape, dtype=np.float32) @ spread)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        vectors[first : first + BLOCK] = rows[: passages - first]
    return vectors


def _passage(text: Text) -> Passage:
    """As the chunker would make it, but that tokens are guessed: 1.4 a word, which is what these texts have."""
    document = f"{text.document:07d}"
    return Passage(
        id=f"{document}:{text.ordinal}",
        document_id=document,
        ordinal=text.ordinal,
        text=text.text,
        tokens=round(1.4 * (text.text.count(" ") + 1)),
        content_hash=content_hash(f"{text.title}\n{text.text}"),  # its embedded text
        source=f"synthetic/{document}",
        title=text.title,
        language="en",
    )


def main() -> None:
    """Makes a set and says where it is and what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--kept", type=Path, default=KEPT)
    parser.add_argument("--rebuild", action="store_true")
    asked = parser.parse_args()
    found = made(asked.passages, kept=asked.kept, rebuild=asked.rebuild)
    print(f"{found.built}\nserve it: FLEETFOOT_DATA_DIR={found.data} fleetfoot serve", file=sys.stdout)


if __name__ == "__main__":
    main()
