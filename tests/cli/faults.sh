#!/bin/sh
# Faults around a run: the engine crashes, hangs, eats memory or ends the process; signals, and
# death at any moment; inputs that change, disks that are full or read-only. What must come of it: a
# message that says where, the documented exit code, the old files or the new ones, nothing else.
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
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:handle_segv=0:handle_sigbus=0:allocator_may_return_null=1"

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
  matches err '^load 2 run 14 kernel [0-9]+ close 1$'
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
stack run 1 crashed (signal 11, Segmentation fault) in the trace, on sample 1 of 6 (0.npz), before
segv run 3 in the trace, on sample 3 of 6 (2.npz), before any float value was computed
abort run 8 in the verification, on sample 2 of 2 (7.npz), before any float value was computed
segv kernel 3 in the trace, on sample 1 of 6 (0.npz), after stem.conv was computed
kill run 2 was killed (signal 9, Killed) in the trace, on sample 2 of 6 (1.npz)
exit run 2 ended the process (exit code 0) in the trace, on sample 2 of 6 (1.npz)
exit load 2 ended the process (exit code 0) in the verification, while it loaded both models
TABLE
}

test_a_crash_names_the_node_that_came_next() {
  # Each call reports the value before, and the node that makes the next.
  fault segv kernel 3
  converts 6
  has err 'after stem.conv was computed' 'Next came node /stem/norm (BatchNormalization): probably'
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
  edited 's/"sample": 256/"sample": 0/' fp16.json unwatched.json # no Step rule: it must promote
  fault segv load 3 # the trace, the verdict, the verdict again
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
  [ $sanitized = no ] || return 0
  fault eat run 2
  converts 6 --memory-limit 700
  has err 'in the trace, on sample 2 of 6' '--memory-limit may do'
  tried eat 'run 2' 'with --memory-limit 700'
  unset FAULT
  # Whether the engine finds out first or the program, and where, depends on the engine.
  for limit in 4 6 8 12 16; do
    code=0
    narrowcast convert "$model" --data "$data" -o y.onnx --memory-limit $limit >out 2>err || code=$?
    [ "$limit" -gt 8 ] && [ "$code" -eq 0 ] && break
    [ "$code" -eq 6 ] || [ "$code" -eq 7 ]
    has err "$model: " '--memory-limit may do'
    missing y.onnx
  done
  # Our own memory runs out: one message, and for programs too.
  with_code 7 convert "$model" --data "$data" -o y.onnx --memory-limit 1 --json
  has err "$model: memory ran out in the preparation" 'within 1 MiB (--memory-limit)' 'A larger --memory-limit may do.'
  [ "$(wc -l <err)" -eq 2 ]
  has out '"message": "memory ran out in the preparation'
}

test_a_limit_that_is_not_reached_changes_nothing() {
  quietly convert "$model" --data "$data" -o a.onnx
  limit=3000
  [ $sanitized = no ] || limit=1000000000
  quietly convert "$model" --data "$data" -o b.onnx --timeout 100 --memory-limit $limit
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

# until COMMAND...: waits for it to succeed, for up to 10 s.
until_true() {
  for _ in $(seq 200); do
    if "$@" 2>/dev/null; then
      return 0
    fi
    sleep 0.05
  done
  say "never: $*"
  return 1
}

# halted WHAT MODEL: starts a conversion in the background that has the fault in the 8th run of a
# session; waits for it; sets pid, and child to its child.
halted() {
  fault "$1" run 8
  rm -f mark
  FAULT_MARK=mark narrowcast convert "$2" --data "$data" -o y.onnx --ort "$faulty" >out 2>err &
  pid=$!
  until_true [ -e mark ]
  child=$(cat "/proc/$pid/task/$pid/children")
  child=${child% }
}

# ends_with CODE: what halted started.
ends_with() {
  code=0
  wait "$pid" || code=$?
  [ "$code" -eq "$1" ] || {
    say "ended with exit code $code, not $1"
    cat err >&2
    return 1
  }
}

is_gone() {
  ! kill -0 "$1"
}

test_a_signal_ends_both_processes() {
  for signal in TERM HUP KILL; do
    # Under nohup it is ignored, and stays so.
    [ $signal = HUP ] && grep -q '^SigIgn:.*[13579bdf]$' /proc/self/status && continue
    case $signal in TERM) number=143 ;; HUP) number=129 ;; KILL) number=137 ;; esac
    halted hang "$model"
    kill -$signal "$pid"
    ends_with "$number"
    until_true is_gone "$child"
    empty err
    missing y.onnx
    tried "$signal" 'to the parent' "exit code $code"
  done
}

