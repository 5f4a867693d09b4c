"""What hashing methods and descriptors share: parameters, checks, random numbers and model files.

A learner has the interface of a scikit-learn estimator without inheriting from it, because importing scikit-learn takes
longer than most searches. It is imported only where the caller already uses it, and for its error classes.
"""

import inspect
import os
from typing import Any, ClassVar, Self

import numpy as np

from isch import learned, models, parameters
from isch.containers import OutputMixin
from isch.errors import unknown
from isch.learned import Expected
from isch.parameters import Constraints


class Learner(OutputMixin):
    """Base of everything that has parameters, learns from data, and is saved.

    A class declares what its parameters may be (``_parameter_constraints``) and what it learns (``_learns``).
    ``__init__`` only stores its arguments; attributes that end in an underscore are learned.
    """

    name: ClassVar[str]  # in the registry, in model files, at the command line
    revision: ClassVar[int] = (
        1  # raised when results change by more than rounding; stored results of older revisions are stale
    )
    _parameter_constraints: ClassVar[Constraints] = {}
    _learns: ClassVar[Expected] = {}  # the attributes of this class, in addition to those of its bases

    def fit(self, X: Any, y: None = None) -> Self:
        """Learn from data."""
        raise NotImplementedError

    def transform(self, X: Any) -> Any:
        """Transform data."""
        raise NotImplementedError

    def fit_transform(self, X: Any, y: None = None) -> Any:
        """Learn from data, then transform it."""
        return self.fit(X, y).transform(X)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name.

        Parameters
        ----------
        deep : bool
            For scikit-learn; changes nothing.

        Returns
        -------
        dict
        """
        return {name: getattr(self, name) for name in self._get_param_names()}

    def set_params(self, **params: Any) -> Self:
        """Change some parameters. They are checked when they are used.

        Parameters
        ----------
        **params
            New values by name.

        Returns
        -------
        self
        """
        known = self._get_param_names()
        for name, value in params.items():
            if name not in known:
                raise unknown(f"parameter of {self._label}:", name, known)
            setattr(self, name, value)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write parameters and learned attributes to a safetensors file, whole or not at all.

        Parameters
        ----------
        path : path-like
            The file; one that exists is replaced.
        """
        self._check_fitted()
        models.write(path, [self._part()])

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted(inspect.signature(cls).parameters)

    def _part(self) -> models.Part:
        """What ``save`` writes."""
        parameters = {k: os.fspath(v) if isinstance(v, os.PathLike) else v for k, v in self.get_params().items()}
        return models.Part(self.name, parameters, self._learned())

    def _learned(self) -> dict[str, Any]:
        """What ``save`` keeps: the attributes that end in an underscore."""
        return {name: value for name, value in vars(self).items() if name.endswith("_") and not name.startswith("_")}

    def _forget(self) -> None:
        """Remove what was learned."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    @classmethod
    def _restore(cls, parameters: dict[str, Any], learned: dict[str, Any]) -> Self:
        """The learner with these parameters and learned attributes; refuses them if they do not fit together."""
        learner = cls(**parameters)
        learner._check_constraints()
        learner._check_learned(learned)
        learner.__dict__.update(learned)
        return learner

    def _check_learned(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Refuse learned attributes that do not fit the parameters; returns the sizes that letters stand for."""
        return learned.check(self._expected(), attributes, self.get_params())

    @classmethod
    def _expected(cls) -> Expected:
        """What this class and its bases learn."""
        return {name: form for base in reversed(cls.__mro__) for name, form in vars(base).get("_learns", {}).items()}

    def _rng(self) -> np.random.Generator:
        """A generator that depends on ``random_state`` alone."""
        seed = getattr(self, "random_state", None)
        if seed is None or isinstance(seed, int | np.integer):
            return np.random.default_rng(seed)
        return np.random.default_rng(seed.randint(2**31 - 1))

    def _check_parameters(self) -> None:
        """Refuse parameters that cannot be used; classes add checks that constraints cannot express."""
        self._check_constraints()

    def _check_constraints(self) -> None:
        parameters.check(self._parameter_constraints, self.get_params(), self._label)

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(
                f"This {self._label} instance is not fitted yet. Call 'fit' with appropriate arguments before using "
                "this estimator."
            )

    @property
    def _label(self) -> str:
        return type(self).__name__

    def __sklearn_is_fitted__(self) -> bool:
        return bool(self._learned())

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=[]),
            regressor_tags=None,
            classifier_tags=None,
        )

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        changed = {k: v for k, v in self.get_params().items() if repr(v) != repr(defaults[k].default)}
        return f"{self._label}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"
