#!/bin/sh
cd "$(dirname "$0")" || exit
exec cuda-llm evaluate histogram solve.cu --device emulated:H200
