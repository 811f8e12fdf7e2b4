#!/bin/sh
cd "$(dirname "$0")" && exec cuda-llm evaluate histogram solve.cu --device 'emulated:RTX 3090 Ti'
