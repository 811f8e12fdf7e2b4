#!/bin/sh
cd "$(dirname "$0")" || exit
exec cuda-llm evaluate layer_norm solve.cu --device emulated:H200
