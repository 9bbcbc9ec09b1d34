#!/bin/bash
# batch: what is found, what is kept and what is done again, that one model's end is only its own,
# and that the order, the jobs, the shards and the names of files change no summary.
. "$(dirname "$0")/lib.sh"

# The real engine with a fault (tests/faults/faulty_engine.c), built beside the program.
faulty=$(dirname "$(command -v narrowcast)")/libfaulty_engine.so
if [ -f "${NARROWCAST_ORT:-}" ]; then
  export FAULT_ENGINE="$NARROWCAST_ORT"
elif [ -f "$root/.deps/lib/libonnxruntime.so" ]; then
  export FAULT_ENGINE="$root/.deps/lib/libonnxruntime.so"
fi
# Crashes must reach the program, also in a sanitizer's build.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}handle_segv=0:handle_sigbus=0:allocator_may_return_null=1"

# zoo: a few small models of several folders in zoo/, with samples in each of the places.
zoo() {
  mkdir -p zoo/digits zoo/tiny/samples
  cp "$digits/digits.onnx" zoo/digits/
  cp -r "$digits/samples" zoo/digits/
  cp "$tiny"/if_loop.onnx "$tiny"/external.onnx "$tiny"/external.data "$tiny"/names.onnx zoo/tiny/
  cp -r "$tiny/samples/if_loop" "$tiny/samples/external" zoo/tiny/samples/
}

# repeatable OUT: the parts of a summary that no run may change.
repeatable() {
  cat "$1/summary.json" "$1/summary.csv" "$1/summary.md"
}

# done_since FILE: the models whose result is newer, in order.
done_since() {
  find res/models -name result.json -newer "$1" -exec sed -n 's/^  "model": "\(.*\)",$/\1/p' {} + |
    sort
}

# again: the batch once more; what it did goes to `did`.
again() {
  touch stamp
  sleep 0.02
  with_code 0 batch zoo --out res "$@"
  done_since stamp >did
}

test_a_zoo_is_converted_and_summed_up() {
  zoo
  with_code 0 batch zoo --out res
  has out 'models       4: 4 converted, 0 unchanged, 0 refused, 0 failed' 'wrote        res/index.html'
  has err '4 models' 'digits/digits.onnx'
  holds_only res .hashes-1-of-1 index.html models summary.csv summary.json summary.md times.csv
  for folder in res/models/*; do
    quietly inspect "$folder/model/model.onnx"
    for file in plan.json trace.json verdict.json convert.json result.json; do
      is_json "$folder/$file"
    done
    empty "$folder/log.txt"
    has "$folder/report.html" '</html>'
    has res/index.html "href=\"${folder#res/}/report.html\"" "href=\"${folder#res/}/model/model.onnx\""
  done
  is_json res/summary.json
  [ "$(wc -l <res/summary.csv)" -eq 5 ]
}

test_what_is_written_is_what_convert_writes() {
  zoo
  with_code 0 batch zoo --out res
  quietly convert zoo/digits/digits.onnx --data zoo/digits/samples --threads 1 -o one.onnx \
    --save-plan one.json --quiet
  same one.onnx res/models/digits.digits-*/model/model.onnx
  same one.json res/models/digits.digits-*/plan.json
}

test_samples_are_found_beside_the_model() {
  zoo
  mkdir -p zoo/sets
  cp "$tiny/if_loop.onnx" zoo/sets/model.onnx
  cp -r "$tiny/samples/if_loop" zoo/sets/test_data_set_0
  with_code 0 batch zoo --out res
  has res/summary.csv 'digits/digits.onnx,converted,fp16,real,' 'tiny/if_loop.onnx,converted,fp16,real,' \
    'sets/model.onnx,converted,fp16,real,' 'tiny/names.onnx,converted,fp16,made up,'
}

test_made_up_inputs_are_told_above_all_models() {
  zoo
  with_code 0 batch zoo --out res
  has out 'note         1 of 4 models was judged on made-up inputs'
  has res/summary.md '**1 of 4 models was judged on made-up inputs'
  has res/index.html '1 of 4 models was judged on made-up inputs'
  matches res/summary.json '"on_made_up_inputs": 1'
  rm -r zoo/tiny
  with_code 0 batch zoo --out real
  lacks out 'made-up'
  lacks real/summary.md 'made-up'
  lacks real/index.html 'made-up'
}

