"""Guards of starts and ends: nothing ends in silence, and a signal ends what it has to."""

from __future__ import annotations

from tests.guards.guard import Guard

TASKS = "tests/runtime/test_tasks.py::"
TERMS = "tests/faults/test_terms.py::"

LIVES = (
    Guard(  # what fails starts again
        "nfd/runtime/tasks.py",
        "        except Exception as error:\n            failed(task, error)\n            rest = rest_after(error)\n",
        "",
        TASKS + "test_a_task_starts_again",
    ),
    Guard(  # a cancellation that is not our own is none
        "nfd/runtime/tasks.py",
        "            if _is_told_to_end():\n                raise\n",
        "            raise\n",
        TASKS + "test_a_cancellation_of_what_it_waits_for_is_not_its_end",
    ),
    Guard(  # a cancellation that got lost is repeated
        "nfd/runtime/tasks.py",
        "        _, left = await asyncio.wait(left, timeout=INSIST)\n",
        "        await asyncio.wait(left)\n        left = set()\n",
        TASKS + "test_a_task_that_does_not_hear_is_told_again",
    ),
    Guard(  # callbacks are heard
        "nfd/runtime/tasks.py",
        "        runner.get_loop().set_exception_handler(_unhandled)\n",
        "",
        TASKS + "test_callbacks_are_heard",
    ),
    Guard(
        "nfd/runtime/threads.py",
        "        except Exception as error:\n            failed(task, error)\n",
        "        except ZeroDivisionError as error:\n            failed(task, error)\n",
        TASKS + "test_threads",
    ),
    Guard(
        "nfd/runtime/http_server.py",
        '        failed("http handler", error, path=target.partition("?")[0])\n',
        "",
        "tests/health/test_http_server.py::test_a_handler_that_fails_is_told_once",
    ),
    Guard(
        "nfd/master/http/server.py",
        "middlewares=[mark_complete, log_failures]",
        "middlewares=[mark_complete]",
        "tests/master/test_http.py::test_a_handler_that_fails_is_told_once",
    ),
    Guard(  # a worker goes on
        "nfd/worker/agent.py",
        "                except Exception as error:\n                    self.busy_since",
        "                except ZeroDivisionError as error:\n                    self.busy_since",
        "tests/worker/test_agent.py::test_a_turn_that_fails_unforeseen_is_made_up_for",
    ),
    Guard(
        "nfd/worker/agent.py",
        '        except Exception as error:\n            failed("reload"',
        '        except ZeroDivisionError as error:\n            failed("reload"',
        "tests/worker/test_agent.py::test_a_reload_that_fails_unforeseen_changes_nothing",
    ),
    Guard(  # a source that does not end holds up no other
        "nfd/worker/agent.py",
        "discover(self._host, self._settings.plan, self._found, only, self._limits.run)",
        "discover(self._host, self._settings.plan, self._found, only)",
        "tests/faults/test_injected_worker.py::test_an_endless_run_of_a_source_is_given_up",
    ),
    Guard(  # and is not run twice at a time
        "nfd/runtime/threads.py",
        "if (left := self._left.get(name)) is not None and left.is_alive():",
        "if (left := self._left.get(name)) is not None and False:",
        TASKS + "test_work_that_does_not_end_is_given_up",
    ),
    Guard(  # events that fail hold up no scan
        "nfd/events/wakes.py",
        "changed()}\n        except Exception as error:",
        "changed()}\n        except ZeroDivisionError as error:",
        "tests/faults/test_injected_worker.py::test_a_stage_harms_itself_alone",
    ),
    Guard(  # a silent node that cannot be judged holds up no other
        "nfd/master/service.py",
        "if self._do(self._give_up, name):\n                self._heartbeats.give_up(name)",
        "self._give_up(name)\n            self._heartbeats.give_up(name)",
        "tests/faults/test_injected_starts.py::test_a_worker_that_is_given_up",
    ),
    Guard(  # SIGTERM during the start of the gRPC server leaves no exception behind
        "nfd/rpc/server.py",
        "await asyncio.shield(self._starting)",
        "await self._starting",
        "tests/rpc/test_cancelled_start.py::test_a_cancelled_start_ends_cleanly",
    ),
    Guard(  # one connection that brings out a defect keeps no other waiting
        "nfd/master/http/limits.py",
        "            except Exception as error:  # a defect with one connection must not stop the others\n",
        "            except ZeroDivisionError as error:\n",
        "tests/master/test_http_limits.py::test_a_defect_with_one_connection_delays_no_other",
    ),
    Guard(  # a request under way is waited for before the lease is given up
        "nfd/kube/leader_election.py",
        "            async with asyncio.timeout(LONGEST_END), self._turn:\n",
        "            async with asyncio.timeout(LONGEST_END):\n",
        "tests/faults/test_lease_clock.py::test_a_lease_that_is_just_being_made_is_given_up",
    ),
    Guard(  # an end that does not come is cut off
        "nfd/runtime/signals.py",
        "            _cut_off()\n",
        "            pass\n",
        TERMS + "test_the_first_line_and_the_last",
    ),
)
