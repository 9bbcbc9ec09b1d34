#!/bin/sh
# What is installed, used from where it was installed: the program, its manual pages and
# completions, the library by pkg-config, and the Debian packages. The build is that in build/.
. "$(dirname "$0")/lib.sh"
build=$root/build

# Installs for /usr below ./root, and puts that in front of everything.
install_here() {
  DESTDIR=$PWD/root cmake --install "$build" --prefix /usr >log || {
    cat log >&2
    return 1
  }
  usr=$PWD/root/usr
  lib=$(dirname "$(find "$usr/lib" -name libnarrowcast.so)")
  PATH=$usr/bin:$PATH
  PKG_CONFIG_PATH=$lib/pkgconfig
  LD_LIBRARY_PATH=$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export PATH PKG_CONFIG_PATH LD_LIBRARY_PATH
  # What is installed does not know of the one that tests/setup brought.
  [ ! -f "$root/.deps/lib/libonnxruntime.so" ] || export NARROWCAST_ORT="$root/.deps/lib"
}

commands() {
  narrowcast --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'
}

# warns_nothing COMMAND...: succeeds and is silent on stderr.
warns_nothing() {
  "$@" >rendered 2>warnings && empty warnings
}

# compile_example ARGUMENT...: the example, to ./convert.
compile_example() {
  # shellcheck disable=SC2046 # lists of words
  cc -Wall -Wextra -Wpedantic -Werror "$root/examples/convert.c" -o convert \
    $(pkg-config --cflags narrowcast) "$@"
}

# run_example ARGUMENT...: its exit code; stderr, in `err`, without what the ONNX Runtime of Debian 13 says
# about itself while it starts, which the library leaves to the program that calls it.
run_example() {
  code=0
  ./convert "$@" >out 2>all || code=$?
  grep -v -e '^Schema error: Trying to register schema' -e '^$' all >err || true
  return $code
}

test_program_runs_from_where_it_is_installed() {
  install_here
  [ "$(command -v narrowcast)" = "$usr/bin/narrowcast" ]
  quietly convert "$digits/digits.onnx" --data "$digits/samples" -o y.onnx
  has out 'every claim holds'
}

# By the environment, by the loader under the name that Debian's package gives it, in a virtual
# environment of Python, and not at all.
test_installed_program_finds_onnx_runtime_as_documented() {
  install_here
  engine=$root/.deps/lib/libonnxruntime.so
  [ -f "$engine" ] || return 0 # the system's own is used by all tests
  mkdir -p loader venv/lib/python3.11/site-packages/onnxruntime/capi
  ln -s "$engine" loader/libonnxruntime.so.1.21
  ln -s "$engine" venv/lib/python3.11/site-packages/onnxruntime/capi/libonnxruntime.so.1.30.0
  set -- trace "$digits/digits.onnx" --data "$digits/samples" -o t.json
  quietly "$@"
  unset NARROWCAST_ORT
  LD_LIBRARY_PATH=$PWD/loader:$LD_LIBRARY_PATH quietly "$@"
  VIRTUAL_ENV=$PWD/venv quietly "$@"
  NARROWCAST_ORT=none with_code 6 "$@"
  has err NARROWCAST_ORT 'pip install onnxruntime'
}

test_installed_program_has_no_path_of_the_build() {
  install_here
  strip -o stripped "$usr/bin/narrowcast"
  strip -o stripped.so "$lib/libnarrowcast.so"
  lacks stripped "$root"
  lacks stripped.so "$root"
}

test_data_is_what_the_program_has_inside() {
  install_here
  for name in $(narrowcast policy list | sed 's/ .*//') accelerator cpu; do
    quietly policy show "$name"
    same out "$(find "$usr/share/narrowcast" -name "$name.json")"
  done
  for schema in policy target overrides; do
    [ -f "$usr/share/narrowcast/$schema.schema.json" ]
  done
}

test_every_command_has_a_manual_page_without_warnings() {
  install_here
  for page in narrowcast $(commands | sed 's/^/narrowcast-/'); do
    man -M "$usr/share/man" -w "$page" >where
    warns_nothing man --warnings -E UTF-8 -l "$usr/share/man/man1/$page.1"
    [ ! -x /usr/bin/groff ] || warns_nothing groff -man -ww -z "$usr/share/man/man1/$page.1"
  done
}

