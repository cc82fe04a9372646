"""Small language models at the phases of MLC-LLM's pipeline, made in a process of their own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import tvm

from .mlc_pipeline import PHASES, PLAIN, phases

ARCHITECTURES = ("llama", "qwen2", "gemma2", "phi3", "mixtral")
QUANTIZATIONS = ("q0f16", "q4f16_1", "q3f16_1", "q4f16_0")

_SIZES = {
    "hidden_size": 256, "intermediate_size": 704, "num_attention_heads": 8,
    "num_key_value_heads": 2, "num_hidden_layers": 2, "rms_norm_eps": 1e-5, "vocab_size": 1000,
    "context_window_size": 512, "prefill_chunk_size": 128, "max_batch_size": 4, "head_dim": 32,
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {**_SIZES, "position_embedding_base": 10000},
    "qwen2": {**_SIZES, "hidden_act": "silu", "rope_theta": 10000},
    "gemma2": {
        **_SIZES, "hidden_activation": "gelu_pytorch_tanh", "attention_bias": False,
        "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
        "query_pre_attn_scalar": 32, "sliding_window": 64,
    },
    "phi3": {**_SIZES, "rope_theta": 10000, "model_type": "phi3", "max_position_embeddings": 512},
    "mixtral": {
        **_SIZES, "position_embedding_base": 10000, "num_local_experts": 4,
        "num_experts_per_tok": 2,
    },
    "mixtral-wide": {
        **_SIZES, "hidden_size": 1024, "intermediate_size": 3584, "num_attention_heads": 16,
        "num_key_value_heads": 4, "head_dim": 64, "vocab_size": 8000,
        "position_embedding_base": 10000, "num_local_experts": 8, "num_experts_per_tok": 2,
    },
}  # fmt: skip


def make(
    architecture: str, quantization: str, folder: Path, last: str = PHASES[-1]
) -> dict[str, Path]:
    """Return the file of a module for each phase, as JSON; files in the folder are kept.

    Args:
        architecture: One of `CONFIGS`: an architecture, or one with other sizes.
        quantization: One of `QUANTIZATIONS`.
        folder: Where the files are.
        last: The last phase that is needed.

    Raises:
        RuntimeError: MLC-LLM's pipeline fails.
    """
    wanted = (PLAIN, *PHASES[: PHASES.index(last) + 1])
    files = {p: folder / f"{architecture}.{quantization}.{p}.json" for p in wanted}
    if not all(f.exists() for f in files.values()):
        command = [sys.executable, "-m", __name__, architecture, quantization, str(folder), last]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode:
            raise RuntimeError(f"{architecture} {quantization}: {run.stderr[-800:]}")
    return files


def load(path: Path) -> Any:
    """Return a module."""
    return tvm.ir.load_json(path.read_text(encoding="utf-8"))


def _main() -> None:
    """Write the modules of one model to a folder."""
    architecture, quantization, folder, last = sys.argv[1:]
    from .checkout import import_mlc

    with tempfile.TemporaryDirectory() as scratch:
        import_mlc(Path(scratch))
        name = architecture.partition("-")[0]
        for phase, mod in phases(CONFIGS[architecture], name, quantization):
            path = Path(folder) / f"{architecture}.{quantization}.{phase}.json"
            path.write_text(tvm.ir.save_json(mod), encoding="utf-8")
            if phase == last:
                return


if __name__ == "__main__":
    _main()
