#!/bin/sh
# The same model, samples and policy give the same bytes, whatever surrounds the run: model, plan and
# trace are compared. Each test is a line of the table for each of the models.
. "$(dirname "$0")/lib.sh"

# The models, with the policy and the options for each.
models='
digits/digits fp16
digits/digits bf16
hazards/hazards balanced --save-anyway
tiny/names fp16
tiny/if_loop balanced
tiny/functions fp16
tiny/constants bf16
tiny/external fp16
tiny/recurrent balanced
tiny/random fp16
'

# samples_of MODEL: the folder.
samples_of() {
  case $1 in
  tiny/*) echo "$root/models/tiny/samples/${1#tiny/}" ;;
  *) echo "$root/models/${1%/*}/samples" ;;
  esac
}

# each COMMAND...: for every model: COMMAND, then what converts it into a folder of its own, below
# $into, which starts empty.
each() {
  rm -rf "$into"
  mkdir "$into"
  echo "$models" | while read -r name policy options; do
    [ -n "$name" ] || continue
    folder=$into/$(echo "$name.$policy" | tr / _)
    mkdir "$folder"
    code=0
    # shellcheck disable=SC2086 # a list of words
    "$@" narrowcast convert "$root/models/$name.onnx" --policy "$policy" $options -q \
      --data "$(samples_of "$name")" -o "$folder/y.onnx" --save-plan "$folder/p.json" \
      --save-trace "$folder/t.json" >/dev/null 2>"$folder.err" || code=$?
    [ "$code" -le 1 ] || {
      cat "$folder.err" >&2
      exit 1
    }
    rm "$folder.err"
  done
}

# The run that all others are compared with. Made once for all tests, in the first one's folder.
reference=$(mktemp -d)
trap 'rm -rf "$reference"' EXIT
into=$reference/files
each env || exit 1
n_files=$(find "$into" -type f | wc -l)

# gives_the_same_bytes WHAT COMMAND...: under the command, all files of all models are as they were.
gives_the_same_bytes() {
  what=$1
  shift
  into=$PWD/files
  each "$@"
  diff -r "$reference/files" "$into" >&2
  printf '  %-34s %d files, all the same\n' "$what" "$n_files"
}

test_the_reference_has_a_model_a_plan_and_a_trace_of_each() {
  [ "$n_files" -ge $((3 * $(echo "$models" | grep -c .))) ]
}

test_what_differs_is_seen() {
  into=$PWD/files
  each with_option --io narrow
  if diff -rq "$reference/files" "$into" >/dev/null; then
    say 'another interface gives the same files'
    return 1
  fi
}

test_again() {
  gives_the_same_bytes 'again' env
  gives_the_same_bytes 'in this process' with_option --in-process
}

# with_option OPTION... narrowcast ARGUMENT...: the options go behind the arguments.
with_option() {
  behind=
  while [ "$1" != narrowcast ]; do
    behind="$behind $1"
    shift
  done
  # shellcheck disable=SC2086 # a list of words
  "$@" $behind
}

test_any_number_of_threads() {
  for threads in 1 2 3 7; do
    gives_the_same_bytes "--threads $threads" with_option --threads $threads
  done
  ! command -v taskset >/dev/null || gives_the_same_bytes 'on one core' taskset -c 0 env
}

# Where there are sources of locales: with a decimal comma, and with a dotless i.
test_any_language() {
  for locale in C C.UTF-8 nonsense; do
    gives_the_same_bytes "LC_ALL=$locale" env LC_ALL=$locale
  done
  mkdir locales
  for locale in de_DE tr_TR; do
    localedef -i $locale -f UTF-8 "locales/$locale.UTF-8" >/dev/null 2>&1 || continue
    gives_the_same_bytes "LC_ALL=$locale.UTF-8" env LOCPATH="$PWD/locales" LC_ALL=$locale.UTF-8
  done
}

test_any_environment() {
  gives_the_same_bytes 'TZ=Asia/Kathmandu' env TZ=Asia/Kathmandu
  gives_the_same_bytes 'without HOME' env -u HOME -u XDG_CACHE_HOME
  gives_the_same_bytes 'TMPDIR that is not there' env TMPDIR=/nowhere
  gives_the_same_bytes 'almost no environment' env -i PATH="$PATH" \
    NARROWCAST_ORT="${NARROWCAST_ORT:-}" LSAN_OPTIONS="${LSAN_OPTIONS:-}"
  umask 077
  gives_the_same_bytes 'umask 077' env
}

test_any_memory() {
  gives_the_same_bytes 'MALLOC_PERTURB_' env MALLOC_PERTURB_=165
  gives_the_same_bytes 'MALLOC_ARENA_MAX' env MALLOC_ARENA_MAX=1 MALLOC_TOP_PAD_=1000003
  if setarch -R true 2>/dev/null; then
    gives_the_same_bytes 'addresses not random' setarch -R
  fi
}

# there COMMAND...: with the folder of the models as the current one, and paths relative to it.
there() {
  relative=
  for word; do
    case $word in
    "$root/models/"*) word=${word#"$root/models/"} ;;
    esac
    relative="$relative $word"
  done
  # shellcheck disable=SC2086 # no path here has a space
  (cd "$root/models" && $relative)
}

# elsewhere COMMAND...: the model and its data are copies, of another time, under another path.
elsewhere() {
  rm -rf copies
  mkdir copies
  copied=
  for word; do
    case $word in
    "$root/models/"*.onnx)
      cp "$(dirname "$word")"/*.onnx "$(dirname "$word")"/*.data copies/ 2>/dev/null
      word=copies/$(basename "$word")
      touch -d 2001-01-01 copies/*
      ;;
    "$root/models/"*)
      cp -r "$word" copies/samples
      word=copies/samples/
      ;;
    esac
    copied="$copied $word"
  done
  # shellcheck disable=SC2086
  $copied
}

test_any_place() {
  gives_the_same_bytes 'relative paths' there
  gives_the_same_bytes 'a copy elsewhere' elsewhere
}

run_tests
