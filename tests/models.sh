# Real models: what narrowcast makes of each model in the folder that NARROWCAST_MODELS names, with
# each shipped policy. Then, if they are there, the operator test models of libonnx-testdata and the
# broken files in the folder nasty/ beside the models, for robustness.
#
#   NARROWCAST_MODELS=FOLDER sh tests/models.sh
#
# The folder holds MANIFEST.tsv (first column: path of a model in the folder) and, beside a model,
# samples as test_data_set_*/ where there are any; else the inputs are made up.
#
# Prints a table, its totals, and a PASS or FAIL line for each requirement, each FAIL with its
# models. A model that is refused (exit code 1) is no failure if the refusal says what it must.
# narrowcast is taken from PATH, else from build/. Needs Debian's python3-onnx for the checker.
set -u
export LC_ALL=C

root=$(cd "$(dirname "$0")/.." && pwd)
PATH=$PATH:$root/build
policies='fp16 bf16 balanced fp8 tf32 fp4'
jobs=2

# fault RULE TEXT: notes in the worker's file that the model breaks the rule.
fault() {
  printf '%s\t%s\t%s\n' "$1" "$name" "$2" >>"$place/faults"
}

first_line() {
  grep -v 'narrowcast: warning' "$1" | head -n 1
}

# What a refusal must name: output, amount and sample in one line (or that the output's shape differs,
# as the number of boxes does), and a tensor.
names_culprit() {
  grep -qE '^  FAILS +[a-z0-9_]+ of .+: (.+ worst on .+|its shape differs from fp32 in .+)' "$1" &&
    grep -qE '(largest error of its own|first tensor that is not finite): .' "$1"
}

# explain TEXT CODE: the summary says why it is what it is.
explain() {
  if [ "$2" -eq 1 ]; then
    names_culprit "$1" || grep -q '^loads  *NOT in' "$1" ||
      fault "$policy:explained" 'the refusal does not name output, amount, sample and tensor'
  elif grep -q 'copied unchanged' "$1"; then
    grep -qE 'stays? fp32: |plan +0 of 0 float nodes|^setting +tf32' "$1" ||
      fault "$policy:explained" 'copied unchanged without a reason'
  else
    grep -qE '^result +every claim holds' "$1" || fault "$policy:explained" 'no verdict'
  fi
}

# convert FOLDER ARGUMENT...: into FOLDER/, output in FOLDER.out and .err; sets code.
convert() {
  folder=$1
  shift
  mkdir -p "$folder"
  code=0
  timeout 300 narrowcast convert "$@" -o "$folder/model.onnx" >"$folder.out" 2>"$folder.err" ||
    code=$?
}

# The policies that need an opset, which few models have; and that are tried twice only.
raise_option() {
  case $1 in
  fp8) echo --raise-opset 19 ;;
  fp4) echo --raise-opset 23 ;;
  esac
}
is_second() {
  case $1 in fp8 | tf32 | fp4) return 0 ;; *) return 1 ;; esac
}

# too_old CODE ERR: the opset cannot be raised, or this ONNX Runtime knows neither it nor the IR.
too_old() {
  [ "$1" -eq 3 ] && grep -q 'the opset can.* be raised' "$2" ||
    { [ "$1" -eq 6 ] &&
      grep -qE 'support for domain ai.onnx is till opset|Unsupported model IR version' "$2"; }
}

# One policy on one model: a/ is the result (also of a refusal), b/ that of a second run, as text
# and with other threads, c/ that of converting a/ again.
try_policy() {
  at=$place/$policy
  # shellcheck disable=SC2046 # two words or none
  set -- $(raise_option "$policy") "$@"
  began=$(date +%s%N)
  convert "$at/a" "$model" --policy "$policy" "$@" --threads 1 --json --save-anyway
  echo $((($(date +%s%N) - began) / 1000000)) >"$at/milliseconds"
  echo "$code" >"$at/code"
  if too_old "$code" "$at/a.err"; then
    echo old >"$at/code"
    return
  elif [ "$code" -gt 1 ]; then
    fault "$policy:ends" "exit code $code: $(first_line "$at/a.err")"
    return
  fi
  printf '%s\t%s\n' "$model" "$at/a/model.onnx" >>"$place/pairs"
  grep -q '"engine_has_kernels": true' "$at/a.out" && grep -q '"loads": false' "$at/a.out" &&
    fault "$policy:loads" 'ONNX Runtime does not load the result at every optimisation level'

  first=$code
  convert "$at/b" "$model" --policy "$policy" "$@" --threads 2
  explain "$at/b.out" "$code"
  if [ "$code" -ne "$first" ]; then
    fault "$policy:same" "exit code $first, then $code"
  elif [ "$code" -eq 0 ]; then
    diff -r "$at/a" "$at/b" >/dev/null || fault "$policy:same" 'two runs differ'
  elif [ -n "$(ls "$at/b")" ]; then
    fault "$policy:explained" 'a refusal left a file'
  fi
  rm -rf "$at/b"

  cmp -s "$at/a/model.onnx" "$model" && return
  is_second "$policy" && return
  convert "$at/c" "$at/a/model.onnx" --policy "$policy" "$@" --threads 1
  if [ "$code" -ne 0 ]; then
    fault "$policy:again" "exit code $code: $(first_line "$at/c.err")"
  else
    diff -r "$at/a" "$at/c" >/dev/null || fault "$policy:again" 'converting again changes it'
  fi
  rm -rf "$at/c"
}

