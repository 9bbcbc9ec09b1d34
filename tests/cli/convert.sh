#!/bin/sh
# convert: what it writes, what it says, and what it leaves behind.
. "$(dirname "$0")/lib.sh"

model=$digits/digits.onnx
data=$digits/samples

test_convert_alone_writes_beside_the_input_and_says_nothing_real_was_measured() {
  mkdir folder
  cp "$model" folder/model.onnx
  quietly convert folder/model.onnx
  has out 'nothing real was measured' 'made-up samples' 'wrote        folder/model.fp16.onnx'
  holds_only folder model.onnx model.fp16.onnx
  same folder/model.onnx "$model"
}

test_convert_names_the_output_after_the_policy() {
  cp "$model" model.onnx
  cp "$model" no_extension
  quietly convert model.onnx --policy balanced --data "$data"
  [ -s model.balanced.onnx ]
  quietly convert no_extension --data "$data"
  [ -s no_extension.fp16.onnx ]
}

test_convert_with_data_does_not_say_made_up() {
  quietly convert "$model" --data "$data" -o y.onnx
  lacks out 'made-up'
  lacks out 'nothing real was measured'
  has out '6 real samples; 2 more held out' 'accuracy     logits: fp32 98.89 %, narrow 98.89 %'
}

test_convert_halves_the_constants_and_the_result_is_a_model() {
  quietly convert "$model" --data "$data" -o y.onnx
  quietly inspect y.onnx
  matches out '^parameters +[0-9]+ float16 in'
  lacks out ' float in'
  [ "$(wc -c <y.onnx)" -lt $(($(wc -c <"$model") * 2 / 3)) ]
}

test_seed_decides_the_made_up_samples() {
  quietly convert "$model" --random 1 -o a.onnx --save-trace a.json
  quietly convert "$model" --random 1 -o b.onnx --save-trace b.json
  quietly convert "$model" --random 2 -o c.onnx --save-trace c.json
  same a.json b.json
  different a.json c.json
  quietly convert "$model" --random 1 --samples 3 -o d.onnx
  has out '2 made-up samples; 1 more held out'
}

test_json_of_every_command_parses() {
  quietly convert "$model" --data "$data" -o y.onnx --json --save-trace t.json --save-plan p.json
  cp out convert.json
  quietly inspect "$model" --json
  cp out inspect.json
  quietly plan "$model" --json -o q.json
  cp out plan.json
  quietly rewrite "$model" --plan p.json -o z.onnx --json
  cp out rewrite.json
  quietly verify "$model" --plan p.json --data "$data" --json
  cp out verify.json
  quietly formats --json
  cp out formats.json
  quietly trace "$model" --data "$data" -o t2.json --json
  cp out trace.json
  for file in convert inspect plan rewrite verify trace t p q; do
    is_json $file.json
  done
  # A policy is an object; the parser must get to the point where that matters.
  with_code 4 policy check ./formats.json
  lacks err 'not valid JSON'
}

test_json_of_hostile_names_and_not_finite_numbers_parses() {
  with_code 0 convert "$tiny/names.onnx" --data "$tiny/samples/names" --json -o y.onnx \
    --save-plan p.json --save-trace t.json
  cp out convert.json
  is_json convert.json
  is_json p.json
  is_json t.json
  code=0
  narrowcast convert "$hazards/hazards.onnx" --data "$hazards/samples_not_finite" --save-anyway \
    --json -o z.onnx --save-plan p.json --save-trace t.json >convert.json 2>err || code=$?
  [ "$code" -le 1 ]
  is_json convert.json
  is_json p.json
  is_json t.json
}

test_names_drive_no_terminal() {
  /usr/bin/python3 - <<'END'
import onnx
from onnx import helper, TensorProto
info = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [64, 64])
nodes = [helper.make_node("MatMul", ["x", "x"], ["y\x1b[2J\x07"], "n")]
graph = helper.make_graph(nodes, "g", [info("x")], [info("y\x1b[2J\x07")])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "m.onnx")
END
  code=0
  narrowcast convert m.onnx -o y.onnx --io narrow >out 2>err || code=$?
  [ "$code" -le 1 ]
  has out 'y?[2J?'
  for file in out err; do
    lacks $file "$(printf '\033')"
  done
}

