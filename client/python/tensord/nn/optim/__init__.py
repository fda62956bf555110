"""Optimisers, with PyTorch's arguments, updates and state dicts; nn.optim.lr_scheduler changes their rates."""

from __future__ import annotations

from tensord.nn.optim import lr_scheduler, swa_utils
from tensord.nn.optim.accumulating import ASGD, Adadelta, Adagrad, RMSprop, Rprop
from tensord.nn.optim.adam import Adam, Adamax, AdamW, LAMB, NAdam, RAdam, SparseAdam
from tensord.nn.optim.factored import Adafactor, Muon
from tensord.nn.optim.lbfgs import LBFGS
from tensord.nn.optim.optimizer import Optimizer, OptimizerGroup
from tensord.nn.optim.sgd import LARS, SGD

__all__ = [
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LAMB", "LARS", "LBFGS", "Muon", "NAdam",
    "Optimizer", "OptimizerGroup", "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam",
    "lr_scheduler", "swa_utils",
]  # fmt: skip
