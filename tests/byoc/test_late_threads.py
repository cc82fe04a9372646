"""Loops of a team run alone for a while after a thread of it came late."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from opinfo.byoc.backends.common.region_source import LOOPS
from opinfo.byoc.codegen.compilers.toolchain import CompilerError, program

#: A team whose threads run one after the other, and come late where that is asked for. It prints
#: how many loops had a team: the first one, whether all after it, how many of these, the one after
#: a pause; and whether the sum of all is right.
MAIN = r"""
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
static int late_thread, late_microseconds, current, teams;
extern "C" {
int omp_get_max_threads() { return 2; }
int omp_get_thread_num() { return current; }
void GOMP_parallel(void (*run)(void*), void* data, unsigned, unsigned) {
  ++teams;
  if (late_thread == 0) usleep(late_microseconds);  // the caller has lost its core
  current = 0;
  run(data);
  if (late_thread == 1) usleep(late_microseconds);  // the caller waits for the other thread
  current = 1;
  run(data);
  current = 0;
}
}
int main(int, char** args) {
  late_thread = std::atoi(args[1]);
  late_microseconds = late_thread < 0 ? 0 : 5000;
  int64_t sum = 0, loops = 0;
  auto loop = [&] { ++loops; opinfo::in_parallel(4, [&](int64_t k) { sum += k; }); };
  loop();
  late_microseconds = 0;
  const int first = teams;
  for (const int64_t end = opinfo::nanoseconds() + 2'000'000; opinfo::nanoseconds() < end;) loop();
  const int next = teams - first, before = loops - 1;
  usleep(20000);
  loop();
  std::printf("%d %d %d %d %d\n", first, next == before, next, teams - first - next,
              sum == 6 * loops);
}
"""


def _run(tmp_path: Path, late: int, wanted: tuple[int, ...]) -> tuple[int, ...]:
    """What a run prints but for the last: as wanted, or of the last run of many.

    On a busy machine, other processes make the caller late, too.
    """
    source, binary = tmp_path / "main.cpp", tmp_path / "main"
    source.write_text(LOOPS + MAIN)
    try:
        program(str(binary), str(source), ("-std=c++17", "-O1", "-pthread"))
    except CompilerError as error:
        pytest.skip(str(error))
    row: tuple[int, ...] = ()
    for _ in range(40):
        run = subprocess.run([str(binary), str(late)], capture_output=True, text=True, check=True,
                             timeout=60)  # fmt: skip
        *row, right = map(int, run.stdout.split())  # type: ignore[assignment]
        assert right
        if tuple(row[: len(wanted)]) == wanted:
            break
    return tuple(row)


def test_a_team_on_time_has_all_loops(tmp_path: Path) -> None:
    first, every, many, _ = _run(tmp_path, -1, (1, 1))
    assert first and every and many > 100


@pytest.mark.parametrize("late", [0, 1])
def test_a_late_thread_leaves_loops_to_the_caller(tmp_path: Path, late: int) -> None:
    """Whether it is the other thread, or the caller itself that lost its core."""
    assert _run(tmp_path, late, (1, 0, 0, 1)) == (1, 0, 0, 1)