test_plan_records_the_overrides_of_the_run() {
  quietly convert "$model" --data "$data" -o y.onnx --save-plan p.json --keep '/stem/*' \
    --narrow logits --format fp16 --io narrow
  has p.json 'keep /stem/*' 'narrow logits' 'io narrow' 'format fp16'
  has out 'keep /stem/*' 'narrow logits' 'io narrow' 'format fp16'
}

test_keep_keeps_what_it_matches() {
  quietly convert "$model" --data "$data" -o all.onnx
  quietly convert "$model" --data "$data" -o some.onnx --keep logits --save-plan p.json
  different all.onnx some.onnx
  matches p.json '"op": "Gemm".*"class": "keep".*"format": "fp32"'
  quietly convert "$model" --data "$data" -o none.onnx --keep '*'
  same none.onnx "$model"
}

test_data_is_looked_for_two_folders_deep() {
  mkdir -p data/a/b/c data/.hidden
  cp "$data/0.npz" data/.hidden/
  cp "$data/1.npz" data/a/b/c/
  with_code 5 convert "$model" --data data -o y.onnx
  has err 'holds no samples' 'two folders deep'
  cp "$data/2.npz" "$data/3.npz" data/a/b/
  cp "$data/4.npz" data/a/
  quietly convert "$model" --data data -o y.onnx --save-trace t.json
  has out '2 real samples; 1 more held out'
}

test_keep_that_matches_nothing_is_said() {
  with_code 0 convert "$model" --data "$data" -o y.onnx --keep 'no-such-node'
  has err 'no-such-node'
}

test_keep_that_another_decision_beats_says_which() {
  with_code 0 convert "$model" --data "$data" -o y.onnx --keep logits --narrow logits
  lacks err 'has such a name'
  has err '--keep logits decides for no' 'at /logits, --narrow logits, which stands later, wins'
  echo '{"overrides": [{"glob": "/stem/conv", "format": "fp16", "note": "n"}]}' >o.json
  with_code 0 plan "$model" -o p.json --keep /stem/conv --overrides o.json
  has err '--keep /stem/conv decides for no node: at /stem/conv, override /stem/conv wins'
  with_code 0 plan "$model" -o p.json --keep /stem/cnv
  has err 'no node or tensor has such a name; did you mean /stem/conv?'
}

test_times_of_the_stages_are_all_of_the_run() {
  narrowcast policy show fp16 >fp16.json
  edited 's/"limit": 0.01,/"limit": 0.0007,/' fp16.json tight.json
  begun=$(date +%s.%N)
  with_code 0 convert "$model" --policy ./tight.json --data "$data" -o y.onnx
  ended=$(date +%s.%N)
  matches out '^time +[0-9.]+ s: .*trace [0-9.]+, .*promotion [0-9.]+, loads [0-9.]+'
  # Each part is rounded, and one that rounds to 0 is left out; what starts and ends a process is in none.
  sed -n 's/^time *//p' out | tr -d ',:' | awk -v wall="$(echo "$ended $begun" | awk '{ print $1 - $2 }')" '
    { for (i = 4; i <= NF; i += 2) sum += $i
      exit !(sum > 0 && $1 - sum < 0.06 && sum - $1 < 0.06 && $1 <= wall && $1 > wall / 2) }'
}

test_the_json_of_two_runs_is_the_same() {
  for run in 1 2; do
    quietly convert "$model" --data "$data" -o y.onnx --json --threads 1
    mv out $run.json
  done
  same 1.json 2.json
}

