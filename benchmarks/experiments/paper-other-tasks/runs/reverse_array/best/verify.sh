#!/bin/sh
cd "$(dirname "$0")" || exit
exec cuda-llm evaluate reverse_array solve.cu --device emulated:H200
