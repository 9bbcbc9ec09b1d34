# What the command line checks share: each sources this at its top and calls run_tests at its end.
#
# A test is a shell function `test_NAME() {` that states a rule. Each runs in a subshell and in an
# empty folder of its own, which is removed afterwards, and fails at its first command that fails.
# narrowcast is taken from PATH, else from build/.
set -u
export LC_ALL=C

root=$(cd "$(dirname "$0")/../.." && pwd)
digits=$root/models/digits
tiny=$root/models/tiny
hazards=$root/models/hazards
PATH=$PATH:$root/build

# The address sanitizer takes memory of its own above every limit, and wants to be preloaded first.
sanitized=no
if grep -q __asan_init "$(command -v narrowcast)" 2>/dev/null; then
  sanitized=yes
fi

say() { echo "  $*" >&2; }

# engine_knows_opset N: this ONNX Runtime runs models of that opset; one that does not is asked for nothing
# more, and says which is its newest.
engine_knows_opset() {
  narrowcast convert "$digits/digits.onnx" --raise-opset "$1" --random 1 -o knows.onnx >/dev/null 2>knows ||
    ! grep -q 'Current official support for domain ai.onnx is till opset' knows
}

# with_code N ARGUMENT...: runs narrowcast with them; stdout goes to `out`, stderr to `err`. Fails
# unless it ends with exit code N.
with_code() {
  wanted=$1
  shift
  code=0
  timeout 120 narrowcast "$@" >out 2>err || code=$?
  if [ "$code" -ne "$wanted" ]; then
    say "narrowcast $*"
    say "ended with exit code $code, not $wanted; its output and messages:"
    cat out err >&2
    return 1
  fi
}

# quietly ARGUMENT...: a run that must succeed and have nothing to say on stderr.
quietly() {
  with_code 0 "$@" && empty err
}

# has FILE TEXT...: the file holds each of the texts.
has() {
  file=$1
  shift
  for text in "$@"; do
    grep -qF -e "$text" "$file" || {
      say "$file does not say '$text' but:"
      cat "$file" >&2
      return 1
    }
  done
}

# matches FILE REGEX: some line of the file does.
matches() {
  grep -qE -e "$2" "$1" || {
    say "no line of $1 matches '$2'; it says:"
    cat "$1" >&2
    return 1
  }
}

lacks() {
  if grep -F -e "$2" "$1" >&2; then
    say "... says $1, which it should not ('$2')"
    return 1
  fi
}

empty() {
  [ ! -s "$1" ] || {
    say "$1 should be empty, but says:"
    cat "$1" >&2
    return 1
  }
}

missing() {
  [ ! -e "$1" ] || {
    say "$1 should not be there"
    return 1
  }
}

same() {
  cmp "$1" "$2" >&2
}

different() {
  if cmp -s "$1" "$2"; then
    say "$1 and $2 are the same"
    return 1
  fi
}

# holds_only FOLDER NAME...: it has these files and no others, such as temporary ones.
holds_only() {
  folder=$1
  shift
  wanted=$(printf '%s\n' "$@" | sort)
  found=$(ls -A "$folder")
  [ "$wanted" = "$found" ] || {
    say "$folder holds" $found
    say "and should hold" "$@"
    return 1
  }
}

# is_json FILE: the strict parser that reads policies finds nothing wrong but the keys.
is_json() {
  cp "$1" is.json
  with_code 4 policy check ./is.json && has err 'unknown key' && lacks err 'not valid JSON'
}

# edited EXPRESSION FROM TO: sed, and something must change.
edited() {
  sed -e "$1" "$2" >"$3" && different "$2" "$3"
}

# strict METRIC: writes strict.json, fp16 with a limit of 0 on the metric and no promotion, so that
# the model is refused.
strict() {
  narrowcast policy show fp16 |
    awk -v metric="\"$1\"" '
      /"promotion": *{/ { promotion = 1 }
      promotion && /"rounds"/ { sub(/"rounds": *[0-9]+/, "\"rounds\": 0") }
      index($0, metric) { claim = 1 }
      claim && /"limit"/ { sub(/"limit": *[0-9.e-]+/, "\"limit\": 0"); claim = 0 }
      { print }' >strict.json
  quietly policy check ./strict.json
}

run_tests() {
  failures=0
  for name in $(sed -n 's/^test_\([a-z0-9_]*\)() {$/\1/p' "$0"); do
    folder=$(mktemp -d)
    (
      cd "$folder" || exit 1
      set -e
      "test_$name"
    ) 2>"$folder.log"
    # Not in a condition, where `set -e` would do nothing.
    if [ $? -eq 0 ]; then
      echo "PASS $name"
    else
      echo "FAIL $name"
      cat "$folder.log"
      failures=$((failures + 1))
    fi
    rm -rf "$folder" "$folder.log"
  done
  exit $((failures > 0))
}
