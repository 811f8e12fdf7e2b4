#!/bin/sh
cd "$(dirname "$0")" && exec cuda-llm evaluate matrix_transpose solve.cu --device cuda:0
