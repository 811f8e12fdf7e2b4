#!/bin/sh
cd "$(dirname "$0")" || exit
exec cuda-llm evaluate dot_product solve.cu --device emulated:H200
