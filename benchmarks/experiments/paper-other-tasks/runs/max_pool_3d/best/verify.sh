#!/bin/sh
cd "$(dirname "$0")" || exit
exec cuda-llm evaluate max_pool_3d solve.cu --device emulated:H200