test_manual_pages_have_all_that_the_help_has() {
  install_here
  for command in $(commands); do
    quietly "$command" --help
    MANWIDTH=200 man -P cat -E ascii -l "$usr/share/man/man1/narrowcast-$command.1" >page 2>/dev/null
    for heading in NAME SYNOPSIS DESCRIPTION OPTIONS 'EXIT STATUS' 'SEE ALSO'; do
      matches page "^$heading\$"
    done
    sed -n 's/^  [-a-z, ]\{4\}\(--[a-z-]*\).*/\1/p' out >options
    [ -s options ]
    while read -r option; do
      matches page "^ *(-[a-z], )?$option( |\$)"
    done <options
  done
  MANWIDTH=200 man -P cat -E ascii -l "$usr/share/man/man1/narrowcast.1" >page 2>/dev/null
  for command in $(commands); do
    matches page "^ *$command( |\$)"
    has page "narrowcast-$command(1)"
  done
  for exit_code in 0 1 2 3 4 5 6 7; do
    matches page "^ *$exit_code  *[A-Za-z]"
  done
}

# All that the header declares stands in the page, and what it says of it.
test_the_library_has_a_manual_page_of_its_whole_interface() {
  install_here
  page=$usr/share/man/man3/narrowcast.3
  man -M "$usr/share/man" -w 3 narrowcast >where
  warns_nothing man --warnings -E UTF-8 -l "$page"
  [ ! -x /usr/bin/groff ] || warns_nothing groff -man -ww -z "$page"
  MANWIDTH=200 man -P cat -E ascii -l "$page" >page 2>/dev/null
  for heading in NAME SYNOPSIS DESCRIPTION SETTINGS 'SAMPLES AND STATISTICS' RESULTS EXAMPLES 'SEE ALSO'; do
    matches page "^$heading\$"
  done
  grep -o '^NARROWCAST_API.*\|^narrowcast_[a-z_]*(' "$usr/include/narrowcast.h" |
    grep -o 'narrowcast_[a-z_0-9]*(' >functions
  [ "$(wc -l <functions)" -gt 40 ]
  while read -r function; do
    has page "$function"
  done <functions
  has page 'int main(int argc, char **argv)' 'Errors. Functions'
}

# The examples of all pages are commands that work, on a model of that name.
test_examples_of_the_manual_pages_run() {
  install_here
  for page in "$usr"/share/man/man1/*.1; do
    mkdir place
    cp "$digits/digits.onnx" place/model.onnx
    cp -r "$digits/samples" place/samples
    mkdir place/zoo
    cp "$digits/digits.onnx" place/zoo/a.onnx
    sed -n '/^\.EX/,/^\.EE/{/^\.E[XE]/d;s/\\-/-/g;p}' "$page" >example
    (cd place && sh -e ../example) >out 2>&1 || {
      say "an example of $page fails:"
      cat example out >&2
      return 1
    }
    rm -r place
  done
}

# complete_with SHELL-WORD...: what bash offers when the last word is being typed.
complete_with() {
  bash -c '
    . "$1"
    shift
    complete -p narrowcast | grep -q "_narrowcast" || exit 1
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    _narrowcast
    printf "%s\n" "${COMPREPLY[@]}"' - "$usr/share/bash-completion/completions/narrowcast" "$@" \
    >offered 2>warnings && empty warnings
}

test_bash_completes_commands_options_and_values() {
  install_here
  complete_with narrowcast ''
  commands | while read -r command; do
    matches offered "^$command\$"
  done
  complete_with narrowcast conv
  [ "$(cat offered)" = convert ]
  for command in $(commands); do
    complete_with narrowcast "$command" --
    narrowcast "$command" --help | sed -n 's/^  [-a-z, ]\{4\}\(--[a-z-]*\).*/\1/p' | sort >wanted
    sort offered | same - wanted
  done
  complete_with narrowcast convert --policy bal
  [ "$(cat offered)" = balanced ]
  complete_with narrowcast convert --policy = b
  [ "$(sort offered)" = "$(printf 'balanced\nbf16')" ]
  complete_with narrowcast convert model.onnx --format bf
  [ "$(cat offered)" = bf16 ]
  complete_with narrowcast plan model.onnx --io ''
  [ "$(cat offered)" = "$(printf 'keep\nnarrow')" ]
  complete_with narrowcast policy ''
  [ "$(cat offered)" = "$(printf 'check\nshow\nlist')" ]
  complete_with narrowcast policy show fp1
  [ "$(cat offered)" = fp16 ]
}

