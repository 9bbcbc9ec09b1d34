#!/bin/sh
# Reviewing a plan: what is explained, compared, and handed on to other tools.
. "$(dirname "$0")/lib.sh"

model=$digits/digits.onnx
data=$digits/samples

# planned [OPTION...]: t.json and p.json of the demo's model.
planned() {
  [ -e t.json ] || with_code 0 trace "$model" --data "$data" -o t.json
  quietly plan "$model" --trace t.json -o p.json "$@"
}

test_a_cast_of_the_author_that_is_left_out_is_called_so() {
  narrowcast convert "$tiny/island.onnx" --narrow /normal --random 1 -o y.onnx --save-plan plan.json >/dev/null
  narrowcast explain plan.json /wide >out
  has out 'node /wide (Cast): left out'
  narrowcast explain plan.json wide >out
  has out '/wide (Cast, left out)' '/normal (LayerNormalization, fp16)'
}

test_explain_needs_the_plan_alone() {
  planned
  mkdir elsewhere
  mv p.json elsewhere
  cd elsewhere
  quietly explain p.json logits
  has out 'tensor logits: fp16' 'made by    /logits (Gemm, fp16)' \
    'read by    /probabilities (Softmax, fp32)' 'at least 2: passes'
  quietly explain p.json /probabilities
  has out 'node /probabilities (Softmax): fp32, not fp16' 'softmax-and-losses (pin): Exponentials' \
    'reads      logits (fp16)' 'us in fp16' 'us in fp32' '--narrow'
}

test_explain_says_how_each_operand_is_read() {
  planned --policy fp8 --raise-opset 19
  quietly explain p.json /stem/conv
  matches out '^  reads +image \(fp32, read in fp8e4m3fn times 2\^-?[0-9]+\), [^ ]+ \(fp8e4m3fn times 2\^-?[0-9]+\)'
  quietly explain p.json '*'
  matches out '^constant [^ ]+: fp8e4m3fn times 2\^-?[0-9]+$'
  lacks out 'e+03 times'
}

test_explain_of_a_constant_beyond_the_range_does_not_say_that_it_is_held() {
  /usr/bin/python3 - <<'END'
import numpy, onnx
from onnx import helper, numpy_helper
f = onnx.TensorProto.FLOAT
big = numpy_helper.from_array(numpy.float32(1e6), "big")
graph = helper.make_graph(
    [helper.make_node("Add", ["x", "big"], ["y"])], "g",
    [helper.make_tensor_value_info("x", f, [4])], [helper.make_tensor_value_info("y", f, [4])], [big])
onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), "m.onnx")
END
  quietly plan m.onnx -o p.json
  quietly explain p.json big
  matches out '^  range .*FAILS$'
  matches out '^  noise +none of what is in the range of fp16; what is beyond it is lost$'
}

test_explain_takes_globs_and_constants() {
  planned
  quietly explain p.json 'stem*'
  has out 'constant stem.weight: fp16' 'tensor stem.relu: fp16'
  lacks out 'tensor wide.relu'
  quietly explain p.json '*/conv'
  has out 'node /stem/conv (Conv): fp16'
}

test_explain_tells_the_pattern() {
  quietly plan "$hazards/hazards.onnx" -o p.json
  quietly explain p.json /rms_norm_sum/square
  has out 'part of a pattern that stays in fp32' 'normalisation-patterns (pin)' \
    'pattern    part of a rms-norm'
  quietly explain p.json /rms_norm_sum/scaled
  lacks out 'rms-norm'
}

test_explain_of_no_name_says_the_near_one() {
  planned
  with_code 2 explain p.json logit
  has err '"logit"' 'Did you mean logits?'
  with_code 2 explain p.json 'nothing-like-this-*'
  has err 'p.json'
  with_code 2 explain p.json
  has err 'NAME' '--why-not'
  with_code 2 explain p.json logits --why-not fp16
  has err 'either'
}

