"""Functions of functions, as torch.func: derivatives of a function, and functions of one example made functions of many.

    per_example = vmap(grad(loss), in_dims=(None, 0))(weights, examples)

They nest in any order. Functions get and give tensors, alone or in nested tuples, lists and dicts, and are called once,
with tensors that stand for the arguments: a function that is mapped can't read data, one that is differentiated can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Optional, Union

import _tensord
from _tensord import Tensor

from tensord.creation import eye, zeros
from tensord.errors import InvalidArgumentError
from tensord.structure import Leaf, flatten, unflatten

Argnums = Union[int, tuple[int, ...]]
Dims = Any  # an int, None, or nested structures of them


@contextmanager
def _with_gradients() -> Iterator[None]:
    before = _tensord._set_grad_enabled(True)
    try:
        yield
    finally:
        _tensord._set_grad_enabled(before)


# ---- structures of tensors


def _parts(name: str, value: Any) -> tuple[Any, list[Tensor]]:
    """The structure, and its tensors. TypeError if there is anything else in it."""
    tensors: list[Tensor] = []
    structure = flatten(value, tensors, arrays=False)
    _only_tensors(name, structure)
    return structure, tensors


def _only_tensors(name: str, structure: Any) -> None:
    if isinstance(structure, Mapping):
        structure = tuple(structure.values())
    if isinstance(structure, (tuple, list)):
        for item in structure:
            _only_tensors(name, item)
    elif not isinstance(structure, Leaf):
        raise TypeError(f"{name}: the function returns tensors, or tuples, lists and dicts of them; "
                        f"got a {type(structure).__name__}")


def _spread(name: str, dims: Dims, value: Any) -> list[tuple[Any, Any]]:
    """Each leaf of the value with the dim that stands for it or for what it is in; numbers and such are leaves, too."""
    if isinstance(dims, (tuple, list)):
        if not isinstance(value, (tuple, list)) or len(value) != len(dims):
            raise InvalidArgumentError(f"{name} {dims!r} does not have the structure of what it is for")
        return [pair for dim, item in zip(dims, value) for pair in _spread(name, dim, item)]
    if isinstance(dims, Mapping):
        if not isinstance(value, Mapping) or list(value) != list(dims) and set(value) != set(dims):
            raise InvalidArgumentError(f"{name} {dims!r} does not have the structure of what it is for")
        return [pair for key, item in value.items() for pair in _spread(name, dims[key], item)]
    if isinstance(value, (tuple, list)):
        return [pair for item in value for pair in _spread(name, dims, item)]
    if isinstance(value, Mapping):
        return [pair for item in value.values() for pair in _spread(name, dims, item)]
    return [(value, dims)]


def _axis(name: str, dim: int, rank: int) -> int:
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise InvalidArgumentError(f"{name} is an int or None for each tensor, not {dim!r}")
    if not -rank <= dim < rank:
        raise InvalidArgumentError(f"{name} is {dim}, and the tensor has {rank} axes")
    return dim % rank


# ---- vmap


def vmap(func: Callable[..., Any], in_dims: Dims = 0, out_dims: Dims = 0, randomness: str = "error", *,
         chunk_size: Optional[int] = None) -> Callable[..., Any]:
    """`func`, which is written for one example, for all along an axis of its arguments at once.

    in_dims says, for all arguments or for each (and the parts of each), along which axis, or None for what is the same
    for all; arguments by keyword are mapped along axis 0. out_dims is where the axis is in the results; None for one that
    is the same for all. randomness: 'error', or 'different' or 'same' random numbers for each example. chunk_size: so many
    at once, to save memory.

    The function is called once, and each operation in it becomes one on all examples: it can't read data, nor decide by
    it. ValueError if sizes or structures do not fit.
    """
    if randomness not in ("error", "different", "same"):
        raise InvalidArgumentError(f"vmap: randomness is 'error', 'different' or 'same', not {randomness!r}")
    if chunk_size is not None and chunk_size < 1:
        raise InvalidArgumentError(f"vmap: chunk_size is {chunk_size}, it must be at least 1")

    def mapped(*args: Any, **kwargs: Any) -> Any:
        tensors: list[Tensor] = []
        structure = flatten((args, kwargs), tensors)
        dims = _in_dims(in_dims, args, kwargs)
        batches = [None if dim is None else tensor.movedim(dim, 0) for tensor, dim in zip(tensors, dims)]
        sizes = {batch.shape[0] for batch in batches if batch is not None}
        if not sizes:
            raise InvalidArgumentError("vmap: in_dims maps no tensor among the arguments")
        if len(sizes) > 1:
            raise InvalidArgumentError(f"vmap: the mapped axes differ in size: {sorted(sizes)}")
        size = sizes.pop()
        if not isinstance(size, int):
            raise InvalidArgumentError(f"vmap: the size of the mapped axis is {size}, it must be a number")
        if size == 0:  # an example of zeros tells the shapes
            some = [batch if batch is None else zeros(1, *batch.shape[1:], dtype=batch.dtype) for batch in batches]
            return _placed_out(*_map(func, structure, tensors, some, 1, randomness), out_dims, True)
        step = size if chunk_size is None else chunk_size
        chunks = []
        for begin in range(0, size, step):
            some = [batch if batch is None or step >= size else batch[begin:begin + step] for batch in batches]
            chunks.append(_map(func, structure, tensors, some, min(step, size - begin), randomness))
        shape, _ = chunks[0]
        joined = [group[0] if len(group) == 1 else Tensor.cat(list(group)) for group in zip(*(each for _, each in chunks))]
        return _placed_out(shape, joined, out_dims)

    return mapped


def _in_dims(in_dims: Dims, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Optional[int]]:
    """By tensor."""
    if isinstance(in_dims, list):
        in_dims = tuple(in_dims)
    if isinstance(in_dims, tuple) and len(in_dims) != len(args):
        raise InvalidArgumentError(f"vmap: {len(in_dims)} in_dims for {len(args)} arguments")
    dims: list[Optional[int]] = []
    for value, dim in [*_spread("vmap: in_dims", in_dims, args), *_spread("vmap: in_dims", 0, kwargs)]:
        if isinstance(value, Tensor) or hasattr(value, "__array_interface__"):
            dims.append(None if dim is None else _axis("vmap: in_dims", dim, value.ndim))
        elif dim is not None and not isinstance(in_dims, int):
            raise InvalidArgumentError(f"vmap: in_dims is {dim} for a {type(value).__name__}; only tensors are mapped")
    return dims


def _map(func: Callable[..., Any], structure: Any, tensors: list[Tensor], batches: list[Optional[Tensor]], size: int,
         randomness: str) -> tuple[tuple[Any, list[bool]], list[Tensor]]:
    """The structure of the results and which depend on an example, and the results with the batch in front."""
    mapped = [(i, batch) for i, batch in enumerate(batches) if batch is not None]
    rows = [batch for _, batch in mapped]
    drawn: list[tuple[Tensor, Tensor]] = []
    _tensord._begin_mapped(rows[0], randomness)
    try:
        examples = [_tensord._example(batch) for batch in rows]
        given = list(tensors)
        for (i, _), example in zip(mapped, examples):
            given[i] = +example  # a tensor of its own, which the function may write to
        args, kwargs = unflatten(structure, given)
        shape, results = _parts("vmap", func(*args, **kwargs))
    finally:
        drawn = _tensord._end_mapped(rows[0], size)
    examples, rows = [*examples, *(one for one, _ in drawn)], [*rows, *(all for _, all in drawn)]
    depend = [_tensord._depends_on(result, examples) for result in results]
    written = [(batch, given[i]) for (i, batch), example in zip(mapped, examples)
               if _tensord._version(given[i]) != _tensord._version(example)]  # fmt: skip
    made = _tensord._batched([*results, *(new for _, new in written)], examples, rows, size)
    for (batch, _), new in zip(written, made[len(results):]):
        batch[...] = new
    return (shape, depend), made[:len(results)]


def _placed_out(shape: tuple[Any, list[bool]], results: list[Tensor], out_dims: Dims, empty: bool = False) -> Any:
    structure, depend = shape
    pairs = _spread("vmap: out_dims", out_dims, unflatten(structure, results))
    placed = []
    for (result, dim), depends in zip(pairs, depend):
        if dim is None:
            if depends:
                raise InvalidArgumentError("vmap: out_dims is None for a result that depends on the example")
            placed.append(result[0])
        else:
            placed.append((result[:0] if empty else result).movedim(0, _axis("vmap: out_dims", dim, result.ndim)))
    return unflatten(structure, placed)


# ---- derivatives


def _pulled_back(outs: Sequence[Tensor], fresh: Sequence[Tensor], seeds: Sequence[Tensor]) -> list[Tensor]:
    """The sum over the results of the gradients by the arguments."""
    total: Optional[list[Tensor]] = None
    for out, seed in zip(outs, seeds):
        if not out.dtype.is_floating_point:
            continue
        parts = out.gradient(*fresh, gradient=seed)
        total = parts if total is None else [a + b for a, b in zip(total, parts)]
    return [x * 0 for x in fresh] if total is None else total


def _pushed_forward(outs: Sequence[Tensor], fresh: Sequence[Tensor], tangents: Sequence[Tensor]) -> list[Tensor]:
    """The product of the Jacobian with the tangents: one for each result."""
    # The gradient is linear in its weights: differentiating by them turns the product around.
    zero = [zeros(*out.shape, dtype=out.dtype) for out in outs]
    floats = [i for i, out in enumerate(outs) if out.dtype.is_floating_point]
    weights = {i: _tensord._independent(zero[i]) for i in floats}
    made = list(zero)
    if floats:
        grads = _pulled_back(outs, fresh, [weights.get(i, zero[i]) for i in range(len(zero))])
        product = sum(((grad * tangent.cast(grad.dtype)).sum().cast("float64" if grad.dtype.itemsize == 8 else "float32")
                       for grad, tangent in zip(grads, tangents)), Tensor(0.0))
        turned = product.gradient(*weights.values())
        for i, tensor in zip(floats, _tensord._substituted(turned, list(weights.values()), [zero[i] for i in floats])):
            made[i] = tensor
    return made


class _Differentiated:
    """A call of a function on arguments by which derivatives can be taken and that are made of nothing else."""

    def __init__(self, name: str, func: Callable[..., Any], args: Sequence[Any], argnums: Optional[Argnums], has_aux: bool,
                 kwargs: Mapping[str, Any] = {}) -> None:
        self.name = name
        chosen = range(len(args)) if argnums is None else (argnums,) if isinstance(argnums, int) else argnums
        changed = list(args)
        self.originals: list[Tensor] = []
        self.fresh: list[Tensor] = []
        self.structures: list[Any] = []
        self.single = isinstance(argnums, int)
        for i in chosen:
            if not -len(args) <= i < len(args):
                raise InvalidArgumentError(f"{name}: argnums is {argnums}, and there are {len(args)} arguments")
            tensors: list[Tensor] = []
            structure = flatten(args[i], tensors)
            for tensor in tensors:
                if not tensor.dtype.is_floating_point:
                    raise InvalidArgumentError(f"{name}: argument {i} is {tensor.dtype}; only floats have derivatives")
            fresh = [_tensord._independent(tensor) for tensor in tensors]
            changed[i] = unflatten(structure, fresh)
            self.structures.append((structure, len(tensors)))
            self.originals += tensors
            self.fresh += fresh
        if not self.fresh:
            raise InvalidArgumentError(f"{name}: there is no tensor among the arguments")
        result = func(*changed, **kwargs)
        aux: Any = None
        if has_aux:
            if not isinstance(result, tuple) or len(result) != 2:
                raise TypeError(f"{name}: with has_aux the function returns two values: its result, and what else")
            result, aux = result
        self.result, self.outs = _parts(name, result)
        self.aux_tensors: list[Tensor] = []
        self.aux = flatten(aux, self.aux_tensors, arrays=False)

    def back(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """What they are in terms of the arguments themselves."""
        return _tensord._substituted(list(tensors), self.fresh, self.originals)

    def output(self) -> Any:
        return unflatten(self.result, self.back(self.outs))

    def auxiliary(self) -> Any:
        return unflatten(self.aux, self.back(self.aux_tensors))

    def as_arguments(self, tensors: Sequence[Tensor]) -> Any:
        """One for each tensor among the arguments, in their structure."""
        made, at = [], 0
        for structure, count in self.structures:
            made.append(unflatten(structure, list(tensors[at:at + count])))
            at += count
        return made[0] if self.single else tuple(made)

    def pullback(self, seeds: Sequence[Tensor]) -> list[Tensor]:
        return _pulled_back(self.outs, self.fresh, seeds)

    def pushforward(self, tangents: Sequence[Tensor]) -> list[Tensor]:
        return _pushed_forward(self.outs, self.fresh, tangents)

    def scalar(self) -> Tensor:
        if len(self.outs) != 1 or not isinstance(unflatten(self.result, self.outs), Tensor):
            raise InvalidArgumentError(f"{self.name}: the function returns one tensor of one element")
        if self.outs[0].numel() != 1:
            raise InvalidArgumentError(f"{self.name}: the function returns one element, not a tensor of shape "
                                       f"{list(self.outs[0].shape)}")
        return self.outs[0]


def grad_and_value(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of `func`, which returns one element, and its value; with `has_aux` `func`
    returns a pair, and this one (gradient, (value, the second of the pair)). argnums: by which arguments.
    """
    def call(*args: Any, **kwargs: Any) -> Any:
        with _with_gradients():
            made = _Differentiated("grad", func, args, argnums, has_aux, kwargs)
            grads = made.back(made.scalar().gradient(*made.fresh))
            value = made.output()
            return made.as_arguments(grads), (value, made.auxiliary()) if has_aux else value

    return call


def grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of `func`, which returns one element; with `has_aux` `func` returns a pair,
    and this one the gradient and the second of the pair. argnums: by which arguments.
    """
    def call(*args: Any, **kwargs: Any) -> Any:
        grads, value = grad_and_value(func, argnums, has_aux)(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return call


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """func(*primals), and a function from what has the structure of that to its product with the Jacobian: a tuple of a
    value for each of the primals.
    """
    with _with_gradients():
        made = _Differentiated("vjp", func, primals, None, has_aux)

    def pull(*cotangents: Any, retain_graph: bool = True, create_graph: bool = True) -> Any:
        _, seeds = _parts("vjp", cotangents[0] if len(cotangents) == 1 else cotangents)
        _fits("vjp", "cotangents", seeds, made.outs)
        with _with_gradients():
            return made.as_arguments(made.back(made.pullback(seeds)))

    return (made.output(), pull, made.auxiliary()) if has_aux else (made.output(), pull)


def jvp(func: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...], *, strict: bool = False,
        has_aux: bool = False) -> Any:
    """func(*primals), and the product of the Jacobian with the tangents, which have the structure of the primals.
    strict: ValueError if a result does not depend on the primals.
    """
    for name, value in ("primals", primals), ("tangents", tangents):
        if not isinstance(value, tuple) or not value:
            raise InvalidArgumentError(f"jvp: {name} are a tuple of tensors, not a {type(value).__name__}")
    with _with_gradients():
        made = _Differentiated("jvp", func, primals, None, has_aux)
        directions = _parts("jvp", tangents)[1]
        _fits("jvp", "tangents", directions, made.fresh)
        _influence("jvp", strict, made)
        product = unflatten(made.result, made.back(made.pushforward(directions)))
    return (made.output(), product, made.auxiliary()) if has_aux else (made.output(), product)


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """func(*primals), and a function from tangents to the product of the Jacobian with them."""
    with _with_gradients():
        made = _Differentiated("linearize", func, primals, None, False)

    def push(*tangents: Any) -> Any:
        directions = _parts("linearize", tangents)[1]
        _fits("linearize", "tangents", directions, made.fresh)
        with _with_gradients():
            return unflatten(made.result, made.back(made.pushforward(directions)))

    return made.output(), push


def _fits(name: str, what: str, tensors: Sequence[Tensor], others: Sequence[Tensor]) -> None:
    shapes, wanted = [list(x.shape) for x in tensors], [list(x.shape) for x in others]
    if shapes != wanted:
        raise InvalidArgumentError(f"{name}: the {what} have shapes {shapes}, they must have {wanted}")


def _influence(name: str, strict: bool, made: _Differentiated) -> None:
    if not strict:
        return
    for i, out in enumerate(made.outs):
        if not _tensord._depends_on(out, made.fresh):
            raise InvalidArgumentError(f"{name}: result {i} does not depend on what it is differentiated by (strict)")
    for i, x in enumerate(made.fresh):
        if not any(_tensord._depends_on(out, [x]) for out in made.outs):
            raise InvalidArgumentError(f"{name}: input {i} has no influence on the results (strict)")


def _unit_rows(like: Tensor) -> Tensor:
    """[n, like.shape]: a row for each of its n elements, with a 1 there."""
    n = like.numel()
    return eye(n, dtype=like.dtype).reshape(n, *like.shape)


def _rows_of(made: list[Tensor], example: Tensor, chunk_size: Optional[int]) -> list[Tensor]:
    """What is linear in `example`, for each unit of it: a new axis in front."""
    units = _unit_rows(example)
    step = units.shape[0] if chunk_size is None else chunk_size
    chunks = [_tensord._batched(made, [example], [units[begin:begin + step]], min(step, units.shape[0] - begin))
              for begin in range(0, units.shape[0], step)]  # fmt: skip
    if not chunks:
        return [zeros(0, *x.shape, dtype=x.dtype) for x in made]
    return [group[0] if len(group) == 1 else Tensor.cat(list(group)) for group in zip(*chunks)]


def _example_like(x: Tensor) -> Tensor:
    return _tensord._example(x.unsqueeze(0))


def _reverse_rows(made: _Differentiated, chunk_size: Optional[int]) -> list[list[Tensor]]:
    """By result and tensor among the arguments: the derivatives, of shape result.shape + argument.shape."""
    blocks = []
    for out in made.outs:
        if not out.dtype.is_floating_point:
            raise InvalidArgumentError(f"{made.name}: a result is {out.dtype}; only floats have derivatives")
        seed = _example_like(out)
        rows = _rows_of(out.gradient(*made.fresh, gradient=seed), seed, chunk_size)
        blocks.append(made.back([row.reshape(*out.shape, *x.shape) for row, x in zip(rows, made.fresh)]))
    return blocks


def _forward_rows(made: _Differentiated, randomness: str = "error") -> list[list[Tensor]]:
    columns = []
    for k, x in enumerate(made.fresh):
        tangent = _example_like(x)
        directions = [tangent if i == k else other * 0 for i, other in enumerate(made.fresh)]
        rows = _rows_of(made.pushforward(directions), tangent, None)
        columns.append(made.back([row.movedim(0, -1).reshape(*out.shape, *x.shape) for row, out in zip(rows, made.outs)]))
    return [[column[i] for column in columns] for i in range(len(made.outs))]


def _jacobian(name: str, func: Callable[..., Any], argnums: Argnums, has_aux: bool,
              rows: Callable[[_Differentiated], list[list[Tensor]]]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with _with_gradients():
            made = _Differentiated(name, func, args, argnums, has_aux, kwargs)
            objects: list[Any] = [made.as_arguments(block) for block in rows(made)]
            blocks = unflatten(made.result, objects)
        return (blocks, made.auxiliary()) if has_aux else blocks

    return call


def jacrev(func: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False,
           chunk_size: Optional[int] = None) -> Callable[..., Any]:
    """A function that returns the Jacobian of `func`, by rows: for few results of many inputs. Of each result by each
    argument in `argnums` there is a tensor of shape result.shape + argument.shape, in the structure of the results.
    chunk_size: so many rows at once, to save memory.
    """
    return _jacobian("jacrev", func, argnums, has_aux, lambda made: _reverse_rows(made, chunk_size))


def jacfwd(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *,
           randomness: str = "error") -> Callable[..., Any]:
    """The same as jacrev, by columns: for many results of few inputs. randomness changes nothing: the function is called
    once.
    """
    return _jacobian("jacfwd", func, argnums, has_aux, _forward_rows)


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """A function that returns the second derivatives of `func`: jacfwd of jacrev."""
    return jacfwd(jacrev(func, argnums), argnums)


# ---- modules as functions


def functional_call(module: Any, parameter_and_buffer_dicts: Union[Mapping[str, Tensor], Sequence[Mapping[str, Tensor]]],
                    args: Any = None, kwargs: Optional[Mapping[str, Any]] = None, *, tie_weights: bool = True,
                    strict: bool = False) -> Any:
    """module(*args, **kwargs) with other tensors for its parameters and buffers, by path; those that are not named are its
    own. `args` is a tuple, or the one argument. tie_weights: what stands at several paths is exchanged at all of them.
    strict: all must be named, and no others. What it writes to buffers goes to the tensors given.
    """
    dicts = [parameter_and_buffer_dicts] if isinstance(parameter_and_buffer_dicts, Mapping) else parameter_and_buffer_dicts
    given: dict[str, Tensor] = {}
    for each in dicts:
        for name, tensor in each.items():
            if name in given:
                raise InvalidArgumentError(f"functional_call: '{name}' is given twice")
            given[name] = tensor
    own = {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers(remove_duplicate=False))}
    unknown = [name for name in given if name not in own]
    missing = [name for name in own if name not in given]
    if unknown or (strict and missing):
        raise InvalidArgumentError("functional_call: " + "; ".join(
            [f"the module has no {unknown}"] * bool(unknown) + [f"{missing} are missing"] * (strict and bool(missing))))
    exchanged = dict(given)
    if tie_weights:
        tied = {hash(own[name]): tensor for name, tensor in given.items()}
        exchanged = {name: given.get(name, tied[hash(tensor)]) for name, tensor in own.items() if hash(tensor) in tied}
    places = []
    try:
        for name, tensor in exchanged.items():
            path, _, last = name.rpartition(".")
            part = module.get_submodule(path)
            places.append((part, last, vars(part)[last]))
            vars(part)[last] = tensor
        positional = () if args is None else args if isinstance(args, tuple) else (args,)
        return module(*positional, **(kwargs or {}))
    finally:
        for part, last, before in reversed(places):
            vars(part)[last] = before


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and the buffers of modules of one kind, each stacked along a new first axis: what vmap of
    functional_call takes.
    """
    if not models:
        raise InvalidArgumentError("stack_module_state: there are no modules")
    if len({type(model) for model in models}) > 1:
        raise InvalidArgumentError("stack_module_state: the modules are of different classes")
    stacked = []
    for kind in "named_parameters", "named_buffers":
        names = [name for name, _ in getattr(models[0], kind)()]
        tensors = [dict(getattr(model, kind)()) for model in models]
        stacked.append({name: Tensor.stack([each[name] for each in tensors]).detach() for name in names})
        if kind == "named_parameters":
            for name, tensor in stacked[0].items():
                stacked[0][name] = tensor.clone().requires_grad_(tensors[0][name].requires_grad)
    return stacked[0], stacked[1]


__all__ = [
    "functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "stack_module_state",
    "vjp", "vmap",
]  # fmt: skip
