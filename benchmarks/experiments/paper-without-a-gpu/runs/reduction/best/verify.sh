#!/bin/sh
cd "$(dirname "$0")" || exit
exec cuda-llm evaluate reduction solve.cu --device emulated:H200
