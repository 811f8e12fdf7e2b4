#!/bin/sh
cd "$(dirname "$0")" || exit
exec cuda-llm evaluate cross_entropy solve.cu --device emulated:H200
