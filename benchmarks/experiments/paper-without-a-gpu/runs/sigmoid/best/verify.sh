#!/bin/sh
cd "$(dirname "$0")" || exit
exec cuda-llm evaluate sigmoid solve.cu --device emulated:H200
