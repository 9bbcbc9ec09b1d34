#!/bin/sh
# Updates of weights: checkpoints, a training step fed back, and what the plan says of them.
. "$(dirname "$0")/lib.sh"

model=$digits/digits.onnx

test_checkpoints_need_no_engine_and_reach_the_plan() {
  NARROWCAST_ORT=none quietly trace "$model" -o t.json --checkpoints "$model" "$model" "$model"
  matches out '^2 steps of [0-9]+ weights; wrote t.json$'
  has t.json '"kind": "weight"' '"weight_steps": 2'
  quietly plan "$model" --trace t.json -o p.json
  # Three times the same weights: no update, and so no evidence that any may lose its copy.
  matches out 'weights +([0-9]+) of \1 need a 32-bit master copy'
  matches out '^ +of [0-9]+ no update was seen that is finite and not 0: without evidence a copy stays$'
  has p.json 'keeps its 32-bit master copy: no update was seen'
  lacks p.json '"lost_updates_fraction": 0'
  has out 'calibration  none'
  lacks out 'modelled'
  has p.json '"weights": ['
}

test_checkpoints_come_beside_samples() {
  quietly trace "$model" --data "$digits/samples" -o t.json --checkpoints "$model" "$model"
  matches out '^traced 6 samples: [0-9]+ values seen; 1 step of [0-9]+ weights; wrote t.json$'
}

test_checkpoints_that_do_not_fit_are_told() {
  with_code 5 trace "$model" --checkpoints "$model" -o t.json
  has err 'two checkpoints'
  with_code 5 trace "$model" --checkpoints "$model" "$hazards/hazards.onnx" -o t.json
  has err 'hazards.onnx' 'no weight of'
  with_code 7 trace "$model" --checkpoints "$model" missing.onnx -o t.json
  has err 'missing.onnx'
  [ ! -e t.json ]
}

test_feedback_names_an_input_and_an_output() {
  with_code 2 trace "$model" --feedback image=nothing -o t.json
  has err '--feedback image=nothing'
  with_code 2 trace "$model" --feedback image=logit -o t.json
  has err 'Did you mean logits?'
  with_code 2 trace "$model" --feedback imge=logits -o t.json
  has err 'Did you mean image?'
  with_code 2 trace "$model" --feedback logits=image -o t.json
  with_code 2 trace "$model" --steps 5 -o t.json
  has err '--steps needs --feedback'
  with_code 2 trace "$model" --checkpoints "$model" "$model" --feedback image=logits -o t.json
  has err 'exclude each other'
  with_code 5 trace "$model" --data "$digits/samples" --feedback image=logits -o t.json
  has err 'another shape'
}

test_a_weight_is_fed_back_from_one_output() {
  with_code 2 trace "$tiny/training_step.onnx" --data "$tiny/samples/training_step" \
    --feedback w=w_new --feedback w=w_new -o t.json
  has err '--feedback w=w_new: w is fed back already, by w=w_new'
  [ ! -e t.json ]
}

test_a_training_fed_back_tells_its_loss_scale() {
  quietly trace "$tiny/training_step.onnx" --data "$tiny/samples/training_step" \
    --feedback w=w_new --steps 100 -o t.json
  quietly plan "$tiny/training_step.onnx" --trace t.json -o p.json
  matches out '^training +weights, gradients and optimizer in fp16: 256 B -> 192 B$'
  matches out '^ +gradients from [0-9.]+ to [0-9.]+: fp16 holds them without a loss scale$'
  matches out '^ +a dynamic scale from 2\^16 ends at 2\^1[0-9] and skips [1-9] steps$'
  has p.json '"loss_scale": {"lowest": ' '"gradients": 1'
  # Four batches added up leave a quarter of the room.
  narrowcast policy show fp16 | sed 's/"micro_batches": 1/"micro_batches": 4/' >four.json
  at_most=$(sed -n 's/.*"loss_scale": .*"highest": \([0-9.]*\),.*/\1/p' p.json)
  quietly plan "$tiny/training_step.onnx" --trace t.json --policy ./four.json -o p.json
  four=$(sed -n 's/.*"loss_scale": .*"highest": \([0-9.]*\),.*/\1/p' p.json)
  awk "BEGIN {exit !($at_most > 0 && $at_most / $four > 3.999 && $at_most / $four < 4.001)}"
  # Without the section, or without updates of weights, there is nothing to say.
  quietly trace "$tiny/training_step.onnx" --data "$tiny/samples/training_step" -o t.json
  quietly plan "$tiny/training_step.onnx" --trace t.json -o p.json
  ! grep -q '^training' out
}

run_tests