test_explain_says_what_a_failing_tensor_would_need() {
  with_code 0 trace "$hazards/hazards.onnx" --data "$hazards/samples" -o t.json
  with_code 0 plan "$hazards/hazards.onnx" --trace t.json -o p.json
  quietly explain p.json '*'
  has out 'FAILS' 'leaves the format'"'"'s range' 'bf16 in the ladder'
}

test_explain_adds_what_trace_and_verify_measured() {
  planned
  quietly explain p.json logits --trace t.json
  matches out '^  traced     6 runs, 2700 elements from -[0-9.]+ to [0-9.]+'
  lacks out 'measured'
  quietly verify "$model" --plan p.json --data "$data" --json
  mv out v.json
  quietly explain p.json logits --verdict v.json
  matches out '^  measured   relative L2 error [0-9.e-]+ against fp32'
  grep measured out >from_verdict
  quietly convert "$model" --data "$data" -o y.onnx --save-plan c.json
  quietly explain c.json logits
  grep measured out >from_plan
  same from_verdict from_plan
}

test_trace_or_verdict_of_another_model_is_refused() {
  planned
  with_code 0 trace "$hazards/hazards.onnx" --data "$hazards/samples" -o other.json
  with_code 4 explain p.json logits --trace other.json
  has err 'other.json' 'another model'
  echo '{"sha256": "0"}' >v.json
  with_code 4 explain p.json logits --verdict v.json
  has err 'v.json' 'another model'
}

test_why_not_ranks_what_keeps_nodes_wide() {
  planned --keep '/wide/conv' --keep '/stem/*'
  quietly explain p.json --why-not fp16
  matches out '^[0-9]+ of 18 float nodes are not fp16; in it they would save'
  has out '(--keep /stem/*)' '(softmax-and-losses)'
  sed -n 's/^ *\([0-9.e+-]*\) us  .*/\1/p' out >gains
  [ "$(wc -l <gains)" -ge 3 ]
  sort -rg gains >sorted
  same gains sorted
  with_code 2 explain p.json --why-not bf16
  has err "ladder has no bf16"
  has err 'The plan has fp16, fp32'
  with_code 2 explain p.json --why-not fp17
  has err 'fp17' 'Did you mean fp16'
}

test_why_not_ranks_products_for_the_operand_format() {
  planned --policy fp8 --raise-opset 19
  quietly explain p.json --why-not fp8e4m3fn
  matches out '^[0-9]+ of [0-9]+ matrix products do not read their operands in fp8e4m3fn'
  wide=$(sed -n '1s/ of .*//p' out)
  [ "$wide" = "$(grep -c '"operands_reason"' p.json)" ]
  planned --policy fp8  # at its own opset none can
  quietly explain p.json --why-not fp8e4m3fn
  matches out '^([0-9]+) of \1 matrix products do not .*; they take [0-9.]+ of [0-9.]+ us'
  has out 'does not take the format at this opset' '/stem/conv'
  with_code 2 explain p.json --why-not fp8e5m2
  with_code 2 explain p.json --why-not fp8
  has err 'Did you mean fp8e4m3fn? The plan has fp8e4m3fn, fp16, fp32'
}

test_a_plan_of_fp32_alone_gives_no_ratios_of_what_was_not_tried() {
  for options in '--format fp32' '--policy tf32'; do
    planned $options
    quietly explain p.json '*'
    lacks out ' times'
  done
  quietly explain p.json /stem/conv
  has out 'otherwise  nothing: tf32 is a setting of the runtime'
}

test_why_not_tf32_is_a_setting_of_the_runtime() {
  planned --policy tf32
  quietly explain p.json --why-not tf32
  has out 'a setting of the runtime'
  planned
  with_code 2 explain p.json --why-not tf32
}

test_decisions_of_a_person_are_not_blamed_on_the_policy() {
  planned --keep '/stem/*'
  quietly plan "$model" --trace t.json -o p.json --keep '/stem/*'
  matches out ' [0-9]+ stays? fp32: --keep leaves it as it is'
  quietly explain p.json --why-not fp16
  has out '--keep leaves it as it is (--keep /stem/*)'
  planned
  edited '/"node": "\/logits"/s/"format": "fp16"/"format": "fp32"/' p.json by_hand.json
  with_code 0 rewrite "$model" --plan by_hand.json -o m.onnx
  has out '    1 stays fp32: edited by hand in the plan'
  quietly rewrite "$model" --plan p.json -o m.onnx
  lacks out 'by hand'
}

