#!/bin/sh
# README.md and docs/*.md tell the truth: their console blocks are run, tables compared with the
# help, links followed.
#
# A block that begins with ```console holds commands (lines that begin with `$ `) and what each
# prints, on stdout and stderr together; `[...]` in a line stands for any text. The commands run in
# a folder with copies of models/ and rules/ and an empty build/demo/, one after the other.
. "$(dirname "$0")/lib.sh"
readme=$root/README.md
pages="$root/README.md $root/docs/reviewing.md $root/docs/zoo.md $root/docs/training.md"

# Splits the blocks into 1.command, 1.wanted, 2.command, ...
split_blocks() {
  awk '
    /^```console$/ { inside = 1; next }
    /^```$/ { inside = 0; next }
    !inside { next }
    /^\$ / {
      count++
      printf "%s\n", substr($0, 3) >(count ".command")
      printf "" >(count ".wanted")
      next
    }
    count { print >(count ".wanted") }' "$@"
}

# like WANTED FOUND: line by line, where [...] stands for any text.
like() {
  awk '
    function escaped(text) {
      gsub(/[][\\.^$*+?(){}|]/, "\\\\&", text)
      return text
    }
    FNR == NR { wanted[++lines] = $0; next }
    {
      n = split(wanted[FNR], parts, /\[\.\.\.\]/)
      pattern = "^"
      for (i = 1; i <= n; i++)
        pattern = pattern (i > 1 ? ".*" : "") escaped(parts[i])
      if (FNR > lines || $0 !~ pattern "$") {
        print "  line " FNR " is not as wanted"
        print "  wanted: " (FNR > lines ? "no more lines" : wanted[FNR])
        print "  found:  " $0
        failed = 1
        exit
      }
      read = FNR
    }
    END {
      if (!failed && read < lines) {
        print "  missing: " wanted[read + 1]
        failed = 1
      }
      exit failed
    }' "$1" "$2" >&2
}

test_readme_commands_print_what_it_shows() {
  # shellcheck disable=SC2086 # a list of files
  split_blocks $pages
  [ -s 1.command ]
  mkdir -p place/build/demo
  cp -r "$root/models" "$root/rules" place/
  number=1
  while [ -e $number.command ]; do
    (cd place && sh "../$number.command") >$number.found 2>&1 || {
      say "ended with an error: $(cat $number.command)"
      cat $number.found >&2
      return 1
    }
    like $number.wanted $number.found || {
      say "of: $(cat $number.command)"
      return 1
    }
    number=$((number + 1))
  done
}

test_readme_lists_the_exit_codes_of_the_help() {
  quietly --help
  sed -n 's/^  \([0-7]\)  \(.*\)$/| \1 | \2 |/p' out >wanted
  [ "$(wc -l <wanted)" -eq 8 ]
  grep '^| [0-7] | ' "$readme" >found
  same found wanted
}

test_readme_lists_every_command() {
  quietly --help
  sed -n 's/^  \([a-z][a-z]*\)  *[a-z].*$/\1/p' out >names
  [ "$(wc -l <names)" -ge 8 ]
  while read -r name; do
    matches "$readme" "^\\| \`$name[ \`]"
  done <names
}

test_links_lead_to_files_that_are_there() {
  for page in $pages "$root"/*/README.md; do
    grep -o '](\([a-z.][^):]*\))' "$page" | sed 's/^](//; s/)$//; s/#.*//' >links || true
    while read -r link; do
      [ -e "$(dirname "$page")/$link" ] || {
        say "$page links to $link, which is not there"
        return 1
      }
    done <links
  done
}

test_tables_of_tests_name_only_tests_that_exist() {
  "$root/tests/tables.py" >&2
}

test_readme_lists_every_policy() {
  quietly policy list
  sed -n 's/^\([a-z0-9]*\) .*/\1/p' out >names
  [ "$(wc -l <names)" -ge 4 ]
  while read -r name; do
    matches "$readme" "^\\| \`$name\` \\|"
  done <names
}

if [ ! -f "$readme" ]; then
  echo "SKIP readme: there is no README.md"
  exit 0
fi
run_tests
