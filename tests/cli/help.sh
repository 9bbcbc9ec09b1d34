#!/bin/sh
# The command line itself: help, versions, and what is said of a wrong one.
. "$(dirname "$0")/lib.sh"

commands='convert inspect trace plan rewrite verify report explain diff emit policy formats'

test_help_lists_commands_and_exit_codes() {
  quietly --help
  for command in $commands; do
    matches out "^  $command +[a-z]"
  done
  for exit_code in 0 1 2 3 4 5 6 7; do
    matches out "^  $exit_code  [A-Za-z]"
  done
  mv out long
  quietly -h
  same out long
  quietly help
  same out long
}

test_no_arguments_print_the_help_as_a_message() {
  quietly --help
  mv out help
  with_code 2
  same err help
  empty out
}

test_every_command_has_help_with_its_options() {
  for command in $commands; do
    quietly "$command" --help
    has out "narrowcast $command" 'Options:' '--help'
    mv out long
    quietly "$command" -h
    same out long
  done
  quietly convert --help
  for option in policy data random samples trace output save-plan save-trace format keep narrow io \
    save-anyway ort threads json quiet help; do
    matches out "^  (-[a-z], |    )--$option "
  done
  quietly batch --help
  for option in out policy jobs timeout memory-limit shard random keep threads json; do
    matches out "^  (-[a-z], |    )--$option "
  done
}

test_help_says_what_is_needed_and_what_is_short() {
  quietly convert --help
  has out '  -o, --output FILE' '  -q, --quiet' '  -h, --help' 'fp16, bf16 or fp32'
  has out 'threads of ONNX Runtime (default: all cores)'
  quietly batch --help
  has out 'merge OUT... --out DIR [options]' '      --out DIR' 'for each conversion (default 1)'
  lacks out '--output'
  lacks out 'all cores)'
  quietly verify --help
  has out 'narrowcast verify MODEL --plan FILE [options]'
  quietly rewrite --help
  has out 'narrowcast rewrite MODEL --plan FILE [options]'
  quietly emit --help
  has out 'narrowcast emit PLAN --for TOOL -o FILE [options]'
  with_code 2 verify
  has err 'verify MODEL --plan FILE [options]'
}

test_help_wins_over_what_is_missing() {
  quietly convert --policy fp16 --help
  has out 'Options:'
}

test_help_fits_100_columns() {
  for command in $commands; do
    quietly "$command" --help
    awk 'length($0) > 100 { print; long = 1 } END { exit long }' out >&2
  done
}

test_version_is_one_line() {
  quietly --version
  matches out '^narrowcast [0-9]+\.[0-9]+\.[0-9]+$'
}

test_unknown_command_names_the_near_one() {
  with_code 2 convrt model.onnx
  empty out
  has err 'convrt' 'Did you mean `convert`?'
  with_code 2 xyzzy
  empty out
  has err 'xyzzy' '--help'
}

test_unknown_option_names_the_near_one() {
  with_code 2 convert model.onnx --polcy fp16
  empty out
  has err '--polcy' 'Did you mean --policy?'
  with_code 2 convert model.onnx --polcy=fp16
  has err '--polcy=fp16' 'Did you mean --policy?'
  with_code 2 convert model.onnx --output-file y.onnx
  has err '--output-file' 'convert --help'
  with_code 2 convert model.onnx -z
  has err 'has no option -z' 'convert --help'
  with_code 2 convert --json -zq
  has err 'has no option -z'
  with_code 2 convert model.onnx --json=yes
  has err '--json=yes' 'takes no value'
}

test_option_of_another_command_is_unknown() {
  with_code 2 inspect model.onnx --policy fp16
  has err 'inspect has no option --policy'
  with_code 2 formats -o x
  has err 'formats has no option -o'
}

test_missing_argument_is_named_with_the_usage() {
  for command in convert inspect trace plan rewrite verify; do
    with_code 2 "$command"
    empty out
    has err 'MODEL is missing' "narrowcast $command MODEL"
  done
  with_code 2 policy
  has err 'check FILE | show POLICY | list'
}

test_too_many_arguments_are_refused() {
  with_code 2 convert a.onnx b.onnx
  empty out
  has err 'more than MODEL'
}

test_option_without_its_value_is_named() {
  with_code 2 convert model.onnx --policy
  has err '--policy needs a value'
  with_code 2 convert model.onnx -o
  has err '-o needs a value'
}

test_an_empty_value_or_argument_is_refused() {
  for option in --policy --data -o --overrides --ort --keep --samples; do
    with_code 2 convert "$digits/digits.onnx" $option ''
    has err 'the value is empty'
  done
  with_code 2 trace "$digits/digits.onnx" --checkpoints a.onnx ''
  has err '--checkpoints: the value is empty'
  with_code 2 convert ''
  has err 'an argument is empty: it should be MODEL'
  with_code 2 diff plan.json ''
  has err 'it should be PLAN PLAN'
}

test_number_that_is_none_is_refused_with_its_range() {
  for value in ten -1 1.5 99999999999999999999; do
    with_code 2 convert "$digits/digits.onnx" --threads "$value"
    has err '--threads' 'from 0 to'
    with_code 2 convert "$digits/digits.onnx" --random "$value"
    has err '--random' 'from 0 to'
  done
}

test_rewrite_and_verify_ask_for_a_plan() {
  with_code 2 rewrite "$digits/digits.onnx"
  has err '--plan' 'narrowcast plan'
  with_code 2 verify "$digits/digits.onnx" --data "$digits/samples"
  has err '--plan' 'narrowcast plan'
}

test_data_and_random_exclude_each_other() {
  with_code 2 convert "$digits/digits.onnx" --data "$digits/samples" --random 1 -o y.onnx
  has err '--data' '--random'
  with_code 2 convert "$digits/digits.onnx" --data "$digits/samples" --samples 3 -o y.onnx
  has err '--data' '--samples'
  missing y.onnx
}

test_formats_prints_the_table() {
  quietly formats
  matches out '^fp16 .* 65504 '
  matches out '^bf16 '
  quietly formats --json
  has out '"name": "fp16"' '"max": 65504'
}

test_policy_list_names_what_show_shows() {
  quietly policy list
  mv out list
  for name in fp16 bf16 balanced fp8 fp4 tf32; do
    matches list "^$name "
    quietly policy show "$name"
    cp out "$name.json"
    quietly policy check "./$name.json"
    has out "policy $name version"
    same "$name.json" "$root/rules/$name.json"
  done
}

test_policy_with_a_wrong_verb_is_refused() {
  with_code 2 policy shwo fp16
  has err 'shwo' 'show POLICY'
  with_code 2 policy show
  with_code 2 policy list all
}

run_tests
