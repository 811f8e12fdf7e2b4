#!/bin/sh
# A Ray cluster by hand, on machines of one private network. See docs/cluster.md.
#
#   sh by-hand.sh head                    once, on the machine that becomes the head
#   sh by-hand.sh worker HEAD             on each other machine
#   sh by-hand.sh check HEAD [WORKERS]    where runs are started: who is there, then a short run
#   sh by-hand.sh stop                    on each machine, at the end
#
# HEAD is a name or address of the head that all machines reach. WORKERS is a GPU's name, or
# 'emulated:RTX 3090 Ti' where no machine has a GPU.
set -eu

usage() {
    sed -n 's/^#   //p' "$0" >&2
    exit 2
}

# Without a token, whoever reaches a port of the cluster runs code as this user.
export RAY_AUTH_MODE=token
export RAY_USAGE_STATS_ENABLED=0

# Ray hands its environment to every worker, and no worker needs a key.
forget_keys() {
    for name in $(env | cut -d= -f1 | grep -E '^[A-Za-z_][A-Za-z0-9_]*$' |
        grep -iE 'KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL' | grep -v '^RAY_'); do
        unset "$name"
    done
}

# Every port has its number, so that a firewall can be told: open them to the machines of the
# cluster, and 10001 to where runs are started, and nothing to anyone else.
start() {
    forget_keys
    ray start "$@" \
        --node-manager-port=6380 --object-manager-port=6381 --runtime-env-agent-port=6382 \
        --dashboard-agent-listen-port=6383 --dashboard-agent-grpc-port=6384 \
        --metrics-export-port=6385 --min-worker-port=20000 --max-worker-port=20999
}

case "${1:-}" in
head)
    # The token lies in .ray/auth_token of the home folder. Copy it to each machine, readable by
    # you alone, before a worker is started there.
    umask 077
    ray get-auth-token --generate >/dev/null
    # No dashboard: it is one more port through which code can be started.
    start --head --port=6379 --ray-client-server-port=10001 --include-dashboard=false
    ;;
worker)
    [ $# -eq 2 ] || usage
    # With a GPU it may lack g++ and nvcc: what they build is sent to it.
    cuda-llm doctor || echo "this machine lacks what is MISSING above" >&2
    start --address="$2:6379"
    ;;
check)
    [ $# -ge 2 ] || usage
    ray status --address="$2:6379"
    cuda-llm run vector_add --candidates 1 --rounds 1 --device "ray://$2:10001${3:+/$3}"
    ;;
stop)
    # Ends every process of Ray that this user has on this machine.
    ray stop
    ;;
*)
    usage
    ;;
esac