test_a_list_finds_the_samples_that_a_folder_does() {
  zoo
  mkdir -p zoo/sets
  cp "$tiny/if_loop.onnx" zoo/sets/model.onnx
  cp -r "$tiny/samples/if_loop" zoo/sets/test_data_set_0
  find zoo -name '*.onnx' -printf '{"model": "%p"}\n' >list
  with_code 0 batch list --out listed
  with_code 0 batch zoo --out found
  cut -d, -f 4 listed/summary.csv >one
  cut -d, -f 4 found/summary.csv >other
  same one other
  [ "$(grep -c real one)" -eq 4 ]
}

test_what_adjusts_a_policy_stands_beside_it() {
  zoo
  echo '{"model": "zoo/digits/digits.onnx", "format": "bf16"}' >list
  with_code 0 batch list --out res
  matches res/summary.csv ",fp16,real,.*,with --format bf16,"
  has res/summary.md '| --format bf16 |'
  has res/index.html 'fp16 <small>--format bf16</small>'
  matches res/summary.json '"adjustments": "--format bf16"'
}

test_the_worst_error_is_that_of_the_set_that_does_worse() {
  zoo
  rm -r zoo/tiny
  with_code 0 batch zoo --out res
  worst=$(sed -n 's/.*"metric": "relative_l2".*"measured": \([^,]*\),.*/\1/p' res/models/*/verdict.json |
    sort -g | tail -n 1)
  [ "$(printf '%.3g' "$worst")" = "$(sed -n '2s/.*,\([0-9.e-]*\),[0-9]*,[0-9]*,$/\1/p' res/summary.csv)" ]
}

test_a_result_does_not_depend_on_where_it_is_written() {
  zoo
  with_code 0 batch zoo --out res
  mkdir else
  mv zoo else/
  with_code 0 batch else/zoo --out else/where
  for folder in res/models/*; do
    for file in convert.json plan.json trace.json verdict.json report.html; do
      same "$folder/$file" "else/where/models/${folder##*/}/$file"
    done
  done
}

test_the_same_command_does_nothing_again() {
  zoo
  with_code 0 batch zoo --out res
  repeatable res >before
  again
  empty did
  has err '4 models, 4 done before'
  repeatable res >after
  same before after
}

test_only_what_changed_is_done_again() {
  zoo
  narrowcast policy show fp16 >p.json
  with_code 0 batch zoo --out res --policy ./p.json
  cp "$tiny/external.onnx" zoo/tiny/new.onnx
  again --policy ./p.json
  [ "$(cat did)" = tiny/new.onnx ]
  touch zoo/tiny/*
  again --policy ./p.json
  empty did
  cp "$tiny/names.onnx" zoo/tiny/new.onnx
  again --policy ./p.json
  [ "$(cat did)" = tiny/new.onnx ]
  rm -r zoo/tiny/samples/if_loop
  again --policy ./p.json
  [ "$(cat did)" = tiny/if_loop.onnx ]
  printf '\001' | dd of=zoo/tiny/external.data bs=1 seek=5000 conv=notrunc 2>/dev/null
  again --policy ./p.json
  [ "$(cat did)" = tiny/external.onnx ]
  echo >>p.json
  again --policy ./p.json
  [ "$(wc -l <did)" -eq 5 ]
  again --policy ./p.json --keep '*nothing*'
  [ "$(wc -l <did)" -eq 5 ]
}

test_an_incomplete_model_is_done_again() {
  zoo
  with_code 0 batch zoo --out res
  repeatable res >before
  rm res/models/tiny.names-*/result.json
  : >res/models/tiny.names-*/plan.json
  : >"$(echo res/models/digits.digits-*)/result.json"
  touch "$(echo res/models/digits.digits-*)/model/model.onnx.77.tmp"
  again
  [ "$(cat did)" = "$(printf '%s\n' digits/digits.onnx tiny/names.onnx)" ]
  repeatable res >after
  same before after
  missing "$(echo res/models/digits.digits-*)/model/model.onnx.77.tmp"
}

