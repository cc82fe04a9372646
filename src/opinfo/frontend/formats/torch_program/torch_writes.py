"""Programs of torch that write to their inputs or buffers, as functions that return the new values.

    Before: def f(x, cache): cache.index_copy_(2, p, x); return g(cache)
    After:  def f(x, cache): new = index_put(cache, p, x); return g(new), new

`torch.export` has made the program functional, and names the value of each write.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...checks.node_description import describe


def return_writes(program: Any) -> list[str]:
    """Make what a decomposed program writes its last results; return notes on them.

    A buffer that it writes becomes an input after the others, unless its value is never read.
    Results are in the order of the inputs.

    Args:
        program: A program of `run_decompositions`, which is changed.

    Raises:
        NotImplementedError: A buffer that it writes does not start with zeros, so that its value
            would be forgotten; or it writes a parameter.
    """
    from torch.export.graph_signature import InputKind, OutputKind

    signature = program.graph_signature
    kinds = (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION)
    known = (*kinds, OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
    for spec in signature.output_specs:
        if spec.kind not in known:
            place = signature.output_specs.index(spec)
            raise NotImplementedError(f"{describe(_result(program, place))} has a result of the "
                                      f"kind {spec.kind.name}, expected a tensor")  # fmt: skip
    written = {s.target: k for k, s in enumerate(signature.output_specs) if s.kind in kinds}
    if not written:
        return []
    inputs = list(signature.input_specs)
    buffers = [s for s in inputs if s.kind is InputKind.BUFFER and s.target in written
               and not _is_overwritten(program, s.arg.name)]  # fmt: skip
    for spec in buffers:
        if bool(_buffer(program, spec.target).ne(0).any()):
            writer = _result(program, written[spec.target])
            raise NotImplementedError(
                f"{describe(writer)} writes to the buffer {spec.target} in place, which does not "
                "start with zeros; make it an input"
            )
    inputs = [s for s in inputs if s not in buffers]
    inputs += [replace(s, kind=InputKind.USER_INPUT, target=None) for s in buffers]
    names = {s.arg.name: s.target for s in buffers}
    order = [place for s in inputs if s.kind is InputKind.USER_INPUT
             and (place := written.get(names.get(s.arg.name, s.arg.name))) is not None]  # fmt: skip
    others = [k for k in range(len(signature.output_specs)) if k not in written.values()]
    places = [*others, *order]
    outputs = [replace(signature.output_specs[k], kind=OutputKind.USER_OUTPUT, target=None)
               if k in order else signature.output_specs[k] for k in places]  # fmt: skip
    signature.input_specs[:], signature.output_specs[:] = inputs, outputs
    (node,) = program.graph.find_nodes(op="output")
    node.args = (tuple(node.args[0][k] for k in places),)
    return _notes(names, [s.arg.name for s in inputs
                          if names.get(s.arg.name, s.arg.name) in written])  # fmt: skip


def _result(program: Any, place: int) -> Any:
    (node,) = program.graph.find_nodes(op="output")
    return node.args[0][place]


def _is_overwritten(program: Any, name: str) -> bool:
    """Return whether a program writes an input before it reads it, so that no call needs its value.

    So are the frequencies of rotations that `transformers` chooses by the length.
    """
    (node,) = (n for n in program.graph.find_nodes(op="placeholder") if n.name == name)
    return all(
        getattr(user.target, "__name__", "") == "copy.default" and node not in user.args[1:]
        for user in node.users
    )


def _buffer(program: Any, name: str) -> Any:
    return dict(program.named_buffers())[name]


def _notes(buffers: dict[str, str], written: list[str]) -> list[str]:
    """What a caller has to know about inputs that the program writes."""
    notes = [f"the buffer {name} is the input {arg}, which starts with zeros"
             for arg, name in buffers.items()]  # fmt: skip
    if not written:
        return notes
    last = "the last result is the new value of the input"
    if len(written) > 1:
        last = f"the last {len(written)} results are the new values of the inputs"
    return [*notes, f"{last} {', '.join(written)}, which torch writes in place"]
