"""How a fit is described, once: its steps give the plan, progress, the checkpoint, and what experiments share.

costs.py      what work costs: stages with flops and bytes
steps.py      a step, and who runs it: a fit, or a dry run
rows.py       the steps that many methods share
checkpoint.py finished steps on disk
plan.py       what a fit will cost, and what cannot work
speeds.py     how fast this machine works
"""

from isch.fitting.costs import EIGH_FLOPS, NOMINAL, SVD_FLOPS, Size, Speeds, Stage
from isch.fitting.rows import draw, load, mean
from isch.fitting.steps import ARRAY, ARRAYS, DryRun, Fit, Kept, Known, Run, Sized, Step, sharing, step

__all__ = [
    "ARRAY",
    "ARRAYS",
    "EIGH_FLOPS",
    "NOMINAL",
    "SVD_FLOPS",
    "DryRun",
    "Fit",
    "Kept",
    "Known",
    "Run",
    "Size",
    "Sized",
    "Speeds",
    "Stage",
    "Step",
    "draw",
    "load",
    "mean",
    "sharing",
    "step",
]
