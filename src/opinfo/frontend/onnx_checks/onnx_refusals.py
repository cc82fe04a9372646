"""Why operators of ONNX have no lowering, and what to do instead."""

from __future__ import annotations

_RANDOM = "its result is random, so no compiled result can be checked; give the numbers as an input"
_TRAINING = "it is a step of training; export the model for inference"
_STRINGS = "it works on strings, which TVM has no type for; encode them before the call"
_OPERATORS = {
    _RANDOM: "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike",
    _TRAINING: "Adagrad Adam Gradient Momentum",
    _STRINGS: "RegexFullMatch StringConcat StringNormalizer StringSplit",
    "it decodes a file; give the pixels as an input": "ImageDecoder",
}
#: Operators of ONNX Runtime's domain.
_CONTRIBUTED = {
    _STRINGS: "Tokenizer",
    "it runs a decoder until the sequences end; compile the decoder, and generate outside of it":
        "BeamSearch GreedySearch Sampling WhisperBeamSearch",
    "it has a program of another runtime; export the model without it": "EPContext Snpe",
    "its result has another size by ONNX Runtime's kernel than by its schema; use DFT of ONNX":
        "Irfft",
}  # fmt: skip
#: The reason for each operator, by name.
REASONS = {op: reason for reason, ops in _OPERATORS.items() for op in ops.split()}
_RUNTIME_REASONS = {op: reason for reason, ops in _CONTRIBUTED.items() for op in ops.split()}


def why_unsupported(op: str, domain: str) -> str:
    """Return why an operator has no lowering to Relax, and what to do.

    Args:
        op: The operator.
        domain: Its domain, empty for ONNX's own.
    """
    if domain in ("", "ai.onnx.preview.training") and op in REASONS:
        return f"the operator {op} has no lowering to Relax: {REASONS[op]}"
    where = f" of domain '{domain}'" if domain else ""
    if domain == "com.microsoft" and op in _RUNTIME_REASONS:
        return f"the operator {op}{where} has no lowering to Relax: {_RUNTIME_REASONS[op]}"
    return (f"the operator {op}{where} has no lowering to Relax; compute it by other operators, or "
            "outside of the model")  # fmt: skip
