#!/bin/sh
cd "$(dirname "$0")" || exit
exec cuda-llm evaluate matrix_copy solve.cu --device emulated:H200
