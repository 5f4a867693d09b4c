"""Several descriptors side by side: each vector is L2-normalised, they are concatenated, and the whole is again."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array, hstack, issparse

from isch import models
from isch.describe import descriptor
from isch.describe.base import Describer, unit_rows
from isch.describe.images import Image, Source
from isch.errors import InputError, ParameterError
from isch.features import Block


class Fusion(Describer):
    """Several descriptors side by side, as made by ``LE() + LBP()``.

    Parameters
    ----------
    describers : list of Describer
        The parts, in order.
    """

    name = "fusion"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"describers": [list, tuple]}

    def __init__(self, describers: Sequence[Describer] = ()) -> None:
        self.describers = describers

    @property
    def learns(self) -> bool:  # type: ignore[override]
        return any(part.learns for part in self.describers)

    @property
    def n_features_out(self) -> int:
        return sum(part.n_features_out for part in self.describers)

    @property
    def _side(self) -> int | None:
        sides = [part._side for part in self.describers]
        return None if None in sides else max(side for side in sides if side is not None)

    def _fit(self, pictures: Iterable[Source]) -> None:
        kept = pictures if hasattr(pictures, "__getitem__") else list(pictures)
        for part in self.describers:
            part.fit(kept)

    def _prepare(self, image: Image) -> Any:
        return [part._prepare(image) for part in self.describers]

    def _describe(self, batch: Sequence[Any]) -> Block:
        parts = [part._describe([item[i] for item in batch]) for i, part in enumerate(self.describers)]
        if any(issparse(part) for part in parts):
            return _unit(csr_array(hstack([csr_array(_unit(part)) for part in parts])))
        return unit_rows(np.hstack([unit_rows(np.asarray(part)) for part in parts]))

    def _parts(self) -> list[Describer]:
        return list(self.describers)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not self.describers or not all(isinstance(part, Describer) for part in self.describers):
            raise ParameterError(f"describers must be a list of at least one Describer; got {self.describers!r}")
        for part in self.describers:
            part._check_parameters()

    def __sklearn_is_fitted__(self) -> bool:
        return all(part.__sklearn_is_fitted__() for part in self.describers)

    def _part(self) -> models.Part:
        parts = [part._part() for part in self.describers]
        recipe = [{"name": part.method, "parameters": part.parameters} for part in parts]
        learned = {f"{i}/{name}": value for i, part in enumerate(parts) for name, value in part.learned.items()}
        return models.Part(self.name, {"describers": recipe}, learned)

    @classmethod
    def _restore(cls, parameters: dict[str, Any], learned: dict[str, Any]) -> Self:
        recipe = parameters["describers"]
        if len(parameters) > 1:
            raise InputError(f"expected the parameter describers only; got {', '.join(sorted(parameters))}")
        strange = [name for name in learned if name.partition("/")[0] not in map(str, range(len(recipe)))]
        if strange:
            raise InputError(f"{strange[0]} belongs to none of its {len(recipe)} parts")
        return cls(
            [
                descriptor(part["name"])._restore(part["parameters"], _share(learned, f"{i}/"))
                for i, part in enumerate(recipe)
            ]
        )


def _share(learned: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {key.removeprefix(prefix): value for key, value in learned.items() if key.startswith(prefix)}


def _unit(block: Block) -> Block:
    """Rows of length 1; zero rows stay zero."""
    if not issparse(block):
        return unit_rows(block)
    norms = np.sqrt(np.asarray(block.multiply(block).sum(axis=1)).ravel())
    unit: csr_array = csr_array(block.multiply((1 / np.maximum(norms, 1e-12))[:, None])).astype(np.float32)
    return unit