test_a_result_that_is_not_worth_it_says_so() {
  echo '{"overrides": [{"glob": "*", "format": "fp32", "note": "n"},
    {"glob": "/stem/norm", "format": "fp16", "note": "alone"}]}' >o.json
  with_code 0 convert "$model" --data "$data" -o y.onnx --overrides o.json --save-plan p.json \
    --report r.md
  matches out '^drawback +Not worth it on target accelerator: no faster than fp32, since its Casts'
  matches out '^drawback +Moves [0-9.]+ % more memory than fp32: its Casts move [0-9.]+ [KM]iB'
  has r.md 'Not worth it on target' 'more memory than fp32'
  matches p.json '"drawbacks": \[.*"id": "time"'
  quietly convert "$model" --data "$data" -o y.onnx
  lacks out drawback
}

test_format_bf16_is_used_where_the_opset_has_it() {
  quietly convert "$model" --data "$data" -o y.onnx --format bf16 --save-plan p.json
  matches p.json '"op": "Conv".*"format": "fp32".*"reason": "schema"'
  lacks p.json '"format": "fp16"'
}

test_io_narrow_changes_the_interface_and_keep_does_not() {
  quietly convert "$model" --data "$data" -o keep.onnx --io keep
  quietly inspect keep.onnx
  matches out '^inputs +image +float +\[.*\]$'
  quietly convert "$model" --data "$data" -o narrow.onnx --io narrow
  quietly inspect narrow.onnx
  matches out '^inputs +image +float16 +\[.*\]$'
  matches out '^outputs +logits +float16 +\[.*\]$'
}

test_what_is_in_16_bits_already_is_said() {
  narrowcast convert "$digits/digits.onnx" --data "$digits/samples" -o half.onnx >out
  lacks out 'in 16 bits already'
  narrowcast convert half.onnx --random 1 -o again.onnx >out
  has out 'result       unchanged' "float tensors are in 16 bits already"
  lacks out 'by_author'  # its Casts are ours
  narrowcast convert "$tiny/island.onnx" --random 1 -o island.onnx >out
  has out 'result       unchanged' 'casts.by_author "follow"'
  sed 's/"by_author": "keep"/"by_author": "follow"/' "$root/rules/fp16.json" >follow.json
  narrowcast convert "$tiny/island.onnx" --policy ./follow.json --random 1 -o island.onnx >out
  has out "0 Casts added, 2 of the author's left out"
}

test_refusal_names_output_amount_sample_and_tensor() {
  strict relative_l2
  with_code 1 convert "$model" --policy ./strict.json --data "$data" -o y.onnx
  empty err
  matches out 'FAILS +relative_l2 of logits: [0-9.e-]+ \(engine [0-9.e-]+\), at most 0 .*worst on [67]\.npz'
  matches out '(largest error of its own|first tensor that is not finite): [a-z]'
  matches out '^result +REFUSED'
}

# No single tensor's own error is to blame, but what is rounded early passes through all the rest.
test_small_errors_that_add_up_are_promoted_from_the_inputs_on() {
  narrowcast policy show fp16 >fp16.json
  edited 's/"limit": 0.01,/"limit": 0.0007,/' fp16.json tight.json
  with_code 0 convert "$model" --policy ./tight.json --data "$data" -o y.onnx --save-plan p.json
  matches out '^promoted +[1-9][0-9]* tensors in 1 round'
  matches out '[1-9][0-9]* tensors were promoted to meet the claims: the samples that judge chose'
  matches out 'relative_l2 of 2 outputs: .* at most 0.0007'
  narrowcast explain p.json /stem/conv >stem
  has stem 'was promoted'
  narrowcast explain p.json /logits >last
  has last ': fp16'
}

test_refusal_leaves_no_output() {
  strict relative_l2
  with_code 1 convert "$model" --policy ./strict.json --data "$data" -o y.onnx
  lacks out 'wrote'
  has out 'note         nothing was written'
  printf 'old\n' >old.onnx
  with_code 1 convert "$model" --policy ./strict.json --data "$data" -o old.onnx
  [ "$(cat old.onnx)" = old ]
  holds_only . err old.onnx out strict.json
}

test_refusal_still_writes_plan_and_trace_for_review() {
  strict relative_l2
  with_code 1 convert "$model" --policy ./strict.json --data "$data" -o y.onnx --save-plan p.json \
    --save-trace t.json
  missing y.onnx
  quietly rewrite "$model" --plan p.json -o z.onnx
}

