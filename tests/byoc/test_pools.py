"""Threads of a runtime beside a team of GNU OpenMP in the same library."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from opinfo.byoc.backends.common.region_source import LOOPS, THREADS
from opinfo.byoc.backends.onnx_models.kept_runtime import _text
from opinfo.byoc.backends.weight_only.packed_kernels import GOMP
from opinfo.byoc.codegen.compilers.toolchain import CompilerError, program

#: A loop of the team, then work that sleeps: its code, and the CPU time meanwhile in ms.
MAIN = """
#include <time.h>
#include <unistd.h>
#include <cstdio>
int main() {
  std::atomic<int64_t> sum{0};
  opinfo::in_parallel(100, [&](int64_t k) { sum += k; });
  timespec from, to;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
  const int code = while_team_yields([&] { usleep(300000); return 7; });
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
  std::printf("%d %d %ld %d\\n", code, beside_team(), static_cast<long>(sum),
    static_cast<int>((to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000));
}
"""


@pytest.mark.parametrize("team", [True, False])
def test_the_team_leaves_the_cores_to_another_pool(tmp_path: Path, team: bool) -> None:
    """Its threads would spin all the time with this policy."""
    source = tmp_path / "main.cpp"
    source.write_text((THREADS if team else LOOPS) + _text("pools.hpp") + MAIN)
    try:
        program(str(tmp_path / "main"), str(source), ("-std=c++17", "-O1", "-pthread", *GOMP))
    except CompilerError as error:
        pytest.skip(str(error))
    variables = {**os.environ, "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "active"}
    done = subprocess.run([str(tmp_path / "main")], env=variables, capture_output=True, text=True,
                          check=True, timeout=60)  # fmt: skip
    code, beside, total, milliseconds = map(int, done.stdout.split())
    assert (code, beside, total) == (7, team, 4950)
    if team or len(os.sched_getaffinity(0)) > 1:  # more threads than CPUs do not spin
        assert (milliseconds < 100) is team
