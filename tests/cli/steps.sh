#!/bin/sh
# The steps one by one against convert; the same input gives the same bytes; what changes nothing.
. "$(dirname "$0")/lib.sh"

model=$digits/digits.onnx
data=$digits/samples

# only_fp32: writes only_fp32.json, a policy whose ladder has nothing narrow.
only_fp32() {
  narrowcast policy show fp16 >fp16.json
  edited 's/"ladder": *\[[^]]*\]/"ladder": ["fp32"]/' fp16.json only_fp32.json
  quietly policy check ./only_fp32.json
}

# step_by_step MODEL DATA: t.json, p.json and steps.onnx.
step_by_step() {
  with_code 0 trace "$1" --data "$2" -o t.json
  with_code 0 plan "$1" --trace t.json -o p.json
  with_code 0 rewrite "$1" --plan p.json -o steps.onnx
}

test_steps_give_the_bytes_of_convert() {
  quietly convert "$model" --data "$data" -o whole.onnx
  step_by_step "$model" "$data"
  same steps.onnx whole.onnx
  quietly verify "$model" --plan p.json --data "$data"
  has out 'every claim holds'
  for name in if_loop functions external names multi_io constants; do
    with_code 0 convert "$tiny/$name.onnx" --data "$tiny/samples/$name" -o whole.onnx
    step_by_step "$tiny/$name.onnx" "$tiny/samples/$name"
    [ ! -e whole.onnx.data ] || mv whole.onnx.data steps.onnx.data.wanted
    with_code 0 verify "$tiny/$name.onnx" --plan p.json --data "$tiny/samples/$name"
  done
}

test_saved_trace_and_plan_serve_the_steps() {
  quietly convert "$model" --data "$data" -o whole.onnx --save-trace t.json --save-plan p.json
  quietly rewrite "$model" --plan p.json -o steps.onnx
  same steps.onnx whole.onnx
  quietly plan "$model" --trace t.json -o q.json
  quietly rewrite "$model" --plan q.json -o steps.onnx
  same steps.onnx whole.onnx
  quietly convert "$model" --trace t.json --data "$data" -o again.onnx
  same again.onnx whole.onnx
}

test_verify_of_a_saved_plan_measures_what_convert_measured() {
  quietly convert "$model" --data "$data" -o y.onnx --json --save-plan p.json
  sed -n '/"claims"/,/^    \]/p' out >convert.claims
  quietly verify "$model" --plan p.json --data "$data" --json
  sed -n '/"claims"/,/^    \]/p' out >verify.claims
  [ -s convert.claims ]
  same convert.claims verify.claims
}

test_nothing_is_held_out_from_samples_that_changed_since_the_trace() {
  cp -r "$data" samples
  quietly trace "$model" --data samples -o t.json
  quietly plan "$model" --trace t.json -o p.json
  quietly verify "$model" --plan p.json --data samples
  has out 'verify       2 held-out samples'
  cp samples/1.npz samples/2.npz
  with_code 0 verify "$model" --plan p.json --data samples
  has err 'not those that the plan was made from: all 8 are used'
  has out 'verify       8 samples'
  with_code 0 verify "$model" --plan p.json
  has err 'the samples are made up, and not those that the plan was made from'
  with_code 0 convert "$model" --trace t.json --data samples -o y.onnx
  has err 'the trace is of other samples'
  has out 'verify       2 samples'
  # What was held out does not matter to the plan.
  cp "$data/2.npz" samples/2.npz
  cp samples/1.npz samples/7.npz
  quietly verify "$model" --plan p.json --data samples
  has out 'verify       2 held-out samples'
}

test_a_saved_plan_says_what_was_measured_of_each_claim() {
  quietly convert "$model" --data "$data" -o y.onnx --save-plan p.json
  matches p.json '"id": "relative-l2".*"measured": \[\{"output": "logits", "value": 0.000[0-9]*, "holds": true, "worst_sample": "[0-7].npz"\}'
  has out 'limits  '
  has p.json '"id": "not_claimed"'
}

test_verify_writes_nothing() {
  quietly plan "$model" -o p.json
  quietly verify "$model" --plan p.json --data "$data"
  holds_only . err out p.json
}

