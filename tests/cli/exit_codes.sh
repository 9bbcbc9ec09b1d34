#!/bin/sh
# One test for each exit code of the table, and that messages name what is wrong and go to stderr.
. "$(dirname "$0")/lib.sh"

model=$digits/digits.onnx
data=$digits/samples

test_code_0_every_claim_holds() {
  quietly convert "$model" --data "$data" -o y.onnx
  has out 'every claim holds' 'wrote        y.onnx'
  [ -s y.onnx ]
}

test_code_1_a_claim_does_not_hold() {
  strict relative_l2
  with_code 1 convert "$model" --policy ./strict.json --data "$data" -o y.onnx
  empty err
  has out 'REFUSED'
}

test_code_1_also_from_verify() {
  strict relative_l2
  quietly trace "$model" --data "$data" -o t.json
  quietly plan "$model" --policy ./strict.json --trace t.json -o p.json
  with_code 1 verify "$model" --plan p.json --data "$data"
  has out 'REFUSED' 'FAILS'
}

test_code_2_wrong_command_line() {
  with_code 2 convert
  empty out
  with_code 2 plan "$model" --format fp17 -o p.json
  empty out
  has err 'fp17' 'Did you mean fp16?'
  with_code 2 plan "$model" --io narow -o p.json
  has err 'narow' '"narrow"'
  missing p.json
}

test_code_2_names_the_option_that_is_missing() {
  quietly plan "$model" -o p.json
  with_code 2 rewrite "$model"
  has err 'rewrite needs --plan FILE'
  with_code 2 verify "$model" -o v.json
  has err 'verify needs --plan FILE'
  with_code 2 batch .
  has err 'batch needs --out DIR'
  with_code 2 emit p.json -o x
  has err 'emit needs --for tensorrt|onnxruntime'
  lacks err 'needs.*-o FILE$'
  with_code 2 emit p.json --for tensorrt
  has err 'emit needs -o FILE'
  with_code 2 emit p.json
  has err 'emit needs --for tensorrt|onnxruntime and -o FILE'
  holds_only . err out p.json
}

test_code_3_bad_model() {
  printf 'this is no model\n' >bad.onnx
  for command in inspect plan convert trace; do
    with_code 3 "$command" bad.onnx
    empty out
    has err 'narrowcast: bad.onnx: '
  done
  : >empty.onnx
  with_code 3 inspect empty.onnx
  has err 'empty.onnx' 'the file is empty'
  head -c 20000 "$model" >cut.onnx
  with_code 3 inspect cut.onnx
  has err 'cut.onnx' 'at byte'
  holds_only . bad.onnx cut.onnx empty.onnx err out
}

test_code_3_says_which_limit_a_model_is_over() {
  with_code 3 inspect "$model" --model-limit messages=10
  has err 'more than 10 messages' '--model-limit messages=N'
  quietly inspect "$model" --model-limit messages=1000 --model-limit depth=20
  with_code 3 inspect "$model" --model-limit depth=3
  has err 'deeper than 3 messages' '--model-limit depth=N'
  with_code 2 inspect "$model" --model-limit message=1000
  has err 'The limits are depth, messages, fields and string_bytes'
  with_code 2 inspect "$model" --model-limit messages=0
  has err 'from 1 to'
  for depth in 1001 18446744073709551616 x; do
    with_code 2 inspect "$model" --model-limit depth=$depth
    has err "--model-limit depth takes a whole number from 1 to 1000, not \"$depth\""
  done
}

test_code_4_bad_policy() {
  narrowcast policy show fp16 | sed 's/"margin"/"mragin"/' >bad.json
  with_code 4 convert "$model" --policy ./bad.json --data "$data"
  empty out
  matches err 'bad\.json:[0-9]+: .*mragin'
  has err 'margin'
  with_code 4 policy check ./bad.json
  matches err 'bad\.json:[0-9]+: .*mragin'
}

test_code_4_unknown_policy_names_the_near_one() {
  with_code 4 convert "$model" --policy fp61 --data "$data"
  empty out
  has err 'fp61' 'fp16'
  with_code 4 policy show fp61
  has err 'fp16'
}

test_code_4_policy_that_is_not_text() {
  with_code 4 policy check "$model"
  has err 'digits.onnx'
}

test_code_4_bad_plan_or_trace() {
  printf '{"schema": ' >bad.json
  with_code 4 rewrite "$model" --plan bad.json -o y.onnx
  has err 'bad.json:1'
  with_code 4 plan "$model" --trace bad.json -o p.json
  has err 'bad.json:1'
  holds_only . bad.json err out
}

test_code_4_plan_and_trace_of_another_model() {
  quietly trace "$model" --data "$data" -o t.json
  quietly plan "$model" --trace t.json -o p.json
  with_code 4 rewrite "$tiny/external.onnx" --plan p.json -o y.onnx
  has err 'p.json' 'digits.onnx'
  with_code 4 plan "$tiny/external.onnx" --trace t.json -o q.json
  has err 't.json' 'digits.onnx'
  missing y.onnx
  missing q.json
}

test_code_5_bad_samples() {
  mkdir none wrong
  with_code 5 convert "$model" --data none -o y.onnx
  empty out
  has err 'none'
  printf 'no array\n' >wrong/0.npz
  with_code 5 convert "$model" --data wrong -o y.onnx
  has err '0.npz'
  with_code 5 convert "$model" --data "$tiny/samples/external" -o y.onnx
  has err '0.npz' 'image'
  missing y.onnx
}

test_code_6_no_engine() {
  with_code 6 convert "$model" --data "$data" --ort ./nowhere.so
  empty out
  has err 'nowhere.so'
  printf 'no library\n' >libonnxruntime.so
  with_code 6 convert "$model" --data "$data" --ort ./libonnxruntime.so
  has err 'libonnxruntime.so'
}

test_code_6_the_engine_refuses_the_model() {
  with_code 6 convert "$tiny/duplicate_node_names.onnx" --random 1 -o y.onnx
  empty out
  has err 'duplicate_node_names.onnx' 'ONNX Runtime'
  missing y.onnx
}

test_code_7_a_file_cannot_be_read() {
  with_code 7 inspect nowhere.onnx
  empty out
  has err 'nowhere.onnx' 'No such file'
  with_code 7 inspect .
  has err 'narrowcast: .'
  with_code 7 policy check ./nowhere.json
  has err 'nowhere.json'
  with_code 7 rewrite "$model" --plan nowhere.json
  has err 'nowhere.json'
  with_code 7 plan "$model" --trace nowhere.json
  has err 'nowhere.json'
  with_code 7 convert "$model" --data nowhere
  has err 'nowhere'
}

test_code_7_a_file_cannot_be_written() {
  : >file
  for command in convert trace plan; do
    with_code 7 "$command" "$model" -o file/y.onnx
    has err 'file/y.onnx'
    with_code 7 "$command" "$model" -o nowhere/y.onnx
    has err 'nowhere/y.onnx'
    lacks out 'wrote'
  done
  with_code 7 convert "$model" --data "$data" -o y.onnx --save-plan file/p.json
  has err 'file/p.json'
  missing y.onnx
  holds_only . err file out
}

test_code_7_standard_output_is_full() {
  [ -c /dev/full ] || return 0
  code=0
  narrowcast formats >/dev/full 2>err || code=$?
  [ "$code" -eq 7 ]
  has err 'standard output'
}

run_tests
