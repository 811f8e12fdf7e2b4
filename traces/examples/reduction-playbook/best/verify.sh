#!/bin/sh
cd "$(dirname "$0")" && exec cuda-llm evaluate reduction solve.cu --device 'emulated:RTX 3090 Ti'