test_bash_completes_files_with_spaces_and_folders() {
  install_here
  mkdir 'a folder' work
  touch 'a model.onnx' 'a text.txt'
  complete_with narrowcast convert a
  [ "$(sort offered)" = "$(printf 'a folder\na model.onnx')" ]
  complete_with narrowcast convert --threads 2 a
  [ "$(sort offered)" = "$(printf 'a folder\na model.onnx')" ]
  complete_with narrowcast convert m.onnx --data a
  [ "$(cat offered)" = 'a folder' ]
  complete_with narrowcast convert m.onnx -o a
  [ "$(sort offered)" = "$(printf 'a folder\na model.onnx\na text.txt')" ]
  complete_with narrowcast convert m.onnx --keep a
  [ -z "$(cat offered)" ]
  complete_with narrowcast policy check 'a t'
  [ "$(cat offered)" = 'a text.txt' ]
}

# typed TEXT: what a zsh has on its line after the text and a tab.
typed() {
  timeout 20 zsh -f -c '
    zmodload zsh/zpty
    zpty -b shell zsh -f -i
    zpty -w shell "PS1=; unsetopt zle_bracketed_paste; stty -echo; fpath=($1 \$fpath); autoload -U compinit; compinit -D -u"
    zpty -w shell "show() { print -r -- \"<<\$BUFFER>>\"; BUFFER=; zle accept-line }; zle -N show; bindkey \"^X\" show; print re\ady"
    zpty -r -m shell text "*ready*"
    zpty -w -n shell "$2"$'"'\\t\\C-x'"'
    zpty -r -m shell text "*<<*>>*"
    print -r -- "${${text#*<<}%%>>*}"
    zpty -d shell' - "$usr/share/zsh/vendor-completions" "$1" 2>warnings
}

test_zsh_completes_commands_options_and_values() {
  command -v zsh >/dev/null || return 0
  install_here
  [ -d "$usr/share/zsh/vendor-completions" ]
  touch 'only.onnx' 'only.txt'
  [ "$(typed 'narrowcast conv')" = 'narrowcast convert ' ]
  [ "$(typed 'narrowcast plan m.onnx --tr')" = 'narrowcast plan m.onnx --trace=' ]
  [ "$(typed 'narrowcast convert --policy bal')" = 'narrowcast convert --policy balanced ' ]
  [ "$(typed 'narrowcast convert on')" = 'narrowcast convert only.onnx ' ]
  [ "$(typed 'narrowcast policy ch')" = 'narrowcast policy check ' ]
}

test_example_builds_against_the_shared_library() {
  install_here
  compile_example $(pkg-config --libs narrowcast)
  ldd convert >needed
  has needed "libnarrowcast.so.0 => $lib/"
  run_example "$digits/digits.onnx" "$digits/samples" y.onnx
  empty err
  has out '/stem/conv' 'holds relative_l2 of logits'
  quietly convert "$digits/digits.onnx" --data "$digits/samples" -o z.onnx
  same y.onnx z.onnx
}

test_example_builds_against_the_static_library() {
  install_here
  # shellcheck disable=SC2046 # a list of words
  compile_example "$lib/libnarrowcast.a" $(pkg-config --static --libs narrowcast | sed 's/-lnarrowcast//')
  ldd convert >needed
  lacks needed libnarrowcast
  run_example "$digits/digits.onnx" "$digits/samples" y.onnx bf16
  empty err
}

test_example_returns_the_status_and_says_why() {
  install_here
  compile_example $(pkg-config --libs narrowcast)
  wanted=3
  for arguments in "$root/README.md $digits/samples y.onnx" \
    "$digits/digits.onnx $digits/samples y.onnx fp17" \
    "$digits/digits.onnx $root/docs y.onnx" \
    "$digits/digits.onnx $digits/samples y.onnx" \
    "$digits/digits.onnx $digits/samples none/y.onnx"; do
    code=0
    # shellcheck disable=SC2086 # a list of words
    (
      [ $wanted != 6 ] || export NARROWCAST_ORT=none
      run_example $arguments
    ) || code=$?
    [ "$code" -eq "$wanted" ] || {
      say "$arguments ended with $code, not $wanted:"
      cat err >&2
      return 1
    }
    [ "$(wc -l <err)" -eq 2 ]
    wanted=$((wanted + 1))
  done
  missing y.onnx
}

# From too little for the loader and for narrowcast_new on, until it runs out in a call that can say so.
test_library_returns_when_memory_runs_out() {
  install_here
  # shellcheck disable=SC2046 # a list of words
  compile_example $(pkg-config --libs narrowcast)
  limit=8000
  code=127 # the loader's
  : >err
  while { [ $code -eq 127 ] || [ ! -s err ]; } && [ $limit -lt 60000 ]; do
    code=0
    (ulimit -v $limit && exec ./convert "$digits/digits.onnx" "$digits/samples" y.onnx) \
      >out 2>err || code=$?
    limit=$((limit + 100))
  done
  [ $code -eq 8 ] || {
    say "with $limit KiB it ended with $code"
    cat err >&2
    return 1
  }
  has err 'no memory is left: '
  missing y.onnx
}

