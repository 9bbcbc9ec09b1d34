#!/bin/bash
# Models with gigabytes of weights: what each step needs in memory beside what it may need, and
# whether the weights that come out are right (large_model.py, by numpy).
#
# A step that runs ONNX Runtime may take 400 MiB more than a plain session of the same model
# (bench/plain_session.c, run here too); one that does not, 300 MiB in all. Peak memory is that of
# wait4(2): every page that the process has touched and holds, of mapped files too. Files go to a
# folder below LARGE_DIR (default: TMPDIR or /var/tmp). Where that lacks room, or memory is short, it
# says SKIP; with the argument "room" it does no more than tell that. Prints PASS and FAIL, and a
# table; exit code 1 if anything failed.
set -u
export LC_ALL=C
root=$(cd "$(dirname "$0")/.." && pwd)
PATH=$PATH:$root/build
mib=3072 embedded=1536 judged=1024
disk_needed=13000 memory_needed=9000 # MiB

folder=${LARGE_DIR:-${TMPDIR:-/var/tmp}}
disk=$(df -Pm "$folder" | awk 'NR == 2 { print $4 }')
memory=$(awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo)
if [ "$disk" -lt "$disk_needed" ] || [ "$memory" -lt "$memory_needed" ]; then
  [ $# -gt 0 ] || printf "SKIP "
  echo "large models need $disk_needed MiB of disk in $folder, which has $disk, and" \
    "$memory_needed MiB of memory, of which $memory are free"
  [ $# -eq 0 ]
  exit
fi
[ $# -eq 0 ] || exit 0
place=$(mktemp -d -p "$folder")
trap 'rm -rf "$place"' EXIT
trap 'exit 1' INT TERM
cd "$place" || exit 1
export TMPDIR=$place
failures=0

# verdict RULE GOOD: PASS if GOOD is 0.
verdict() {
  if [ "$2" -eq 0 ]; then
    echo "PASS $1"
  else
    echo "FAIL $1"
    head -n 20 log | sed 's/^/  /'
    failures=$((failures + 1))
  fi
}

# peak COMMAND...: runs it; its peak memory in MiB goes to $peak, its exit code is that of the command.
peak() {
  /usr/bin/python3 -c '
import os, sys
pid = os.spawnvp(os.P_NOWAIT, sys.argv[1], sys.argv[1:])
_, state, usage = os.wait4(pid, 0)
print(usage.ru_maxrss // 1024, file=open("peak", "w"))
sys.exit(os.waitstatus_to_exitcode(state) & 255)' "$@" >log 2>&1
  code=$?
  peak=$(cat peak)
  return $code
}

# within CASE LIMIT COMMAND...: a row of the table, and PASS if the command succeeds within the limit.
within() {
  case=$1 limit=$2
  shift 2
  start=$SECONDS
  peak "$@"
  code=$?
  row "$case" "$peak" "$limit" $((SECONDS - start))
  [ "$code" -eq 0 ] && [ "$peak" -le "$limit" ]
  verdict "$case" $?
}

# plain MODEL LEVEL: what ONNX Runtime needs for it alone, in $peak.
plain() {
  peak plain_session "$1" 2048 "$2" || verdict "a plain session of $1" 1
  row "plain session, $1 ($2)" "$peak" "" ""
}

row() { printf '%-46s %8s %8s %6s\n' "$@" >>table; }
largest() { printf '%s\n' "$@" | sort -n | tail -n 1; }
row case 'peak MiB' limit seconds

# steps FOLDER: trace, plan and rewrite of source.onnx there.
steps() {
  plain "$1/source.onnx" basic
  within "trace, $1" $((peak + 400)) narrowcast trace "$1/source.onnx" --samples 2 -o "$1/trace.json"
  within "plan, $1" 300 narrowcast plan "$1/source.onnx" --trace "$1/trace.json" --keep 'wide_*' \
    -o "$1/plan.json"
  within "rewrite, $1" 300 narrowcast rewrite "$1/source.onnx" --plan "$1/plan.json" -o "$1/out.onnx"
  /usr/bin/python3 "$root/tests/large_model.py" check "$1/source.onnx" "$1/out.onnx" >log 2>&1
  verdict "weights are right, $1" $?
}

cmake -S "$root" -B "$root/build" >log 2>&1 &&
  cmake --build "$root/build" --target plain_session >log 2>&1
verdict 'plain_session is built' $?

mkdir external embedded judged
/usr/bin/python3 "$root/tests/large_model.py" make external/source.onnx $mib
steps external
narrowcast rewrite external/source.onnx --plan external/plan.json --external-data never \
  -o external/one.onnx >log 2>&1
verdict 'embedding what fits succeeds' $?
[ "$(find external -name 'one.onnx*' | wc -l)" -eq 1 ]
verdict 'and makes one file' $?
rm -r external

# Half of the readers stay wide: what comes out has all weights twice, which no one file can hold.
/usr/bin/python3 "$root/tests/large_model.py" make embedded/source.onnx $embedded embed twice
steps embedded
[ "$(stat -c %s embedded/out.onnx)" -lt 10000000 ]
verdict 'weights leave a file that would pass 2 GiB' $?
! narrowcast rewrite embedded/source.onnx --plan embedded/plan.json --external-data never \
  -o embedded/one.onnx >log 2>&1 && grep -q '2 GiB' log
verdict 'one file of more than 2 GiB is refused' $?
rm -r embedded

# The engine's own needs for the result differ from level to level; both models run side by side.
/usr/bin/python3 "$root/tests/large_model.py" make judged/source.onnx $judged
narrowcast trace judged/source.onnx --samples 2 -o judged/trace.json >log 2>&1 &&
  narrowcast plan judged/source.onnx --trace judged/trace.json -o judged/plan.json >log 2>&1 &&
  narrowcast rewrite judged/source.onnx --plan judged/plan.json -o judged/out.onnx >log 2>&1
verdict 'a model to judge is made' $?
plain judged/source.onnx basic
source=$peak needed=0
for level in none basic extended all; do
  plain judged/out.onnx $level
  needed=$(largest "$needed" "$peak")
done
both=$((source + judged / 2))
within 'verify' $(($(largest "$needed" "$both") + 400)) \
  narrowcast verify judged/source.onnx --plan judged/plan.json --samples 2

cat table
exit $((failures > 0))
