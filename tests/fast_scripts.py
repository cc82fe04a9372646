"""TVM's parser of scripts with less work for the same result; tests of mutants spend half in it.

- The tree of a script is made twice, the second time for the place of an error. It is made once.
- Each part of an expression is compiled and evaluated. Names, constants, attributes and subscripts
  are looked up instead, and all calls share the code that makes them. As before, the names are the
  globals of the frame that calls: inline functions find their parser there.
- Whether a node of the tree is a constant is asked by comparing it with three others.
- A decorator lists the lines of all frames of the stack, and reads one of them. The others are left
  out.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from tvm.relax.script.parser import entry as relax_entry
from tvm.script.parser.core import doc, evaluator
from tvm.script.parser.core.diagnostics import Source
from tvm.script.parser.ir import entry as ir_entry
from tvm.tirx.script.parser import entry as tirx_entry

from opinfo.byoc.backends.nvidia.tensor_intrinsics import with_short_stack

#: Makes a call.
_CALL = compile("function(*args, **words)", "<ast>", "eval")
_CONSTANTS = (int, float, str, bool, bytes, complex)


def install() -> None:
    """Let TVM's parser do less in this process."""
    Source.as_ast = tree_once(Source.as_ast)
    evaluator._eval_expr = evaluated(evaluator._eval_expr)
    doc._is_atomic_type = is_constant
    for entry in (relax_entry, ir_entry, tirx_entry):
        entry.inspect = with_short_stack(entry.inspect)


def tree_once(make: Callable[[Source], Any]) -> Callable[[Source], Any]:
    def tree(source: Source) -> Any:
        if "tree" not in vars(source):
            source.tree = make(source)
        return source.tree

    return tree


def is_constant(node: Any) -> bool:
    return node is None or node is ... or isinstance(node, _CONSTANTS)


def evaluated(
    compiled: Callable[[Any, dict[str, Any]], Any],
) -> Callable[[Any, dict[str, Any]], Any]:
    """Return the evaluation of an expression in the values of names.

    Args:
        compiled: The evaluation of all other expressions.
    """

    def value(node: Any, names: dict[str, Any]) -> Any:
        if isinstance(node, doc.Name):
            return _named(node.id, names)
        if isinstance(node, doc.Constant):
            return node.value
        if isinstance(node, doc.Attribute):
            return getattr(value(node.value, names), node.attr)
        if isinstance(node, doc.Subscript) and isinstance(node.slice, doc.Name):
            return value(node.value, names)[_named(node.slice.id, names)]
        if isinstance(node, doc.Call) and _is_plain(node):
            parts = {"function": value(node.func, names),
                     "args": [value(a, names) for a in node.args],
                     "words": {k.arg: value(k.value, names) for k in node.keywords}}  # fmt: skip
            return eval(_CALL, names, parts)
        return compiled(node, names)

    return value


def _named(name: str, names: dict[str, Any]) -> Any:
    if name in names:
        return names[name]
    try:
        return getattr(builtins, name)
    except AttributeError:
        raise NameError(f"name {name!r} is not defined") from None


def _is_plain(call: Any) -> bool:
    """Whether no list or dictionary of a call is spread, and no keyword is repeated."""
    words = [k.arg for k in call.keywords]
    spread = any(isinstance(a, doc.Starred) for a in call.args) or None in words
    return not spread and len({*words}) == len(words)