test_save_anyway_writes_the_refused_model_and_still_exits_1() {
  strict relative_l2
  with_code 1 convert "$model" --policy ./strict.json --data "$data" -o y.onnx --save-anyway
  has out 'REFUSED' 'wrote        y.onnx' 'policy       fp16 version 1, as changed in strict.json'
  quietly inspect y.onnx
  matches out '^converted .* policy fp16 version 1, as changed in strict.json, .*; REFUSED: a claim does not hold$'
}

test_not_finite_in_fp32_already_names_tensor_and_sample() {
  code=0
  narrowcast convert "$hazards/hazards.onnx" --data "$hazards/samples_not_finite" -o y.onnx \
    >out 2>err || code=$?
  [ "$code" -le 1 ]
  cat err >>out
  matches out 'not finite: [a-z_0-9.]+ .*\.npz'
}

test_no_temporary_files_are_left() {
  mkdir folder
  quietly convert "$model" --data "$data" -o folder/y.onnx --save-plan folder/p.json \
    --save-trace folder/t.json
  holds_only folder y.onnx p.json t.json
  quietly convert "$model" --data "$data" -o folder/y.onnx
  holds_only folder y.onnx p.json t.json
}

test_output_may_not_be_what_is_read() {
  cp "$model" y.onnx
  with_code 2 convert y.onnx --data "$data" -o y.onnx
  has err y.onnx 'the file that is read'
  with_code 2 convert y.onnx --data "$data" -o out.onnx --save-plan y.onnx
  with_code 2 trace y.onnx --data "$data" -o y.onnx
  with_code 2 plan y.onnx -o ./y.onnx
  with_code 2 convert y.onnx --data "$data" -o z --save-plan z
  has err 'another output of this run'
  same y.onnx "$model"
  cp "$tiny/external.onnx" "$tiny/external.data" .
  with_code 2 convert external.onnx --data "$tiny/samples/external" -o external.data
  has err 'external data of the model'
  same external.data "$tiny/external.data"
}

# refused_as_output FILE OPTION... -- ARGUMENT...: as value of each of the options, FILE is not
# written, since the run reads it.
refused_as_output() {
  input=$1
  options=
  shift
  while [ "$1" != -- ]; do
    options="$options $1"
    shift
  done
  shift
  cp "$input" "$input.before"
  for option in $options; do
    with_code 2 "$@" "$option" "$input"
    has err "narrowcast: $input: will not be written: it is"
    same "$input" "$input.before"
  done
}

test_no_output_may_be_any_input() {
  cp "$model" m.onnx
  cp -r "$data" samples
  cp "$root/rules/fp16.json" "$root/rules/targets/accelerator.json" .
  edited 's/"target": "accelerator"/"target": ".\/accelerator.json"/' fp16.json mine.json
  echo '{"overrides": [{"glob": "logits", "format": "fp32", "note": "mine"}]}' >hand.json
  set -- m.onnx --policy ./mine.json --overrides hand.json
  quietly convert "$@" --data samples -o y.onnx --save-plan p.json --save-trace t.json --save-verdict v.json
  save='-o --save-plan --save-trace --save-verdict --report'
  for file in m.onnx mine.json accelerator.json hand.json samples/0.npz samples/7.npz t.json; do
    # shellcheck disable=SC2086 # a list
    refused_as_output $file $save -- convert "$@" --data samples --trace t.json
  done
  for file in m.onnx mine.json accelerator.json samples/1.npz; do
    refused_as_output $file -o -- trace m.onnx --policy ./mine.json --data samples
  done
  for file in m.onnx mine.json accelerator.json hand.json t.json; do
    refused_as_output $file -o -- plan "$@" --trace t.json
  done
  for file in m.onnx p.json; do
    refused_as_output $file -o -- rewrite m.onnx --plan p.json
  done
  for file in m.onnx p.json samples/6.npz; do
    refused_as_output $file -o -- verify m.onnx --plan p.json --data samples
  done
  for file in p.json t.json v.json; do
    refused_as_output $file -o -- report p.json --trace t.json --verdict v.json
  done
  for file in p.json t.json; do
    refused_as_output $file -o -- emit p.json --for onnxruntime --trace t.json
  done
}

