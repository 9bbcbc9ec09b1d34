#!/bin/sh
# report: what it reads, what it refuses, and that convert writes the same.
. "$(dirname "$0")/lib.sh"

model=$digits/digits.onnx
data=$digits/samples

# records: plan.json, trace.json, verdict.json and y.onnx of one run.
records() {
  quietly convert "$model" --data "$data" -o y.onnx --save-plan plan.json --save-trace trace.json \
    --save-verdict verdict.json "$@"
}

test_report_is_one_html_file_or_markdown() {
  records
  quietly report plan.json --trace trace.json --verdict verdict.json
  has out 'wrote plan.json.html'
  has plan.json.html '<!doctype html>' 'id="data-plan"' 'id="data-trace"' 'id="data-verdict"'
  quietly report plan.json --verdict verdict.json --format md
  has plan.json.md '**Every claim holds.**' '2 held-out samples' '| holds | `relative_l2` |'
  quietly report plan.json -o x.html
  lacks x.html 'id="data-trace"'
}

test_the_ending_decides_the_form_unless_an_option_does() {
  records --report whole.md
  quietly report plan.json --trace trace.json --verdict verdict.json -o parts.md
  same whole.md parts.md
  quietly report plan.json --format html -o page.md
  has page.md '<!doctype html>'
  quietly report plan.json --format md -o text.html
  has text.html '# '
  lacks text.html '<!doctype html>'
  cp plan.json plan.md
  quietly report plan.md -o - >/dev/null
  has out '<!doctype html>'
}

test_convert_writes_the_report_of_its_files() {
  records --report whole.html
  quietly report plan.json --trace trace.json --verdict verdict.json -o parts.html
  same whole.html parts.html
  quietly convert "$model" --data "$data" -o z.onnx --report whole.md
  quietly report plan.json --trace trace.json --verdict verdict.json --format md -o parts.md
  same whole.md parts.md
}

test_a_model_that_is_called_model_has_its_folder_in_the_title() {
  mkdir -p zoo/digits
  cp "$model" zoo/digits/model.onnx
  quietly convert zoo/digits/model.onnx --report outside.md -o y.onnx
  (cd zoo/digits && quietly convert model.onnx --report ../../inside.md -o ../../y.onnx)
  has outside.md 'digits/model.onnx'
  same outside.md inside.md
}

test_markdown_says_what_its_claims_depend_on() {
  records --policy tf32
  quietly report plan.json --verdict verdict.json --format md -o tf32.md
  has tf32.md 'tf32 is a setting of the runtime' 'What tf32 saves is not modelled'
  lacks tf32.md 'modelled for target' 'disable_quant_qdq'
  sed 's/"loads_only_with_disable_quant_qdq": false/"loads_only_with_disable_quant_qdq": true/' \
    verdict.json >condition.json
  quietly report plan.json --verdict condition.json --format md -o condition.md
  has condition.md '`session.disable_quant_qdq = 1`'
  records --policy fp8 --raise-opset 19
  quietly report plan.json --verdict verdict.json --format md -o fp8.md
  matches fp8.md '; [0-9]+ read their operands in fp8e4m3fn\.$'
}

test_verify_writes_the_verdict_of_convert() {
  records
  quietly verify "$model" --plan plan.json --data "$data" -o again.json
  same again.json verdict.json
  is_json verdict.json
  matches verdict.json '^    \{"value": "logits", "scope": "", "max_abs": '
}

test_explain_takes_the_verdict_file() {
  records
  quietly plan "$model" --trace trace.json -o bare.json
  quietly explain bare.json logits --verdict verdict.json
  has out 'measured'
}

test_a_refused_conversion_has_a_report_too() {
  strict relative_l2
  with_code 1 convert "$model" --data "$data" --policy ./strict.json -o y.onnx --report r.md
  missing y.onnx
  has r.md '**Refused:** a claim does not hold' '| **FAILS** | `relative_l2` |'
}

test_an_unchanged_model_has_a_report_without_verdict() {
  narrowcast policy show fp16 >fp16.json
  edited 's/"ladder": *\[[^]]*\]/"ladder": ["fp32"]/' fp16.json only_fp32.json
  with_code 0 convert "$model" --data "$data" --policy ./only_fp32.json -o y.onnx --report r.md \
    --save-verdict v.json
  has err 'no verdict'
  missing v.json
  has r.md '**Unchanged: nothing to convert under this policy.**'
}

test_the_report_says_which_opset_would_do_as_the_command_line_does() {
  with_code 0 convert "$model" --data "$data" --policy bf16 -o y.onnx --report r.md
  matches out 'stays? fp32: .*\(--raise-opset 22 would do\)'
  matches r.md 'does not take the format at this opset \(--raise-opset 22 would do\) \|'
}

test_a_missing_kernel_is_told_once() {
  with_code 0 convert "$model" --data "$data" --policy bf16 --raise-opset 22 -o y.onnx \
    --report r.md --save-verdict v.json
  if grep -q '"kernels_missing": "bf16"' v.json; then
    [ "$(grep -c 'ONNX Runtime has no `bf16` kernels' r.md)" -eq 1 ]
    lacks r.md 'At optimisation level'
  fi
}

test_report_refuses_the_verdict_of_an_edited_plan() {
  records
  edited 's/"version": 1/"version": 7/' plan.json edited.json
  with_code 4 report edited.json --verdict verdict.json -o x.html
  has err 'verdict.json' 'another plan'
  missing x.html
}

test_report_names_what_is_wrong_in_a_file() {
  records
  edited '/"node": /s/"format": "fp16"/"format": 16/' plan.json wrong.json
  with_code 4 report wrong.json -o x.html
  matches err 'wrong\.json:[0-9]+: .*nodes\[0\]\.format: must be a string'
  with_code 4 report trace.json -o x.html
  with_code 4 report "$model" -o x.html
  with_code 7 report none.json -o x.html
  with_code 2 report plan.json --format pdf
  has err 'html or md'
  missing x.html
}

test_report_does_not_overwrite_what_it_reads() {
  records
  cp plan.json before.json
  with_code 2 report plan.json --trace trace.json -o plan.json
  with_code 2 report plan.json --trace trace.json -o trace.json
  with_code 2 report plan.json --verdict verdict.json -o verdict.json
  with_code 2 convert "$model" --data "$data" -o y.onnx --report y.onnx
  same plan.json before.json
}

test_report_needs_no_engine() {
  records
  NARROWCAST_ORT=none quietly report plan.json --trace trace.json --verdict verdict.json -o x.html
}

test_report_twice_gives_the_same_bytes() {
  records
  quietly report plan.json --trace trace.json -o x.html
  quietly report plan.json --trace trace.json -o y.html
  same x.html y.html
}

run_tests
