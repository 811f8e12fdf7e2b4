#!/bin/sh
cd "$(dirname "$0")" || exit
exec cuda-llm evaluate prefix_sum solve.cu --device emulated:H200
