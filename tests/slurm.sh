#!/bin/bash
# models/slurm-zoo.sbatch on a real Slurm: a cluster of two nodes on this machine, with its daemons,
# keys and state in a temporary folder. The array job's parts, merged, must be byte for byte what one
# machine gives; and an array that was cancelled in the middle and submitted again, too.
#
# Needs root (slurmd changes users) and Debian's slurmctld, slurmd, slurm-client and munge.
set -u
export LC_ALL=C
root=$(cd "$(dirname "$0")/.." && pwd)
PATH=$root/build:$PATH:/usr/sbin
port=${SLURM_TEST_PORT:-17817}
failures=0

# Slurm wants short paths for its sockets, and that nobody else can write to them.
place=$(mktemp -d /var/tmp/zoo.XXXXXX)
stop() {
  for pid in "$place"/*.pid; do
    [ ! -s "$pid" ] || kill "$(cat "$pid")" 2>/dev/null
  done
  sleep 1
  rm -rf "$place"
}
trap stop EXIT
trap 'exit 1' INT TERM

give_up() {
  echo "slurm.sh: $1" >&2
  tail -n 20 "$place"/*.log >&2
  echo "FAIL the array job runs on a cluster of two nodes"
  exit 1
}

check() {
  rule=$1
  shift
  if "$@" >"$place/check.out" 2>&1; then
    echo "PASS $rule"
  else
    echo "FAIL $rule"
    head -n 20 "$place/check.out" | sed 's/^/  /'
    failures=$((failures + 1))
  fi
}

write_configuration() {
  mkdir -m 755 "$place/state" "$place/spool"
  cat >"$place/slurm.conf" <<CONF
ClusterName=zoo
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$place/munge.socket
CredType=cred/munge
StateSaveLocation=$place/state
SlurmdSpoolDir=$place/spool/%n
SlurmctldPidFile=$place/slurmctld.pid
SlurmdPidFile=$place/slurmd.%n.pid
SlurmctldLogFile=$place/slurmctld.log
SlurmdLogFile=$place/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,bf_interval=1
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
KillWait=2
NodeName=node1 NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=2
NodeName=node2 NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=2
PartitionName=zoo Nodes=node1,node2 Default=YES MaxTime=INFINITE State=UP
CONF
  export SLURM_CONF=$place/slurm.conf
}

start_cluster() {
  chmod 755 "$place"
  dd if=/dev/urandom of="$place/munge.key" bs=1024 count=1 2>/dev/null
  chmod 400 "$place/munge.key"
  munged --force --key-file="$place/munge.key" --socket="$place/munge.socket" \
    --pid-file="$place/munged.pid" --log-file="$place/munged.log" --seed-file="$place/munged.seed" ||
    give_up 'munged does not start'
  write_configuration
  slurmctld -c || give_up 'slurmctld does not start'
  for node in node1 node2; do
    slurmd -N "$node" || give_up "slurmd of $node does not start"
  done
  for _ in $(seq 100); do
    [ "$(sinfo -h -N -t idle -o %N 2>/dev/null | sort -u | wc -l)" -eq 2 ] && return
    sleep 0.2
  done
  sinfo >&2
  give_up 'the nodes do not come up'
}

# wait_for JOB: until it has left the queue.
wait_for() {
  for _ in $(seq 600); do
    [ -n "$(squeue -h -j "$1" 2>/dev/null)" ] || return 0
    sleep 0.2
  done
  squeue >&2
  return 1
}

# submit OUT: the array job over the zoo; prints its number.
submit() {
  sbatch --parsable --array=1-3 --cpus-per-task=1 --mem=0 --chdir="$place" \
    --output="$place/task.%a.log" "$root/models/slurm-zoo.sbatch" "$place/zoo" "$1"
}

merged_is_the_same() {
  narrowcast batch merge "$1"/part-* --out "$1/all" >/dev/null 2>"$place/merge.err" || [ $? -eq 6 ] ||
    { cat "$place/merge.err" "$place"/task.*.log; return 1; }
  for file in summary.json summary.csv summary.md; do
    cmp "$place/one/$file" "$1/all/$file" || return 1
  done
  for folder in "$place"/one/models/*; do
    for file in "$folder"/model/model.onnx "$folder"/plan.json; do
      [ ! -e "$file" ] || cmp "$file" "$1/all/${file#"$place/one/"}" || return 1
    done
  done
}

array_job_gives_the_same() {
  job=$(submit "$place/array") && wait_for "$job" && merged_is_the_same "$place/array"
}

both_nodes_worked() {
  cat "$place"/slurmd.node*.log | grep -ci 'launch' >"$place/launches"
  for node in node1 node2; do
    grep -qi 'launch' "$place/slurmd.$node.log" || { echo "no task ran on $node"; return 1; }
  done
}

cancelled_job_goes_on() {
  job=$(submit "$place/again") || return 1
  for _ in $(seq 100); do
    ls "$place"/again/part-*/models/*/result.json >/dev/null 2>&1 && break
    sleep 0.05
  done
  scancel --signal=KILL "$job"
  scancel "$job"
  wait_for "$job" || return 1
  job=$(submit "$place/again") && wait_for "$job" && merged_is_the_same "$place/again"
}

start_cluster
mkdir "$place/zoo"
cp -r "$root"/models/tiny "$root"/models/digits "$root"/models/hazards "$place/zoo"
for k in $(seq 6); do
  cp -r "$root/models/tiny" "$place/zoo/tiny$k"
done
narrowcast batch "$place/zoo" --out "$place/one" --quiet >/dev/null || [ $? -eq 6 ] ||
  give_up 'the zoo is not converted'
check 'the array job runs on a cluster of two nodes, and its merged parts are what one machine gives' \
  array_job_gives_the_same
check 'both nodes had their share' both_nodes_worked
check 'cancelled in the middle and submitted again, it gives the same' cancelled_job_goes_on
exit $((failures > 0))