test_a_result_of_which_a_file_is_lost_is_done_again() {
  zoo
  with_code 0 batch zoo --out res
  repeatable res >before
  folder=$(echo res/models/tiny.names-*)
  for loss in 'rm model/model.onnx' 'truncate -s -1 model/model.onnx' 'rm report.html' 'rm -r model' \
    'truncate -s +1 plan.json'; do
    (cd "$folder" && $loss)
    rm -rf all
    with_code 5 batch merge res --out all
    has err 'res: has no whole result of model "tiny/names.onnx"'
    again
    [ "$(cat did)" = tiny/names.onnx ]
    quietly inspect "$folder/model/model.onnx"
    repeatable res >after
    same before after
  done
}

test_jobs_and_shards_change_no_byte() {
  zoo
  : >zoo/broken.onnx
  with_code 1 batch zoo --out one --jobs 1
  with_code 1 batch zoo --out two --jobs 2
  for shard in 1 2 3; do
    code=0
    narrowcast batch zoo --out "part$shard" --shard "$shard/3" --quiet >/dev/null 2>err || code=$?
    [ "$code" -le 1 ] && empty err
  done
  with_code 1 batch merge part1 part2 part3 --out merged
  for part in one two merged; do
    repeatable "$part" >"$part.all"
  done
  same one.all two.all
  same one.all merged.all
  for folder in one/models/*; do
    [ ! -e "$folder/plan.json" ] || same "$folder/plan.json" "merged/models/${folder##*/}/plan.json"
  done
  # What was merged can be gone on with.
  with_code 1 batch zoo --out merged
  has err '5 models, 5 done before'
}

test_merge_names_the_shards_that_are_in_no_folder() {
  zoo
  for shard in 1 2 3 5 6 7; do
    with_code 0 batch zoo --out "part$shard" --shard "$shard/7" --quiet
  done
  with_code 0 batch merge part1 part3 part7 --out some
  has err 'none of the folders holds shard 2, 4-6 of 7'
  # A merged folder tells which it holds.
  with_code 0 batch merge some part2 part5 part6 --out more
  has err 'none of the folders holds shard 4 of 7'
  with_code 0 batch zoo --out more --shard 4/7
  quietly batch merge more --out all
  with_code 0 batch merge part1 --out quiet --quiet
  empty err
  # What does not tell is no reason to say anything.
  rm part1/.hashes-*
  quietly batch merge part1 part2 --out other
  with_code 0 batch zoo --out whole
  quietly batch merge whole part2 --out both
}

test_shards_of_one_out_share_a_summary() {
  zoo
  for shard in 1 2; do
    with_code 0 batch zoo --out res --shard "$shard/2"
  done
  with_code 0 batch zoo --out whole
  repeatable res >a
  repeatable whole >b
  same a b
}

test_two_batches_on_one_folder_share_the_work() {
  zoo
  narrowcast batch zoo --out res --jobs 1 >first 2>first.err &
  other=$!
  with_code 0 batch zoo --out res --jobs 1
  wait "$other"
  same out first
  # Together they converted each model once.
  [ "$(cat first.err err | grep '^\[' | grep -vc 'by another batch')" -eq 4 ]
}

test_bad_models_cost_only_themselves() {
  zoo
  printf 'not a model' >zoo/noise.onnx
  ln -s nowhere zoo/dangling.onnx
  mkfifo zoo/pipe.onnx
  cp "$tiny/duplicate_node_names.onnx" zoo/engine.onnx
  with_code 6 batch zoo --out res
  has out 'models       8: 4 converted, 0 unchanged, 1 refused, 3 failed'
  has res/summary.csv 'noise.onnx,refused' 'dangling.onnx,failed' 'pipe.onnx,failed' 'engine.onnx,failed'
  matches res/summary.csv '^noise\.onnx,refused,.*at byte'
}

