#!/bin/sh
cd "$(dirname "$0")" || exit
exec cuda-llm evaluate conv2d solve.cu --device emulated:H200