# work_model OUT NAME: all of one model.
work_model() {
  name=$2
  place=$1/models/$name
  model=$NARROWCAST_MODELS/$name/model.onnx
  mkdir -p "$place"
  if [ -d "$NARROWCAST_MODELS/$name/test_data_set_0" ]; then
    set -- "$1" --data "$NARROWCAST_MODELS/$name"
  else
    set -- "$1" --random 1
  fi
  out=$1
  shift
  for policy in $policies; do
    try_policy "$@"
  done
  convert "$place/fp32/a" "$model" --policy "$out/fp32.json" "$@" --threads 1
  if too_old "$code" "$place/fp32/a.err"; then
    :
  elif [ "$code" -ne 0 ]; then
    fault fp32:ends "exit code $code: $(first_line "$place/fp32/a.err")"
  else
    for file in "$place"/fp32/a/*; do
      cmp -s "$file" "$NARROWCAST_MODELS/$name/$(basename "$file")" ||
        fault fp32:unchanged "$(basename "$file") differs"
    done
  fi
  rm -rf "$place/fp32/a"
  echo "$name" >&2
}

# Exit codes of the table, and a message that names the file (or the sample, for bad data).
check_end() {
  case $code in
  0 | 1) return ;;
  3 | 4 | 5 | 6 | 7) ;;
  *)
    fault "$1" "$2: exit code $code"
    return
    ;;
  esac
  grep -qF "narrowcast: $file: " "$place/err" || { [ "$code" -eq 5 ] && [ -s "$place/err" ]; } ||
    fault "$1" "$2: the message does not name the file: $(first_line "$place/err")"
}

# work_testdata OUT FILE...: inspect and plan must read every model; convert may be refused by the
# engine (code 6: no kernel) or for inputs that are no tensors (code 5).
work_testdata() {
  place=$1/testdata.$$
  shift
  mkdir -p "$place"
  for file in "$@"; do
    name=${file#*/data/}
    name=${name%/model.onnx}
    for command in inspect "plan -o $place/plan.json"; do
      code=0
      # shellcheck disable=SC2086 # a list of words
      timeout 20 narrowcast $command "$file" >/dev/null 2>"$place/err" || code=$?
      [ "$code" -eq 0 ] || [ "$code" -eq 3 ] || fault testdata:read "${command%% *}: code $code"
      check_end testdata:read "${command%% *}"
      [ "${command%% *}" = inspect ] || echo "$code" >>"$place/plan.codes"
    done
    code=0
    result=$place/$(echo "$name" | tr / -).onnx
    timeout 60 narrowcast convert "$file" --data "$(dirname "$file")" --threads 1 -o "$result" \
      >"$place/out" 2>"$place/err" || code=$?
    check_end testdata:convert convert
    [ "$code" -ne 1 ] || names_culprit "$place/out" ||
      fault testdata:convert 'the refusal does not name output, amount, sample and tensor'
    echo "$code" >>"$place/convert.codes"
    [ ! -e "$result" ] || printf '%s\t%s\n' "$file" "$result" >>"$place/pairs"
  done
}

# work_nasty OUT FILE...
work_nasty() {
  place=$1/nasty.$$
  shift
  mkdir -p "$place"
  for file in "$@"; do
    name=$(basename "$(dirname "$file")")/$(basename "$file")
    row=$(printf '%-46s' "${file#*/nasty/}")
    for command in inspect "convert --random 1 --threads 1 -o $place/model.onnx"; do
      code=0
      # shellcheck disable=SC2086 # a list of words
      timeout 20 narrowcast $command "$file" >"$place/out" 2>"$place/err" || code=$?
      check_end nasty:end "${command%% *}"
      echo "$code" >>"$place/${command%% *}.codes"
      row="$row $(printf '%7s' "$code")"
      [ "$code" -le 1 ] || [ ! -e "$place/model.onnx" ] || fault nasty:end 'an error left a file'
      rm -rf "$place/model.onnx"*
    done
    # Names of hostile models are in its messages: printable, on one line.
    echo "$row  $(grep -m 1 -E '^narrowcast|error|^result|^wrote' "$place/err" "$place/out" -h |
      tr -c '[:print:]' ' ' | sed "s|$file|the file|g; s|$place/||g" | cut -c 1-110)" >>"$place/rows"
  done
}

