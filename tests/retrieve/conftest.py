"""The default model, fetched once into the checkout's data folder, as `fleetfoot models add default` does it."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrieve.encoder import OnnxEncoder
from retrieve.model_folder import ModelFolder
from retrieve.model_library import ModelLibrary

MODELS = Path(__file__).parents[2] / ".data" / "models"


@pytest.fixture(scope="session")
def default_model() -> ModelFolder:
    return ModelLibrary(MODELS).add("default")


@pytest.fixture(scope="session")
def encoder(default_model: ModelFolder) -> OnnxEncoder:
    return OnnxEncoder.open(default_model)
