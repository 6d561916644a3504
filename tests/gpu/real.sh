#!/bin/sh
# Labels this machine's real GPUs and compares with what nvidia-smi says. Needs an NVIDIA driver; takes under 3 minutes.
# Usage: tests/gpu/real.sh [FOLDER]    PYTHON names the interpreter with the project installed (default: python3).
# FOLDER gets the labels, the inventory and a scrubbed recording that can become a fixture under tests/hosts.
set -eu

here=$(dirname "$0")
python=${PYTHON:-python3}
out=${1:-$(mktemp -d)}
mkdir -p "$out"

command -v nvidia-smi > "$out/nvidia-smi.path" || { echo "no nvidia-smi here, so there is nothing to compare with" >&2; exit 2; }

timeout 60 "$python" -m gfd.cli --oneshot --no-timestamp --use-node-feature-api=false --output-file="$out/labels"
PYTHONPATH="$here/../..${PYTHONPATH:+:$PYTHONPATH}" timeout 60 "$python" -m tests.gpu.compare "$out/labels"
timeout 60 "$python" -m nfd.cli record "$out/recording"
timeout 60 "$python" -m nfd.cli discover --replay "$out/recording" --sources nvidia -o labels \
    | grep -v gfd.timestamp > "$out/replayed"
grep -v -e vgpu.present "$out/labels" | sort > "$out/live"
grep -v -e vgpu.present "$out/replayed" | sort | diff - "$out/live"
echo "all agree; recording in $out/recording"