test_exit_codes_say_what_became_of_the_zoo() {
  zoo
  strict relative_l2
  with_code 0 batch zoo --out a
  with_code 1 batch zoo --out b --policy ./strict.json
  has b/summary.csv 'digits/digits.onnx,refused,fp16,real,' 'relative_l2 of' 'promised was 0'
  missing "$(echo b/models/digits.digits-*)/model/model.onnx"
  ln -s nowhere zoo/dangling.onnx
  with_code 7 batch zoo --out c --policy ./strict.json
  cp "$tiny/duplicate_node_names.onnx" zoo/
  with_code 6 batch zoo --out d --policy ./strict.json
  with_code 2 batch zoo
  with_code 2 batch zoo --out e --shard 3/2
  with_code 4 batch zoo --out e --policy ./missing_key.json || with_code 7 batch zoo --out e --policy ./none.json
  mkdir none
  with_code 5 batch none --out e
  has err 'none: holds no models'
  NARROWCAST_ORT=none with_code 6 batch zoo --out e
  has err 'ONNX Runtime'
}

test_the_summary_is_not_written_over_what_is_read() {
  mkdir out_folder
  echo "{\"model\": \"$digits/digits.onnx\"}" >out_folder/summary.json
  cp out_folder/summary.json list
  with_code 2 batch out_folder/summary.json --out out_folder
  has err 'out_folder/summary.json: will not be written: it is the file that is read'
  same out_folder/summary.json list
  narrowcast policy show fp16 >out_folder/index.html
  with_code 2 batch list --policy out_folder/index.html --out out_folder
  has err 'out_folder/index.html: will not be written: it is a file that this run reads'
}

test_a_crash_costs_one_model_and_is_told_with_its_place() {
  zoo
  printf 'not a model' >zoo/noise.onnx
  FAULT=segv FAULT_AT=run FAULT_COUNT=1 with_code 6 batch zoo --out res --ort "$faulty"
  has out 'models       5: 0 converted, 0 unchanged, 1 refused, 4 failed'
  has res/summary.csv 'crashed (signal 11, Segmentation fault) in the trace, on sample 1 of 6 (0.npz)'
  # It says something about engine and model: not tried again. With another engine it is.
  FAULT=segv FAULT_AT=run FAULT_COUNT=1 with_code 6 batch zoo --out res --ort "$faulty"
  has err '5 models, 5 done before'
}

test_a_hanging_engine_is_ended_and_tried_again_with_another_limit() {
  zoo
  rm -r zoo/tiny
  FAULT=hang FAULT_AT=run FAULT_COUNT=2 with_code 6 batch zoo --out res --ort "$faulty" --timeout 1
  has out '1 failed'
  has res/summary.csv 'took longer than 1 s'
  with_code 6 batch zoo --out res --ort "$faulty" --timeout 1
  has err '1 model, 1 done before'
  with_code 0 batch zoo --out res --ort "$faulty" --timeout 100
  has out '1 converted'
}

test_a_memory_limit_ends_a_conversion() {
  [ $sanitized = no ] || return 0
  zoo
  FAULT=eat FAULT_AT=run with_code 6 batch zoo --out res --ort "$faulty" --memory-limit 500
  has out '4 failed'
  [ "$(awk -F, 'NR > 1 && $3 > 700' res/times.csv | wc -l)" -eq 0 ]
  with_code 0 batch zoo --out res --ort "$faulty"
}

test_a_model_that_does_not_fit_is_not_started() {
  zoo
  rm -r zoo/tiny
  mkdir zoo/other
  cp "$tiny/if_loop.onnx" zoo/other/
  truncate -s 4T zoo/digits/samples/9.npz
  truncate -s 4T zoo/other/holes.onnx
  with_code 7 batch zoo --out res
  has out 'models       3: 1 converted, 0 unchanged, 1 refused, 1 failed'
  has res/summary.csv 'digits/digits.onnx,failed' 'not started: needs about 4.4e+03 GB of memory' \
    'other/holes.onnx,refused' 'larger than 2 GiB'
  # A limit says how much it may need. Under a sanitizer, which takes more, the conversion then fails.
  with_code 1 batch zoo --out res --memory-limit 2000 || [ "$code" -ge 6 ]
  lacks res/summary.csv 'not started'
}

