"""The commands of all rooms, and the page that lists them: docs/results/index.md."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.pages import PAGES, table

HEAD = """# Results

This page lists all benchmarks with their commands and latest results. Some results are figures;
others are pages that the command generates with `--page`. `--help` explains the options of each
command. `python -m benchmarks` lists the commands, and `python -m benchmarks --page` generates this
page. A figure such as 0.5x is a ratio of times; values below 1x are faster.
"""


@dataclass(frozen=True)
class Command:
    """A benchmark: when to repeat it, and its pages or its last result."""

    after: str
    page: str | None = None
    figures: str = ""
    more: tuple[str, ...] = ()

    @property
    def pages(self) -> tuple[str, ...]:
        return (self.page, *self.more) if self.page else ()


COMMANDS: Mapping[str, Mapping[str, Command]] = {
    "analysis": {
        "models": Command(
            "a recogniser or lifting",
            figures=("20 models: all 6,384 `call_tir` sites raised; outputs bit-equal"),
        ),
        "fused": Command(
            "chains of fused PrimFuncs",
            figures=("567 of 567 chains; 0 wrong; one of finer operators than were fused"),
        ),
        "coverage": Command("a recogniser; takes 90 minutes", "coverage.md"),
        "harvest": Command("a recogniser", "harvest.md"),
        "llm": Command("a recogniser or a pass on lowered modules", "llm.md"),
        "llm.mixtral": Command(
            "products with experts or packed weights in modules of MLC-LLM", "llm.md"
        ),
        "foreign": Command("lifting or a recogniser", "foreign.md"),
        "scheduled": Command(
            "lifting of scheduled loops",
            figures=(
                "1,528 schedules of 30 operators: 92 % recovered, 6 more over logical buffers"
            ),
        ),
        "relaid": Command("reading layouts back", "relaid.md"),
        "mutants": Command(
            "a recogniser or a proof",
            figures=(
                "2,265 mutants of 101 operators; 586 compute something else: 95 answered as what "
                "they compute, 491 refused, 0 wrong"
            ),
        ),
        "index_maps": Command(
            "index maps",
            figures=(
                "366 maps and 10,000 random bijections: 0 wrong, all inverted; median 1.9 ms "
                "(literal), 3.0 ms (symbolic)"
            ),
        ),
        "isl": Command("index maps", "isl.md"),
        "op_info": Command(
            "anything in the analysis",
            figures=(
                "first: ResNet-50 0.75x, BERT 0.97x the time of `LegalizeOps`; again: 0.5x, 0.5x; "
                "peak memory grows by less than 1 MiB"
            ),
        ),
        "growth": Command(
            "anything in the analysis",
            figures=(
                "4.3, 4.5, 4.2 ms a PrimFunc in modules of 100, 1,000, 5,000; 2 to 3 KiB kept each"
            ),
        ),
    },
    "layout": {
        "layouts": Command("the layout search", "layouts.md"),
        "layout_growth": Command("the layout search or the solver", "layout-growth.md"),
        "layout_speed": Command("rewriting or inlining", "layout-speed.md"),
        "layout_fusion": Command("rewriting or inlining", "layout-fusion.md"),
        "layout_graph": Command("planning in graph mode", "layout-graph.md"),
        "layout_fuzz": Command("anything in layout planning", "layout-fuzz.md"),
        "rewrites": Command("rewriting or its proof"),
    },
    "backends": {
        "byoc": Command("a backend or code generation", "speed.md"),
        "byoc_measure": Command("measured costs"),
        "int8": Command(
            "quantised operators",
            figures=(
                "one thread: MobileNetV2 0.59x, ResNet-18 0.41x the time of float32; 0.58x, 0.34x "
                "of ONNX Runtime's int8"
            ),
        ),
        "weight_only": Command(
            "products with weights of few bits",
            figures=(
                "a token of a 4-bit model of 502 million weights, one and two threads: 155 and "
                "146 % of a copy's bandwidth; 0.10x and 0.10x the time of float32 "
                "`torch.compile`, 0.20x and 0.35x of MatMulNBits, 0.49x and 0.74x of its fastest "
                "level; float32 Llama, Qwen and Gemma with two threads: steps 0.67x to 0.99x, "
                "prompts 0.88x to 1.03x of ONNX Runtime, at most 0.83x of `torch.compile`; with "
                "AVX2 (AMD Zen 3), one thread, products of 1, 16 and 128 rows: 0.26x, 0.66x and "
                "0.97x the time of MatMulNBits, 0.28x, 0.41x and 0.81x of `torch.compile`; a token "
                "83 % of a copy's bandwidth, 0.18x MatMulNBits, 0.76x its fastest level; float32 "
                "Llama, a step 0.77x to 0.84x, a prompt 0.97x to 1.01x of ONNX Runtime"
            ),
        ),
        "expert_layers": Command(
            "products with experts on CPUs",
            figures=(
                "one thread, 1 and 128 tokens: Mixtral 0.89x and 0.18x, Qwen3-MoE 0.63x and 0.46x "
                "the time of `torch.compile`; without the backend 5 and 50, 3 and 33 times as long"
            ),
        ),
        "paged_attention": Command(
            "kernels of paged caches",
            figures=("one thread, Llama's sizes: 0.04x the time of TVM's kernels"),
        ),
        "end_to_end": Command("a front end, compiling or export", "end-to-end.md"),
        "offload": Command("patterns or planning", "offload.md"),
        "dispatch": Command("the choice of layouts and regions", "dispatch.md"),
        "tables": Command("raising operators", "pattern-tables.md"),
        "boundary": Command(
            "the checks of arguments",
            figures=("one input 5 us, with 20 weights 9 us; copying an unaligned input 16 us more"),
        ),
        "nvidia": Command("an NVIDIA backend; needs a GPU", "nvidia.md"),
    },
    "shapes": {
        "shapes.decoders": Command(
            "an importer, a lowering or caches",
            figures=(
                "both importers with float32, without a session: ten of ten, at most 3.1e-6 apart; "
                "`llama.torch` and `qwen2.relax4` with a session: 7.5e-7; `llama` of four bits: "
                "1.3e-6"
            ),
        ),
        "programs": Command(
            "an importer or a lowering",
            figures=(
                "default backends: DeepSeek-V2 and V3, T5, Whisper, and steps of 13 newer decoders "
                "and hybrids at most 2.1e-6 apart; Mamba 6.6e-6; without a race, steps of ten more "
                "decoders, seven encoders, gpt-oss, Mamba-2, DINOv3, SigLIP and a denoising net "
                "1.5e-6; without backends: deformable DETR, MiniMax, xLSTM, RecurrentGemma, graph "
                "attention, points in balls and a detection head 1.5e-6"
            ),
        ),
        "shapes.stream": Command("schedules or kernels", "shapes.md"),
        "shapes.cold": Command(
            "sessions, the compiling process or generic kernels",
            "shapes-cold.md",
            more=("shapes-cold-avx2.md",),
        ),
        "shapes.real": Command("schedules or kernels", "shapes-models.md"),
        "shapes.storm": Command("budgets and eviction", "storm.md"),
        "shapes.hit": Command(
            "the call site of a symbolic function",
            figures=("22 ns over 417 ns with 32 shapes held"),
        ),
        "shapes.serving": Command(
            "the store or the compiling process",
            figures=(
                "p99 1.00x that of generic kernels alone; a shape's first call at most 0.11 ms "
                "longer; after a restart 60 of 60 kernels from disk, 0.14 ms each"
            ),
        ),
        "shapes.fuzz": Command("anything in symbolic shapes", figures="70 chains, 0 wrong"),
        "schedules": Command("a schedule rule", "schedules.md"),
        "ranges": Command("schedules for ranges"),
        "aot": Command("kernels merged ahead of time"),
        "padding": Command("the proof of padding", "padding.md"),
        "store": Command(
            "the store of kernels",
            figures=(
                "40 kernels of 21 KB: 0.44 ms each (95 %: 0.49 ms), the bare library 0.12 ms; "
                "written in 1.9 ms"
            ),
        ),
    },
    "attacks": {
        "onnx_fuzz": Command("an ONNX converter, a backend or the race", "onnx-fuzz.md"),
        "adversary": Command("lifting or a recogniser", "adversary.md"),
        "hostile": Command("a front end or the command line", "hostile.md"),
        "faults": Command("dispatch, compiling or the store", "faults.md"),
        "session_faults": Command("sessions or the store", "session-faults.md"),
    },
    "zoo": {
        "zoo": Command(
            "the front end, a backend or the choice between them",
            "zoo.md",
            more=("zoo-amx.md", "zoo-avx2.md", "zoo-avx512.md"),
        ),
    },
    "gpu": {
        "gpu": Command(
            "an NVIDIA backend, or schedules for a GPU; needs a GPU",
            "gpu.md",
            more=("gpu-compile.md",),
        ),
        "gpu_kernels": Command(
            "schedules for GPUs; needs a GPU", "gpu-kernels.md", more=("gpu-kernels-h200.md",)
        ),
        "gpu.language": Command(
            "products with packed weights or attention on a GPU; needs a GPU",
            "gpu-language.md",
        ),
        "gpu.language.experts": Command(
            "mixtures of experts on a GPU; needs a GPU",
            figures="Mixtral's products of two rows on an H100: 0.86 to 1.14 x TVM's rules",
        ),
        "gpu.language.storages": Command(
            "products with packed weights on a GPU; needs a GPU",
            figures="eight storages on an H100: 0.38 to 1.06 x the time of TVM's rules with one "
            "row, at most 0.13 x with four",
        ),
        "gpu.stream": Command(
            "symbolic shapes on a GPU; needs a GPU",
            figures="200 requests of 40 shapes on an H200: 0.25 x (BERT) and 0.52 x (ViT) the best "
            "of torch, 0.25 x and 0.34 x while shapes are new",
        ),
        "gpu.tuning": Command(
            "costs, calibration or measuring on a GPU; needs a GPU",
            figures="ResNet-50 on an H200, after 80 s of measuring: the default choice takes 1.00 "
            "x the tuned one's time",
        ),
        "gpu_regions": Command(
            "an NVIDIA backend, or schedules for a GPU; needs a GPU", "gpu-regions.md"
        ),
        "nvidia_attention": Command(
            "attention or products on a GPU; needs a GPU",
            figures="on an H100 16 cases right; 32 and 8 heads of 128 as fast as the best of torch",
        ),
    },
    "overall": {
        "size_checks": Command(
            "checks of sizes", figures=("26, 98, 403 ms of CPU for 100, 400, 1,600 conditions")
        ),
        "imports": Command(
            "what `opinfo` imports",
            figures=("1 % less; with everything that an analysis needs 6 % more"),
        ),
        "onnx_operators": Command("a converter of ONNX operators", "onnx-operators.md"),
        "torch_operators": Command(
            "a converter of torch's operators; takes an hour", "torch-operators.md"
        ),
        "revisions": Command("structure that is to leave figures as they are"),
    },
}


def source(room: str, name: str) -> Path:
    """Return the file that `python -m benchmarks.NAME` runs."""
    base = Path(__file__).parent / room
    base = base if name == room else base.joinpath(*name.removeprefix(f"{room}.").split("."))
    return base / "__main__.py" if base.is_dir() else base.with_suffix(".py")


def summary(room: str, name: str) -> str:
    """Return the first line of a command's docstring."""
    text = ast.get_docstring(ast.parse(source(room, name).read_text(encoding="utf-8"))) or ""
    return text.partition("\n\n")[0].replace("\n", " ")


def listing() -> str:
    """Return the commands for a terminal, one on each line."""
    return "\n".join(
        f"python -m benchmarks.{name:16} {summary(room, name)}"
        for room, commands in COMMANDS.items()
        for name in commands
    )


def page() -> str:
    """Return the text of docs/results/index.md."""
    parts = [HEAD]
    for room, commands in COMMANDS.items():
        rows = [_row(room, name, command) for name, command in commands.items()]
        head = ("benchmark", "command", "result", "run it after changing")
        title = "GPU" if room == "gpu" else room.capitalize()
        parts.append(f"## {title}\n\n{table(head, rows)}\n")
    return "\n".join(parts)


def _row(room: str, name: str, command: Command) -> tuple[str, ...]:
    link = ", ".join(f"[{Path(page).stem}]({page})" for page in command.pages) or command.figures
    return summary(room, name), f"`python -m benchmarks.{name}`", link, command.after


def write() -> Path:
    """Write docs/results/index.md."""
    path = PAGES / "index.md"
    path.write_text(page(), encoding="utf-8")
    return path