test_diff_of_a_plan_and_itself_is_0() {
  planned
  quietly diff p.json p.json
  has out 'the same decisions'
  quietly diff p.json p.json --json
  has out '"same": true'
}

test_diff_names_changes_with_their_reasons_and_is_1() {
  planned
  mv p.json a.json
  planned --keep '/wide/*'
  with_code 1 diff a.json p.json
  empty err
  has out 'node /wide/conv (Conv): fp16 by rule convolutions -> fp32 (kept by --keep /wide/*)' \
    'tensor wide.conv: fp16 -> fp32' 'narrow nodes 17 of 18 ->' 'modelled'
  with_code 1 diff a.json p.json --json
  has out '{"node": "/wide/conv", "before": {"format": "fp16"' '"same": false'
  is_json out
}

test_diff_of_plans_of_two_models_says_so() {
  planned
  with_code 0 plan "$hazards/hazards.onnx" -o h.json
  with_code 1 diff p.json h.json
  has out 'different models' 'not there'
}

test_diff_says_which_format_products_read_a_weight_in() {
  planned --policy fp16 --raise-opset 19
  mv p.json half.json
  planned --policy fp8 --raise-opset 19
  with_code 1 diff half.json p.json
  has out 'tensor image: fp32 -> fp32, read by products in fp8e4m3fn times 2^8' \
    'tensor stem.weight: fp16 -> fp8e4m3fn times 2^8'
}

test_what_is_no_plan_is_refused() {
  planned
  echo '[]' >list.json
  echo '{"schema": 2}' >other.json
  sed 's/"nodes": \[/"nodes": 3, "x": [/' p.json >nodes.json
  sed 's/"outputs": \["stem.conv"\]/"outputs": [7]/' p.json >ends.json
  sed 's/"format": "fp16"/"format": "fp17"/' p.json >format.json
  for broken in list other nodes ends format; do
    with_code 4 explain $broken.json logits
    has err "$broken.json"
    with_code 4 diff p.json $broken.json
    has err "$broken.json"
    with_code 4 emit $broken.json --for tensorrt -o out.args
    missing out.args
  done
  with_code 7 explain nothing.json logits
}

test_emit_writes_trtexec_arguments() {
  planned
  quietly emit p.json --for tensorrt -o trt.args
  empty out
  matches trt.args '^--fp16$'
  matches trt.args '^--noTF32$'
  matches trt.args '^--precisionConstraints=obey$'
  matches trt.args '^--layerPrecisions=/stem/conv:fp16,.*,/logits:fp16,/probabilities:fp32$'
  matches trt.args '^--layerOutputTypes=/stem/conv:fp16,.*,/probabilities:fp32$'
}

test_emit_names_unnamed_layers_as_the_parser_does_and_says_what_it_leaves_out() {
  with_code 0 plan "$tiny/names.onnx" -o p.json
  with_code 0 emit p.json --for tensorrt -o trt.args
  has trt.args 'node_of_'
  with_code 0 plan "$tiny/if_loop.onnx" -o p.json
  with_code 0 emit p.json --for tensorrt -o trt.args
  has err 'left to TensorRT'
}

test_emit_writes_the_ranges_of_the_trace() {
  planned
  quietly emit p.json --for onnxruntime --trace t.json -o calibration.json
  is_json calibration.json
  has calibration.json '"logits": {"lowest": {"data": -' '"CalibrationMethod.MinMax"' \
    '"image": {"lowest": {"data": 0, "dtype": "float32"'
  with_code 2 emit p.json --for onnxruntime -o calibration.json
  has err '--trace'
}

test_emit_says_what_is_missing_and_spares_what_it_reads() {
  planned
  with_code 2 emit p.json --for tensorrt
  has err '-o'
  with_code 2 emit p.json --for tensorr -o x
  has err 'Did you mean tensorrt?'
  cp p.json before.json
  with_code 2 emit p.json --for tensorrt -o p.json
  same p.json before.json
}

