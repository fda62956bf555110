"""Products of matrices, einsum, linear algebra."""

import torch
from table import Data, Ints, error, lib, row, test_row  # noqa: F401

MATMUL = [
    ((3,), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((2, 3), (3, 4)),
    ((3,), (5, 3, 4)),
    ((5, 2, 3), (3,)),
    ((5, 2, 3), (5, 3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 1, 2, 3), (5, 3, 4)),
    ((1, 1), (1, 1)),
    ((17, 33), (33, 9)),
    ((0, 3), (3, 4)),
    ((2, 0), (0, 4)),
    ((2, 3), (3, 0)),
    ((0,), (0,)),
    ((3, 0, 4), (4, 5)),
    ((0, 2, 3), (3, 4)),
    ((2, 0), (0,)),
]
# (formula, shapes)
EINSUM = [
    ("->", [()]),
    ("ij->ji", [(2, 3)]),
    (" i j -> j i ", [(2, 3)]),
    ("ij", [(2, 3)]),
    ("ba", [(2, 3)]),
    ("ij->", [(2, 3)]),
    ("ij->j", [(2, 3)]),
    ("ij->i", [(2, 3)]),
    ("ij,ij->ij", [(2, 3), (2, 3)]),
    ("i,i->", [(3,), (3,)]),
    ("i,j->ij", [(2,), (3,)]),
    ("ij,jk->ik", [(2, 3), (3, 4)]),
    ("ij,jk", [(2, 3), (3, 4)]),
    ("ij,kj->ik", [(2, 3), (4, 3)]),
    ("bij,bjk->bik", [(5, 2, 3), (5, 3, 4)]),
    ("bij,bjk", [(5, 2, 3), (5, 3, 4)]),
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
    ("i,j,k->ijk", [(2,), (3,), (2,)]),
    ("pqrs,tuqvr->pstuv", [(2, 3, 2, 2), (2, 2, 3, 2, 2)]),
    ("bqhd,bkhd->bhqk", [(2, 3, 2, 4), (2, 5, 2, 4)]),
    ("ik,jkl,il->ij", [(2, 3), (4, 3, 2), (2, 2)]),
    ("...ij,...jk->...ik", [(2, 2, 3), (2, 3, 4)]),
    ("...ij,jk->...ik", [(5, 2, 3), (3, 4)]),
    ("i...,i...->...", [(3, 2), (3, 2)]),
    ("...i->i...", [(2, 3, 4)]),
    ("...i->...", [(2, 3)]),
    ("...ij,...jk", [(2, 2, 3), (2, 3, 4)]),
    ("i...j->j", [(2, 3, 4)]),
    ("...,...->...", [(2, 3), (3,)]),
    ("a...b,b...->a...", [(2, 3, 4), (4, 3)]),
    ("ii->", [(3, 3)]),
    ("ii->i", [(3, 3)]),
    ("bii->b", [(2, 3, 3)]),
    ("bii->bi", [(2, 3, 3)]),
    ("iij->ij", [(3, 3, 2)]),
    ("iji->j", [(3, 2, 3)]),
    ("ii,i->i", [(3, 3), (3,)]),
    ("ij,j->ij", [(2, 3), (3,)]),
]

INF = float("inf")


def symmetric(x):
    return x @ x.transpose(-1, -2) + 3 * lib(x).eye(x.shape[-1])


ROWS = [
    *(row(f"matmul of {a} and {b}", lambda x, y: x @ y, a, b) for a, b in MATMUL),
    row("matmul, method", lambda x, y: x.matmul(y), (2, 3), (3, 4)),
    row("dot is matmul", lambda x, y: x.dot(y), (2, 3), (3, 4), theirs=lambda x, y: x @ y),
    row("matmul, reverse", lambda x, y: x.matmul(y, reverse=True), (3, 4), (2, 3), theirs=lambda x, y: y @ x),
    row("matmul of ints", lambda x, y: x @ y, Ints(-9, 9, 4, 5), Ints(-9, 9, 5, 3)),
    row("matmul of arange and eye", lambda x: lib(x).arange(9).reshape(3, 3).float() @ lib(x).eye(3) + x, (3, 3)),
    row("matmul of padded", lambda x, y: lib(x).cat([x, lib(x).zeros(7, 9)]) @ y, (9, 9), (9, 16)),
    row("matmul of an expanded tensor", lambda x, y: x.expand(4, 5) @ y, (1, 5), (5, 3)),
    row("matmul of a permuted tensor", lambda x, y: x.permute(1, 0) @ y.permute(1, 0), (5, 4), (3, 5)),
    row("chained matmuls", lambda x, y, z: x @ y @ z, (3, 4), (4, 5), (5, 2)),
    row("x @ x", lambda x: x @ x, (4, 4)),
    row(
        "64 of half precision",
        lambda x, y: x @ y,
        (64, 64),
        (64, 64),
        dtype="float16",
        gradient=False,
        forward=(5e-3, 5e-2),
    ),
    row(
        "64 of bfloat16", lambda x, y: x @ y, (64, 64), (64, 64), dtype="bfloat16", gradient=False, forward=(2e-2, 2e-1)
    ),
    row("256", lambda x, y: x @ y, (256, 256), (256, 256), forward=(1e-4, 1e-4), gradient=False),
    row("matmul of float64", lambda x, y: x @ y, (5, 6), (6, 7), dtype="float64", forward=(1e-12, 1e-12)),
    row(
        "matmul in float32 of float16",
        lambda x, y: x.matmul(y, dtype="float32"),
        (5, 6),
        (6, 7),
        dtype="float16",
        gradient=False,
        theirs=lambda x, y: x.float() @ y.float(),
    ),
    row(
        "matmul of float16 and float32",
        lambda x, y: x.cast("float16") @ y,
        (5, 6),
        (6, 7),
        gradient=False,
        theirs=lambda x, y: x.half().float() @ y,
    ),
    row(
        "linear has the weight (in, out)",
        lambda x, w, b: x.linear(w, b),
        (2, 3),
        (3, 4),
        (4,),
        theirs=lambda x, w, b: x @ w + b,
    ),
    row(
        "linear by a vector multiplies",
        lambda x, w, b: x.linear(w, b),
        (2, 3),
        (3,),
        (3,),
        theirs=lambda x, w, b: x * w + b,
    ),
    *(
        row(
            f"einsum '{formula}' of {', '.join(map(str, shapes))}",
            lambda *xs, f=formula: lib(xs[0]).einsum(f, *xs),
            *shapes,
            forward=(1e-4, 1e-5),
        )
        for formula, shapes in EINSUM
    ),
    row("einsum of a list", lambda x, y: lib(x).einsum("ij,jk", [x, y]), (2, 3), (3, 4)),
    *(
        row(f"{name}", lambda *xs, n=name: getattr(lib(xs[0]), n)(*xs), *shapes)
        for name, shapes in {
            "mm": [(2, 3), (3, 4)],
            "bmm": [(5, 2, 3), (5, 3, 4)],
            "mv": [(2, 3), (3,)],
            "addmm": [(2, 4), (2, 3), (3, 4)],
            "baddbmm": [(5, 2, 4), (5, 2, 3), (5, 3, 4)],
            "addmv": [(2,), (2, 3), (3,)],
            "addbmm": [(2, 4), (5, 2, 3), (5, 3, 4)],
            "addr": [(2, 3), (2,), (3,)],
            "inner": [(2, 3), (4, 3)],
            "outer": [(2,), (3,)],
            "vdot": [(3,), (3,)],
            "kron": [(2, 3), (2, 2)],
            "cdist": [(3, 4), (5, 4)],
        }.items()
    ),
    row("cross", lambda x, y: lib(x).cross(x, y, dim=1), (2, 3), (2, 3)),
    row("tensordot", lambda x, y: lib(x).tensordot(x, y, 2), (2, 3, 4), (3, 4, 5)),
    row("tensordot of axes", lambda x, y: lib(x).tensordot(x, y, ([1], [0])), (2, 3), (3, 4)),
    row("matrix_power", lambda x: x.matrix_power(3), (3, 3)),
    row("addmm, alpha and beta", lambda x, y, z: lib(x).addmm(x, y, z, beta=0.5, alpha=2), (2, 4), (2, 3), (3, 4)),
    # Decompositions, by what they must satisfy.
    row("qr", lambda x: x.qr()[0] @ x.qr()[1], (4, 3), theirs=lambda x: x, forward=(1e-4, 1e-4), gradient=False),
    row(
        "qr is complete",
        lambda x: [part.shape for part in x.qr()] and (x.qr()[0].transpose(-1, -2) @ x.qr()[0]),
        (4, 2),
        theirs=lambda x: torch.eye(4),
        forward=(1e-4, 1e-4),
        gradient=False,
    ),
    row(
        "qr of a batch",
        lambda x: x.qr()[0] @ x.qr()[1],
        (2, 3, 3),
        theirs=lambda x: x,
        forward=(1e-4, 1e-4),
        gradient=False,
    ),
    row(
        "svd, values",
        lambda x: x.svd()[1],
        (4, 3),
        theirs=lambda x: torch.linalg.svd(x)[1],
        forward=(1e-3, 1e-4),
        gradient=False,
    ),
    row(
        "svd, product",
        lambda x: (lambda u, s, v: (u[..., :3] * s) @ v)(*x.svd()),
        (4, 3),
        theirs=lambda x: x,
        forward=(1e-3, 1e-3),
        gradient=False,
    ),
    row(
        "svd, reduced",
        lambda x: (lambda u, s, v: (u * s.unsqueeze(-2)) @ v)(*x.svd(full_matrices=False)),
        (2, 3, 4),
        theirs=lambda x: x,
        forward=(1e-3, 1e-3),
        gradient=False,
    ),
    *(
        row(
            name,
            lambda x, n=name: getattr(lib(x).linalg, n)(symmetric(x)),
            (3, 3),
            forward=(1e-3, 1e-3),
            backward=(1e-2, 1e-2),
        )
        for name in ("inv", "det", "cholesky", "slogdet", "matrix_norm", "eigvalsh", "svdvals", "pinv", "matrix_exp")
    ),
    row(
        "solve",
        lambda x, y: lib(x).linalg.solve(symmetric(x), y),
        (3, 3),
        (3, 2),
        forward=(1e-3, 1e-3),
        backward=(1e-2, 1e-2),
    ),
    row("householder_product", lambda a, t: lib(a).linalg.householder_product(a, t), (5, 3), (3,),
        forward=(1e-3, 1e-3), backward=(1e-2, 1e-2)),
    *(
        row(f"ormqr, left {left}, transpose {transpose}",
            lambda a, t, x, l=left, r=transpose: lib(a).ormqr(a, t, x if l else x.mT, l, r), (4, 2), (2,), (4, 3),
            forward=(1e-3, 1e-3), backward=(1e-2, 1e-2))
        for left in (True, False) for transpose in (True, False)
    ),
    row("geqrf", lambda a: lib(a).geqrf(a), (2, 4, 3), gradient=False, forward=(1e-3, 1e-4)),
    row("geqrf, wide", lambda a: lib(a).geqrf(a), (3, 5), gradient=False, forward=(1e-3, 1e-4)),
    *(
        row(f"ldl_factor_ex and ldl_solve, {name}",
            lambda x, y, z=zeros: (lambda factors: (*factors, lib(x).linalg.ldl_solve(*factors[:2], y)))(
                lib(x).linalg.ldl_factor_ex(x + x.mT - z * 2 * lib(x).diag_embed(lib(x).linalg.diagonal(x)))),
            shape, (*shape[:-1], 2), gradient=False, forward=(1e-3, 1e-3))
        for name, shape, zeros in (("batch", (6, 5, 5), 0), ("blocks of two", (4, 6, 6), 1), ("odd", (2, 3, 3), 1))
    ),
    row("ldl_factor reads the lower triangle", lambda x: lib(x).linalg.ldl_factor(x), (5, 5), gradient=False,
        forward=(1e-3, 1e-3)),
    row("ldl_factor_ex of zeros", lambda x: lib(x).linalg.ldl_factor_ex(x * 0), (3, 3), gradient=False),
    error("ldl_solve, sizes", (RuntimeError, ValueError), "",
          lambda x, y: lib(x).linalg.ldl_solve(*lib(x).linalg.ldl_factor(x), y), (3, 3), (4, 2)),
    row("polar", lambda x: lib(x).linalg.polar(x), (2, 4, 3), forward=(1e-3, 1e-3), backward=(1e-2, 1e-2)),
    row("matrix_sqrth", lambda x: lib(x).linalg.matrix_sqrth(symmetric(x)), (3, 3), forward=(1e-3, 1e-3),
        backward=(1e-2, 1e-2)),
    row("diagonal of linalg", lambda x: lib(x).linalg.diagonal(x, offset=-1), (2, 3, 4)),
    row("cholesky_ex", lambda x: lib(x).linalg.cholesky_ex(symmetric(x)), (2, 3, 3), forward=(1e-3, 1e-3),
        backward=(1e-2, 1e-2)),
    row("pinv, hermitian", lambda x: lib(x).linalg.pinv(symmetric(x), hermitian=True), (3, 3), forward=(1e-3, 1e-3),
        backward=(1e-2, 1e-2)),
    row("matrix_rank, bounds of each", lambda x, t: lib(x).linalg.matrix_rank(x, atol=t), (2, 4, 4), Data([0.5, 1.5])),
    row("vander of linalg", lambda x: lib(x).linalg.vander(x, N=4), (2, 3), backward=(1e-2, 1e-3)),
    *(
        row(f"norm of linalg, {ord}", lambda x, p=ord: lib(x).linalg.norm(x, p, (0, 2), keepdim=True), (2, 3, 2),
            forward=(1e-3, 1e-4), backward=(1e-2, 1e-2))
        for ord in (None, "fro", "nuc", INF, -INF, 1, -1, 2, -2)
    ),
    row("tensordot of axes of size 1", lambda x, y: lib(x).tensordot(x, y, ((0, 1), (1, 0))), (1, 3, 2), (3, 4)),
    row("tensorsolve, dims", lambda a, b: lib(a).linalg.tensorsolve(a, b, dims=(1,)), (2, 6, 3), (2, 3),
        forward=(1e-2, 1e-2), gradient=False),
    error("householder_product of a wide matrix", (RuntimeError, ValueError), "",
          lambda a: lib(a).linalg.householder_product(a, a[:, 0]), (2, 3)),
    row("vector_norm", lambda x: lib(x).linalg.vector_norm(x, 3), (5,)),
    row(
        "triangular solve",
        lambda x, y: lib(x).linalg.solve_triangular(symmetric(x).tril(), y, upper=False),
        (3, 3),
        (3, 2),
        forward=(1e-3, 1e-3),
        backward=(1e-2, 1e-2),
    ),
    # Errors.
    *(
        error(f"matmul of {a} and {b}", RuntimeError, "matmul|dot", lambda x, y: x @ y, a, b)
        for a, b in (((2, 3), (4, 5)), ((3,), (4,)), ((), (3,)), ((3,), ()), ((2, 3, 4), (3, 4, 5)))
    ),
    error(
        "einsum: sizes that differ",
        RuntimeError,
        "einsum",
        lambda x, y: lib(x).einsum("ij,jk->ik", x, y),
        (2, 3),
        (4, 5),
    ),
    error(
        "einsum: too few operands", (RuntimeError, ValueError), "einsum", lambda x: lib(x).einsum("ij,jk", x), (2, 3)
    ),
    error(
        "einsum: too many operands", (RuntimeError, ValueError), "einsum", lambda x: lib(x).einsum("ij", x, x), (2, 3)
    ),
    error(
        "einsum: two ellipses", (RuntimeError, ValueError), "einsum", lambda x: lib(x).einsum("...i...->i", x), (2, 3)
    ),
    error(
        "einsum: ellipses that do not broadcast",
        (RuntimeError, ValueError),
        "einsum|broadcast",
        lambda x, y: lib(x).einsum("...i,...i->...", x, y),
        (2, 3),
        (4, 3),
    ),
    error("einsum: unknown output", (RuntimeError, ValueError), "einsum", lambda x: lib(x).einsum("ij->k", x), (2, 3)),
]
