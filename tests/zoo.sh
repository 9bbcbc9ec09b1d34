#!/bin/bash
# A zoo of real and hostile models, from the folder that NARROWCAST_MODELS names and nasty/ beside it:
#
#   - every file ends in the class that `convert` alone gives it,
#   - one job, two jobs and three shards that are merged give the same summary, plans and models, byte
#     for byte,
#   - kill -9 of the batch and of its conversions, twenty times at random moments, then once more in
#     peace: the same again, nothing running and no temporary file left.
#
# Models that take longer than 15 s on two cores are left out: their names are below. Prints PASS and
# FAIL, exit code 1 if anything failed. SEED repeats a run's moments.
set -u
export LC_ALL=C
root=$(cd "$(dirname "$0")/.." && pwd)
PATH=$PATH:$root/build
slow='candy_style densenet_light mlsd_320_large yolox_nano_nms'
kills=20

if [ ! -f "${NARROWCAST_MODELS:-}/MANIFEST.tsv" ]; then
  echo "zoo.sh: NARROWCAST_MODELS must name a folder with MANIFEST.tsv" >&2
  exit 2
fi
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
trap 'exit 1' INT TERM
cd "$place" || exit 1
failures=0

# check RULE COMMAND...: PASS if the command succeeds.
check() {
  rule=$1
  shift
  if "$@" >log 2>&1; then
    echo "PASS $rule"
  else
    echo "FAIL $rule"
    head -n 20 log | sed 's/^/  /'
    failures=$((failures + 1))
  fi
}

build_zoo() {
  mkdir zoo
  cp -r "$NARROWCAST_MODELS" zoo/real
  for name in $slow; do
    rm -r "zoo/real/$name"
  done
  [ ! -d "$NARROWCAST_MODELS/../nasty" ] || cp -r "$NARROWCAST_MODELS/../nasty" zoo/nasty
  mkdir 'zoo/two
lines'
  cp "$root/models/tiny/names.onnx" 'zoo/two
lines/-"<b>,'\''.onnx'
  ln -s ../.. zoo/nasty/up
  ln -s names.onnx zoo/dangling.onnx
}

# batch OUT OPTION...: what it prints goes to OUT.log; its exit code is not judged here.
batch() {
  to=$1
  shift
  narrowcast batch zoo --out "$to" --timeout 300 "$@" >"$to.log" 2>&1
}

# result OUT: all bytes that no run may change.
result() {
  cat "$1/summary.json" "$1/summary.csv" "$1/summary.md"
  (cd "$1/models" && find . -path './*/model/*' -type f -o -name plan.json | sort | tr '\n' '\0' |
    xargs -0 sha256sum)
}

same_result() {
  result "$1" >a
  result "$2" >b
  [ -s a ] && cmp a b || diff a b
}

class_of() {
  case $1 in
  0) echo 'converted unchanged' ;;
  1 | 2 | 3 | 4 | 5) echo refused ;;
  *) echo failed ;;
  esac
}

# Each hostile model alone.
classes_are_those_of_convert() {
  wrong=0
  while IFS= read -r name; do
    code=0
    timeout 300 narrowcast convert "zoo/$name" --threads 1 -o alone.onnx >/dev/null 2>&1 || code=$?
    outcome=$(awk -F, -v name="$name" '$1 == name { print $2 }' one/summary.csv)
    case " $(class_of "$code") " in
    *" $outcome "*) ;;
    *)
      echo "$name: convert ends with $code, batch says '$outcome'"
      wrong=1
      ;;
    esac
  done <names
  [ -s names ] && return "$wrong"
}

real_models_are_all_written() {
  awk -F, '$1 ~ /^real\// && $2 != "converted" && $2 != "unchanged"' one/summary.csv >bad
  cat bad
  [ ! -s bad ] && [ "$(grep -c '^real/' one/summary.csv)" -ge 40 ]
}

every_model_has_a_line() {
  found=$(find zoo -name '*.onnx' ! -type d | tr '\n' '?' | grep -o 'onnx?' | wc -l)
  listed=$(grep -c '"outcome"' one/summary.json)
  echo "$found files, $listed lines"
  [ "$found" -eq "$listed" ]
}

shards() {
  for k in 1 2 3; do
    batch "part$k" --shard "$k/3"
  done
  narrowcast batch merge part1 part2 part3 --out merged >merged.log 2>&1
}

# One of the conversions that run, the process that supervises it or the one that it supervises.
kill_a_conversion() {
  pids=$(pgrep -f "^narrowcast convert .*--output killed/" || true)
  [ -n "$pids" ] || return 0
  kill -9 "$(echo "$pids" | shuf -n 1 --random-source=<(yes "$RANDOM"))" 2>/dev/null || true
}

kill_at_random() {
  for k in $(seq "$kills"); do
    # By exec, so that the job's number is the batch's own.
    (exec narrowcast batch zoo --out killed --timeout 300 --jobs 2 >killed.log 2>&1) &
    job=$!
    sleep "$((RANDOM % 2)).$((RANDOM % 900 + 100))"
    if [ $((k % 2)) -eq 0 ]; then
      kill_a_conversion
      sleep "0.$((RANDOM % 900 + 100))"
    fi
    kill -9 "$job"
    wait "$job"
  done 2>/dev/null  # says "Killed" each time
}

nothing_is_left() {
  for _ in $(seq 50); do
    pgrep -fa "narrowcast convert .*--output killed/" >left || break
    sleep 0.1
  done
  find killed -name '*.tmp' >>left
  cat left
  [ ! -s left ]
}

again_does_nothing() {
  batch killed
  grep -E '^([0-9]+) models, \1 done before$' killed.log || {
    # What could not be read is looked at each time.
    total=$(sed -n 's/^\([0-9]*\) models, .* done before$/\1/p' killed.log)
    again=$(grep -c '^\[' killed.log)
    transient=$(grep -l '"transient": true' killed/models/*/result.json | wc -l)
    echo "of $total: $again done again, $transient of them unreadable"
    [ -n "$total" ] && [ "$again" -eq "$transient" ]
  }
}

RANDOM=${SEED:=$$}
echo "seed $SEED"
build_zoo
batch one --jobs 1
batch two --jobs 2
shards
(cd zoo && find nasty -name '*.onnx' ! -type d | grep -v '"') >names
check 'every model has a line in the summary' every_model_has_a_line
check 'real models are all converted or copied' real_models_are_all_written
check 'hostile models end as convert alone ends' classes_are_those_of_convert
check 'one job and two give the same' same_result one two
check 'three shards, merged, give the same' same_result one merged
kill_at_random
batch killed --jobs 2
check "after $kills kills: the same" same_result one killed
check 'nothing runs on and no temporary file is left' nothing_is_left
check 'the same command then does nothing' again_does_nothing
grep '^models' one.log
exit $((failures > 0))
