#!/bin/sh
cd "$(dirname "$0")" || exit
exec cuda-llm evaluate relu solve.cu --device emulated:H200
