#!/bin/sh
cd "$(dirname "$0")" || exit
exec cuda-llm evaluate ordinary_least_squares solve.cu --device emulated:H200
