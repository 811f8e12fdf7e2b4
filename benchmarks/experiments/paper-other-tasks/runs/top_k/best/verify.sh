#!/bin/sh
cd "$(dirname "$0")" || exit
exec cuda-llm evaluate top_k solve.cu --device emulated:H200
