#!/bin/sh
cd "$(dirname "$0")" || exit
exec cuda-llm evaluate multi_head_attention solve.cu --device emulated:H200
