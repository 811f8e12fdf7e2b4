#!/bin/sh
cd "$(dirname "$0")" || exit
exec cuda-llm evaluate vector_add solve.cu --device emulated:H200
