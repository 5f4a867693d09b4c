"""The explicit sparse codes of the paper's equation "lasso". ISCH never needs them; they show what it preserves."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import sparse_encode

from isch import features as feature_sources
from isch.errors import InputError
from isch.features import dense
from isch.hashing.isch import ISCH


def sparse_codes(X: Any, hasher: ISCH) -> NDArray[np.float32]:
    """Compute the sparse codes c_i = argmin ½‖x_i − μ − D c‖² + η‖c‖₁ of rows.

    This solves one lasso per row, so it is meant for a few thousand rows.

    Parameters
    ----------
    X : array, sparse matrix, Dask array, path or Features
        The rows.
    hasher : ISCH
        A fitted hasher that has its dictionary.

    Returns
    -------
    ndarray of float32, (n, atoms)
    """
    if not hasattr(hasher, "dictionary_"):
        raise InputError(
            "sparse_codes needs the dictionary; the model was saved without it (keep_dictionary=True keeps it)"
        )
    features = feature_sources.open(X)
    centred = dense(features.read(0, len(features)), np.float64) - hasher.mean_
    atoms = hasher.dictionary_.astype(np.float64)
    codes = sparse_encode(centred, atoms, algorithm="lasso_cd", alpha=hasher.eta, max_iter=10_000)
    return np.asarray(codes, np.float32)
