"""Guards of what GPU labels hold: MIG devices, facts that cannot be read, a NodeFeature's owners."""

from __future__ import annotations

from tests.guards.guard import Guard

HELD = "tests/gfd/test_restarts.py::"
RESTART = HELD + "test_a_restart_loses_nothing_that_the_state_holds"
FIRST = "tests/gfd/test_unreadable.py::test_at_first_no_other_label_is_missing_or_another"
OWNERS = "tests/gfd/test_nodefeature.py::"

GPUS = (
    Guard(  # an Xid holds until the driver, asked now, says that nothing has to be done to that GPU
        "gfd/recent_xids.py",
        "return age >= SETTLES and all(is_well(gpu) for gpu in gpus)",
        "return age >= SETTLES",
        "tests/gfd/test_recent_xids.py::test_an_xid_is_over_when_a_reading_shows_it",
    ),
    Guard(  # nor does it end since a GPU is off the bus
        "gfd/recent_xids.py",
        "return not fresh.node.pci_missing and all(gpu.uuid for gpu in fresh.gpus)",
        "return True",
        "tests/gfd/test_recent_xids.py::test_an_xid_is_over_when_a_reading_shows_it",
    ),
    Guard(  # nor since the process that waits is gone
        "gfd/xid_events.py",
        "pause = min(pause * 2, AGAIN[1])",
        "return",
        "tests/gfd/test_xid_events.py::test_labels_stay_while_the_child_is_gone",
    ),
    Guard(  # who has NVML open must be gone before others change the GPUs, whatever the program is at
        "gfd/agent.py",
        "self._signals.at_stop.append(self._xids.stop)",
        "",
        "tests/gfd/test_xid_events.py::test_the_child_ends_while_a_scan_hangs",
    ),
    Guard(
        "gfd/nvml/events.py",
        "ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)",
        "",
        "tests/gfd/test_xid_events.py::test_the_child_never_outlives_the_program",
    ),
    Guard(  # a worker that has just started opens no NVML during a change of MIG or driver
        "gfd/node_config.py",
        "if host.awaits_labels and has_driver(host):",
        "if False:",
        "tests/e2e/test_mig_follows.py::test_a_worker_that_starts_during_the_change_does_not_open_nvml",
    ),
    Guard(  # a GPU that is emptied keeps its MIG devices
        "gfd/last_reading.py",
        "return replace(merged, unread=still, mig_held=True), old",
        "return merged, found",
        "tests/gfd/test_source.py::test_mig_devices_are_held_while_a_gpu_is_carved_anew",
    ),
    Guard(  # MIG devices that nobody knows are no MIG devices that are gone
        "gfd/last_reading.py",
        "bare = [gpu for gpu in inventory.compute_gpus if is_bare(inventory, gpu)]",
        "bare = [gpu for gpu in () if is_bare(inventory, gpu)]",
        RESTART,
    ),
    Guard(  # nor does what was not known before fill what cannot be read now
        "gfd/last_reading.py",
        " - ({Fact.MIGS} if is_bare(last, before) else set())",
        "",
        HELD + "test_one_state_after_another_loses_nothing",
    ),
    Guard(
        "gfd/last_reading.py",
        " | (before.unknown & {Fact.MIGS})",
        "",
        HELD + "test_one_state_after_another_loses_nothing",
    ),
    Guard(
        "gfd/last_reading.py",
        "held = gpu.unknown - before.unknown",
        "held = gpu.unknown",
        RESTART,
    ),
    Guard(  # a driver that lists no device says nothing of those on PCI
        "gfd/last_reading.py",
        "return asked and not inventory.gpus and node.pci_gpus > node.pci_passed",
        "return False",
        HELD + "test_what_a_driver_that_lists_no_device_leaves_is_stale",
    ),
    Guard(  # nor one that lists some of them
        "gfd/last_reading.py",
        "return inventory.node.pci_missing - carried",
        "return 0",
        RESTART,
    ),
    Guard(  # and a reading that fails afterwards says nothing either
        "gfd/last_reading.py",
        "node = replace(fresh.node, pci_missing=last.node.pci_missing)",
        "node = fresh.node",
        HELD + "test_what_the_first_reading_left_open_stays_open_while_readings_fail",
    ),
    Guard(  # a GPU that cannot be identified is not taken for another one
        "gfd/last_reading.py",
        "if gpu.mute or _may_be_any(fresh, gpu, last):",
        "if gpu.mute:",
        "tests/gfd/test_fault_sequences.py::test_a_gpu_that_cannot_be_identified_is_no_other_one",
    ),
    Guard(  # a value that cannot be told does not take the place of the one on the Node
        "gfd/source.py",
        "if is_known(inventory, settings, key)",
        "if key",
        RESTART,
    ),
    Guard(  # and that of the file stays
        "gfd/previous_labels.py",
        "return {**_full(added), **labels, **_full(instead)}",
        "return {**_full(added), **labels}",
        RESTART,
    ),
    Guard(  # the GPU of a Tegra is not on PCI
        "gfd/source.py",
        " or (inventory.trouble is not None and is_tegra(host))",
        "",
        HELD + "test_the_gpu_of_a_tegra_is_there_while_its_driver_is_not",
    ),
    Guard(
        "gfd/previous_labels.py",
        " or (not on_pci and inventory.trouble is not None)",
        "",
        HELD + "test_the_gpu_of_a_tegra_is_there_while_its_driver_is_not",
    ),
    Guard(  # one that left PCI is gone
        "gfd/previous_labels.py",
        "(not on_pci and inventory.trouble is not None)",
        "inventory.trouble is not None",
        HELD + "test_a_gpu_that_left_pci_takes_its_labels_along",
    ),
    Guard(  # rules over a source that fails take nothing away
        "nfd/master/node/outcome.py",
        "unsure = found.evaluation.unsure | rules.relying_on(fresh, unreadable)",
        "unsure = found.evaluation.unsure",
        "tests/master/test_rules_cluster.py::test_rules_over_a_source_that_fails_take_nothing_away",
    ),
    Guard(  # a fact that cannot be read is not known
        "gfd/nvml/device.py",
        "self._unread.add(fact)",
        "pass",
        FIRST,
    ),
    Guard(  # a text may have any bytes
        "gfd/nvml/library.py",
        'return buffer.value.decode("utf-8", "replace")',
        "return buffer.value.decode()",
        "tests/gfd/test_unreadable.py::test_bytes_that_are_no_utf_8",
    ),
    Guard(  # the driver's word serves where the memory is refused
        "gfd/nvml/mig.py",
        "name = read_profile_name(profiles) or read_device_name(mig)",
        'name = ""',
        "tests/gfd/test_unreadable.py::test_a_gpu_that_refuses_its_memory_keeps_its_mig_labels",
    ),
    Guard(  # the end of a product tells it from others
        "gfd/labels/productname.py",
        "return shorten(name, names.MAX_NAME - len(tail)) + tail if tail else name",
        "return name + tail",
        "tests/gfd/test_values.py::test_no_end_that_tells_products_apart_is_lost",
    ),
    Guard(  # owners that are not known stay as they are
        "gfd/nodefeature.py",
        "elif self._owners is not None:",
        "else:",
        OWNERS + "test_a_failed_read_of_the_pod_takes_no_owner_away",
    ),
    Guard(  # an answer that is no NodeFeature has no labels to go on from
        "gfd/nodefeature.py",
        "return await read_object(client, self._path())",
        'return dict(await client.json("GET", self._path()))',
        OWNERS + "test_an_answer_that_is_no_node_feature_is_trouble",
    ),
    Guard(  # a configuration file that is being written anew does not mean the defaults
        "gfd/options.py",
        "if current is not None and (layer is None or (layer.blank and not current.blank)):",
        "if current is not None and layer is None:",
        "tests/gfd/test_blank.py::test_at_a_reload_an_empty_file_is_no_news",
    ),
    Guard(  # /dev/null means them
        "nfd/config/load.py",
        "blank=not path.is_char_device()",
        "blank=True",
        "tests/gfd/test_blank.py::test_the_null_device_means_defaults_at_a_reload_too",
    ),
)