test_a_signal_to_the_child_ends_the_parent() {
  halted hang "$model"
  kill -TERM "$child"
  ends_with 143
  halted hang "$model"
  kill -KILL "$child"
  ends_with 6
  has err 'was killed (signal 9, Killed) in the verification, on sample 2' 'memory ran out'
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

# ---- Files ----

test_a_model_that_is_written_to_during_the_run_is_refused() {
  cp "$model" model.onnx
  halted stop model.onnx
  printf X | dd of=model.onnx bs=1 seek=30000 conv=notrunc status=none
  kill -CONT "$child"
  ends_with 7
  has err 'narrowcast: model.onnx: was written to while it was being read'
  missing y.onnx
  tried 'written to' 'the model, during the run' "exit code $code"
}

test_a_sample_that_changes_during_the_run_is_refused() {
  for change in 'written to' replaced; do
    cp -r "$digits/samples" changing
    data=changing
    halted stop "$model"
    case $change in
    written*) printf X | dd of=changing/6.npz bs=1 seek=100 conv=notrunc status=none ;;
    replaced) cp changing/7.npz other.npz && mv other.npz changing/6.npz ;;
    esac
    kill -CONT "$child"
    ends_with 7
    has err 'narrowcast: changing/6.npz: has changed since the run began'
    missing y.onnx
    rm -r changing
    tried "$change" 'a sample, during the run' "exit code $code"
  done
}

test_a_model_that_is_replaced_during_the_run_is_as_it_was() {
  quietly convert "$model" --data "$data" -o wanted.onnx
  cp "$model" model.onnx
  halted stop model.onnx
  echo other >other
  mv other model.onnx
  kill -CONT "$child"
  ends_with 0
  same y.onnx wanted.onnx
  tried 'replaced' 'the model, during the run' "exit code $code"
}

test_a_model_that_is_cut_short_during_the_run_is_told() {
  cp "$model" model.onnx
  halted stop model.onnx
  truncate -s 100 model.onnx
  kill -CONT "$child"
  ends_with 7
  has err 'a file was cut short while it was being read'
  missing y.onnx
  tried 'cut short' 'the model, during the run' "exit code $code"
}

test_output_may_not_be_what_is_read_by_any_name() {
  mkdir folder
  cp "$model" folder/m.onnx
  ln -s folder/m.onnx symbolic.onnx
  ln folder/m.onnx hard.onnx
  ln -s folder linked
  for name in folder/m.onnx symbolic.onnx hard.onnx linked/m.onnx folder/../folder//m.onnx \
    "$PWD/folder/m.onnx"; do
    with_code 2 convert folder/m.onnx --data "$data" -o "$name"
    has err 'the file that is read'
    same folder/m.onnx "$model"
    tried 'output is the input' "$(basename "$(dirname "$name")")/$(basename "$name")" "exit code 2"
  done
  narrowcast policy show fp16 >mine.json
  with_code 2 convert "$model" --policy ./mine.json --data "$data" -o y.onnx --save-plan mine.json
  has err 'mine.json' 'a file that this run reads'
  with_code 2 trace "$model" --checkpoints folder/m.onnx symbolic.onnx -o hard.onnx
  same folder/m.onnx "$model"
}

test_a_file_that_may_not_grow_leaves_the_old_output() {
  echo old >y.onnx
  (
    ulimit -f 8 # blocks of 512 bytes or 1 KiB: less than the model needs
    with_code 7 convert "$model" --data "$data" -o y.onnx
  )
  has err 'narrowcast: y.onnx: cannot be written: File too large'
  [ "$(cat y.onnx)" = old ]
  holds_only . err out y.onnx
  tried 'file too large' 'ulimit -f' "exit code 7"
}

# in_tmpfs FUNCTION: runs it in a mount namespace of its own, where `disk` is a file system of
# 16 KiB. Does nothing where that is not allowed.
in_tmpfs() {
  mkdir disk
  unshare -rm true 2>/dev/null || return 0
  unshare -rm sh -c ". '$root/tests/cli/lib.sh'; set -e; model=$model; data=$data
    mount -t tmpfs -o size=16k none disk
    $1"
}

test_a_full_disk_leaves_the_old_output() {
  # shellcheck disable=SC2016 # the inner shell's
  in_tmpfs '
    echo old >disk/y.onnx
    with_code 7 convert "$model" --data "$data" -o disk/y.onnx
    has err "narrowcast: disk/y.onnx: cannot be written: No space left on device"
    [ "$(cat disk/y.onnx)" = old ]
    holds_only disk y.onnx
    printf "  %-24s %-30s %s\n" "disk is full" "a tmpfs of 16 KiB" "exit code 7"'
  [ ! -c /dev/full ] || {
    code=0
    narrowcast formats >/dev/full 2>err || code=$?
    [ "$code" -eq 7 ]
    has err 'standard output cannot be written'
  }
}

test_a_read_only_disk_is_told() {
  # shellcheck disable=SC2016
  in_tmpfs '
    mount -o remount,ro disk
    with_code 7 convert "$model" --data "$data" -o disk/y.onnx
    has err "narrowcast: disk/y.onnx: cannot be written: its folder disk: Read-only file system"
    printf "  %-24s %-30s %s\n" "disk is read-only" "a tmpfs" "exit code 7"'
}

# with_files WHAT COUNT COMMAND...: with a fault of the file system (tests/faults/faulty_files.c).
with_files() {
  what=$1
  count=$2
  shift 2
  {
    code=0
    FILES_FAULT=$what FILES_COUNT=$count LD_PRELOAD=$(dirname "$faulty")/libfaulty_files.so "$@" \
      2>err || code=$?
    echo "$code" >code
  } | cat >out # which ends when both processes have
  code=$(cat code)
}