test_what_was_killed_is_tried_twice_and_again_next_time() {
  zoo
  rm -r zoo/tiny
  FAULT=kill FAULT_AT=run FAULT_COUNT=2 with_code 6 batch zoo --out res --ort "$faulty"
  has res/summary.csv 'was killed (signal 9, Killed)'
  with_code 0 batch zoo --out res --ort "$faulty"
  has out '1 converted'
}

test_a_killed_conversion_is_tried_again() {
  zoo
  narrowcast batch zoo --out res --jobs 1 >out.txt 2>err &
  batch=$!
  killed=0
  for _ in $(seq 200); do
    child=$(pgrep -P "$batch" -f 'narrowcast convert' | head -n 1) || true
    if [ -n "$child" ] && kill -9 "$child" 2>/dev/null; then
      killed=1
      break
    fi
    sleep 0.005
  done
  [ "$killed" -eq 1 ]
  wait "$batch"
  has out.txt '4 converted'
}

test_a_killed_batch_goes_on_and_leaves_nothing_running() {
  zoo
  with_code 0 batch zoo --out whole
  repeatable whole >a
  for wait in 0.05 0.1 0.15 0.2 0.3; do
    narrowcast batch zoo --out res >/dev/null 2>&1 &
    batch=$!
    sleep "$wait"
    kill -9 "$batch" 2>/dev/null || true
    wait "$batch" 2>/dev/null || true
  done
  with_code 0 batch zoo --out res
  repeatable res >b
  same a b
  [ -z "$(find res -name '*.tmp')" ]
}

# A result vouches for its files also after a power cut.
test_no_result_is_written_before_its_files_are_on_the_disk() {
  [ $sanitized = no ] || return 0
  zoo
  FILES_SYNCFS=fail LD_PRELOAD=$(dirname "$faulty")/libfaulty_files.so with_code 7 batch zoo --out res
  has err 'res: cannot be synced to its disk: Input/output error'
  [ -n "$(find res -name report.html)" ]
  [ -z "$(find res -name result.json)" ]
  with_code 0 batch zoo --out res
  lacks err 'done before'
  FILES_SYNCFS=fail LD_PRELOAD=$(dirname "$faulty")/libfaulty_files.so with_code 7 batch merge res --out all
  has err 'all: cannot be synced to its disk: Input/output error'
  missing all/summary.json
}

test_a_name_is_no_formula_and_drives_no_terminal_in_csv() {
  mkdir zoo
  esc=$(printf '\033')
  for name in '=1+1' '+1' '-1' '@sum(a1)' "$esc[31mred" 'say "=1"' plain; do
    cp "$tiny/output_twice.onnx" "zoo/$name.onnx"
  done
  with_code 0 batch zoo --out res
  for file in res/summary.csv res/times.csv; do
    /usr/bin/python3 - "$file" <<'EOF'
import csv, sys
names = [row[0] for row in csv.reader(open(sys.argv[1], newline=''))][1:]
wanted = ["'+1.onnx", "'-1.onnx", "'=1+1.onnx", "'@sum(a1).onnx", '?[31mred.onnx', 'plain.onnx', 'say "=1".onnx']
assert sorted(names) == sorted(wanted), names
EOF
  done
  has res/summary.json '"model": "=1+1.onnx"'
}

test_hostile_names_are_only_text() {
  mkdir -p 'zoo/a
b' "zoo/<script>alert(1)</script>" zoo/-- "zoo/$(printf 'x%.0s' $(seq 200))"
  for name in 'a
b/m.onnx' '<script>alert(1)</script>/"quoted, and'\''.onnx' '--/-rf.onnx' "$(printf 'x%.0s' $(seq 200))/model.onnx" \
    '=1+1.onnx' '| ![x](y).onnx' "$(printf 'bad\377byte').onnx" '.onnx.onnx'; do
    cp "$tiny/output_twice.onnx" "zoo/$name"
  done
  ln -s ../zoo zoo/loop
  ln -s .. zoo/--/up
  with_code 0 batch zoo --out zoo/res
  has out 'models       8: 8 converted'
  lacks zoo/res/index.html '<script>'
  lacks zoo/res/summary.md '<script>'
  has err 'a?b/m.onnx'
  is_json zoo/res/summary.json
  /usr/bin/python3 - zoo/res/summary.csv <<'EOF'
import csv, sys
rows = list(csv.reader(open(sys.argv[1], newline='', errors='surrogateescape')))
assert len(rows) == 9 and all(len(row) == len(rows[0]) for row in rows), rows
names = {row[0] for row in rows}
assert 'a?b/m.onnx' in names and '<script>alert(1)</script>/"quoted, and\'.onnx' in names, names
EOF
  # The output folder lies in the zoo, and is not taken for a part of it.
  with_code 0 batch zoo --out zoo/res
  has err '8 models, 8 done before'
}

