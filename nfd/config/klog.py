"""The options of klog, Kubernetes' log library, which NFD's configurations and command lines accept.

Of these `v` has an effect: from 1 on, debug lines are written. The others control log files and headers that this
product does not have. They are accepted so that existing manifests still work.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from nfd.config.section import Flag, Section


class Klog(Section):
    """`klog` in the master's configuration, `core.klog` in the worker's."""

    loose: ClassVar[bool] = True

    add_dir_header: Annotated[bool, Flag("add_dir_header", hidden=True)] = False
    """Accepted, without effect."""
    also_to_stderr: Annotated[bool, Field(alias="alsologtostderr"), Flag("alsologtostderr", hidden=True)] = False
    """Accepted, without effect."""
    also_threshold: Annotated[
        str, Field(alias="alsologtostderrthreshold"), Flag("alsologtostderrthreshold", hidden=True)
    ] = "INFO"
    """Accepted, without effect."""
    legacy_stderr_threshold_behavior: Annotated[bool, Flag("legacy_stderr_threshold_behavior", hidden=True)] = True
    """Accepted, without effect."""
    log_backtrace_at: Annotated[str, Flag("log_backtrace_at", hidden=True)] = ""
    """Accepted, without effect."""
    log_dir: Annotated[str, Flag("log_dir", hidden=True)] = ""
    """Accepted, without effect."""
    log_file: Annotated[str, Flag("log_file", hidden=True)] = ""
    """Accepted, without effect."""
    log_file_max_size: Annotated[int, Flag("log_file_max_size", hidden=True)] = 1800
    """Accepted, without effect."""
    to_stderr: Annotated[bool, Field(alias="logtostderr"), Flag("logtostderr", hidden=True)] = True
    """Accepted, without effect."""
    one_output: Annotated[bool, Flag("one_output", hidden=True)] = False
    """Accepted, without effect."""
    skip_headers: Annotated[bool, Flag("skip_headers", hidden=True)] = False
    """Accepted, without effect."""
    skip_log_headers: Annotated[bool, Flag("skip_log_headers", hidden=True)] = False
    """Accepted, without effect."""
    threshold: Annotated[str, Field(alias="stderrthreshold"), Flag("stderrthreshold", hidden=True)] = "2"
    """Accepted, without effect."""
    v: Annotated[int, Flag("v")] = 0
    """Verbosity of the log; 1 and more adds debug lines."""
    vmodule: Annotated[str, Flag("vmodule", hidden=True)] = ""
    """Accepted, without effect."""
