#!/bin/sh
cd "$(dirname "$0")" || exit
exec cuda-llm evaluate matrix_transpose solve.cu --device emulated:H200
