"""Convolution, pooling, resampling, normalisation, attention, losses, embedding."""

import numpy as np
import tensord
import torch
import torch.nn.functional as F
from table import Data, Ints, error, lib, row, test_row  # noqa: F401

RuntimeErrors = (RuntimeError, ValueError)
CONVS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVG = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
UNPOOL = {1: F.max_unpool1d, 2: F.max_unpool2d, 3: F.max_unpool3d}
# name: (input, weight, options)
CONV = {
    **{
        f"1-D, {taps} taps, groups {g}": ((1, 3, 11), (6, 3 // g, taps), {"groups": g})
        for taps in (1, 2, 5)
        for g in (1, 3)
    },
    **{f"{h} x {w} taps": ((1, 3, 7, 7), (4, 3, h, w), {}) for h in (2, 3) for w in (1, 2, 3, 5)},
    **{f"batch {n}": ((n, 3, 5, 5), (4, 3, 3, 3), {}) for n in (1, 3, 8)},
    "1x1": ((2, 4, 5, 5), (8, 4, 1, 1), {}),
    "channels by four": ((1, 8, 5, 5), (12, 8, 3, 3), {}),
    "grouped": ((2, 4, 5, 5), (6, 2, 3, 3), {"groups": 2}),
    "depthwise": ((2, 6, 5, 5), (6, 1, 3, 3), {"groups": 6}),
    "groups of 7": ((1, 10, 4, 4), (35, 2, 2, 2), {"groups": 5}),
    "3-D": ((1, 2, 4, 5, 4), (3, 2, 2, 3, 2), {}),
    "3-D padded": ((1, 2, 3, 4, 4), (3, 2, 2, 2, 2), {"padding": 1}),
    "stride 2": ((1, 2, 8, 9), (3, 2, 3, 3), {"stride": 2}),
    "stride (2, 1)": ((1, 2, 8, 9), (3, 2, 3, 3), {"stride": (2, 1)}),
    "dilation 2": ((1, 2, 8, 9), (3, 2, 3, 3), {"dilation": 2}),
    "dilation (2, 1)": ((1, 2, 8, 9), (3, 2, 3, 3), {"dilation": (2, 1)}),
    "padding 2": ((1, 2, 5, 5), (3, 2, 3, 3), {"padding": 2}),
    "padding (1, 2)": ((1, 2, 5, 5), (3, 2, 3, 3), {"padding": (1, 2)}),
    "1x1 padded": ((1, 2, 3, 3), (3, 2, 1, 1), {"padding": 1}),
    "all at once": ((2, 4, 9, 8), (6, 2, 3, 2), {"groups": 2, "stride": (2, 1), "dilation": (1, 2), "padding": (2, 1)}),
    "kernel as large as the input": ((1, 2, 3, 3), (2, 2, 3, 3), {}),
    "no batch": ((0, 2, 5, 5), (3, 2, 3, 3), {}),
}
CONV_T = {
    "1-D": ((1, 3, 7), (3, 4, 3), {}),
    "plain": ((2, 4, 5, 5), (4, 3, 3, 3), {}),
    "groups": ((2, 4, 5, 5), (4, 2, 3, 3), {"groups": 2}),
    "padding": ((2, 4, 5, 5), (4, 3, 3, 3), {"padding": 1}),
    "padding (1, 2)": ((2, 4, 5, 5), (4, 3, 3, 3), {"padding": (1, 2)}),
    "dilation": ((2, 4, 5, 5), (4, 3, 3, 3), {"dilation": 2}),
    "stride": ((2, 4, 5, 5), (4, 3, 3, 3), {"stride": 2}),
    "stride, output padding": ((2, 4, 5, 5), (4, 3, 3, 3), {"stride": 2, "output_padding": 1}),
    "unequal strides, output padding": (
        (1, 2, 4, 5),
        (2, 3, 3, 3),
        {"stride": (3, 2), "output_padding": (2, 1), "padding": 1},
    ),
    "3-D": ((1, 2, 3, 4, 3), (2, 3, 2, 2, 2), {}),
    "3-D, stride": ((1, 2, 3, 3, 3), (2, 3, 2, 3, 2), {"stride": 2}),
}
SHAPE = (2, 3, 11, 12)
# name: (input, options of both). The rank is the kernel's; a number stands for two.
POOL = {
    **{f"{k}": (SHAPE, {"kernel_size": k}) for k in (2, (3, 3), (3, 2), (5, 5), (5, 1))},
    "1-D": ((2, 3, 11), {"kernel_size": (3,)}),
    "3-D": ((2, 2, 5, 6, 4), {"kernel_size": (2, 2, 2)}),
    "padding": (SHAPE, {"kernel_size": 3, "padding": 1}),
    "padding (1, 0)": (SHAPE, {"kernel_size": 3, "padding": (1, 0)}),
    "stride above the kernel": (SHAPE, {"kernel_size": 2, "stride": 3}),
    "stride below the kernel": (SHAPE, {"kernel_size": 5, "stride": 2}),
    "stride 1": (SHAPE, {"kernel_size": 3, "stride": 1}),
    "ceil": (SHAPE, {"kernel_size": 3, "stride": 2, "ceil_mode": True}),
    "ceil, padded": (SHAPE, {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
    "ceil, last window in the padding": (
        (1, 1, 6, 6),
        {"kernel_size": 2, "stride": 3, "padding": 1, "ceil_mode": True},
    ),
    "global": (SHAPE, {"kernel_size": (11, 12)}),
    "ceil, a window above the axis": ((1, 2, 3, 5), {"kernel_size": (4, 3), "stride": 2, "ceil_mode": True}),
    "ceil, a window above the padded axis": (
        (1, 2, 1, 2),
        {"kernel_size": 4, "stride": (2, 3), "padding": (1, 0), "ceil_mode": True},
    ),
    "1-D, ceil, a window above the axis": ((2, 3, 2), {"kernel_size": (3,), "ceil_mode": True}),
}
INTERPOLATE = {1: "linear", 2: "bilinear", 3: "trilinear"}


def rank(x):
    return len(x.shape) - 2


def loss(name, *xs, ours=None, **options):
    """A loss: PyTorch's in nn.functional, ours a method, which may have another name."""
    return getattr(F, name)(*xs, **options) if lib(xs[0]) is torch else getattr(xs[0], ours or name)(*xs[1:], **options)


def functional(x):
    return F if lib(x) is torch else tensord.nn.functional


ROWS = [
    # Convolution. Ours as list one has it: groups before stride.
    *(
        row(
            f"conv {name}",
            lambda x, w, b, o=options: x.conv2d(w, b, **o),
            x,
            w,
            (w[0],),
            theirs=lambda x, w, b, o=options: CONVS[rank(x)](x, w, b, **o),
            backward=(1e-3, 1e-3),
        )
        for name, (x, w, options) in CONV.items()
    ),
    row(
        "conv without bias, arguments by place",
        lambda x, w: x.conv2d(w, None, 2, 1, 2, 1),
        (1, 4, 7, 7),
        (6, 2, 3, 3),
        theirs=lambda x, w: F.conv2d(x, w, None, 1, 1, 2, 2),
        backward=(1e-3, 1e-3),
    ),
    row(
        "conv, four paddings",
        lambda x, w: x.conv2d(w, padding=(1, 2, 0, 3)),
        (1, 2, 5, 5),
        (3, 2, 3, 3),
        theirs=lambda x, w: F.conv2d(F.pad(x, (1, 2, 0, 3)), w),
        backward=(1e-3, 1e-3),
    ),
    row(
        "conv, negative padding",
        lambda x, w: x.conv2d(w, padding=-1),
        (1, 2, 7, 7),
        (3, 2, 3, 3),
        theirs=lambda x, w: F.conv2d(F.pad(x, (-1,) * 4), w),
        backward=(1e-3, 1e-3),
    ),
    row(
        "conv, nhwc",
        lambda x, w: x.permute(0, 3, 1, 2).conv2d(w).permute(0, 2, 3, 1),
        (2, 5, 5, 4),
        (3, 4, 3, 3),
        theirs=lambda x, w: F.conv2d(x.permute(0, 3, 1, 2), w).permute(0, 2, 3, 1),
        backward=(1e-3, 1e-3),
    ),
    row(
        "conv of conv",
        lambda x, w, v: x.conv2d(w).relu().conv2d(v),
        (1, 2, 8, 8),
        (4, 2, 3, 3),
        (2, 4, 3, 3),
        theirs=lambda x, w, v: F.conv2d(F.conv2d(x, w).relu(), v),
        backward=(1e-3, 1e-3),
    ),
    row(
        "conv 64 x 64",
        lambda x, w: x.conv2d(w),
        (1, 8, 64, 64),
        (8, 8, 3, 3),
        theirs=F.conv2d,
        gradient=False,
        forward=(1e-4, 1e-4),
    ),
    row("conv of ints", lambda x, w: x.conv2d(w), Ints(-5, 5, 1, 2, 5, 5), Ints(-5, 5, 3, 2, 3, 3), theirs=F.conv2d),
    row(
        "conv of float16",
        lambda x, w: x.conv2d(w),
        (1, 4, 6, 6),
        (4, 4, 3, 3),
        dtype="float16",
        theirs=F.conv2d,
        gradient=False,
        forward=(5e-3, 3e-2),
    ),
    *(
        row(
            f"conv_transpose {name}",
            lambda x, w, b, o=options: x.conv_transpose2d(w, b, **o),
            x,
            w,
            (w[1] * options.get("groups", 1),),
            theirs=lambda x, w, b, o=options: TRANSPOSED[rank(x)](x, w, b, **o),
            backward=(1e-3, 1e-3),
        )
        for name, (x, w, options) in CONV_T.items()
    ),
    row(
        "F.conv2d in torch's order",
        lambda x, w: functional(x).conv2d(x, w, None, 2, 1, 1, 2),
        (1, 4, 7, 7),
        (6, 2, 3, 3),
        backward=(1e-3, 1e-3),
    ),
    row("F.conv1d", lambda x, w: functional(x).conv1d(x, w, stride=2), (1, 4, 9), (6, 4, 3), backward=(1e-3, 1e-3)),
    row(
        "F.conv2d, same",
        lambda x, w: functional(x).conv2d(x, w, padding="same"),
        (1, 2, 7, 7),
        (3, 2, 3, 4),
        backward=(1e-3, 1e-3),
    ),
    row("F.linear", lambda x, w, b: functional(x).linear(x, w, b), (2, 3), (4, 3), (4,)),
    row("F.unfold", lambda x: functional(x).unfold(x, 2, 1, 1, 2), (2, 3, 5, 6)),
    row("F.fold", lambda x: functional(x).fold(x, (4, 5), 2), (1, 12, 12)),
    error(
        "conv: kernel larger than the input",
        RuntimeErrors,
        "conv",
        lambda x, w: x.conv2d(w),
        (1, 2, 3, 3),
        (2, 2, 5, 5),
        theirs=F.conv2d,
    ),
    error(
        "conv: three paddings",
        RuntimeErrors,
        "padding",
        lambda x, w: x.conv2d(w, padding=(1, 1, 1)),
        (1, 2, 5, 5),
        (2, 2, 3, 3),
        theirs=lambda x, w: F.conv2d(x, w, padding=(1, 1, 1)),
    ),
    error(
        "conv: channels",
        RuntimeErrors,
        "channel",
        lambda x, w: x.conv2d(w),
        (1, 2, 5, 5),
        (2, 3, 3, 3),
        theirs=F.conv2d,
    ),
    error(
        "conv_transpose: padding",
        RuntimeErrors,
        "padding",
        lambda x, w: x.conv_transpose2d(w, padding=(1, 1, 1)),
        (1, 2, 5, 5),
        (2, 3, 3, 3),
        theirs=lambda x, w: F.conv_transpose2d(x, w, padding=(1, 1, 1)),
    ),
    # Pooling.
    *(
        row(
            f"max_pool {name}",
            lambda x, o=options: x.max_pool2d(**o),
            shape,
            theirs=lambda x, o=options: MAX[rank(x)](x, **o),
        )
        for name, (shape, options) in POOL.items()
    ),
    *(
        row(
            f"max_pool dilation {d}",
            lambda x, d=d: x.max_pool2d(3, dilation=d),
            SHAPE,
            theirs=lambda x, d=d: F.max_pool2d(x, 3, dilation=d),
        )
        for d in (2, 3)
    ),
    *(
        row(
            f"max_pool indices, {name}",
            lambda x, o=options: x.max_pool2d(return_indices=True, **o),
            shape,
            theirs=lambda x, o=options: MAX[rank(x)](x, return_indices=True, **o),
            gradient=False,
        )
        for name, (shape, options) in POOL.items()
    ),
    row(
        "max_pool indices, 3-D, ceil, windows above their axes",
        lambda x: functional(x).max_pool3d(x, (2, 3, 4), 3, (1, 0, 2), ceil_mode=True, return_indices=True),
        (1, 2, 5, 2, 1),
        gradient=False,
    ),
    *(
        row(
            f"lp_pool{len(shape)}d, ceil, windows above their axes",
            lambda x, n=len(shape): getattr(functional(x), f"lp_pool{n}d")(x, 2.0, 3, 2, ceil_mode=True),
            (2, 3, *shape),
        )
        for shape in ((2,), (2, 5))
    ),
    error(
        "max_pool: ceil, a window above the axis by more than a stride",
        RuntimeErrors,
        "window",
        lambda x: functional(x).max_pool2d(x, 5, 2, ceil_mode=True),
        (1, 1, 2, 2),
    ),
    row(
        "max_pool indices, dilation",
        lambda x: x.max_pool2d(3, dilation=2, return_indices=True),
        SHAPE,
        theirs=lambda x: F.max_pool2d(x, 3, dilation=2, return_indices=True),
        gradient=False,
    ),
    row(
        "max_pool indices of equal values",
        lambda x: x.max_pool2d(2, return_indices=True),
        Data(np.ones((1, 1, 4, 4), np.float32)),
        theirs=lambda x: F.max_pool2d(x, 2, return_indices=True),
        gradient=False,
    ),
    row(
        "max_pool of overlapping maxima",
        lambda x: x.max_pool2d(3, 1),
        Data(np.array([[[[0, 0, 0, 0], [0, 5, 0, 0], [0, 0, 0, 0], [0, 0, 3, 0]]]], np.float32)),
        theirs=lambda x: F.max_pool2d(x, 3, 1),
    ),
    row("max_pool of ints", lambda x: x.max_pool2d(2), Ints(-9, 9, 1, 2, 4, 4), theirs=lambda x: F.max_pool2d(x, 2)),
    row(
        "max_pool, four paddings",
        lambda x: x.max_pool2d(3, padding=(1, 0, 0, 1)),
        SHAPE,
        theirs=lambda x: F.max_pool2d(F.pad(x, (1, 0, 0, 1), value=-float("inf")), 3),
    ),
    row(
        "max_pool, arguments by place",
        lambda x: x.max_pool2d(3, 2, 2, 1),
        SHAPE,
        theirs=lambda x: F.max_pool2d(x, 3, 2, 1, 2),
    ),
    row(
        "max_pool of NaN",
        lambda x: x.max_pool2d(2),
        Data(np.array([[[[np.nan, 1], [2, 3]]]], np.float32)),
        theirs=lambda x: F.max_pool2d(x, 2),
        gradient=False,
    ),
    *(
        row(
            f"avg_pool {name}, padding {'counted' if count else 'not counted'}",
            lambda x, o=options, c=count: x.avg_pool2d(count_include_pad=c, **o),
            shape,
            theirs=lambda x, o=options, c=count: AVG[rank(x)](x, count_include_pad=c, **o),
        )
        for name, (shape, options) in POOL.items()
        for count in (True, False)
    ),
    row(
        "avg_pool, dilated",
        lambda x: x.avg_pool2d(2, dilation=2),
        (1, 1, 5, 5),
        theirs=lambda x: F.conv2d(x, torch.tensor([[[[0.25, 0, 0.25], [0, 0, 0], [0.25, 0, 0.25]]]]), stride=2),
    ),
    error(
        "avg_pool: three paddings",
        ValueError,
        "padding",
        lambda x: x.avg_pool2d(2, padding=(1, 1, 1)),
        SHAPE,
        theirs=lambda x: F.avg_pool2d(x, 2, padding=(1, 1, 1)),
    ),
    *(
        row(
            f"max_unpool {name}",
            lambda x, o=options: (lambda y, i: y.max_unpool2d(i, **o))(*x.max_pool2d(return_indices=True, **o)),
            shape,
            theirs=lambda x, o=options: (lambda y, i: UNPOOL[rank(x)](y, i, **o))(
                *MAX[rank(x)](x, return_indices=True, **o)
            ),
        )
        for name, (shape, options) in POOL.items()
        if name in ("2", "(3, 2)", "1-D", "3-D")
    ),
    row(
        "max_unpool, output_size",
        lambda x: (lambda y, i: y.max_unpool2d(i, 2, output_size=(1, 1, 5, 5)))(*x.max_pool2d(2, return_indices=True)),
        (1, 1, 5, 5),
        theirs=lambda x: (lambda y, i: F.max_unpool2d(y, i, 2, output_size=(5, 5)))(
            *F.max_pool2d(x, 2, return_indices=True)
        ),
    ),
    *(
        row(
            f"F.adaptive_{kind}_pool{d}d to {size}",
            lambda x, k=kind, d=d, s=size: getattr(functional(x), f"adaptive_{k}_pool{d}d")(x, s),
            shape,
        )
        for kind in ("avg", "max")
        for d, shape, size in (
            (1, (2, 3, 7), 3),
            (2, (2, 3, 7, 5), (3, 2)),
            (2, (2, 3, 7, 5), 1),
            (3, (1, 2, 4, 5, 6), 2),
        )
    ),
    row("F.lp_pool2d", lambda x: functional(x).lp_pool2d(x, 2, 2), (1, 2, 4, 4), low=0.1),
    # Resampling.
    *(
        row(
            f"interpolate {mode} {shape[2:]} to {size}, aligned {align}",
            lambda x, s=size, a=align: x.interpolate(s, align_corners=a),
            shape,
            theirs=lambda x, s=size, a=align: F.interpolate(x, s, mode=INTERPOLATE[rank(x)], align_corners=a),
            forward=(1e-4, 1e-5),
        )
        for mode, shape, size in (
            ("linear", (1, 2, 5), (9,)),
            ("linear", (1, 2, 9), (4,)),
            ("bilinear", (1, 2, 5, 6), (9, 10)),
            ("bilinear", (1, 2, 9, 8), (4, 3)),
            ("bilinear", (1, 2, 4, 4), (4, 8)),
            ("trilinear", (1, 1, 3, 4, 3), (5, 6, 4)),
        )
        for align in (False, True)
    ),
    *(
        row(
            f"interpolate {mode} {shape[2:]} to {size}",
            lambda x, s=size, m=mode: x.interpolate(s, mode=m),
            shape,
            theirs=lambda x, s=size, m=mode: F.interpolate(x, s, mode=m),
        )
        for mode in ("nearest", "nearest-exact")
        for shape, size in (((1, 2, 5), (9,)), ((1, 2, 9), (4,)), ((1, 2, 5, 6), (9, 4)), ((1, 1, 3, 4, 3), (5, 6, 2)))
    ),
    *(
        row(
            f"interpolate {mode} of uint8",
            lambda x, m=mode: x.interpolate((7, 5), mode="linear" if m == "bilinear" else m),
            Ints(0, 256, 1, 2, 4, 6, dtype="uint8"),
            theirs=lambda x, m=mode: F.interpolate(x, (7, 5), mode=m),
        )
        for mode in ("bilinear", "nearest", "nearest-exact")
    ),
    *(
        row(
            f"F.interpolate {mode} {shape} to {size}, antialiased, aligned {align}",
            lambda x, m=mode, s=size, a=align: functional(x).interpolate(
                x, s, mode=m, align_corners=a, antialias=True
            ),
            (1, 2, *shape),
        )
        for mode in ("bilinear", "bicubic")
        for shape, size in (((7, 9), (5, 4)), ((5, 6), (9, 8)), ((4, 4), (1, 4)), ((1, 3), (4, 5)))
        for align in (True, False)
    ),
    *(
        row(
            f"F.interpolate {mode}",
            lambda x, m=mode: functional(x).interpolate(x, scale_factor=2, mode=m),
            (1, 2, 4, 5),
            forward=(1e-4, 1e-5),
        )
        for mode in ("nearest", "bilinear", "bicubic", "area")
    ),
    row("F.grid_sample", lambda x, g: functional(x).grid_sample(x, g, align_corners=False), (1, 2, 4, 5), (1, 3, 3, 2)),
    row("F.affine_grid", lambda t: functional(t).affine_grid(t, (1, 2, 3, 4), align_corners=False), (1, 2, 3)),
    # Normalisation, embedding.
    row("layernorm", lambda x: x.layernorm(), (3, 4, 5), theirs=lambda x: F.layer_norm(x, (5,))),
    row(
        "layernorm over two axes",
        lambda x: x.layernorm(axis=(1, 2)),
        (3, 4, 5),
        theirs=lambda x: F.layer_norm(x, (4, 5)),
    ),
    row(
        "batchnorm with given statistics",
        lambda x, w, b, m, v: x.batchnorm(w, b, m, (v * v + 1e-5).rsqrt()),
        (2, 3, 4, 4),
        (3,),
        (3,),
        (3,),
        (3,),
        theirs=lambda x, w, b, m, v: F.batch_norm(x, m, v * v, w, b),
    ),
    row("F.layer_norm", lambda x, w, b: functional(x).layer_norm(x, (4, 5), w, b), (3, 4, 5), (4, 5), (4, 5)),
    row("F.group_norm", lambda x, w, b: functional(x).group_norm(x, 2, w, b), (2, 4, 5), (4,), (4,)),
    row("F.instance_norm", lambda x: functional(x).instance_norm(x), (2, 3, 6)),
    row("F.rms_norm", lambda x, w: functional(x).rms_norm(x, (5,), w, 1e-6), (3, 5), (5,)),
    row("F.local_response_norm", lambda x: functional(x).local_response_norm(x, 2), (2, 5, 4)),
    row("F.embedding", lambda i, w: functional(w).embedding(i, w), Ints(0, 7, 3, 2), (7, 4)),
    row("F.embedding, padding_idx", lambda i, w: functional(w).embedding(i, w, padding_idx=1), Ints(0, 3, 5), (3, 4)),
    # Attention. An odd scale of heads keeps products small.
    *(
        row(
            f"attention {name}",
            lambda q, k, v, *m, o=options: q.scaled_dot_product_attention(k, v, *m, **o),
            *shapes,
            theirs=lambda q, k, v, *m, o=options: F.scaled_dot_product_attention(q, k, v, *m, **o),
            forward=(1e-4, 1e-5),
        )
        for name, shapes, options in (
            ("plain", [(2, 3, 5, 4)] * 3, {}),
            ("with a float mask", [(2, 3, 5, 4)] * 3 + [(5, 5)], {}),
            ("of another query length", [(2, 3, 2, 4), (2, 3, 5, 4), (2, 3, 5, 4)], {}),
            ("causal", [(2, 3, 5, 4)] * 3, {"is_causal": True}),
            ("causal, more keys", [(1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4)], {"is_causal": True}),
            ("of grouped heads", [(2, 4, 5, 4), (2, 2, 5, 4), (2, 2, 5, 4)], {"enable_gqa": True}),
            ("of values of another width", [(1, 2, 5, 4), (1, 2, 5, 4), (1, 2, 5, 6)], {}),
        )
    ),
    row(
        "attention with a bool mask",
        lambda q, k, v, m: q.scaled_dot_product_attention(k, v, m),
        (1, 2, 5, 4),
        (1, 2, 5, 4),
        (1, 2, 5, 4),
        Data(np.eye(5) + np.eye(5, k=2) > 0, bool),
        theirs=F.scaled_dot_product_attention,
    ),
    row(
        "attention where all is masked is NaN",
        lambda q, k, v, m: q.scaled_dot_product_attention(k, v, m).isnan(),
        (1, 3, 4),
        (1, 2, 4),
        (1, 2, 4),
        Data([[True, False], [False, False], [True, True]], bool),
        numpy=lambda q, k, v, m: np.array([[[False] * 4, [True] * 4, [False] * 4]]),
    ),
    error(
        "attention: mask and causal",
        RuntimeError,
        "mask|causal",
        lambda q, m: q.scaled_dot_product_attention(q, q, m, is_causal=True),
        (1, 2, 5, 4),
        (5, 5),
        theirs=lambda q, m: F.scaled_dot_product_attention(q, q, q, m, is_causal=True),
    ),
    error(
        "attention: heads that do not divide",
        RuntimeErrors,
        "head",
        lambda q, k: q.scaled_dot_product_attention(k, k, enable_gqa=True),
        (1, 3, 5, 4),
        (1, 2, 5, 4),
        theirs=lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True),
    ),
    # Losses.
    *(
        row(f"{name}, {reduction}", lambda x, y, n=name, r=reduction: loss(n, x, y, reduction=r), (3, 4), (3, 4))
        for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
        for reduction in ("mean", "sum", "none")
    ),
    *(
        row(
            f"binary_crossentropy, {reduction}",
            lambda x, y, r=reduction: loss(
                "binary_cross_entropy", x.sigmoid(), y.sigmoid(), ours="binary_crossentropy", reduction=r
            ),
            (3, 4),
            (3, 4),
        )
        for reduction in ("mean", "sum", "none")
    ),
    *(
        row(
            f"binary_crossentropy_logits, {reduction}",
            lambda x, y, r=reduction: loss(
                "binary_cross_entropy_with_logits", x, y.sigmoid(), ours="binary_crossentropy_logits", reduction=r
            ),
            (3, 4),
            (3, 4),
        )
        for reduction in ("mean", "sum", "none")
    ),
    row(
        "binary_crossentropy_logits, pos_weight",
        lambda x, y, w: loss(
            "binary_cross_entropy_with_logits", x, y.sigmoid(), ours="binary_crossentropy_logits", pos_weight=w
        ),
        (3, 4),
        (3, 4),
        (4,),
        low=0.1,
    ),
    row(
        "binary_crossentropy_logits far out",
        lambda x, y: loss("binary_cross_entropy_with_logits", x, y, ours="binary_crossentropy_logits"),
        Data([300.0, -300.0]),
        Data([1.0, 0.0]),
    ),
    *(
        row(
            f"cross_entropy of indices, smoothing {s}, {reduction}",
            lambda x, y, s=s, r=reduction: loss(
                "cross_entropy", x, y.long() if lib(x) is torch else y, label_smoothing=s, reduction=r
            ),
            (5, 4),
            Ints(0, 4, 5),
        )
        for s in (0.0, 0.3, 0.7, 1.0)
        for reduction in ("mean", "sum", "none")
    ),
    *(
        row(
            f"cross_entropy of probabilities, {shape}, smoothing {s}",
            lambda x, y, s=s: loss("cross_entropy", x, y.softmax(0 if len(y.shape) == 1 else 1), label_smoothing=s),
            shape,
            shape,
        )
        for shape in ((4,), (5, 4), (2, 4, 3, 3))
        for s in (0.0, 0.3)
    ),
    row(
        "cross_entropy of indices, 4-D",
        lambda x, y: loss("cross_entropy", x, y.long() if lib(x) is torch else y),
        (2, 4, 3, 3),
        Ints(0, 4, 2, 3, 3),
    ),
    row(
        "cross_entropy, 1-D",
        lambda x, y: loss("cross_entropy", x, y.long() if lib(x) is torch else y),
        (4,),
        Data(2, "int32"),
    ),
    row(
        "F.cross_entropy, weight and ignore_index",
        lambda x, y, w: functional(x).cross_entropy(x, y.long() if lib(x) is torch else y, w, ignore_index=1),
        (5, 4),
        Ints(0, 4, 5),
        (4,),
        low=0.1,
    ),
    *(
        row(
            f"sparse_categorical_crossentropy, ignore {i}, smoothing {s}",
            lambda x, y, i=i, s=s: x.sparse_categorical_crossentropy(y, ignore_index=i, label_smoothing=s),
            (2, 5, 4),
            Ints(0, 4, 2, 5),
            theirs=lambda x, y, i=i, s=s: F.cross_entropy(
                x.reshape(-1, 4), y.reshape(-1).long(), ignore_index=i, label_smoothing=s
            ),
        )
        for i in (-1, 0, 3)
        for s in (0.0, 0.3, 0.9)
        if not (i >= 0 and s)
    ),
    *(
        row(
            f"nll_loss {shape}, {reduction}",
            lambda x, y, r=reduction: loss(
                "nll_loss", x.log_softmax(1), y.long() if lib(x) is torch else y, reduction=r
            ),
            shape,
            Ints(0, 4, *shape[:1], *shape[2:]),
        )
        for shape in ((5, 4), (2, 4, 2, 3, 2))
        for reduction in ("mean", "sum", "none")
    ),
    *(
        row(
            f"nll_loss, weight, ignore {i}",
            lambda x, y, w, i=i: loss(
                "nll_loss", x.log_softmax(1), y.long() if lib(x) is torch else y, weight=w, ignore_index=i
            ),
            (5, 4),
            Ints(0, 4, 5),
            (4,),
            low=0.1,
            gradient=(0,),
        )
        for i in (0, 3)
    ),
    *(
        row(name, lambda *xs, n=name: getattr(functional(xs[0]), n)(*xs), *shapes, low=low)
        for name, shapes, low in (
            ("kl_div", [(3, 4), (3, 4)], 0.1),
            ("gaussian_nll_loss", [(3, 4), (3, 4), (3, 4)], 0.1),
            ("poisson_nll_loss", [(3, 4), (3, 4)], 0.1),
            ("soft_margin_loss", [(3, 4), (3, 4)], -2),
            ("margin_ranking_loss", [(4,), (4,), (4,)], -2),
            ("hinge_embedding_loss", [(4,), Data([1.0, -1.0, 1.0, -1.0])], -2),
            ("cosine_embedding_loss", [(2, 4), (2, 4), Data([1.0, -1.0])], -2),
            ("triplet_margin_loss", [(3, 4), (3, 4), (3, 4)], -2),
            ("cosine_similarity", [(3, 4), (3, 4)], -2),
            ("pairwise_distance", [(3, 4), (3, 4)], -2),
            ("pdist", [(4, 3)], -2),
            ("multilabel_soft_margin_loss", [(3, 4), Data([[1.0, 0, 1, 0]] * 3)], -2),
        )
    ),
    row(
        "hinge_embedding_loss, targets that are neither",
        lambda x, y: functional(x).hinge_embedding_loss(x, y, reduction="none"),
        (4,),
        Data([0.0, -1.0, 0.5, 1.0]),
        gradient=(0,),
    ),
    *(
        row(f"{name} of 0-d", lambda x, y, n=name: getattr(functional(x), n)(x, y.long() if lib(x) is torch else y), (), Data(0))
        for name in ("multi_margin_loss", "multilabel_margin_loss")
    ),
    row(
        "multi_margin_loss",
        lambda x, y: functional(x).multi_margin_loss(x, y.long() if lib(x) is torch else y),
        (3, 4),
        Ints(0, 4, 3),
    ),
    row(
        "ctc_loss",
        lambda x, y: functional(x).ctc_loss(x.log_softmax(2), y.long() if lib(x) is torch else y, (6, 6), (2, 2)),
        (6, 2, 4),
        Ints(1, 4, 2, 2),
    ),
    *(
        row(
            f"ctc_loss of log_probs, {reduction}, zero_infinity {zero}",
            lambda x, y, r=reduction, z=zero: functional(x).ctc_loss(
                x, y.long() if lib(x) is torch else y, (7, 2, 5), (2, 2, 3), reduction=r, zero_infinity=z
            ),
            (7, 3, 4),
            Ints(1, 4, 3, 3),
            high=0,
        )
        for reduction in ("none", "mean", "sum")
        for zero in (True, False)
    ),
    *(
        row(
            f"embedding, {options}",
            lambda w, i, o=options: functional(w).embedding(i.long() if lib(w) is torch else i, w, **o),
            (5, 3),
            Ints(0, 5, 4, 3),
        )
        for options in ({"padding_idx": -2}, {"scale_grad_by_freq": True}, {"scale_grad_by_freq": True, "padding_idx": 1})
    ),
    *(
        row(
            f"embedding_bag, {options}",
            lambda w, i, at, o=options: functional(w).embedding_bag(
                *((i.long(), w, at.long()) if lib(w) is torch else (i, w, at)), **o
            ),
            (5, 3),
            Ints(0, 5, 9),
            Data([0, 2, 2, 6]),
        )
        for options in (
            {"mode": "sum", "padding_idx": -1},
            {"mode": "mean", "padding_idx": 2},
            {"mode": "max", "padding_idx": -3},
            {"mode": "sum", "scale_grad_by_freq": True},
            {"mode": "mean", "scale_grad_by_freq": True},
        )
    ),
    *(
        row(f"pad circular by {amounts}", lambda x, a=amounts: functional(x).pad(x, a, "circular"), (1, 2, 4, 5))
        for amounts in ((-1, 2, 0, 1), (3, -2, -2, 1), (-1, 1, -2, 1))
    ),
    *(
        row(
            f"grid_sample of three axes, bicubic, {padding}",
            lambda x, g, p=padding: functional(x).grid_sample(x, g, "bicubic", p, align_corners=True),
            (1, 2, 4, 3, 5),
            (1, 2, 2, 2, 3),
            low=-1.2,
            high=1.2,
        )
        for padding in ("zeros", "border", "reflection")
    ),
    row("upsample_nearest", lambda x: functional(x).upsample_nearest(x, scale_factor=2), (1, 2, 3, 4)),
    row("upsample_bilinear", lambda x: functional(x).upsample_bilinear(x, (5, 7)), (1, 2, 3, 4)),
    row("batch_norm of nothing", lambda x, m: functional(x).batch_norm(x, m, m, training=True), (0,), (0,), gradient=False),
    error(
        "cross_entropy: unknown reduction",
        ValueError,
        "reduction",
        lambda x, y: x.cross_entropy(y, reduction="typo"),
        (3, 4),
        (3, 4),
        theirs=lambda x, y: F.cross_entropy(x, y, reduction="typo"),
    ),
    error(
        "cross_entropy: shapes",
        RuntimeErrors,
        "cross_entropy",
        lambda x, y: x.cross_entropy(y),
        (3, 4),
        (3, 5),
        theirs=F.cross_entropy,
    ),
    error(
        "mse_loss: unknown reduction",
        ValueError,
        "reduction",
        lambda x, y: x.mse_loss(y, reduction="typo"),
        (3, 4),
        (3, 4),
        theirs=lambda x, y: F.mse_loss(x, y, reduction="typo"),
    ),
]
