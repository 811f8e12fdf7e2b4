#!/bin/sh
cd "$(dirname "$0")" || exit
command -v cuda-llm >/dev/null || exec .venv/bin/python -P -m cuda_llm evaluate benchmarks/held_back_tasks/depthwise_conv solve.cu --device 'files:orders?gpu=NVIDIA H200'
exec cuda-llm evaluate benchmarks/held_back_tasks/depthwise_conv solve.cu --device 'files:orders?gpu=NVIDIA H200'