# German writes 0.5 as 0,5.
test_library_does_not_depend_on_the_locale() {
  install_here
  localedef -i de_DE -f UTF-8 ./de_DE.UTF-8
  cat >locale.c <<'END'
#include <locale.h>
#include <stdlib.h>
__attribute__((constructor)) static void take_locale(void) {
  if (!setlocale(LC_ALL, ""))
    abort();
}
END
  compile_example locale.c $(pkg-config --libs narrowcast)
  (
    export LOCPATH="$PWD" LC_ALL=de_DE.UTF-8
    run_example "$digits/digits.onnx" "$digits/samples" y.onnx
  )
  empty err
  has out 'limit 0,01'
  run_example "$digits/digits.onnx" "$digits/samples" z.onnx
  same y.onnx z.onnx
}

test_header_stands_alone_in_c_and_cpp() {
  install_here
  echo '#include <narrowcast.h>' >alone.c
  cp alone.c alone.cpp
  for standard in c99 c11 c17; do
    cc -std=$standard -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$usr/include" alone.c
  done
  clang++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$usr/include" alone.cpp
}

test_libraries_show_the_public_names_only() {
  install_here
  sed -n 's/.*[ *]\(narrowcast_[a-z_0-9]*\)(.*/\1/p' "$usr/include/narrowcast.h" |
    grep -v '^narrowcast_status$' | sort -u >declared
  nm -D --defined-only "$lib/libnarrowcast.so" | awk '{ print $3 }' | sort >shared
  nm -g --defined-only "$lib/libnarrowcast.a" | awk 'NF == 3 { print $3 }' | sort >static
  same declared shared
  same declared static
}

test_versions_agree() {
  install_here
  version=$(narrowcast --version | sed 's/narrowcast //')
  [ "$(pkg-config --modversion narrowcast)" = "$version" ]
  [ -f "$lib/libnarrowcast.so.$version" ]
  for part in MAJOR MINOR PATCH; do
    sed -n "s/^#define NARROWCAST_VERSION_$part //p" "$usr/include/narrowcast.h"
  done | paste -sd. >found
  [ "$(cat found)" = "$version" ]
}

# Makes the packages in ./.
make_packages() {
  cpack --config "$build/CPackConfig.cmake" -B "$PWD/packages" >log 2>&1 || {
    cat log >&2
    return 1
  }
  mv packages/*.deb .
}

test_packages_name_what_they_need() {
  make_packages
  dpkg-deb --info narrowcast_*.deb >info
  matches info '^ Package: narrowcast$'
  matches info '^ Depends: .*libprotobuf-c1'
  matches info '^ Recommends: libonnxruntime'
  dpkg-deb --info libnarrowcast0_*.deb >info
  matches info '^ Depends: .*libzip'
  dpkg-deb --info libnarrowcast-dev_*.deb >info
  matches info '^ Depends: libnarrowcast0 \(= '
  dpkg-deb --contents narrowcast_*.deb >contents
  matches contents '^-rwxr-xr-x root/root .* \./usr/bin/narrowcast$'
  matches contents ' \./usr/share/man/man1/narrowcast-convert\.1\.gz$'
  dpkg-deb --fsys-tarfile narrowcast_*.deb | tar -xO ./usr/share/doc/narrowcast/copyright >copyright
  has copyright 'No licence has been chosen'
}

test_lintian_finds_no_errors() {
  command -v lintian >/dev/null || return 0
  make_packages
  lintian --allow-root --fail-on error ./*.deb >&2
}

# With a database of its own, in which nothing is installed.
test_packages_install_and_are_removed_cleanly() {
  [ "$(id -u)" -eq 0 ] || return 0
  make_packages
  mkdir -p target/var/lib/dpkg/info target/var/lib/dpkg/updates
  touch target/var/lib/dpkg/status
  in_target() {
    dpkg --root="$PWD/target" --force-depends --force-script-chrootless --log=/dev/null "$@" \
      >log 2>&1 || {
      cat log >&2
      return 1
    }
  }
  in_target --install ./*.deb
  find target/usr -name libnarrowcast.so.0 | grep -q .
  [ "$(target/usr/bin/narrowcast --version)" = "$(narrowcast --version)" ]
  in_target --purge narrowcast libnarrowcast0 libnarrowcast-dev
  [ -z "$(find target -path target/var -prune -o ! -type d -print)" ]
}

run_tests