# overrides FILE LINE...: a file of overrides.
overrides() {
  target=$1
  shift
  {
    echo '{"overrides": ['
    separator=
    for line in "$@"; do
      printf '%s  {%s}' "$separator" "$line"
      separator=',
'
    done
    printf '\n]}\n'
  } >"$target"
}

test_overrides_decide_and_are_recorded() {
  planned
  mv p.json a.json
  overrides o.json '"glob": "/stem/*", "format": "fp32", "note": "the first layer is cheap"' \
    '"glob": "/stem/conv", "format": "fp16", "note": "but for this"'
  planned --overrides o.json
  has out 'overrides    2 of o.json decide for 3 nodes'
  has p.json '"overrides_from"' "$(sha256sum o.json | cut -d' ' -f1)" 'the first layer is cheap'
  with_code 1 diff a.json p.json
  has out 'node /stem/norm (BatchNormalization): fp16 by rule batch-normalisation -> fp32 (override)'
  lacks out '/stem/conv'
  quietly explain p.json /stem/norm
  has out 'override /stem/* (pin): the first layer is cheap'
  quietly convert "$model" --data "$data" --overrides o.json -o whole.onnx
  quietly rewrite "$model" --plan p.json -o steps.onnx
  same whole.onnx steps.onnx
}

test_override_of_a_scale_is_written_and_holds() {
  overrides o.json '"glob": "stem.conv", "format": "fp16", "scale": 0.25, "note": "leaves room"'
  quietly convert "$model" --data "$data" --overrides o.json -o y.onnx --save-plan p.json
  has out 'every claim holds'
  matches p.json '"value": "stem.conv".*"scale_log2": -2'
  quietly explain p.json stem.conv
  has out 'tensor stem.conv: fp16, scaled by 2^-2'
}

test_override_against_a_rule_is_applied_with_a_warning() {
  planned
  overrides o.json '"glob": "/probabilities", "format": "fp16", "note": "only its order counts"'
  with_code 0 plan "$model" --trace t.json --overrides o.json -o p.json
  has err 'override /probabilities' 'subnormal'
  matches p.json '"node": "/probabilities".*"format": "fp16"'
}

test_override_is_warned_of_once_and_not_promoted_over() {
  overrides o.json '"glob": "*", "format": "fp16", "note": "all of it"'
  narrowcast policy show fp16 >fp16.json
  edited 's/"limit": 0.01,/"limit": 0.0007,/' fp16.json tight.json
  with_code 1 convert "$model" --policy ./tight.json --overrides o.json --data "$data" -o y.onnx
  [ "$(grep -c 'override \*' err)" -eq 1 ]
  has out 'promoted     nothing: overrides decide what breaks the claims'
}

test_overrides_change_nothing_of_what_they_made() {
  overrides o.json '"glob": "*", "format": "fp16", "note": "all of it"' \
    '"glob": "/stem/*", "format": "fp32", "note": "but the first layer"'
  with_code 0 convert "$model" --overrides o.json --data "$data" -o y.onnx
  quietly convert y.onnx --overrides o.json --data "$data" -o z.onnx
  same y.onnx z.onnx
  overrides all.json '"glob": "*", "format": "fp16", "note": "all of it"'
  with_code 0 convert y.onnx --overrides all.json --data "$data" -o all.onnx
  different y.onnx all.onnx
}

test_override_of_a_format_that_the_run_replaced_names_the_option() {
  overrides o.json '"glob": "/stem/conv", "format": "fp16", "note": "n"'
  with_code 4 plan "$model" --format bf16 --overrides o.json -o p.json
  has err 'fp16 is no format of this run: --format bf16'
}

