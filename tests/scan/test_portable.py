"""The kernels on other processors: without vector extensions and with AVX2, compiled and run; for ARM, compiled."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from llvmlite.binding import get_host_cpu_features

QUICK = {"NUMBA_OPT": "0"}  # compiling takes the time here, not running
ELSEWHERE = """
import re
import numpy as np
import llvmlite.binding as llvm
from isch.scan import exact
from isch.scan.kernels import tiles
from isch.scan.kernels import layout
from isch.scan import numpy_reference
from isch.scan.source import Source

assert tiles.group_widths() == (1, 2, 4), "the target is not restricted"
rng = np.random.default_rng(0)

for n_bits in (40, 128, 700):
    n_bytes = -(-n_bits // 8)
    codes = rng.integers(0, 256, (333, n_bytes), dtype=np.uint8) & rng.integers(0, 256, (333, n_bytes), dtype=np.uint8)
    queries, table = codes[:7] ^ np.uint8(3), exact.CodeTable(codes)
    laid = Source.of(codes, *codes.shape)
    dense = np.stack([numpy_reference.hamming(laid, query) for query in numpy_reference.words_of(queries)])
    assert (table.codes() == codes).all(), "laid out"
    for source in (codes, table):
        for some in (queries, queries[:1]):
            expected = numpy_reference.nearest(Source.of(codes, *codes.shape), some, 20, None)
            assert all((a == b).all() for a, b in zip(exact.nearest(some, source, 20), expected)), "nearest"
    hits, near = exact.within(queries, table, n_bits // 4), dense <= n_bits // 4
    assert (np.diff(hits.offsets) == near.sum(axis=1)).all(), "within"
    values = rng.standard_normal((7, n_bits), dtype=np.float32)
    bits = np.unpackbits(codes, axis=1)[:, :n_bits].astype(bool)
    expected = np.stack([(np.abs(z) * ((z >= 0) != bits)).sum(axis=1) for z in values])
    scored = exact.asymmetric_distances(values, table)
    assert np.allclose(scored, expected, rtol=1e-4), "asymmetric"
    rows = np.arange(333)[None].repeat(7, axis=0)
    assert np.allclose(exact.asymmetric_distances(values, table, rows), expected, rtol=1e-4), "candidates"

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
machine = llvm.Target.from_triple("aarch64-unknown-linux-gnu").create_target_machine(opt=2)
for kernel in (tiles.next_hit, layout._lay_out_words):  # they handle numbers only, so that
    for text in kernel.inspect_llvm().values():  # nothing of this machine's reference counting is in them
        module = llvm.parse_assembly(re.sub(r'target (triple|datalayout) = "[^"]*"', "", text))
        module.triple, module.data_layout = machine.triple, str(machine.target_data)
        print(kernel.__name__, "counts bits of vectors:", "cnt\\tv" in machine.emit_assembly(module))
"""


def test_kernels_without_vector_extensions_and_for_arm(tmp_path: Path) -> None:
    generic = {**QUICK, "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE],
        env={**os.environ, **generic},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.splitlines()) == {
        "next_hit counts bits of vectors: True",
        "_lay_out_words counts bits of vectors: False",
    }


@pytest.mark.skipif(not get_host_cpu_features().get("avx2"), reason="this processor has no AVX2")
def test_kernels_that_count_bits_by_byte(tmp_path: Path) -> None:
    restricted = {**QUICK, "NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx2", "NUMBA_CACHE_DIR": str(tmp_path)}
    kernels = str(Path(__file__).with_name("kernels") / "test_tiles.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", kernels, "-k", "hit"],
        env={**os.environ, **restricted},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout
