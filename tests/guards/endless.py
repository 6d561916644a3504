"""Guards of the limit for a computation that does not end, and of what is tried again after it."""

from __future__ import annotations

from tests.guards.guard import Guard

LIMIT = "tests/runtime/test_cpu_limit.py::"

ENDLESS = (
    Guard(  # it is ended
        "nfd/runtime/cpu_limit.py",
        "            raise Endless(self._seconds)\n",
        "            pass\n",
        LIMIT + "test_what_does_not_end_is_ended_and_the_loop_goes_on",
    ),
    Guard(  # a long call of C code, which may be the collection of garbage, is not
        "nfd/runtime/cpu_limit.py",
        "min(now - self._seen, self._interval), now",
        "now - self._seen, now",
        LIMIT + "test_other_work_is_not_ended",
    ),
    Guard(  # nor are many short callbacks one after the other
        "nfd/runtime/cpu_limit.py",
        "if call is None or call is not self._call:",
        "if call is None:",
        LIMIT + "test_other_work_is_not_ended",
    ),
    Guard(  # nor does Python ignore the exception, during the collection of garbage
        "nfd/runtime/cpu_limit.py",
        "if loses_exceptions(frame):",
        "if False:",
        LIMIT + "test_what_is_over_the_limit_during_garbage_collection_is_ended_after_it",
    ),
    Guard(  # nor one that a signal raises
        "nfd/runtime/signals.py",
        "elif loses_exceptions(frame):",
        "elif False:",
        "tests/runtime/test_signals.py::test_no_interruption_is_lost",
    ),
    Guard(  # half a module is never left
        "nfd/runtime/cpu_limit.py",
        "if _module_of(frame) == IMPORT:",
        "if False:",
        LIMIT + "test_an_import_is_not_ended",
    ),
    Guard(  # a late signal does not end the process
        "nfd/runtime/cpu_limit.py",
        "signal.signal(signal.SIGPROF, signal.SIG_IGN)",
        "signal.signal(signal.SIGPROF, signal.SIG_DFL)",
        LIMIT + "test_nothing_is_left_behind",
    ),
    Guard(  # most of the time remains for everything else
        "nfd/runtime/tasks.py",
        "max(delay * random.uniform(1.0, 1.25), rest)",
        "delay * random.uniform(1.0, 1.25)",
        LIMIT + "test_what_does_not_end_is_ended_and_the_loop_goes_on",
    ),
    Guard(  # every program with an event loop has the limit
        "nfd/runtime/tasks.py",
        "        with CpuLimit(PIECE, PIECE_SECONDS):\n",
        "        if True:\n",
        LIMIT + "test_every_server_has_the_limit",
    ),
    Guard(  # and the worker
        "nfd/worker/cli.py",
        "    with CpuLimit(turn, TURN_SECONDS):\n",
        "    if True:\n",
        "tests/worker/test_worker_process.py::test_its_loop_has_a_limit",
    ),
    Guard(  # a rule that does not end on one node is suspended before it costs as much on each
        "nfd/rules/evaluate.py",
        "kind = Exhausted if isinstance(error, Endless) else RuleError",
        "kind = RuleError",
        "tests/master/test_rule_defects.py::test_rule_that_does_not_end_is_suspended",
    ),
    Guard(  # a namespace that only ends in the same letters is another one
        "nfd/names.py",
        'namespace.endswith(f".{parent}")',
        "namespace.endswith(parent)",
        "tests/store/test_look_alikes.py::test_bookkeeping",
    ),
)