test_results_in_the_zoo_are_no_models_of_it() {
  zoo
  with_code 0 batch zoo --out zoo
  has out 'models       4: 4 converted'
  with_code 0 batch zoo --out zoo
  has err '4 models, 4 done before'
  # Another folder's results are none either, also those that were merged.
  with_code 0 batch merge zoo --out zoo/all
  rm -r zoo/models
  with_code 0 batch zoo --out zoo/other --policy bf16
  has err '4 models'
  with_code 0 batch zoo --out zoo
  has err '4 models'
  with_code 5 batch zoo/models --out res
  has err 'zoo/models: holds no models but results of `batch`' 'in a list'
}

test_models_in_the_output_folder_are_models_of_the_zoo() {
  mkdir -p zoo/a/models/resnet zoo/b
  cp "$tiny/names.onnx" zoo/a/m.onnx
  with_code 0 batch zoo --out zoo/a
  has zoo/a/summary.csv 'a/m.onnx,converted'
  cp "$tiny/names.onnx" zoo/b/n.onnx
  # Only what a batch has written is passed over in its own folder.
  cp "$tiny/names.onnx" zoo/a/models/in-0123456789ab.onnx
  cp "$tiny/names.onnx" zoo/a/models/resnet/
  mkdir zoo/a/models/v-0123456789ab
  cp "$tiny/names.onnx" zoo/a/models/v-0123456789ab/
  with_code 0 batch zoo --out zoo/a
  has out 'models       5: 5 converted'
  has err '5 models, 1 done before'
  has zoo/a/summary.csv 'a/m.onnx,' 'b/n.onnx,' 'a/models/in-0123456789ab.onnx,' \
    'a/models/resnet/names.onnx,' 'a/models/v-0123456789ab/names.onnx,'
}

test_what_is_converted_and_not_worth_it_is_in_the_summary() {
  zoo
  echo '{"overrides": [{"glob": "*", "format": "fp32", "note": "n"},
    {"glob": "/stem/norm", "format": "fp16", "note": "alone"}]}' >o.json
  printf '%s\n' '{"model": "zoo/digits/digits.onnx", "name": "worth"}' \
    '{"model": "zoo/digits/digits.onnx", "name": "not", "overrides": "o.json"}' >list
  with_code 0 batch list --out res
  has out 'models       2: 2 converted' 'drawbacks    1 of what is written: 1 no faster, 1 moves more memory'
  has res/summary.md '1 with a drawback' '| no faster, moves more memory |'
  matches res/summary.csv '^not,converted,.*,"no faster, moves more memory",'
  matches res/summary.csv '^worth,converted,fp16,real,[0-9.,]+,,[0-9]+,'
  matches res/summary.json '"with_drawbacks": 1,'
  matches res/summary.json '"model": "not", .*"drawbacks": "time traffic"'
  has res/index.html '<td class="drawback">no faster, moves more memory</td>' '1 with a drawback'
  repeatable res >all
  for shard in 1 2; do
    with_code 0 batch list --out "shard$shard" --shard "$shard/2" --jobs 2
  done
  mkdir not_a_batch
  with_code 5 batch merge shard1 not_a_batch --out merged || [ "$code" -eq 7 ]
  missing merged
  with_code 0 batch merge shard1 shard2 --out merged
  repeatable merged >parts
  same all parts
}