test_overrides_that_cannot_be_applied_are_all_named() {
  overrides o.json '"glob": "/stem/cnv", "format": "fp32", "note": "n"' \
    '"glob": "/stem/conv", "format": "bf16", "note": "n"' \
    '"glob": "zzzzzzzzzzzz*", "format": "bf16", "note": "n"'
  with_code 4 plan "$model" --policy bf16 --overrides o.json -o p.json
  has err 'o.json: override /stem/cnv: matches no node' 'Did you mean /stem/conv?' \
    'Conv does not take bf16' 'override zzzzzzzzzzzz*: matches no' 'o.json: 3 overrides'
  missing p.json
  with_code 4 convert "$model" --overrides o.json --data "$data" -o y.onnx
  has err 'bf16 is not in the ladder of policy fp16'
  missing y.onnx
}

test_overrides_file_is_checked_and_spared() {
  overrides o.json '"glob": "/stem/conv", "fromat": "fp32", "note": "n"'
  with_code 4 plan "$model" --overrides o.json -o p.json
  has err 'o.json:2' 'Did you mean "format"?'
  overrides o.json '"glob": "/stem/conv", "format": "fp16", "scale": 0.3, "note": "n"'
  with_code 4 plan "$model" --overrides o.json -o p.json
  has err 'o.json:2' 'not a power of two'
  overrides o.json '"glob": "/stem/conv", "format": "fp32", "note": "n"'
  with_code 2 plan "$model" --overrides o.json -o o.json
  has err 'a file that this run reads'
}

test_check_names_every_illegal_edit_and_writes_nothing() {
  planned
  quietly rewrite "$model" --plan p.json --check
  has out 'nothing was written'
  edited 's/\("op": "Conv".*\)"format": "fp16"/\1"format": "bf16"/
    s/"op": "Gemm"/"op": "Gemn"/' p.json edited.json
  with_code 4 rewrite "$model" --plan edited.json --check
  [ "$(grep -c 'Conv does not take bf16' err)" -eq "$(grep -c '"op": "Conv"' p.json)" ]
  has err 'node /stem/conv' 'operator Gemn' 'entries cannot be applied'
  matches err 'edited.json:[0-9]+: '
  edited 's/\("value": "logits".*\)"format": "fp16"/\1"format": "fp32"/' p.json value.json
  with_code 0 rewrite "$model" --plan value.json --check
  has err 'logits is fp32 here' 'node /logits, which makes it'
  holds_only . edited.json err out p.json t.json value.json
  with_code 2 rewrite "$model" --plan p.json --check -o y.onnx
  has err '--check writes nothing'
}

# hostile NAME: plans of a product that has that name, as Python writes it, and so has its result.
hostile() {
  /usr/bin/python3 - "$1" <<'END'
import ast, sys
import numpy as np, onnx
from onnx import helper, numpy_helper, TensorProto
name = ast.literal_eval("'%s'" % sys.argv[1])
info = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [64, 64])
nodes = [helper.make_node("MatMul", ["x", "w"], [name], name)]
weights = [numpy_helper.from_array(np.full((64, 64), 0.1, np.float32), "w")]
graph = helper.make_graph(nodes, "g", [info("x")], [info(name)], weights)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "m.onnx")
END
  narrowcast trace m.onnx -q -o t.json
  narrowcast plan m.onnx -q --trace t.json --io narrow -o p.json
  narrowcast plan m.onnx -q --trace t.json --keep '*' -o kept.json
}

test_names_neither_drive_a_terminal_nor_forge_a_line() {
  hostile 'y,\x1b[2J\x07\nnode forged: fp16'
  code=0
  narrowcast diff p.json kept.json >diff || code=$?
  [ "$code" -eq 1 ]
  narrowcast explain p.json 'y*' --trace t.json >explained
  narrowcast explain kept.json --why-not fp16 >ranked
  narrowcast emit p.json --for tensorrt -o args.txt 2>warned
  narrowcast convert m.onnx -o y.onnx --save-anyway --io narrow >converted 2>err || :
  for file in diff explained ranked warned converted; do
    lacks $file "$(printf '\033')"
    lacks $file "$(printf '\007')"
    [ "$(grep -c '^node forged' $file)" -eq 0 ]
  done
  for file in diff explained ranked warned; do
    has $file 'y,?[2J??node forged: fp16'
  done
}

run_tests
