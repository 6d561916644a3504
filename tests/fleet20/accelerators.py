"""A fleet with accelerators of seven vendors, and the one selector for those with 80 GB or more of any vendor."""

from __future__ import annotations

from tests.fleet20.machines import FleetNode

ANY = "feature.node.kubernetes.io/accelerator-any"
LARGE = {"key": f"{ANY}.memory", "operator": "Gt", "values": ["79999"]}
NODES = (
    FleetNode("acc-a100-1", "debian-12-epyc-milan", "count-a100-80-x4", offers={"nvidia.com/gpu": 4}),
    FleetNode("acc-gaudi2-1", "made-habana-gaudi2", offers={"habana.ai/gaudi": 8}, pods=({"habana.ai/gaudi": 4},)),
    FleetNode(
        "acc-max1550-1",
        "made-intel-max-1550",
        offers={"gpu.intel.com/xe": 40, "gpu.intel.com/monitoring": 1},
        pods=({"gpu.intel.com/xe": 3, "gpu.intel.com/monitoring": 1},),
    ),
    FleetNode("acc-mi300x-cpx-1", "amd-mi300x-cpx", offers={"amd.com/cpx_nps1": 64}, pods=({"amd.com/cpx_nps1": 24},)),
    FleetNode("acc-mi308x-1", "amd-mi308x", offers={"amd.com/gpu": 32}),
    FleetNode(
        "acc-mixed-1",
        "made-mixed",
        "count-a100-80-x4",
        offers={"nvidia.com/gpu": 4, "amd.com/gpu": 1, "habana.ai/gaudi": 1, "npu.intel.com/accel": 10},
        pods=({"nvidia.com/gpu": 2}, {"amd.com/gpu": 1}, {"npu.intel.com/accel": 2}),
    ),
    FleetNode("acc-tpu-v5e-1", "made-google-tpu-v5e", offers={"google.com/tpu": 4}),
    FleetNode(
        "acc-trainium-1",
        "made-aws-trainium",
        offers={"aws.amazon.com/neuron": 16, "aws.amazon.com/neuroncore": 32},
        pods=({"aws.amazon.com/neuron": 2},),
    ),
    FleetNode("cpu-1", "talos-1.12-epyc-genoa"),
)
WITH_80_GB = {"acc-a100-1", "acc-gaudi2-1", "acc-max1550-1", "acc-mi300x-cpx-1", "acc-mi308x-1", "acc-mixed-1"}
