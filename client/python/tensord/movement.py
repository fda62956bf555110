"""Movement as functions, where PyTorch has both forms."""

from __future__ import annotations

from _tensord import Tensor

adjoint = Tensor.adjoint
as_strided = Tensor.as_strided
atleast_1d = Tensor.atleast_1d
atleast_2d = Tensor.atleast_2d
atleast_3d = Tensor.atleast_3d
broadcast_tensors = Tensor.broadcast_tensors
broadcast_to = Tensor.broadcast_to
channel_shuffle = Tensor.channel_shuffle
column_stack = Tensor.column_stack
concat = Tensor.concat
concatenate = Tensor.concatenate
diag = Tensor.diag
diag_embed = Tensor.diag_embed
diagflat = Tensor.diagflat
diagonal = Tensor.diagonal
diagonal_scatter = Tensor.diagonal_scatter
dsplit = Tensor.dsplit
dstack = Tensor.dstack
fliplr = Tensor.fliplr
flipud = Tensor.flipud
hsplit = Tensor.hsplit
hstack = Tensor.hstack
index_select = Tensor.index_select
meshgrid = Tensor.meshgrid
moveaxis = Tensor.moveaxis
movedim = Tensor.movedim
narrow = Tensor.narrow
pad = Tensor.pad
pixel_shuffle = Tensor.pixel_shuffle
pixel_unshuffle = Tensor.pixel_unshuffle
ravel = Tensor.ravel
repeat_interleave = Tensor.repeat_interleave
roll = Tensor.roll
rot90 = Tensor.rot90
row_stack = Tensor.row_stack
select = Tensor.select
select_scatter = Tensor.select_scatter
slice_scatter = Tensor.slice_scatter
swapaxes = Tensor.swapaxes
swapdims = Tensor.swapdims
t = Tensor.t
take = Tensor.take
take_along_dim = Tensor.take_along_dim
tensor_split = Tensor.tensor_split
tile = Tensor.tile
unbind = Tensor.unbind
unflatten = Tensor.unflatten
vsplit = Tensor.vsplit
vstack = Tensor.vstack
