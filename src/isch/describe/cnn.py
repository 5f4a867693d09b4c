"""Features of a convolutional network: any ONNX model, run by onnxruntime. The default is EfficientNet-Lite0.

How to prepare pictures for a model is read from its metadata entry ``preprocessing``, JSON with any of
{"side", "crop", "mean", "std", "channels"}, or given as parameters. The middle square of a picture (``crop`` of its
shorter side) is resized to ``side``, and its values from 0 to 255 become (x − mean) / std.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from isch.describe import efficientnet
from isch.describe.base import Describer, unit_rows
from isch.describe.images import Image, centre_square
from isch.errors import FileError, FormatError, ParameterError, require
from isch.features import Block
from isch.parameters import POSITIVE, Interval, StrOptions

PREPROCESSING = "preprocessing"  # the metadata entry
# onnxruntime reads it when it is imported. Since 1.29 it otherwise writes a device id and a list of events into the
# user's cache on Linux and macOS, and sends them.
NO_TELEMETRY = "ORT_DISABLE_TELEMETRY"


class CNN(Describer):
    """The output of a layer of a convolutional network; 1,280 values with the defaults.

    Parameters
    ----------
    model : path-like, optional
        An ONNX model; by default EfficientNet-Lite0.
    layer : str, optional
        The name of an output, a node, or a tensor inside the model. Feature maps are averaged over their positions.
    side : int, optional
        Side of the square that the model takes.
    crop : float, optional
        Side of the middle square, as a fraction of the picture's shorter side.
    mean, std : float or list of three floats, optional
        Subtracted from the values (0 to 255), then divided by; one per channel if they differ.
    channels : {"RGB", "BGR"}, optional
        The order of the colours in the model's input.
    normalise : bool
        Whether to divide each vector by its length.

    Notes
    -----
    ``side``, ``crop``, ``mean``, ``std`` and ``channels`` override the model's metadata.
    """

    name = "cnn"
    batch_size = 8  # keeps a thread's activations near its cache
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "model": [str, os.PathLike, None],
        "layer": [str, None],
        "side": [POSITIVE, None],
        "crop": [Interval(Real, 0, 1, closed="right"), None],
        "mean": ["array-like", Real, None],
        "std": ["array-like", Real, None],
        "channels": [StrOptions({"RGB", "BGR"}), None],
        "normalise": ["boolean"],
    }

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        layer: str | None = None,
        side: int | None = None,
        crop: float | None = None,
        mean: Sequence[float] | float | None = None,
        std: Sequence[float] | float | None = None,
        channels: str | None = None,
        normalise: bool = True,
    ) -> None:
        self.model = model
        self.layer = layer
        self.side = side
        self.crop = crop
        self.mean = mean
        self.std = std
        self.channels = channels
        self.normalise = normalise

    @property
    def n_features_out(self) -> int:
        network = self._network()
        if network.n_features is not None:
            return network.n_features
        return int(self.describe([np.zeros((8, 8, 3), np.uint8)]).shape[1])

    @property
    def _side(self) -> int:
        return self._preprocessing().side

    def _prepare(self, image: Image) -> Image:
        want = self._preprocessing()
        square = centre_square(image, want.side, want.crop)
        return square[..., ::-1] if want.channels == "BGR" else square

    def _describe(self, batch: Sequence[Image]) -> Block:
        want = self._preprocessing()
        vectors = self._network().run(np.stack(batch), want.mean, want.std)
        return unit_rows(vectors) if self.normalise else vectors

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._preprocessing()  # a model that cannot be used fails here, before the first picture

    def _network(self) -> "Network":
        if self.model is None:
            return network(_default(), self.layer or "features", 0)
        if not os.path.isfile(self.model):
            raise FileError(f"{self.model}: no such model file")
        return network(os.fspath(self.model), self.layer, os.stat(self.model).st_mtime_ns)

    def _preprocessing(self) -> "Preprocessing":
        given = {key: getattr(self, key) for key in ("side", "crop", "mean", "std", "channels")}
        return self._network().preprocessing({k: v for k, v in given.items() if v is not None})


@lru_cache(maxsize=1)
def _default() -> str | bytes:
    return efficientnet.model()


@dataclass(frozen=True)
class Preprocessing:
    """How pictures are prepared."""

    side: int
    crop: float
    mean: NDArray[np.float32]
    std: NDArray[np.float32]
    channels: str


class Network:
    """A model and the layer whose values are wanted. Runs in the calling thread; several threads may use it at once."""

    def __init__(self, content: str | bytes, layer: str | None) -> None:
        self._where = "the model" if isinstance(content, bytes) else content
        session = _session(content, self._where)
        self._output = layer or _only_output(session, self._where)
        if self._output not in [output.name for output in session.get_outputs()]:
            content, self._output = _with_output(content, self._output, self._where)
            session = _session(content, self._where)
        self._session = session
        self._input = session.get_inputs()[0]
        shape = list(self._input.shape)
        if len(session.get_inputs()) != 1 or len(shape) != 4 or 3 not in (shape[1], shape[3]):
            raise FormatError(f"{self._where}: expected one input of RGB pictures; got shape {shape}")
        self._first_channels = shape[1] == 3
        self._batch = shape[0] if isinstance(shape[0], int) else None
        self._metadata = _metadata(session, self._where)
        self.side = shape[2] if isinstance(shape[2], int) else None
        out = next(o.shape for o in session.get_outputs() if o.name == self._output)
        self.n_features = out[1] if out and len(out) in (2, 4) and isinstance(out[1], int) else None

    def preprocessing(self, given: dict[str, Any]) -> Preprocessing:
        """The model's metadata, overridden by the parameters given."""
        return self._merged(given) if given else self._stated

    @cached_property
    def _stated(self) -> Preprocessing:
        return self._merged({})

    def _merged(self, given: dict[str, Any]) -> Preprocessing:
        want = {"side": self.side, "crop": 1.0, "channels": "RGB"} | self._metadata | given
        missing = [key for key in ("side", "mean", "std") if want.get(key) is None]
        if missing:
            typed = {"side": "--set side=224", "mean": "--set mean=127.5", "std": "--set std=127.5"}
            raise ParameterError(
                f"{self._where}: the model does not say how to prepare pictures; give {', '.join(missing)}, at the "
                f"command line as {' '.join(typed[key] for key in missing)} (mean and std of values from 0 to 255; "
                "[r,g,b] if the channels differ)"
            )
        try:
            mean, std = (np.broadcast_to(np.asarray(want[key], np.float32), 3) for key in ("mean", "std"))
            return Preprocessing(int(want["side"]), float(want["crop"]), mean, std, str(want["channels"]))
        except (TypeError, ValueError) as error:
            expected = "an integer as side, and one or three numbers as mean and std"
            raise ParameterError(f"{self._where}: expected {expected}; got {want} ({error})") from error

    def run(
        self, pictures: NDArray[np.uint8], mean: NDArray[np.float32], std: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """The values of the layer for squares (n, side, side, 3), one row per square."""
        from isch.describe.resampling import planes  # Numba, which not every command should load

        gain, offset = (1 / std).astype(np.float32), (-mean / std).astype(np.float32)
        x = planes(pictures, gain, offset) if self._first_channels else pictures * gain + offset
        step = self._batch or len(x)
        return np.concatenate([self._run(x[start : start + step], step) for start in range(0, len(x), step)])

    def _run(self, x: NDArray[Any], step: int) -> NDArray[np.float32]:
        x = x.astype(np.float16) if "float16" in self._input.type else x
        padded = x if len(x) == step else np.concatenate([x, np.zeros((step - len(x), *x.shape[1:]), x.dtype)])
        (out,) = self._session.run([self._output], {self._input.name: padded})
        if out.ndim == 4:
            out = out.mean(axis=(2, 3) if self._first_channels else (1, 2))
        if out.ndim != 2:
            raise ParameterError(f"{self._where}: layer {self._output!r} has shape {out.shape}; expected 2 or 4 axes")
        return np.asarray(out[: len(x)], np.float32)


@lru_cache(maxsize=4)
def network(content: str | bytes, layer: str | None, _changed: int) -> Network:
    """The network of a model file; read again when the file changes."""
    return Network(content, layer)


def runtime() -> Any:
    """The package onnxruntime, told to send nothing and to keep no record of this computer."""
    os.environ[NO_TELEMETRY] = "1"
    package = require("onnxruntime", "images")
    package.disable_telemetry_events()  # for Windows, and if something else has imported it before
    return package


def _session(content: str | bytes, where: str) -> Any:
    ort = runtime()
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's exceptions have no common base
        raise FormatError(f"{where}: onnxruntime cannot run it ({error})") from error


def _only_output(session: Any, where: str) -> str:
    names = [output.name for output in session.get_outputs()]
    if len(names) != 1:
        raise ParameterError(f"{where}: the model has outputs {', '.join(names)}; choose one as layer")
    return str(names[0])


def _with_output(content: str | bytes, layer: str, where: str) -> tuple[bytes, str]:
    """The model, changed to output a tensor from inside, named by the tensor or its node."""
    onnx = require("onnx", "images")
    proto = onnx.load_model_from_string(content) if isinstance(content, bytes) else onnx.load(content)
    tensors = {name: name for node in proto.graph.node for name in node.output}
    nodes = {node.name: node.output[0] for node in proto.graph.node if node.name}
    found = tensors.get(layer) or nodes.get(layer)
    if found is None:
        raise _unknown_layer(where, layer, proto.graph)
    del proto.graph.output[:]
    proto.graph.output.append(onnx.ValueInfoProto(name=found))
    return proto.SerializeToString(), found


def _unknown_layer(where: str, layer: str, graph: Any) -> ParameterError:
    """Lists the outputs and the layers with similar names only: a model has hundreds of layers."""
    from difflib import get_close_matches

    outputs = [output.name for output in graph.output]
    layers = {name for node in graph.node if node.op_type != "Constant" for name in (node.name, *node.output) if name}
    near = [name for name in get_close_matches(layer, layers, n=5, cutoff=0.3) if name not in outputs]
    like = f"; layers with names like it: {', '.join(near)}" if near else ""
    return ParameterError(f"unknown layer {layer!r} of {where}; its outputs are {', '.join(outputs)}{like}")


def _metadata(session: Any, where: str) -> dict[str, Any]:
    text = session.get_modelmeta().custom_metadata_map.get(PREPROCESSING, "{}")
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError) as error:
        raise FormatError(f"{where}: its metadata entry {PREPROCESSING!r} is not a JSON object ({error})") from error