test_outputs_are_told_apart_by_place_and_not_by_name() {
  mkdir folder
  with_code 2 convert "$model" --data "$data" -o y.onnx --save-plan folder/../y.onnx
  has err 'folder/../y.onnx: will not be written: it is another output of this run too'
  quietly plan "$model" --policy fp16 -o fp16 # the policy is no file
}

test_output_is_no_link_to_what_is_open() {
  ln -s /proc/self/fd/1 link.onnx
  with_code 7 convert "$model" --data "$data" -o link.onnx
  has err link.onnx /proc/self/fd/1
  [ -L link.onnx ]
}

test_an_interrupt_leaves_no_temporary_file() {
  cp "$model" y.onnx
  for wait in 0.02 0.05 0.1 0.2; do
    timeout -s INT $wait narrowcast convert y.onnx --data "$data" -o z.onnx -q >/dev/null 2>&1 || :
    [ -z "$(find . -name '*.tmp')" ]
  done
}

test_output_through_a_link_keeps_the_link() {
  mkdir folder
  : >folder/y.onnx
  ln -s folder/y.onnx link.onnx
  quietly convert "$model" --data "$data" -o link.onnx
  [ -s link.onnx ]
}

test_external_data_goes_beside_the_output_and_the_source_stays() {
  mkdir in out_folder
  cp "$tiny/external.onnx" "$tiny/external.data" in/
  samples=$tiny/samples/external
  quietly convert in/external.onnx --data "$samples" -o out_folder/y.onnx
  quietly convert in/external.onnx --data "$samples" -o out_folder/same.onnx --keep '*'
  quietly inspect out_folder/same.onnx
  matches out '^external +data of'
  same in/external.onnx "$tiny/external.onnx"
  same in/external.data "$tiny/external.data"
  holds_only in external.onnx external.data
  mv out_folder moved
  rm -rf in
  for name in y same; do
    quietly convert moved/$name.onnx --data "$samples" -o $name.again.onnx --external-data never
  done
  same y.again.onnx same.again.onnx
}

test_weights_go_where_external_data_says() {
  for where in auto always never; do
    quietly convert "$model" --data "$data" -o $where.onnx --external-data $where
  done
  same auto.onnx never.onnx
  [ "$(find . -name 'always.onnx.*.data' | wc -l)" -eq 1 ]
  [ "$(find . -name '*.data' | wc -l)" -eq 1 ]
  quietly convert always.onnx --data "$data" -o back.onnx --external-data never
  same back.onnx never.onnx
  with_code 2 convert "$model" --data "$data" -o y.onnx --external-data sometimes
  matches err 'takes auto, always or never'
}

test_tf32_leaves_the_model_and_judges_the_setting() {
  with_code 0 convert "$model" --policy tf32 --data "$data" -o y.onnx --save-plan p.json
  same y.onnx "$model"
  matches out 'setting +tf32: set it in the runtime'
  matches out 'holds +relative_l2 of 2 outputs: worst is logits with 0\.0*[1-9]'
  matches out 'every claim holds'
  grep -q '"tf32": true' p.json
  with_code 0 verify "$model" --plan p.json --data "$data"
  matches out 'every claim holds'
}

# Seven nodes draw, six of them without a seed; what is written has the one seed that was there.
test_random_numbers_are_the_same_in_source_and_result() {
  model=$tiny/random.onnx
  for policy in fp16 tf32; do
    quietly convert "$model" --policy $policy --data "$tiny/samples/random" --save-plan p.json -o y.onnx \
      --report y.md
    matches out 'every claim holds'
    for file in out p.json y.md; do
      has $file '7 nodes draw random numbers: both models were given the same ones, by seeds that are not'
    done
    [ "$(grep -ao seed y.onnx | wc -l)" -eq 1 ]
  done
}