test_a_folder_that_cannot_be_read_is_in_the_summary() {
  zoo
  mkdir zoo/secret
  chmod 000 zoo/secret
  if [ "$(id -u)" -eq 0 ]; then
    chmod 777 .
    chmod -R a+rX zoo/tiny zoo/digits
    program=$(command -v narrowcast)
    setpriv --reuid 65534 --regid 65534 --clear-groups test -x "$program" || return 0
    code=0
    setpriv --reuid 65534 --regid 65534 --clear-groups "$program" batch zoo --out res >out.txt 2>err ||
      code=$?
    [ "$code" -eq 7 ]
  else
    with_code 7 batch zoo --out res
  fi
  has res/summary.csv 'secret,failed' 'Permission denied'
  with_code 7 batch merge res --out all
  same res/summary.csv all/summary.csv
}

test_a_list_gives_each_model_its_own() {
  zoo
  mkdir lists
  cat >lists/zoo.jsonl <<EOF
{"model": "../zoo/digits/digits.onnx", "samples": "../zoo/digits/samples"}
{"model": "../zoo/digits/digits.onnx", "name": "io", "format": "fp16", "io": "narrow", "samples": "../zoo/digits/samples"}

{"model": "../zoo/tiny/names.onnx", "name": "kept", "keep": ["*"]}
{"model": "../zoo/digits/digits.onnx", "name": "by hand", "overrides": "mine.json"}
EOF
  echo '{"overrides": [{"glob": "/stem/*", "format": "fp32", "note": "cheap"}]}' >lists/mine.json
  with_code 0 batch lists/zoo.jsonl --out res
  has out 'models       4: 3 converted, 1 unchanged'
  has res/summary.csv 'io,converted,fp16,real,18,17' 'kept,unchanged'
  has res/models/by_hand-*/plan.json cheap
  sed -i 's/cheap/dear/' lists/mine.json
  with_code 0 batch lists/zoo.jsonl --out res
  has err '4 models, 3 done before'
  sed -i 's/"format": "fp16"/"raise_opset": 21/' lists/zoo.jsonl
  with_code 0 batch lists/zoo.jsonl --out res
  has err '4 models, 3 done before'
  has res/models/io-*/plan.json '"opset_raised_to": 21'
  sed 's/21/27/' lists/zoo.jsonl >lists/bad.jsonl
  with_code 4 batch lists/bad.jsonl --out res
  has err 'lists/bad.jsonl:2' 'raise_opset: 27 is out of range'
  sed 's/"keep"/"kep"/' lists/zoo.jsonl >lists/bad.jsonl
  with_code 4 batch lists/bad.jsonl --out res
  has err 'lists/bad.jsonl:4' '"keep"'
  sed 's/, "name": "io"//' lists/zoo.jsonl >lists/bad.jsonl
  with_code 4 batch lists/bad.jsonl --out res
  has err 'lists/bad.jsonl:2: two models are called "../zoo/digits/digits.onnx": this and that of line 1' \
    '"name"'
  printf '{"model": "x.onnx"' >lists/bad.jsonl
  with_code 4 batch lists/bad.jsonl --out res
  has err 'lists/bad.jsonl:1'
}

test_a_list_is_checked_before_anything_is_converted() {
  good="{\"model\": \"$digits/digits.onnx\"}"
  bad() { # CODE MEMBER: that it ends so, names line 2, and leaves nothing
    printf '%s\n{"model": "%s", "name": "b", %s}\n' "$good" "$digits/digits.onnx" "$2" >list
    with_code "$1" batch list --out res
    has err 'list:2'
    [ -z "$(find res -type f)" ]
  }
  bad 4 '"format": "fp8"'
  has err 'format: unknown value "fp8"' 'fp16'
  bad 4 '"io": "x"'
  has err 'io: unknown value "x"' 'keep, narrow'
  bad 4 '"policy": "fp17"'
  has err 'Did you mean fp16'
  bad 7 '"overrides": "none.json"'
  has err 'none.json'
  echo '{"overrides": [{"glob": "*", "format": "fp9"}]}' >mine.json
  bad 4 '"overrides": "mine.json"'
  has err 'mine.json:1' 'fp9'
  echo "$good" >list
  with_code 2 batch list --out res --format fp8
  with_code 2 batch list --out res --io x
  with_code 7 batch list --out res --overrides none.json
  [ -z "$(find res -type f)" ]
}