test_plan_without_a_trace_narrows_nothing_unseen() {
  quietly plan "$model" -o p.json
  has out 'not seen'
  quietly rewrite "$model" --plan p.json -o y.onnx
  same y.onnx "$model"
}

test_plan_edited_by_hand_is_applied() {
  step_by_step "$model" "$data"
  wide='s/"format": "fp16"/"format": "fp32"/'
  edited "/\"node\": \"\/stem\/conv\"/$wide; /\"value\": \"stem\.\(weight\|conv\)\"/$wide" \
    p.json edited.json
  quietly rewrite "$model" --plan edited.json -o edited.onnx
  different edited.onnx steps.onnx
  has out '16 of 18 float nodes narrow'
}

test_plan_edited_to_what_the_operator_forbids_is_refused() {
  step_by_step "$model" "$data"
  edited 's/\("op": "Conv".*\)"format": "fp16"/\1"format": "bf16"/' p.json edited.json
  with_code 4 rewrite "$model" --plan edited.json -o y.onnx
  has err 'edited.json' 'Conv' 'bf16'
  missing y.onnx
}

test_twice_gives_the_same_bytes() {
  for run in 1 2; do
    quietly convert "$model" --data "$data" -o $run.onnx --save-trace $run.t --save-plan $run.p
  done
  same 1.onnx 2.onnx
  same 1.p 2.p
  same 1.t 2.t
}

test_threads_do_not_change_a_byte() {
  for threads in 1 2; do
    quietly convert "$model" --data "$data" -o $threads.onnx --save-plan $threads.p \
      --threads $threads
    for policy in bf16 balanced; do
      with_code 0 convert "$tiny/if_loop.onnx" --data "$tiny/samples/if_loop" --policy $policy \
        -o $threads.$policy.onnx --threads $threads
    done
  done
  same 1.onnx 2.onnx
  same 1.p 2.p
  same 1.bf16.onnx 2.bf16.onnx
  same 1.balanced.onnx 2.balanced.onnx
}

test_only_fp32_gives_the_same_bytes() {
  only_fp32
  quietly convert "$model" --policy ./only_fp32.json --data "$data" -o y.onnx
  has out 'copied unchanged'
  same y.onnx "$model"
  for name in unsorted names external constants if_loop; do
    with_code 0 convert "$tiny/$name.onnx" --policy ./only_fp32.json \
      --data "$tiny/samples/$name" -o y.onnx
    same y.onnx "$tiny/$name.onnx"
  done
}

test_steps_with_operands_in_8_bits_give_the_bytes_of_convert() {
  narrowcast policy show fp8 | sed 's/"target": "accelerator"/"target": "template"/' >fp8.json
  quietly convert "$model" --policy ./fp8.json --raise-opset 19 --data "$data" -o whole.onnx
  quietly trace "$model" --policy ./fp8.json --raise-opset 19 --data "$data" -o t.json
  quietly plan "$model" --policy ./fp8.json --raise-opset 19 --trace t.json -o p.json
  grep -q '"operands": "fp8e4m3fn"' p.json
  grep -q '"opset_raised_to": 19' p.json
  with_code 0 rewrite "$model" --plan p.json -o steps.onnx
  same whole.onnx steps.onnx
  with_code 0 verify "$model" --plan p.json --data "$data"
  matches out 'every claim holds'
  quietly convert whole.onnx --policy ./fp8.json --raise-opset 19 --data "$data" -o twice.onnx
  same whole.onnx twice.onnx
}

test_steps_with_weights_in_4_bits_give_the_bytes_of_convert() {
  engine_knows_opset 23 || return 0
  set -- --policy fp4 --raise-opset 23
  quietly convert "$model" "$@" --data "$data" -o whole.onnx
  matches out 'operands +4 of 5 matrix products read their weights in fp4e2m1: 4 weights of '
  matches out '4 weights of [0-9]+ B in 4 bits;'
  matches out 'loads +not in ONNX Runtime .*: it has no float4e2m1 kernels for the CPU'
  quietly trace "$model" "$@" --data "$data" -o t.json
  quietly plan "$model" "$@" --trace t.json -o p.json
  grep -q '"operands": "fp4e2m1"' p.json
  with_code 0 rewrite "$model" --plan p.json -o steps.onnx
  same whole.onnx steps.onnx
  with_code 0 verify "$model" --plan p.json --data "$data"
  matches out 'every claim holds'
  quietly convert whole.onnx "$@" --data "$data" -o twice.onnx
  same whole.onnx twice.onnx
  quietly explain p.json wide.weight
  matches out 'operand +read in fp4e2m1, in blocks of 16 along axis 1, each times 2\^[0-9]+ to 2\^[0-9]+'
  quietly report p.json -o r.html
}

