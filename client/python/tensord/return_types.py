"""Results that come together: named tuples with PyTorch's field names (torch.return_types), by the names of the functions
that give them. They unpack as tuples do, and a captured function gives them back as what they are.

    values, indices = x.sort()
    top = x.topk(3);  top.values
"""

from __future__ import annotations

from typing import NamedTuple

from _tensord import Tensor

# Of Tensor's methods, which look for their type here.
aminmax = NamedTuple("aminmax", [("min", Tensor), ("max", Tensor)])
cummax = NamedTuple("cummax", [("values", Tensor), ("indices", Tensor)])
cummin = NamedTuple("cummin", [("values", Tensor), ("indices", Tensor)])
frexp = NamedTuple("frexp", [("mantissa", Tensor), ("exponent", Tensor)])
geqrf = NamedTuple("geqrf", [("a", Tensor), ("tau", Tensor)])
histogram = NamedTuple("histogram", [("hist", Tensor), ("bin_edges", Tensor)])
histogramdd = NamedTuple("histogramdd", [("hist", Tensor), ("bin_edges", tuple[Tensor, ...])])
kthvalue = NamedTuple("kthvalue", [("values", Tensor), ("indices", Tensor)])
max = NamedTuple("max", [("values", Tensor), ("indices", Tensor)])
median = NamedTuple("median", [("values", Tensor), ("indices", Tensor)])
min = NamedTuple("min", [("values", Tensor), ("indices", Tensor)])
mode = NamedTuple("mode", [("values", Tensor), ("indices", Tensor)])
nanmedian = NamedTuple("nanmedian", [("values", Tensor), ("indices", Tensor)])
qr = NamedTuple("qr", [("Q", Tensor), ("R", Tensor)])
slogdet = NamedTuple("slogdet", [("sign", Tensor), ("logabsdet", Tensor)])
sort = NamedTuple("sort", [("values", Tensor), ("indices", Tensor)])
svd = NamedTuple("svd", [("U", Tensor), ("S", Tensor), ("Vh", Tensor)])
topk = NamedTuple("topk", [("values", Tensor), ("indices", Tensor)])
# Of unique and unique_consecutive, by what is asked for; in PyTorch these have no names.
unique_all = NamedTuple("unique_all", [("output", Tensor), ("inverse_indices", Tensor), ("counts", Tensor)])
unique_counts = NamedTuple("unique_counts", [("output", Tensor), ("counts", Tensor)])
unique_inverse = NamedTuple("unique_inverse", [("output", Tensor), ("inverse_indices", Tensor)])

# Of functions.
lu_unpack = NamedTuple("lu_unpack", [("P", Tensor), ("L", Tensor), ("U", Tensor)])
triangular_solve = NamedTuple("triangular_solve", [("solution", Tensor), ("cloned_coefficient", Tensor)])

# Of tensord.linalg.
linalg_cholesky_ex = NamedTuple("linalg_cholesky_ex", [("L", Tensor), ("info", Tensor)])
linalg_eigh = NamedTuple("linalg_eigh", [("eigenvalues", Tensor), ("eigenvectors", Tensor)])
linalg_inv_ex = NamedTuple("linalg_inv_ex", [("inverse", Tensor), ("info", Tensor)])
linalg_ldl_factor = NamedTuple("linalg_ldl_factor", [("LD", Tensor), ("pivots", Tensor)])
linalg_ldl_factor_ex = NamedTuple("linalg_ldl_factor_ex", [("LD", Tensor), ("pivots", Tensor), ("info", Tensor)])
linalg_lstsq = NamedTuple(
    "linalg_lstsq", [("solution", Tensor), ("residuals", Tensor), ("rank", Tensor), ("singular_values", Tensor)])
linalg_lu = NamedTuple("linalg_lu", [("P", Tensor), ("L", Tensor), ("U", Tensor)])
linalg_lu_factor = NamedTuple("linalg_lu_factor", [("LU", Tensor), ("pivots", Tensor)])
linalg_lu_factor_ex = NamedTuple("linalg_lu_factor_ex", [("LU", Tensor), ("pivots", Tensor), ("info", Tensor)])
linalg_polar = NamedTuple("linalg_polar", [("U", Tensor), ("H", Tensor)])
linalg_qr = NamedTuple("linalg_qr", [("Q", Tensor), ("R", Tensor)])
linalg_slogdet = NamedTuple("linalg_slogdet", [("sign", Tensor), ("logabsdet", Tensor)])
linalg_solve_ex = NamedTuple("linalg_solve_ex", [("result", Tensor), ("info", Tensor)])
linalg_svd = NamedTuple("linalg_svd", [("U", Tensor), ("S", Tensor), ("Vh", Tensor)])
