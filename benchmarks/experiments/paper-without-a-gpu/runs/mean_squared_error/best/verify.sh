#!/bin/sh
cd "$(dirname "$0")" || exit
exec cuda-llm evaluate mean_squared_error solve.cu --device emulated:H200
