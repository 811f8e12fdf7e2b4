#!/bin/sh
cd "$(dirname "$0")" || exit
exec cuda-llm evaluate sorting solve.cu --device emulated:H200
