#!/bin/sh
# Values stored times a power of two. With a margin of 500,000 nothing of fp16's range is left for
# the values of a usual model, so that every tensor needs a scale and all that carries scales is
# tried at once: the errors must be those of plain fp16, since factors are exact.
. "$(dirname "$0")/lib.sh"

model=$digits/digits.onnx
data=$digits/samples

# no_range: writes no_range.json.
no_range() {
  narrowcast policy show fp16 >fp16.json
  edited 's/"margin": 2,/"margin": 500000,/' fp16.json no_range.json
}

test_scales_everywhere_keep_the_claims_and_the_accuracy() {
  no_range
  with_code 0 convert "$model" --data "$data" -o plain.onnx
  grep '^accuracy' out >plain.accuracy
  with_code 0 convert "$model" --data "$data" --policy ./no_range.json -o scaled.onnx
  matches out '^scales  *1[0-9] tensors stored times a power of two'
  matches out 'scale nodes* added'
  has out 'every claim holds' 'loads'
  grep '^accuracy' out | diff - plain.accuracy >&2
}

test_a_plan_with_scales_gives_the_same_bytes() {
  no_range
  with_code 0 convert "$model" --data "$data" --policy ./no_range.json -o whole.onnx --save-plan p.json
  quietly rewrite "$model" --plan p.json -o steps.onnx
  same steps.onnx whole.onnx
  matches p.json '"input_scales_log2": \[[-0-9, ]*\], "output_scale_log2": -[0-9]'
  with_code 0 verify "$model" --plan p.json --data "$data"
  has out 'every claim holds'
}

test_scales_in_every_structure_keep_the_claims() {
  no_range
  for name in if_loop functions external names multi_io constants; do
    with_code 0 convert "$tiny/$name.onnx" --data "$tiny/samples/$name" --policy ./no_range.json \
      -o "$name.onnx"
    matches out 'every claim holds|copied unchanged'
  done
}

test_scales_can_be_switched_off() {
  no_range
  edited 's/"when_needed"/"never"/' no_range.json never.json
  with_code 0 convert "$model" --data "$data" --policy ./never.json -o y.onnx
  lacks out 'scales '
  has out 'a value leaves the format'
}

# A real model whose activations exceed 65504 for such inputs: all in fp16 it is refused, with the
# tensor named that overflows first; with scales nothing has to stay in fp32 for it.
test_a_real_model_beyond_the_range_of_fp16_passes_with_scales() {
  eeg=${NARROWCAST_MODELS:-}/eeg_seizure_op11/model.onnx
  if [ ! -f "$eeg" ]; then
    say 'left out: NARROWCAST_MODELS names no folder with eeg_seizure_op11'
    return
  fi
  mkdir loud
  /usr/bin/python3 -c 'import numpy
rng = numpy.random.default_rng(7)
for k in range(6):
    numpy.savez(f"loud/{k}.npz", input=(rng.standard_normal((1, 18, 1024)) * 200).astype("f"))'
  printf '{"overrides": [{"glob": "*", "format": "fp16", "note": "plain fp16"}]}\n' >plain.json
  narrowcast policy show fp16 | sed 's/"when_needed"/"never"/' >unscaled.json
  with_code 1 convert "$eeg" --data loud --policy ./unscaled.json --overrides plain.json -o p.onnx
  has out 'REFUSED'
  matches out 'first tensor that is not finite: .'
  with_code 0 convert "$eeg" --data loud -o scaled.onnx
  matches out '^plan  *14 of 16 float nodes narrow: 14 fp16, 2 fp32'
  matches out '^scales  *[0-9]* tensors stored'
  has out 'every claim holds'
}

# same_costs MODEL ARGUMENT...: what the plan counts is what the rewrite added.
same_costs() {
  timeout 120 narrowcast convert "$@" -o y.onnx --save-plan p.json --json >out 2>err
  /usr/bin/python3 - "$@" <<'END'
import json, sys
run, plan = json.load(open("out")), json.load(open("p.json"))["cost"]
cost, modelled = run["cost"], run["modelled"]
bytes_of = lambda of: [of["constant_bytes_before"], of["constant_bytes_after"]]
planned = [plan["casts"], plan["scale_nodes"], *plan["constant_bytes"].values()]
made = [cost["casts"], cost["scale_nodes"], *bytes_of(cost)]
if planned != made or bytes_of(modelled) != bytes_of(cost):
    sys.exit(f"{sys.argv[1:]}: planned {planned} (modelled {bytes_of(modelled)}), made {made}")
END
}

test_the_plan_counts_the_nodes_and_bytes_that_the_rewrite_adds() {
  for policy in fp16 balanced fp8 fp4; do
    for model in "$digits/digits.onnx" "$tiny"/*.onnx "$hazards/hazards.onnx"; do
      [ "$model" = "$tiny/duplicate_node_names.onnx" ] && continue # no engine takes it
      same_costs "$model" --policy "$policy"
    done
  done
  for model in "$digits/digits.onnx" "$hazards/hazards.onnx" "$tiny/constants.onnx"; do
    same_costs "$model" --policy fp8 --raise-opset 19
    ! engine_knows_opset 23 || same_costs "$model" --policy fp4 --raise-opset 23
  done
  # A graph that reads one tensor in one format at two scales.
  [ -z "${NARROWCAST_MODELS:-}" ] || same_costs "$NARROWCAST_MODELS/basic_pitch/model.onnx"
}

run_tests
