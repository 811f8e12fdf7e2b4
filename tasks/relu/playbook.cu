// ReLU: how wide an access is, how many are under way, and who fills the chip.

#include <cuda_runtime.h>

#define GRID 0      // tunable: 0 1 2; a block for each tile, smaller tiles where they are few, blocks that loop
#define THREADS 256 // tunable: 128 256 512; of a block
#define VECTORS 1   // tunable: 1 2 4 8; vectors a thread loads before it needs the first
#define WIDTH 1     // tunable: 1 4; elements of one access
#define STREAM 0    // tunable: 0 1 2; lines to keep as usual, written and read once, written once

// tunable-hint: latency VECTORS=4
// tunable-hint: dram_bandwidth VECTORS=4
// tunable-hint: issue WIDTH=4
// tunable-hint: int WIDTH=4
// tunable-hint: l1_bandwidth WIDTH=4
// tunable-hint: l2_bandwidth STREAM=1
// tunable-hint: low_occupancy THREADS=256
// tunable-hint: launch_overhead GRID=1
// tunable-hint: tail GRID=2

__device__ float value_of(float x)
{
    return x < 0.0f ? 0.0f : x; // a NaN is not below 0
}

#include "shared/elementwise.cuh"
