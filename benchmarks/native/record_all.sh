#!/bin/bash
# Everything that is recorded on a GPU, each part within its own time. $1: folder of the results.
export PYTHONPATH=src:tests/support PYTHONUNBUFFERED=1
out=$1
work=$(mktemp -d)
ncu --query-metrics --chip gh100 >"$work/metrics" 2>&1 &
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem --format=csv
timeout 100 python3 benchmarks/record_on_gpu.py operations --out "$work/ops" --limit-s 80
cp "$work"/ops/ptx_operations.xz "$out"
timeout 60 python3 benchmarks/record_on_gpu.py calls --out "$out"
timeout 150 python3 benchmarks/record_on_gpu.py tensor --out "$out"
timeout 60 python3 benchmarks/record_asynchronous_on_gpu.py --out "$out"
timeout 120 python3 benchmarks/record_gemms_on_gpu.py --out "$out"
timeout 60 python3 benchmarks/native_kernels.py build --out "$out" --build "$work/so"
date +%T
timeout 100 python3 benchmarks/native_kernels.py check --out "$out" --build "$work/so"
date +%T
timeout 170 python3 benchmarks/native_kernels.py time --out "$out" --build "$work/so" --limit-s 90
date +%T
wait
cp "$work/metrics" "$out/metrics.txt"
wanted="l1tex__t_requests_pipe_lsu_mem_global_op_ld l1tex__t_requests_pipe_lsu_mem_global_op_st
l1tex__t_sectors_pipe_lsu_mem_global_op_ld l1tex__t_sectors_pipe_lsu_mem_global_op_st
l1tex__t_requests_pipe_lsu_mem_global_op_red l1tex__t_sectors_pipe_lsu_mem_global_op_red
l1tex__t_requests_pipe_lsu_mem_global_op_atom l1tex__t_sectors_pipe_lsu_mem_global_op_atom
l1tex__data_pipe_lsu_wavefronts_mem_shared l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld
l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom
l1tex__data_pipe_lsu_wavefronts l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld
l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st smsp__inst_executed smsp__thread_inst_executed
smsp__inst_executed_op_shared_ld smsp__inst_executed_op_shared_st dram__sectors_read
dram__sectors_write lts__t_sectors_op_read lts__t_sectors_op_write lts__t_sectors_srcunit_tex"
metrics=""
for name in $wanted; do
  grep -q "^$name " "$work/metrics" && metrics="$metrics,$name.sum" || echo "no metric $name"
done
timeout 150 ncu --clock-control none --csv --log-file "$work/ncu.csv" --metrics "${metrics#,}" \
  --target-processes all \
  python3 benchmarks/native_kernels.py launch --out "$out" --build "$work/so"
gzip -c "$work/ncu.csv" >"$out/ncu.csv.gz"
date +%T
for tool in memcheck racecheck initcheck; do
  echo "== $tool"
  timeout 50 compute-sanitizer --tool $tool python3 benchmarks/native_kernels.py sanitize \
    --out "$work" --build "$work/so" 2>&1 | tail -25
done
