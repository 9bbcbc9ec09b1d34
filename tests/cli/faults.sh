#!/bin/sh
# Faults around a run: the engine crashes, hangs, eats memory or ends the process; signals. What
# must come of it: a message that says where, the documented exit code, and nothing left behind.
. "$(dirname "$0")/lib.sh"

model=$digits/digits.onnx
data=$digits/samples

# The real engine with a fault (tests/faults/faulty_engine.c), built beside the program.
faulty=$(dirname "$(command -v narrowcast)")/libfaulty_engine.so
if [ -f "${NARROWCAST_ORT:-}" ]; then
  export FAULT_ENGINE="$NARROWCAST_ORT"
elif [ -f "$root/.deps/lib/libonnxruntime.so" ]; then
  export FAULT_ENGINE="$root/.deps/lib/libonnxruntime.so"
fi
# Crashes must reach the program, also in a sanitizer's build.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}handle_segv=0:handle_sigbus=0:allocator_may_return_null=1"

# tried WHAT...: a line of the table.
tried() {
  printf '  %-24s %-30s %s\n' "$1" "$2" "$3"
}

# fault WHAT PLACE COUNT: the next runs have it.
fault() {
  export FAULT="$1" FAULT_AT="$2" FAULT_COUNT="$3"
}

# converts CODE OPTION...: with the faulty engine, into out_folder.
converts() {
  wanted_code=$1
  shift
  rm -rf out_folder
  mkdir out_folder
  with_code "$wanted_code" convert "$model" --data "$data" -o out_folder/y.onnx --ort "$faulty" "$@"
}

test_the_faulty_engine_without_a_fault_is_the_engine() {
  converts 0
  matches err '^load 2 run 8 kernel [0-9]+ close 1$'
  quietly convert "$model" --data "$data" -o y.onnx
  same y.onnx out_folder/y.onnx
}

test_a_crash_of_the_engine_is_told_with_its_place() {
  while read -r what place count words; do
    fault "$what" "$place" "$count"
    converts 6
    has err "narrowcast: $model: ONNX Runtime" "$words"
    empty out
    [ -z "$(ls out_folder)" ]
    tried "$what" "$place $count" "$words"
  done <<'TABLE'
segv load 1 crashed (signal 11, Segmentation fault) in the trace, while it loaded the model
abort load 2 crashed (signal 6, Aborted) in the verification, while it loaded both models
stack run 1 crashed (signal 11, Segmentation fault) in the trace, on sample 1 of 6 (0.npz), before any
segv run 3 in the trace, on sample 3 of 6 (2.npz), before any float value was computed
abort run 8 in the verification, on sample 2 of 2 (7.npz), before any float value was computed
segv kernel 3 in the trace, on sample 1 of 6 (0.npz), after stem.conv was computed
kill run 2 was killed (signal 9, Killed) in the trace, on sample 2 of 6 (1.npz)
exit run 2 ended the process (exit code 0) in the trace, on sample 2 of 6 (1.npz)
exit load 2 ended the process (exit code 0) in the verification, while it loaded both models
TABLE
}

test_a_crash_names_the_node_that_came_next() {
  # By the order of the values: each call reports the value before, and the node that makes the next.
  fault segv kernel 3
  converts 6
  has err 'after stem.conv was computed' 'Next came node /stem/norm (BatchNormalization): probably that.'
  fault segv kernel 5
  converts 6
  has err 'after stem.norm was computed' 'or one of the 1 before it' # Relu, which is derived
  fault segv kernel 170
  converts 6
  has err 'in the verification' 'after block.second.conv was computed' '--keep with its name'
}

test_a_crash_in_trace_and_verify_is_told_too() {
  quietly plan "$model" -o p.json
  fault segv run 2
  with_code 6 trace "$model" --data "$data" -o t.json --ort "$faulty"
  has err 'in the trace, on sample 2 of 6'
  missing t.json
  with_code 6 verify "$model" --plan p.json --data "$data" --ort "$faulty"
  has err 'in the verification, on sample 2 of 8'
  empty out
}

test_a_crash_in_a_round_of_promotion_says_which() {
  narrowcast policy show fp16 >fp16.json
  edited 's/"sample": 256/"sample": 0/' fp16.json unwatched.json # no Step rule: promotion must do it
  fault segv load 4 # the trace, the verdict, the search for what to promote, the verdict again
  with_code 6 convert "$hazards/hazards.onnx" --data "$hazards/samples" --policy ./unwatched.json \
    -o y.onnx --ort "$faulty"
  has err 'in the verification, round 1 of promotion, while it loaded both models'
  missing y.onnx
}