# ---- the report ----

# cell JSON CODE MILLISECONDS: verdict, narrow/float nodes, Casts, worst relative L2, loads, time.
cell() {
  awk -v code="$2" -v milliseconds="$3" '
    function number(line) {
      sub(/.*: */, "", line)
      gsub(/[",]/, "", line)
      return line
    }
    /"float_nodes":/ { floats = number($0) }
    /"narrow_nodes":/ { narrow = number($0) }
    /"casts":/ { casts = number($0) }
    /"unchanged": true/ { unchanged = 1 }
    /"relative_l2":/ && /"max_abs":/ {
      match($0, /"relative_l2": [^,]*/)
      text = number(substr($0, RSTART, RLENGTH))
      value = text == "inf" ? 1e300 : text + 0
      if (worst == "" || value > worst) worst = value
    }
    /"loads": true/ { loads = "yes" }
    /"loads": false/ { loads = "NO" }
    /"engine_has_kernels": false/ { loads = "emul" }
    END {
      verdict = "ok"
      if (unchanged) verdict = "same"
      if (code == 1) verdict = "refused"
      if (code > 1) verdict = "ERROR"  # any word too
      if (code == "old") verdict = "old"
      if (code > 1) narrow = floats = casts = 0
      if (worst == "") error = "-"
      else error = worst == 1e300 ? "inf" : sprintf("%.1e", worst)
      printf "%-7s %9s %4d %8s %-4s %5.1f", verdict, narrow "/" floats, casts, error,
        (loads == "" ? "-" : loads), milliseconds / 1000
    }' "$1"
}

print_table() {
  printf '%-22s' model
  for policy in $policies; do
    printf ' | %-42s' "$policy: nodes, Casts, L2, loads, seconds"
  done
  echo
  while read -r name; do
    printf '%-22.22s' "$name"
    for policy in $policies; do
      at=$out/models/$name/$policy
      printf ' | %s' "$(cell "$at/a.out" "$(cat "$at/code")" "$(cat "$at/milliseconds")")"
    done
    echo
  done <"$out/names"
}

# Over all models: the table's columns added up.
print_totals() {
  for policy in $policies; do
    for at in "$out"/models/*/"$policy"; do
      cell "$at/a.out" "$(cat "$at/code")" "$(cat "$at/milliseconds")"
      echo
    done | awk -v policy="$policy" '
      { count[$1]++ }
      {
        split($2, nodes, "/")
        narrow += nodes[1]
        floats += nodes[2]
        casts += $3
        loaded += ($5 == "yes")
        seconds += $6
      }
      END {
        printf "total %s: %d models: %d converted, %d copied unchanged, %d refused, %d of an opset " \
          "that cannot be raised or run, %d errors; " \
          "%d of %d float nodes narrow, %d Casts; %d load at every level; %.0f s\n", policy, NR,
          count["ok"], count["same"], count["refused"], count["old"], count["ERROR"], narrow, floats, casts,
          loaded, seconds
      }'
  done
}

print_refusals() {
  for policy in $policies; do
    while read -r name; do
      at=$out/models/$name/$policy
      [ "$(cat "$at/code")" = 1 ] || continue
      echo "refused $policy $name: $(grep -m 1 '^  FAILS\|^loads  *NOT' "$at/b.out" | tr -s ' ');" \
        "$(grep -m 1 -E 'first tensor that is not finite|largest error of its own' "$at/b.out" |
          tr -s ' ')"
    done <"$out/names"
  done
}

# requirement RULE TEXT: one line, PASS or FAIL with what breaks it.
failures=0
requirement() {
  awk -F '\t' -v rule="$1" '$1 == rule' "$out/faults" >"$out/broken"
  if [ -s "$out/broken" ]; then
    echo "FAIL $2 ($(cut -f 2 "$out/broken" | sort -u | wc -l) do not)"
    cut -f 2- "$out/broken" | sed 's/\t/: /; s/^/  /' | head -n 20
    failures=$((failures + 1))
  else
    echo "PASS $2"
  fi
}

# codes FILES...: '984 times 0, 62 times 6'.
codes() {
  cat "$@" 2>/dev/null | sort -n | uniq -c |
    awk '{ printf "%s%d times %d", sep, $1, $2; sep = ", " }'
}

# checked RULE-PREFIX PAIRS: runs the checker over all results, and prints its verdicts' counts.
checked() {
  if ! /usr/bin/python3 "$root/tests/checker.py" <"$2" >"$2.checked" 2>"$2.err"; then
    tail -n 3 "$2.err"
    printf '%s\t%s\t%s\n' "$1" checker.py 'did not end' >>"$out/faults"
  fi
  awk -F '\t' -v rule="$1" '$3 == "invalid" { print rule "\t" $1 "\t" $4 }' "$2.checked" \
    >>"$out/faults"
  cut -f 3 "$2.checked" | sort | uniq -c | awk '{ printf "%s%d %s", sep, $1, $2; sep = ", " }'
}

report_models() {
  print_table
  print_totals
  print_refusals
  cat "$out"/models/*/pairs >"$out/pairs"
  verdicts=$(checked valid "$out/pairs")
  cat "$out"/models/*/faults >>"$out/faults" 2>/dev/null
  echo "onnx.checker: $verdicts"
  for policy in $policies; do
    requirement "$policy:ends" "$policy: every model ends with exit code 0 or 1, or cannot be raised"
    requirement "$policy:explained" \
      "$policy: every model is converted, copied with a reason, or refused by output and tensor"
    if [ "$policy" = bf16 ] || [ "$policy" = fp4 ]; then
      echo "$policy: loading is not checked: the engine has no $policy kernels for the CPU"
    else
      requirement "$policy:loads" "$policy: every result loads and runs in ONNX Runtime at every level"
    fi
    requirement "$policy:same" "$policy: two runs, on one thread and two, give the same bytes"
    is_second "$policy" ||
      requirement "$policy:again" "$policy: converting the result again changes nothing"
  done
  requirement valid 'every result is valid to onnx.checker, if it passes the source'
  requirement fp32:ends 'only fp32: every model ends with exit code 0'
  requirement fp32:unchanged 'only fp32: every model is copied byte for byte'
}

report_testdata() {
  cat "$out"/testdata.*/pairs >"$out/testdata.pairs"
  cat "$out"/testdata.*/faults >>"$out/faults" 2>/dev/null
  echo "libonnx-testdata, exit codes: plan $(codes "$out"/testdata.*/plan.codes);" \
    "convert $(codes "$out"/testdata.*/convert.codes)"
  echo "onnx.checker: $(checked testdata:valid "$out/testdata.pairs")"
  requirement testdata:read 'operator test models: inspect and plan read every one'
  requirement testdata:convert 'operator test models: convert ends as documented'
  requirement testdata:valid 'operator test models: every result is valid to onnx.checker'
}

report_nasty() {
  cat "$out"/nasty.*/faults >>"$out/faults" 2>/dev/null
  printf '%-46s %7s %7s  %s\n' 'broken file: exit codes' inspect convert 'what convert says'
  sort "$out"/nasty.*/rows
  echo "broken files, exit codes: inspect $(codes "$out"/nasty.*/inspect.codes);" \
    "convert $(codes "$out"/nasty.*/convert.codes)"
  requirement nasty:end 'broken files: no crash or hang, a documented exit code, and the file named'
}

# ---- the run ----

# each OUT WORK COUNT: the lines of standard input, COUNT at a time, in parallel.
each() {
  tr '\n' '\0' | xargs -0 -r -P "$jobs" -n "$3" sh "$0" --worker "$2" "$1"
}

main() {
  if [ ! -f "${NARROWCAST_MODELS:-}/MANIFEST.tsv" ]; then
    echo "models.sh: NARROWCAST_MODELS must name a folder with MANIFEST.tsv" >&2
    exit 2
  fi
  out=$(mktemp -d)
  trap 'rm -rf "$out"' EXIT
  trap 'exit 1' INT TERM
  : >"$out/faults"
  narrowcast policy show fp16 | sed 's/"ladder": *\[[^]]*\]/"ladder": ["fp32"]/' >"$out/fp32.json"
  sed -n '2,$s|/model.onnx\t.*||p' "$NARROWCAST_MODELS/MANIFEST.tsv" | sort >"$out/names"
  # The largest first, so that the two jobs end at about the same time.
  while read -r name; do
    echo "$(wc -c <"$NARROWCAST_MODELS/$name/model.onnx") $name"
  done <"$out/names" | sort -rn | cut -d ' ' -f 2 | each "$out" model 1 2>"$out/progress"
  report_models

  dpkg -L libonnx-testdata 2>/dev/null | grep '/model.onnx$' >"$out/testdata"
  if [ -s "$out/testdata" ]; then
    each "$out" testdata 40 <"$out/testdata"
    report_testdata
  else
    echo 'SKIP operator test models: libonnx-testdata is not installed'
  fi

  nasty=$NARROWCAST_MODELS/../nasty
  if [ -d "$nasty" ]; then
    find "$nasty" -type f ! -name MANIFEST.tsv | sort | each "$out" nasty 20
    report_nasty
  else
    echo 'SKIP broken files: there is no folder nasty/ beside the models'
  fi
  exit $((failures > 0))
}

if [ "${1:-}" = --worker ]; then
  work=$2
  shift 2
  "work_$work" "$@"
else
  main
fi
