#!/bin/sh
# models/demo, the first thing that a visitor runs.
. "$(dirname "$0")/lib.sh"

test_demo_shows_the_command_on_stderr_and_the_summary_on_stdout() {
  sh "$root/models/demo" >out 2>err
  matches err '^demo: \$ build/narrowcast convert models/digits/digits.onnx '
  has out 'every claim holds' 'accuracy     logits: fp32 98.89 %, narrow 98.89 %' \
    'wrote        build/demo/digits.fp16.onnx'
  lacks out 'demo:'
}

run_tests