test_every_tiny_model_is_converted_or_copied() {
  for file in "$tiny"/*.onnx; do
    name=$(basename "$file" .onnx)
    [ "$name" != duplicate_node_names ] || continue # the engine refuses it
    for policy in fp16 bf16 balanced fp8 fp4 tf32; do
      with_code 0 convert "$file" --policy $policy --data "$tiny/samples/$name" -o y.onnx
      matches out 'every claim holds|copied unchanged'
    done
  done
}

# A .npy file of an image without anything on it: sigmoids of 0 are no scores above a half.
empty_image() {
  header="{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 24, 24), }"
  printf '\223NUMPY\001\000\166\000%-118s' "$header"
  head -c $((3 * 24 * 24 * 4)) /dev/zero
}

test_rows_that_a_selection_chooses_are_compared_with_their_like() {
  with_code 0 convert "$tiny/detector.onnx" --data "$tiny/samples/detector" --save-verdict v.json -o y.onnx
  matches out 'holds +matched_rows of 3 outputs: .*, at least 0\.95'
  matches out 'rows +NonMaxSuppression /kept gives 2281 in fp32, [0-9]+ narrow: [0-9]+ in both, [0-9]+ of these moved'
  matches out 'foremost in fp32 without its like: row [0-9]+ on [0-3]\.npz'
  grep -q '"selection": "/kept"' v.json
  narrowcast policy show fp16 | sed 's/"limit": 0.95/"limit": 1/' >strict.json
  with_code 1 convert "$tiny/detector.onnx" --data "$tiny/samples/detector" --policy ./strict.json -o z.onnx
  matches out 'FAILS +matched_rows of boxes: 0\.99[0-9]* \(held-out 1, calibration 0\.99'
  [ ! -e z.onnx ]
}

test_of_two_samples_or_more_one_calibrates() {
  narrowcast policy show fp16 | sed 's/"share": 0.25/"share": 0.99/' >most.json
  with_code 0 convert "$digits/digits.onnx" --data "$digits/samples" --policy ./most.json -o y.onnx
  has out 'calibration  1 real sample; 7 more held out' 'every claim holds'
}

# The cosine of fp16 is 1 in six digits.
test_what_fails_a_claim_is_never_rounded_to_its_limit() {
  narrowcast policy show fp16 | sed 's/"limit": 0.9999/"limit": 1/; s/"rounds": 6/"rounds": 0/' >one.json
  with_code 1 convert "$digits/digits.onnx" --data "$digits/samples" --policy ./one.json \
    --save-plan y.json --save-verdict v.json -o y.onnx
  matches out 'FAILS +cosine of logits: 0\.99999[0-9]* \(.*, at least 1 was promised'
  quietly report y.json --verdict v.json --format md -o y.md
  matches y.md 'FAILS.*cosine.*logits` \| 0\.99999[0-9]* \|.*at least 1 \|'
}

test_a_claim_that_judges_nothing_is_said() {
  narrowcast policy show fp16 |
    sed 's/"claims": \[/&{"id": "loss", "metric": "label_loss", "limit": 0},/' >loss.json
  with_code 0 convert "$digits/digits.onnx" --random 1 --policy ./loss.json --save-verdict v.json \
    --save-plan p.json -o y.onnx
  has out 'every claim that judged anything holds' \
    'note         The claim loss (label_loss) judged nothing: no sample that was run has labels'
  has v.json idle_claims 'The claim loss (label_loss) judged nothing'
  quietly report p.json --verdict v.json --format md -o y.md
  has y.md 'Every claim that judged anything holds' 'loss'
  with_code 0 convert "$digits/digits.onnx" --random 1 -o z.onnx
  lacks out 'judged nothing'
}

# A detector that finds nothing on the only held-out sample.
test_samples_without_an_element_are_no_evidence() {
  mkdir last
  cp "$tiny/samples/detector"/[012].npz last
  mkdir last/9
  empty_image >last/9/image.npy
  with_code 0 convert "$tiny/detector.onnx" --data last --save-plan p.json --save-verdict v.json -o y.onnx
  has out '3 real samples; 1 more held out' 'verify       0 held-out samples and 3 that calibrated' \
    '1 more gave no element of an output that is judged' 'held-out -, calibration' \
    'claims are judged on those that calibrated' 'No held-out sample gave an element'
  lacks out nan
  lacks v.json nan
  has v.json '"samples": 0' '"samples_with_nothing_to_judge": 1'
  quietly report p.json --verdict v.json --format md -o y.md
  matches y.md 'holds.*\| - \|'
}

test_outputs_without_an_element_promise_nothing() {
  mkdir empty
  empty_image >empty/image.npy
  with_code 0 convert "$tiny/detector.onnx" --data empty -o y.onnx
  matches out 'nothing promised: the outputs have no element on any sample that judges'
}

# Engines have no kernel for a Dropout of opset 6, which all levels but the lowest leave out.
test_a_level_at_which_the_source_fails_as_well_refuses_nothing() {
  /usr/bin/python3 - <<'END'
import numpy, onnx
from onnx import helper, numpy_helper
f = onnx.TensorProto.FLOAT
w = numpy_helper.from_array(numpy.eye(64, dtype=numpy.float32), "w")
graph = helper.make_graph(
    [helper.make_node("MatMul", ["x", "w"], ["a"]),
     helper.make_node("Dropout", ["a"], ["b"], name="drop", is_test=1),
     helper.make_node("MatMul", ["b", "w"], ["y"])],
    "g", [helper.make_tensor_value_info("x", f, [4, 64])],
    [helper.make_tensor_value_info("y", f, [4, 64])], [w])
onnx.save(helper.make_model(graph, ir_version=4, opset_imports=[helper.make_opsetid("", 6)]), "m.onnx")
END
  quietly convert m.onnx -o y.onnx
  has out 'at level none, as the source does not either: ' 'Dropout(6)' \
    'at every other optimisation level' 'every claim holds'
  [ -s y.onnx ]
  quietly convert m.onnx -o y.onnx --json
  has out '"level": "none"' '"source_fails": true'
}

# What the first product gives is beyond fp16: the second stays fp32 and reads its weight in fp4.
test_counts_of_nodes_add_up_also_with_narrow_weights() {
  /usr/bin/python3 - <<'END'
import numpy, onnx
from onnx import helper, numpy_helper
f = onnx.TensorProto.FLOAT
wide = numpy_helper.from_array(numpy.full((256, 256), 1e4, dtype=numpy.float32), "wide")
w = numpy_helper.from_array(numpy.tile(numpy.float32([1, 2, 3, -4]), (256, 64)), "w")
graph = helper.make_graph(
    [helper.make_node("Abs", ["x"], ["p"]), helper.make_node("MatMul", ["p", "wide"], ["a"]),
     helper.make_node("MatMul", ["a", "w"], ["y"])],
    "g", [helper.make_tensor_value_info("x", f, [4, 256])],
    [helper.make_tensor_value_info("y", f, [4, 256])], [wide, w])
onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), "m.onnx")
END
  quietly trace m.onnx --policy fp4 --raise-opset 23 --random 1 -o t.json
  sed 's/"use": "when_needed"/"use": "never"/' "$root/rules/fp4.json" >unscaled.json
  quietly plan m.onnx --policy ./unscaled.json --raise-opset 23 --trace t.json -o p.json
  matches out '^plan .* fp32, [1-9] fp32 with operands in fp4e2m1$'
  awk '$1 == "plan" {
    gsub(",", "")
    for (i = 7; i < NF; i++)
      if ($i ~ /^[0-9]+$/)
        sum += $i
    exit sum != $4
  }' out
}

# with_random_numbers OPSET: makes m.onnx.
with_random_numbers() {
  /usr/bin/python3 - "$1" <<'END'
import sys, numpy, onnx
from onnx import helper, numpy_helper
f = onnx.TensorProto.FLOAT
w = numpy_helper.from_array(numpy.eye(4, dtype=numpy.float32), "w")
graph = helper.make_graph(
    [helper.make_node("MatMul", ["x", "w"], ["a"]),
     helper.make_node("RandomNormalLike", ["a"], ["r"], name="noise"),
     helper.make_node("Add", ["a", "r"], ["y"])],
    "g", [helper.make_tensor_value_info("x", f, [4, 4])],
    [helper.make_tensor_value_info("y", f, [4, 4])], [w])
onnx.save(helper.make_model(graph, ir_version=8,
                            opset_imports=[helper.make_opsetid("", int(sys.argv[1]))]), "m.onnx")
END
}

# Engines know the operator's version of opset 22 and have no kernel for it.
test_a_raise_is_blamed_only_if_the_model_loads_without() {
  engine_knows_opset 23 || return 0
  with_random_numbers 13
  with_code 6 convert m.onnx --raise-opset 22 -o y.onnx
  has err 'RandomNormalLike' 'As it was given, it loads the model; raised to opset 22 it does not'
  with_random_numbers 22
  with_code 6 convert m.onnx --raise-opset 23 -o y.onnx
  has err 'RandomNormalLike' 'It does not load the model as it was given either'
  missing y.onnx
}

test_hazards_are_converted_or_refused_by_name() {
  for policy in fp16 bf16 balanced fp8 fp4 tf32; do
    code=0
    narrowcast convert "$hazards/hazards.onnx" --policy $policy --data "$hazards/samples" \
      -o $policy.onnx >out 2>err || code=$?
    [ "$code" -le 1 ]
    if [ "$code" -eq 1 ]; then
      missing $policy.onnx
      matches out 'FAILS +[a-z0-9_]+ of [a-z0-9_]+: .*worst on [0-9]\.npz'
      matches out '(largest error of its own|first tensor that is not finite): [a-z]'
    fi
  done
}

test_quiet_silences_warnings_but_not_errors() {
  with_code 0 convert "$model" --data "$data" -o y.onnx --keep 'no-such-node' -q
  empty err
  with_code 7 convert nowhere.onnx -q
  has err 'nowhere.onnx'
}

test_progress_bar_only_on_a_terminal() {
  with_code 0 convert "$model" --data "$data" -o y.onnx
  empty err
}

test_no_output_may_be_named_as_data_of_the_result() {
  name=y.onnx.0123456789abcdef.data
  mkdir other
  ln -s . same
  for option in --save-plan --save-trace --save-verdict --report; do
    with_code 2 convert "$model" --data "$data" -o y.onnx --external-data always $option same/$name
    has err 'a name for the external data of the result'
    missing $name
    missing y.onnx
  done
  with_code 0 convert "$model" --data "$data" -o y.onnx -q --save-plan other/$name
  with_code 0 convert "$model" --data "$data" -o y.onnx -q --save-plan 0123456789abcdef.data
}

test_a_verdict_of_another_run_is_not_left_unmentioned() {
  with_code 0 convert "$model" --data "$data" -o y.onnx -q --keep '*' --save-verdict v.json
  missing v.json
  echo old >v.json
  with_code 0 convert "$model" --data "$data" -o y.onnx --keep '*' --save-verdict v.json
  has err 'there is no verdict to write: nothing is narrow' 'v.json is of another run'
  has v.json old
}

test_external_data_gets_no_name_that_is_no_string() {
  name=$(printf 'b\377.onnx')
  with_code 7 convert "$model" --data "$data" -o "$name" --external-data always
  has err 'is not valid UTF-8' 'Give the result another name'
  holds_only . err out
  with_code 0 convert "$model" --data "$data" -o "$name" -q
}

test_real_samples_that_calibrate_are_not_denied() {
  narrowcast trace "$model" --data "$data" -q -o t.json >/dev/null
  with_code 0 convert "$model" --trace t.json -o y.onnx --save-anyway -q || [ "$code" -eq 1 ]
  has out 'real samples' 'what judges is not real'
  lacks out 'nothing real'
}

run_tests
