#!/bin/sh
# Without ONNX Runtime: what works, and what is said by what does not.
. "$(dirname "$0")/lib.sh"

model=$digits/digits.onnx
data=$digits/samples

test_without_engine_everything_but_trace_verify_and_convert_works() {
  quietly trace "$model" --data "$data" -o t.json
  export NARROWCAST_ORT=none
  quietly inspect "$model"
  quietly plan "$model" --trace t.json -o p.json
  quietly rewrite "$model" --plan p.json -o y.onnx
  quietly policy list
  quietly formats
  [ -s y.onnx ]
}

test_without_engine_the_error_says_how_to_get_it() {
  quietly plan "$model" -o p.json
  export NARROWCAST_ORT=none
  for command in trace convert "verify --plan p.json"; do
    # shellcheck disable=SC2086 # a list of words
    with_code 6 $command "$model" --data "$data"
    empty out
    has err 'ONNX Runtime' 'NARROWCAST_ORT' 'libonnxruntime' 'pip install onnxruntime'
  done
  holds_only . err out p.json
}

test_engine_leaves_nothing_in_the_users_home() {
  mkdir home
  HOME=$PWD/home XDG_CACHE_HOME='' quietly convert "$model" --data "$data" -o y.onnx
  [ -z "$(ls -A home)" ]
}

test_option_ort_wins_over_the_environment() {
  library=$root/.deps/lib/libonnxruntime.so
  [ -f "$library" ] || return 0 # the system's own is used
  export NARROWCAST_ORT=none
  quietly convert "$model" --data "$data" -o y.onnx --ort "$library"
  quietly convert "$model" --data "$data" -o z.onnx --ort "$root/.deps/lib"
  same y.onnx z.onnx
}

test_bad_model_is_told_before_the_missing_engine() {
  printf 'no model\n' >bad.onnx
  export NARROWCAST_ORT=none
  with_code 3 convert bad.onnx
}

run_tests
