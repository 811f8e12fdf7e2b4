#!/bin/sh
cd "$(dirname "$0")" || exit
exec cuda-llm evaluate monte_carlo_integration solve.cu --device emulated:H200
