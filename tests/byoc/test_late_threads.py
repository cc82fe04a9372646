"""Loops of a team run alone for a while after the system kept a thread of it from its core."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from opinfo.byoc.backends.common.region_source import LOOPS
from opinfo.byoc.codegen.compilers.toolchain import CompilerError, program

#: A team of two threads with clocks of their own, which stand still but where a case moves them, so
#: that no result depends on the machine's load. The functions replace those of the C library.
TEAM = r"""
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
static thread_local int64_t wall = 1'000'000'000, cpu = 0, preemptions = 0;
static thread_local int current = 0;
static int teams = 0;
// What happens to the threads before, in and after their parts; whether the worker runs at once.
static std::function<void()> caller_begins, worker_begins, caller_ends, worker_ends, caller_returns;
static bool at_once = false;
static void work(int64_t us) { wall += us * 1000; cpu += us * 1000; }
static void sleep_for(int64_t us) { wall += us * 1000; }
static void lose_core(int64_t us) { wall += us * 1000; ++preemptions; }
static void at(const std::function<void()>& event) { if (event) event(); }
extern "C" {
int clock_gettime(clockid_t clock, timespec* t) noexcept {
  const int64_t now = clock == CLOCK_THREAD_CPUTIME_ID ? cpu : wall;
  *t = {};
  t->tv_sec = now / 1'000'000'000;
  t->tv_nsec = now % 1'000'000'000;
  return 0;
}
int getrusage(int, rusage* usage) noexcept {
  *usage = {};
  usage->ru_nivcsw = preemptions;
  return 0;
}
int omp_get_max_threads() { return 2; }
int omp_get_thread_num() { return current; }
void GOMP_parallel(void (*run)(void*), void* data, unsigned, unsigned) {
  ++teams;
  const int64_t start = wall;
  int64_t end = 0;
  const auto worker = [&] {
    wall = start;
    current = 1;
    at(worker_begins);
    run(data);
    at(worker_ends);
    end = wall;
  };
  std::thread thread;
  if (at_once) thread = std::thread(worker);
  at(caller_begins);
  run(data);
  at(caller_ends);
  if (!at_once) thread = std::thread(worker);
  thread.join();
  wall = std::max(wall, end);
  at(caller_returns);
}
}
static int64_t alone_for() { return opinfo_alone_for / 1'000'000; }
// A loop of two calls, one for each thread if the worker runs at once; whether it had a team.
static bool loop(const std::function<void(int64_t)>& call = [](int64_t) {}) {
  const int before = teams;
  std::atomic<int> begun{0}, sum{0};
  opinfo::in_parallel(2, [&](int64_t k) {
    ++begun;
    while (at_once && teams > before && begun < 2) std::this_thread::yield();
    sum += static_cast<int>(k) + 1;
    call(k);
  });
  if (sum != 3) std::abort();
  return teams > before;
}
static void reset() {
  caller_begins = worker_begins = caller_ends = worker_ends = caller_returns = nullptr;
}
"""

#: Cases by name: what sets one up, whether the worker takes a call, what calls do, and how many
#: milliseconds loops are alone for then.
CASES = {
    "on_time": ("", True, "work(100);", 0),
    "uneven": ("", True, "work(k ? 1400 : 100);", 0),
    "uneven_and_long": ("", True, "work(k ? 9000 : 100);", 0),
    "asleep": ("", True, "sleep_for(k ? 9000 : 100);", 0),
    "caller_asleep": ("", True, "sleep_for(k ? 100 : 9000);", 0),
    "worker_woken_soon": ("worker_begins = [] { sleep_for(300); };", False, "work(20);", 0),
    "worker_begins_late": ("worker_begins = [] { sleep_for(5000); };", False, "work(20);", 8),
    "worker_begins_while_the_caller_works": (
        "worker_begins = [] { sleep_for(5000); };", False, "work(3000);", 0),
    "worker_loses_its_core": ("", True, "work(100); if (k == 1) lose_core(4000);", 8),
    "worker_loses_its_core_while_the_caller_works": (
        "", True, "work(k ? 100 : 9000); if (k == 1) lose_core(4000);", 0),
    "worker_ends_late": ("worker_ends = [] { lose_core(5000); };", True, "work(100);", 8),
    "caller_begins_late": ("caller_begins = [] { lose_core(5000); };", True, "work(100);", 8),
    "caller_loses_its_core": ("", True, "work(100); if (k == 0) lose_core(4000);", 8),
    "caller_returns_late": ("caller_returns = [] { lose_core(4000); };", True, "work(100);", 8),
}  # fmt: skip


def _run(tmp_path: Path, main: str) -> list[int]:
    """Returns the numbers that a program with the loops, the team and `main` prints."""
    source, binary = tmp_path / "main.cpp", tmp_path / "main"
    flags = ("-std=c++17", "-O1", "-pthread")
    source.write_text("int main() {}")
    try:
        program(str(binary), str(source), flags)
    except CompilerError as error:
        pytest.skip(str(error))
    source.write_text(LOOPS + TEAM + main)
    program(str(binary), str(source), flags)
    run = subprocess.run([str(binary)], capture_output=True, text=True, check=True, timeout=60)
    return [int(number) for number in run.stdout.split()]


def test_loops_are_alone_after_a_thread_was_kept_from_its_core(tmp_path: Path) -> None:
    """Whichever thread it was, and not if calls are uneven or sleep."""
    body = "".join(
        f"""
  reset();
  work(10'000'000);
  opinfo_alone_for = opinfo_alone_until = 0;
  {set_up}
  at_once = {str(at_once).lower()};
  if (!loop([](int64_t k) {{ (void)k; {call} }})) std::abort();
  reset();
  const int64_t ms{number} = alone_for();
  std::printf("%d %d\\n", static_cast<int>(ms{number}), loop());"""
        for number, (set_up, at_once, call, _) in enumerate(CASES.values())
    )
    numbers = _run(tmp_path, f"int main() {{{body}\n}}\n")
    results = dict(zip(CASES, zip(numbers[::2], numbers[1::2], strict=True), strict=True))
    assert results == {name: (ms, int(not ms)) for name, (_, _, _, ms) in CASES.items()}


def test_the_time_alone_doubles_to_its_limit_and_ends(tmp_path: Path) -> None:
    numbers = _run(tmp_path, r"""
int main() {
  for (int k = 0; k < 7; ++k) {
    worker_begins = [] { sleep_for(5000); };
    const bool late = loop();
    reset();
    const int64_t ms = alone_for();
    work(ms * 1000 - 1);
    const bool before = loop();
    work(1);
    std::printf("%d %d %d ", late, static_cast<int>(ms), before);
  }
  for (const int64_t us : {0, 256'001}) {  // on time at once, and long enough
    work(us);
    const bool team = loop();
    std::printf("%d %d ", team, static_cast<int>(alone_for()));
  }
}
""")  # fmt: skip
    late = [x for ms in (8, 16, 32, 64, 128, 256, 256) for x in (1, ms, 0)]
    assert numbers == [*late, 1, 256, 1, 0]


def test_an_exception_of_a_late_loop_reaches_the_caller(tmp_path: Path) -> None:
    numbers = _run(tmp_path, r"""
int main() {
  worker_begins = [] { sleep_for(5000); };
  try {
    loop([](int64_t) { throw 7; });
  } catch (int thrown) {
    std::printf("%d %d", thrown, static_cast<int>(alone_for()));
  }
}
""")  # fmt: skip
    assert numbers == [7, 8]