test_a_crash_while_the_engine_is_closed_costs_nothing() {
  for what in segv abort kill exit; do
    fault $what close 1
    converts 0
    has out 'every claim holds' 'wrote '
    quietly inspect out_folder/y.onnx
    tried $what 'close 1' 'the result is complete'
  done
}

test_a_crash_leaves_the_old_output() {
  fault segv run 8
  echo old >y.onnx
  with_code 6 convert "$model" --data "$data" -o y.onnx --ort "$faulty"
  [ "$(cat y.onnx)" = old ]
  holds_only . err out y.onnx
}

test_timeout_ends_what_hangs() {
  for place in 'load 1' 'run 4' 'kernel 150'; do
    # shellcheck disable=SC2086 # two words
    fault hang $place
    converts 6 --timeout 1
    has err 'did not end within 1 s and was stopped in the ' 'a longer --timeout'
    [ -z "$(ls out_folder)" ]
    tried hang "$place" "$(sed -n 's/.*was stopped in \(.*\)/\1/p' err | cut -c 1-40)"
  done
}

test_memory_limit_ends_what_eats_memory() {
  fault eat run 2
  converts 6 --memory-limit 700
  has err 'in the trace, on sample 2 of 6' '--memory-limit may do'
  tried eat 'run 2' 'with --memory-limit 700'
}

test_a_limit_that_is_not_reached_changes_nothing() {
  quietly convert "$model" --data "$data" -o a.onnx
  quietly convert "$model" --data "$data" -o b.onnx --timeout 100 --memory-limit 3000
  same a.onnx b.onnx
  with_code 2 convert "$model" --timeout 5 --in-process
  has err '--in-process and --timeout exclude each other'
}

test_in_process_has_no_second_process() {
  quietly convert "$model" --data "$data" -o a.onnx --in-process
  quietly convert "$model" --data "$data" -o b.onnx
  same a.onnx b.onnx
  fault abort run 1
  with_code 134 convert "$model" --data "$data" -o y.onnx --ort "$faulty" --in-process
}

# hanging: starts a run that hangs, in the background; sets pid, and child to its child.
hanging() {
  fault hang run 2
  "$@" narrowcast convert "$model" --data "$data" -o y.onnx --ort "$faulty" >out 2>err &
  pid=$!
  child=
  for _ in $(seq 100); do
    child=$(cat "/proc/$pid/task/$pid/children" 2>/dev/null) && [ -n "$child" ] && break
    sleep 0.05
  done
  child=${child% }
  sleep 0.3
  kill -0 "$child"
}

# is_gone PID: waits for its end, for up to 5 s.
is_gone() {
  for _ in $(seq 100); do
    kill -0 "$1" 2>/dev/null || return 0
    sleep 0.05
  done
  say "process $1 is still there"
  return 1
}

test_a_signal_ends_both_processes() {
  for signal in TERM HUP KILL; do
    hanging env
    kill -$signal "$pid"
    code=0
    wait "$pid" || code=$?
    [ "$(kill -l "$code")" = "$signal" ]
    is_gone "$child"
    empty err
    missing y.onnx
    tried "$signal" 'to the parent' "exit code $code"
  done
}

test_a_signal_to_the_child_ends_the_parent() {
  hanging env
  kill -TERM "$child"
  code=0
  wait "$pid" || code=$?
  [ "$code" -eq 143 ]
  hanging env
  kill -KILL "$child"
  code=0
  wait "$pid" || code=$?
  [ "$code" -eq 6 ]
  has err 'was killed (signal 9, Killed) in the trace, on sample 2' 'memory ran out'
  tried KILL 'to the child' "exit code $code"
}

test_nohup_is_respected() {
  fault hang run 2
  (
    trap '' HUP
    exec narrowcast convert "$model" --data "$data" -o y.onnx --ort "$faulty" --timeout 2 >out 2>err
  ) &
  pid=$!
  sleep 1
  kill -HUP "$pid"
  code=0
  wait "$pid" || code=$?
  [ "$code" -eq 6 ]
  has err 'did not end within 2 s'
}

run_tests