test_raised_opset_and_overrides_of_all_models_are_part_of_what_is_done_again() {
  mkdir zoo
  cp "$digits/digits.onnx" zoo/
  echo '{"overrides": [{"glob": "/stem/*", "format": "fp32", "note": "cheap"}]}' >mine.json
  with_code 0 batch zoo --out res --raise-opset 21 --overrides mine.json
  has res/models/*/plan.json '"opset_raised_to": 21' cheap
  with_code 0 batch zoo --out res --raise-opset 21 --overrides mine.json
  has err '1 model, 1 done before'
  with_code 0 batch zoo --out res --raise-opset 22 --overrides mine.json
  lacks err 'done before'
  sed -i 's/cheap/dear/' mine.json
  with_code 0 batch zoo --out res --raise-opset 22 --overrides mine.json
  lacks err 'done before'
  has res/models/*/plan.json '"opset_raised_to": 22' dear
  # A model's own go before them.
  echo '{"model": "zoo/digits.onnx", "raise_opset": 20, "overrides": "own.json"}' >list.jsonl
  sed 's/dear/own/' mine.json >own.json
  with_code 0 batch list.jsonl --out own --raise-opset 22 --overrides mine.json
  has own/models/*/plan.json '"opset_raised_to": 20' '"own"'
}

test_external_data_and_model_limits_are_those_of_convert() {
  mkdir zoo
  cp "$tiny/external.onnx" "$tiny/external.data" zoo/
  with_code 1 batch zoo --out res --model-limit messages=10
  has err 'more than 10 messages'
  with_code 0 batch zoo --out res --model-limit messages=1000 --external-data never
  lacks err 'done before'
  holds_only res/models/external-*/model model.onnx
  with_code 0 batch zoo --out res --model-limit messages=1000 --external-data always
  lacks err 'done before'
  [ "$(find res/models/external-*/model -name 'model.onnx.*.data' | wc -l)" -eq 1 ]
  with_code 0 batch zoo --out res --model-limit messages=1000 --external-data always
  has err '1 model, 1 done before'
  # The data is part of what is read only if the limits let the model be read.
  printf '\001' | dd of=zoo/external.data bs=1 seek=5000 conv=notrunc 2>/dev/null
  with_code 0 batch zoo --out res --model-limit messages=1000 --external-data always
  lacks err 'done before'
  with_code 2 batch zoo --out res --external-data sometimes
}

# The very lines of docs/zoo.md, but for ssh: in its place, a shell that has what a login has.
test_gnu_parallel_gives_what_one_machine_gives() {
  if ! parallel --version 2>/dev/null | grep -q GNU; then
    echo 'left out: GNU parallel is not installed (sh tests/setup tests)'
    return
  fi
  zoo
  with_code 0 batch zoo --out one
  rm out # a folder of the lines' own
  cat >ssh <<EOF
#!/bin/sh
echo "\$1" >>"$PWD/hosts"
shift 2 # the host and --
cd /
exec env -i SHELL=/bin/sh HOME="$HOME" PATH="$PATH" NARROWCAST_ORT="${NARROWCAST_ORT:-}" sh -c "\$*"
EOF
  chmod +x ssh
  sed -n '/^parallel/,/^```/p' "$root/docs/zoo.md" | grep -v '^```' >lines
  [ "$(wc -l <lines)" -eq 2 ]
  PARALLEL_HOME=$PWD/home PARALLEL_SSH=$PWD/ssh sh -e lines >said 2>&1 </dev/null || {
    cat said >&2
    return 1
  }
  [ "$(sort -u hosts | tr '\n' ' ')" = 'host1 host2 ' ]
  for part in one all; do
    repeatable $part >$part.summary
    (cd $part/models && find . -name plan.json -o -path './*/model/*' | sort | xargs sha256sum) \
      >>$part.summary
  done
  same one.summary all.summary
}

test_merge_says_what_is_missing() {
  zoo
  mkdir empty
  with_code 7 batch merge empty --out res
  has err 'empty/summary.json'
  with_code 2 batch merge --out res
  with_code 0 batch zoo --out part
  with_code 2 batch merge part --out part
  rm part/models/tiny.names-*/result.json
  with_code 5 batch merge part --out res
  has err 'tiny/names.onnx'
}

run_tests
