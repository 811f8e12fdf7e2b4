#!/bin/sh
cd "$(dirname "$0")" || exit
exec cuda-llm evaluate mlp_block solve.cu --device emulated:H200