test_converting_the_result_changes_nothing() {
  for policy in fp16 bf16 balanced fp8 fp4; do
    quietly convert "$model" --policy $policy --data "$data" -o once.onnx
    quietly convert once.onnx --policy $policy --data "$data" -o twice.onnx
    same once.onnx twice.onnx
    for name in if_loop functions names unsorted multi_io constants; do
      with_code 0 convert "$tiny/$name.onnx" --policy $policy --data "$tiny/samples/$name" \
        -o once.onnx
      with_code 0 convert once.onnx --policy $policy --data "$tiny/samples/$name" -o twice.onnx
      same once.onnx twice.onnx
    done
  done
}

test_converting_a_promoted_result_changes_nothing() {
  narrowcast policy show fp16 >fp16.json
  edited 's/"sample": 256/"sample": 0/' fp16.json unwatched.json  # no Step rule: verify must find it
  with_code 0 convert "$hazards/hazards.onnx" --data "$hazards/samples" --policy ./unwatched.json \
    -o once.onnx
  matches out '^promoted '
  with_code 0 convert once.onnx --data "$hazards/samples" --policy ./unwatched.json -o twice.onnx
  same once.onnx twice.onnx
}

test_island_of_the_author_and_quantised_model_are_left_alone() {
  for name in island quantised; do
    quietly convert "$tiny/$name.onnx" --data "$tiny/samples/$name" -o y.onnx
    has out 'copied unchanged'
    same y.onnx "$tiny/$name.onnx"
  done
}

# model_of TYPE OPSET: m.onnx, one Relu on tensors of the type.
model_of() {
  /usr/bin/python3 - "$@" <<'EOF'
import sys
from onnx import TensorProto, helper, save
kind = TensorProto.DataType.Value(sys.argv[1])
x, y = (helper.make_tensor_value_info(name, kind, [4]) for name in 'xy')
graph = helper.make_graph([helper.make_node('Relu', ['x'], ['y'], name='/y')], 'g', [x], [y])
opset = [helper.make_opsetid('', int(sys.argv[2]))]
save(helper.make_model(graph, opset_imports=opset, ir_version=8), 'm.onnx')
EOF
}

test_a_model_without_fp32_says_what_it_has_instead() {
  model_of FLOAT16 17
  quietly plan m.onnx -o p.json
  has out 'no node computes on fp32 tensors: 2 are fp16 already'
  model_of INT64 17
  quietly plan m.onnx -o p.json
  has out 'no node computes on fp32 tensors: there are none'
}

test_raised_opset_is_told_only_where_the_result_has_it() {
  quietly convert "$digits/digits.onnx" --data "$digits/samples" --keep '*' --raise-opset 21 -o m.onnx -q
  has out 'opset        not raised: nothing is narrow at opset 21 either'
  same "$digits/digits.onnx" m.onnx
  quietly convert "$digits/digits.onnx" --data "$digits/samples" --raise-opset 21 -o m.onnx -q
  has out 'opset        raised to 21'
  quietly convert "$digits/digits.onnx" --data "$digits/samples" --raise-opset 13 -o m.onnx -q
  has out 'opset        left at 17, which is not below 13'
  # The count is that of the file that is named beside it, whatever the adapters add.
  model_of FLOAT 11
  /usr/bin/python3 - <<'EOF'
import onnx
m = onnx.load('m.onnx')
m.graph.node[0].op_type = 'Softmax'  # which flattened before opset 13
onnx.save(m, 'm.onnx')
EOF
  quietly plan m.onnx --raise-opset 22 -o p.json
  has out 'm.onnx: 1 node,'
}