# old_or_new FOLDER: it holds the old model and its data, or the new ones, and no half of either.
# Beside them there may be the other's data, whole.
old_or_new() {
  if cmp -s "$1/y.onnx" old/y.onnx; then
    state=old
  else
    same "$1/y.onnx" new/y.onnx
    state=new
  fi
  for file in "$state"/*; do
    same "$1/$(basename "$file")" "$file"
  done
  for file in "$1"/*; do
    name=$(basename "$file")
    [ -e "old/$name" ] || [ -e "new/$name" ] || {
      say "$1 holds $name"
      return 1
    }
  done
}

# old_and_new: makes both folders: a model with external data, of which different nodes stay fp32.
old_and_new() {
  source_model=$tiny/external.onnx
  samples=$tiny/samples/external
  mkdir old new
  quietly convert "$source_model" --data "$samples" -o old/y.onnx --keep first
  convert_new new/y.onnx
  different old/y.onnx new/y.onnx
  [ "$(find old new -name 'y.onnx.*.data' | wc -l)" -eq 2 ]
}

# convert_new OUTPUT: also with with_files, so by a command of its own.
convert_new() {
  quietly convert "$source_model" --data "$samples" -o "$1" --keep /y
}

test_death_at_any_call_leaves_the_old_or_the_new_files() {
  [ $sanitized = no ] || return 0
  old_and_new
  for what in kill kill_both; do
    calls=0
    while
      rm -rf folder
      cp -r old folder
      with_files "$what" $((calls + 1)) narrowcast convert "$source_model" --data "$samples" \
        --keep /y -o folder/y.onnx
      [ "$code" -ne 0 ]
    do
      calls=$((calls + 1))
      old_or_new folder
      convert_new folder/y.onnx # clears up
      # shellcheck disable=SC2046 # a list of names
      holds_only folder $(ls new)
    done
    # shellcheck disable=SC2046
    holds_only folder $(ls new)
    [ "$calls" -eq 10 ] # both synced, each synced, linked and renamed, the folder synced ...
    tried "$what" "before each of $calls calls" 'the old files or the new ones'
  done
}

# Where a file in the making has a name: that of a killed process stays, until the next run.
test_death_where_the_disk_has_no_unnamed_files_is_cleared_up_by_the_next_run() {
  [ $sanitized = no ] || return 0
  old_and_new
  export FILES_NAMED=1
  for what in kill kill_both; do
    left=0
    for count in 1 2 3 4; do
      rm -rf folder
      cp -r old folder
      with_files "$what" $count narrowcast convert "$source_model" --data "$samples" --keep /y \
        -o folder/y.onnx
      found=$(find folder -name '*.tmp' | wc -l)
      left=$((left + found))
      [ "$what" = kill_both ] || [ "$found" -eq 0 ] # the parent has removed it
      convert_new folder/y.onnx
      # shellcheck disable=SC2046
      holds_only folder $(ls new)
    done
    [ "$what" = kill ] || [ $left -gt 0 ]
    tried "$what, named files" "before each of $count calls" "$left left, which the next run removes"
  done
}

test_failure_at_any_call_leaves_the_old_files_or_the_new_ones() {
  [ $sanitized = no ] || return 0
  old_and_new
  for last in $(seq 1 12); do
    rm -rf folder
    cp -r old folder
    with_files fail "$last" narrowcast convert "$source_model" --data "$samples" --keep /y \
      -o folder/y.onnx
    old_or_new folder
    if [ "$code" -ne 0 ]; then
      [ "$code" -eq 7 ] && [ $state = old ]
      has err 'cannot be written: No space left on device'
    fi
  done
  tried fail 'each call' 'exit code 7 and the old files, or the new ones'
}

test_killed_at_random_moments_it_leaves_the_old_or_the_new_file() {
  mkdir folder
  quietly convert "$model" --data "$data" -o old.onnx --keep logits
  quietly convert "$model" --data "$data" -o new.onnx
  olds=0
  began=$(date +%s%N)
  quietly convert "$model" --data "$data" -o folder/y.onnx
  took=$((($(date +%s%N) - began) / 1000000))
  for moment in $(awk -v took=$took 'BEGIN {
    srand(1)
    for (i = 0; i < 30; i++)
      printf "%.3f ", 0.001 + took / 1000 * (i % 2 ? rand() : 0.8 + 0.4 * rand())
  }'); do
    cp old.onnx folder/y.onnx
    timeout -s KILL "$moment" narrowcast convert "$model" --data "$data" -o folder/y.onnx -q \
      2>&1 | cat >/dev/null # which ends when both processes have
    if cmp -s folder/y.onnx old.onnx; then
      olds=$((olds + 1))
    else
      same folder/y.onnx new.onnx
    fi
    holds_only folder y.onnx
  done
  tried kill '30 random moments' "the old file $olds times, else the new one"
}

run_tests
