"""Counts the matrix products of a command: a small C library between NumPy and its OpenBLAS, for ``scale.py``.

Needs a C compiler. A product that several threads share counts the time of the calling thread once for each of them.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import numpy as np

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
typedef long I;
static atomic_llong flops, nanoseconds;
static void *library(void) {
    static void *found;
    if (!found) found = dlopen(getenv("PRODUCTS_OF"), RTLD_NOW | RTLD_NOLOAD);
    return found;
}
static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}
static int threads(void) {
    static int (*get)(void);
    if (!get) get = dlsym(library(), "scipy_openblas_get_num_threads64_");
    return get ? get() : 1;
}
static void count(long long begin, double n) {
    atomic_fetch_add(&flops, (long long)n);
    atomic_fetch_add(&nanoseconds, (now() - begin) * threads());
}
#define GEMM(NAME, T) \
    void NAME(int o, int a, int b, I m, I n, I k, T x, const T *A, I la, const T *B, I lb, T y, T *C, I lc) { \
        static void (*real)(int, int, int, I, I, I, T, const T *, I, const T *, I, T, T *, I); \
        if (!real) real = dlsym(library(), #NAME); \
        long long begin = now(); \
        real(o, a, b, m, n, k, x, A, la, B, lb, y, C, lc); \
        count(begin, 2.0 * m * n * k); \
    }
#define SYRK(NAME, T) \
    void NAME(int o, int u, int t, I n, I k, T x, const T *A, I la, T y, T *C, I lc) { \
        static void (*real)(int, int, int, I, I, T, const T *, I, T, T *, I); \
        if (!real) real = dlsym(library(), #NAME); \
        long long begin = now(); \
        real(o, u, t, n, k, x, A, la, y, C, lc); \
        count(begin, 1.0 * n * n * k); \
    }
GEMM(scipy_cblas_sgemm64_, float)
GEMM(scipy_cblas_dgemm64_, double)
SYRK(scipy_cblas_ssyrk64_, float)
SYRK(scipy_cblas_dsyrk64_, double)
__attribute__((destructor)) static void report(void) {
    const char *folder = getenv("PRODUCTS_TO");
    if (!folder || !flops) return;
    char path[4096];
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double total = used.ru_utime.tv_sec + used.ru_stime.tv_sec + 1e-6 * (used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    snprintf(path, sizeof path, "%s/products-%d.json", folder, getpid());
    FILE *file = fopen(path, "w");
    if (!file) return;
    fprintf(file, "{\"flops\": %lld, \"seconds\": %.3f, \"total\": %.3f}", flops, 1e-9 * nanoseconds, total);
    fclose(file);
}
"""


class Products(NamedTuple):
    """The products of a command: their flops, their CPU seconds, and the CPU seconds of all that it did."""

    flops: float
    seconds: float
    total: float


class Counter:
    """Counts the products of commands that run with its ``environment``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        blas = next((Path(np.__file__).parent.parent / "numpy.libs").glob("libscipy_openblas64_*"))
        source, library = folder / "products.c", folder / "products.so"
        source.write_text(SOURCE)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        mine = {"LD_PRELOAD": str(library), "PRODUCTS_OF": str(blas), "PRODUCTS_TO": str(folder)}
        self.environment = {**os.environ, **mine}

    def read(self) -> Products:
        """What was counted since the last call, over all processes."""
        found = [json.loads(path.read_text()) for path in self._folder.glob("products-*.json")]
        for path in self._folder.glob("products-*.json"):
            path.unlink()
        return Products(*(sum(one[name] for one in found) for name in Products._fields))