test_a_place_that_cannot_be_written_is_refused_before_the_engine_runs() {
  export NARROWCAST_ORT=$PWD/no-such-library.so # whoever gets as far as it ends with 6
  for option in output save-plan save-trace save-verdict report; do
    with_code 7 convert "$digits/digits.onnx" --$option missing/x
    has err 'missing/x' 'there is no folder missing' 'mkdir -p'
  done
  with_code 7 convert "$digits/digits.onnx" -o missing/
  has err 'there is no folder missing' 'give the name of a file in it'
  touch file
  with_code 7 trace "$digits/digits.onnx" -o file/t.json
  has err 'Not a directory'
  mkdir folder
  with_code 7 trace "$digits/digits.onnx" -o folder
  has err 'a directory, not a regular file' 'Give the name of a file in it'
  with_code 7 plan "$digits/digits.onnx" -o missing/p.json
  quietly plan "$digits/digits.onnx" -o p.json
  with_code 7 verify "$digits/digits.onnx" --plan p.json -o missing/v.json
  with_code 7 rewrite "$digits/digits.onnx" --plan p.json -o missing/m.onnx
  with_code 7 report p.json -o missing/p.html
  with_code 7 emit p.json --for tensorrt -o missing/args
}

test_text_goes_to_standard_output_for_a_dash() {
  m=$digits/digits.onnx
  quietly trace "$m" --data "$digits/samples" -o t.json
  quietly trace "$m" --data "$digits/samples" -o - -q
  sed '/"seconds"/d' out >o.json
  sed '/"seconds"/d' t.json >w.json
  same w.json o.json
  quietly plan "$m" --trace t.json -o p.json
  quietly plan "$m" --trace t.json -o -
  same p.json out
  quietly verify "$m" --plan p.json --data "$digits/samples" -o - -q
  has out '"claims"'
  is_json out
  quietly report p.json -o p.html
  quietly report p.json -o -
  same p.html out
  quietly emit p.json --for tensorrt -o args
  quietly emit p.json --for tensorrt -o -
  same args out
  [ ! -e ./- ]
  with_code 2 plan "$m" -o - --json
  has err 'exclude each other'
  with_code 2 convert "$m" -o -
  has err './-'
  with_code 2 convert "$m" --report - -o m.onnx
  [ ! -e m.onnx ]
  code=0
  narrowcast plan "$m" -o - >/dev/full 2>err || code=$?
  [ "$code" -eq 7 ]
}

# A model is more than one file where it is large, and has no place there.
test_text_goes_to_dev_null_and_dev_stdout() {
  m=$digits/digits.onnx
  quietly plan "$m" -o p.json
  quietly plan "$m" -o /dev/stdout
  same p.json out
  quietly emit p.json --for tensorrt -o args
  quietly emit p.json --for tensorrt -o /dev/stdout
  same args out
  quietly plan "$m" -o /dev/null
  quietly report p.json -o /dev/null
  quietly emit p.json --for tensorrt -o /dev/null
  quietly convert "$m" --random 1 -o y.onnx --save-plan /dev/null --save-verdict /dev/null
  for command in convert "rewrite --plan p.json"; do
    with_code 2 $command "$m" -o /dev/null
    has err '/dev/null: will not be written: it is no place for a model'
  done
  [ -c /dev/null ]
}

# A call is no node of the plan: those of the function are.
test_calls_of_functions_are_not_counted_as_float_nodes() {
  quietly inspect "$tiny/functions.onnx" --json
  calls=$(sed -n 's/.*"calls": \([0-9]*\).*/\1/p' out | awk '{ n += $1 } END { print n }')
  [ "$calls" -gt 0 ]
  quietly plan "$tiny/functions.onnx" -o p.json
  lacks out 'operator is not known'
  lacks p.json '"rule": "unknown"'
  has p.json '"scope": "fn:'
}

test_summaries_count_one_as_one() {
  quietly convert "$digits/digits.onnx" --random 1 --samples 1 -o m.onnx -q
  has out '1 made-up sample; none held out' 'ranges are those of 1 sample, and claims are judged on the one that calibrated'
  mkdir zoo
  cp "$digits/digits.onnx" zoo/
  with_code 0 batch zoo --out res
  has out ' 1 node of 1 model: '
  has res/summary.md '1 model:'
}

test_growth_beyond_a_million_has_no_digits() {
  quietly convert "$digits/digits.onnx" --data "$digits/samples" --format bf16 --raise-opset 22 -o m.onnx -q
  has out 'may grow more than 1e6 times before it leaves'
}

run_tests
