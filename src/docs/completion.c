// Completions for bash and zsh: see docs.h. Both scripts have a fixed part, and lists from the
// tables of commands and options. What an argument is called there ("POLICY|FILE", "keep|narrow")
// says what completes it: a word in small letters is offered itself, the words in capitals are
// kinds.
#include "docs.h"

#include <ctype.h>
#include <string.h>

// Kinds for which nothing can be offered. Those that are in no list here are files.
static const char *const open_kinds[] = {"N",   "SEED", "SECONDS", "MIB",   "GLOB",
                                         "I/N", "NAME", "TOOL",    "W=NEW", NULL};
static const char *const folder_kinds[] = {"DIR", "OUT", NULL};

static void print_list(const char *const *list, const char *separator, FILE *out) {
  for (int i = 0; list[i]; i++)
    fprintf(out, "%s%s", i ? separator : "", list[i]);
}

static void print_formats(FILE *out) {
  for (int i = 0; i < FORMAT_COUNT; i++)
    fprintf(out, "%s%s", i ? " " : "", formats[i].name);
}

// The words of "PLAN [NAME]" or "DIR|LIST", one after the other, without what stands around them.
static void print_words(const char *text, size_t size, FILE *out) {
  bool any = false;
  for (size_t i = 0; i < size;) {
    size_t start = i;
    while (i < size && !strchr(" |[]", text[i]))
      i++;
    size_t length = i - start;
    if (length > 3 && strncmp(text + i - 3, "...", 3) == 0)
      length -= 3;
    if (length)
      fprintf(out, "%s%.*s", any ? " " : "", (int)length, text + start);
    any |= length > 0;
    i += i == start;
  }
}

// One of the ways " | " that the arguments of a command can be given in.
struct way {
  const char *text;
  size_t size;
  size_t verb;  // length of the word that it begins with, if that stands for itself; else 0
};

static bool next_way(struct way *way, const char **rest) {
  if (!**rest)
    return false;
  const char *end = strstr(*rest, " | ");
  way->text = *rest;
  way->size = end ? (size_t)(end - *rest) : strlen(*rest);
  way->verb = islower((unsigned char)way->text[0]) ? strcspn(way->text, " |") : 0;
  *rest += way->size + (end ? strlen(" | ") : 0);
  return true;
}

// Cases of "COMMAND VERB", VERB the first argument if it is there already, which give the kinds of
// the next argument.
static void print_argument_cases(const char *set, FILE *out) {
  for (const struct command *c = commands; c->name; c++) {
    struct way way;
    for (const char *rest = c->arguments; next_way(&way, &rest);)
      if (way.verb) {
        fprintf(out, "    '%s %.*s') %s", c->name, (int)way.verb, way.text, set);
        print_words(way.text + way.verb, way.size - way.verb, out);
        fputs(") ;;\n", out);
      }
    fprintf(out, "    '%s '*) %s", c->name, set);
    for (const char *rest = c->arguments; next_way(&way, &rest);) {
      print_words(way.text, way.verb ? way.verb : way.size, out);
      putc(' ', out);
    }
    fputs(") ;;\n", out);
  }
}

// What is offered for a list of kinds, as a case of the shell's, by these commands.
static void print_kinds(const char *files, const char *models, const char *folders,
                        const char *words, FILE *out) {
  fputs("    ", out);
  print_list(open_kinds, " | ", out);
  fputs(") ;;\n    ", out);
  print_list(folder_kinds, " | ", out);
  fprintf(out, ") %s ;;\n    MODEL) %s ;;\n    POLICY) %s ", folders, models, words);
  print_list(policy_names(), " ", out);
  fprintf(out, " ;;\n    FORMAT) %s ", words);
  print_formats(out);
  fprintf(out, " ;;\n    [a-z]*) %s \"$kind\" ;;\n    *) %s ;;\n", words, files);
}

// ---- bash ----

static const char bash_helpers[] =
    "# bash completion for narrowcast, made from its tables of commands and options\n"
    "\n"
    "_narrowcast_words() {\n"
    "  local word\n"
    "  for word; do\n"
    "    [[ $word != \"$cur\"* ]] || COMPREPLY+=(\"$word\")\n"
    "  done\n"
    "}\n"
    "\n"
    "# FLAG...: paths, as compgen finds them\n"
    "_narrowcast_paths() {\n"
    "  local path\n"
    "  compopt -o filenames 2>/dev/null\n"
    "  while IFS= read -r path; do\n"
    "    COMPREPLY+=(\"$path\")\n"
    "  done < <(compgen \"$@\" -- \"$cur\")\n"
    "}\n"
    "\n"
    "# KIND...: what completes an argument that is one of these\n"
    "_narrowcast_offer() {\n"
    "  local kind\n"
    "  for kind; do\n"
    "    case $kind in\n";

static const char bash_end[] =
    "  # The first argument, and whether the word before this one wants it as its value.\n"
    "  local verb= i kinds=()\n"
    "  for ((i = 2; i < COMP_CWORD; i++)); do\n"
    "    case ${COMP_WORDS[i]} in\n"
    "    -*)\n"
    "      _narrowcast_value \"$command\" \"${COMP_WORDS[i]}\" && ((i++))\n"
    "      [[ ${COMP_WORDS[i]} != = ]] || ((i++))\n"
    "      ;;\n"
    "    *) verb=${verb:-${COMP_WORDS[i]}} ;;\n"
    "    esac\n"
    "  done\n"
    "  if _narrowcast_value \"$command\" \"$prev\"; then\n"
    "    _narrowcast_offer \"${kinds[@]}\"\n"
    "    return\n"
    "  fi\n"
    "  if [[ $cur == -* ]]; then\n"
    "    _narrowcast_options \"$command\"\n"
    "    return\n"
    "  fi\n"
    "  case \"$command $verb\" in\n";

static void print_option_words(const struct option_text *o, FILE *out) {
  fprintf(out, " --%s", o->name);
  if (o->letter)
    fprintf(out, " -%c", o->letter);
}

static void print_bash_value(const struct command *c, const struct option_text *o, FILE *out) {
  fprintf(out, "  '%s --%s'", c->name, o->name);
  if (o->letter)
    fprintf(out, " | '%s -%c'", c->name, o->letter);
  fputs(") kinds=(", out);
  print_words(o->argument, strlen(o->argument), out);
  fputs(") ;;\n", out);
}

static void print_bash_options(FILE *out) {
  fputs("# COMMAND: its options\n_narrowcast_options() {\n  case $1 in\n", out);
  for (const struct command *c = commands; c->name; c++) {
    fprintf(out, "  %s) _narrowcast_words", c->name);
    for (const struct option_text *o = options; o->name; o++)
      if (option_is_taken(c, (enum option_id)(o - options)))
        print_option_words(o, out);
    fputs(" ;;\n", out);
  }
  fputs("  esac\n}\n\n# COMMAND OPTION: sets kinds to those of its value; fails if it takes none\n"
        "_narrowcast_value() {\n  case \"$1 $2\" in\n",
        out);
  for (const struct command *c = commands; c->name; c++)
    for (const struct option_text *o = options; o->name; o++)
      if (o->argument && option_is_taken(c, (enum option_id)(o - options)))
        print_bash_value(c, o, out);
  fputs("  *) return 1 ;;\n  esac\n}\n\n", out);
}

void completion_write_bash(FILE *out) {
  fputs(bash_helpers, out);
  print_kinds("_narrowcast_paths -f", "_narrowcast_paths -f -X '!*.onnx'; _narrowcast_paths -d",
              "_narrowcast_paths -d", "_narrowcast_words", out);
  fputs("    esac\n  done\n}\n\n", out);
  print_bash_options(out);
  fputs("_narrowcast() {\n"
        "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
        "  local command=${COMP_WORDS[1]}\n"
        "  COMPREPLY=()\n"
        "  # --option=value comes as three words\n"
        "  if [[ $cur == = ]]; then\n"
        "    cur=\n"
        "  elif [[ $prev == = ]]; then\n"
        "    prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
        "  fi\n"
        "  if ((COMP_CWORD == 1)); then\n"
        "    _narrowcast_words",
        out);
  for (const struct command *c = commands; c->name; c++)
    fprintf(out, " %s", c->name);
  fputs(" --help --version\n    return\n  fi\n", out);
  fputs(bash_end, out);
  print_argument_cases("kinds=(", out);
  fputs("  esac\n  _narrowcast_offer \"${kinds[@]}\"\n}\n\ncomplete -F _narrowcast narrowcast\n",
        out);
}

// ---- zsh ----

// Inside single quotes, in a specification of _arguments or _describe.
static void print_zsh_text(const char *text, FILE *out) {
  for (; *text; text++) {
    if (*text == '\'')
      fputs("'\\''", out);
    else if (strchr("[]:\\", *text))
      fprintf(out, "\\%c", *text);
    else
      putc(*text, out);
  }
}

static void print_zsh_option(const struct option_text *o, FILE *out) {
  bool has_short = o->letter;
  bool repeatable = strstr(o->help, "repeatable");
  if (has_short)
    fprintf(out, "      '(-%c --%s)'{-%c,--%s%s}'[", o->letter, o->name, o->letter, o->name,
            o->argument ? "=" : "");
  else
    fprintf(out, "      '%s--%s%s[", repeatable ? "*" : "", o->name, o->argument ? "=" : "");
  print_zsh_text(o->help, out);
  putc(']', out);
  if (o->argument) {
    putc(':', out);
    print_zsh_text(o->argument, out);
    fputs(": _narrowcast_offer ", out);
    print_words(o->argument, strlen(o->argument), out);
  }
  fputs("' \\\n", out);
}

void completion_write_zsh(FILE *out) {
  fputs(
      "#compdef narrowcast\n# zsh completion for narrowcast, made from its tables of commands and "
      "options\n\n# KIND...: what completes an argument that is one of these\n"
      "_narrowcast_offer() {\n  local kind\n  for kind; do\n    case $kind in\n",
      out);
  print_kinds("_files", "_files -g '*.onnx'", "_files -/", "compadd --", out);
  fputs("    esac\n  done\n}\n\n_narrowcast_argument() {\n  local -a kinds\n"
        "  case \"$command ${line[1]}\" in\n",
        out);
  print_argument_cases("kinds=(", out);
  fputs("  esac\n  _narrowcast_offer $kinds\n}\n\n_narrowcast() {\n  local -a commands line\n"
        "  commands=(\n",
        out);
  for (const struct command *c = commands; c->name; c++) {
    fprintf(out, "    '%s:", c->name);
    print_zsh_text(c->summary, out);
    fputs("'\n", out);
  }
  fputs("  )\n  if ((CURRENT == 2)); then\n    _describe command commands\n"
        "    compadd -- --help --version\n    return\n  fi\n"
        "  local command=$words[2]\n  shift words\n  ((CURRENT--))\n  case $command in\n",
        out);
  for (const struct command *c = commands; c->name; c++) {
    fprintf(out, "  %s)\n    _arguments -s \\\n", c->name);
    for (const struct option_text *o = options; o->name; o++)
      if (option_is_taken(c, (enum option_id)(o - options)))
        print_zsh_option(o, out);
    fputs(c->arguments[0] ? "      '*:" : "      && return\n    ;;\n", out);
    if (c->arguments[0]) {
      print_zsh_text(c->arguments, out);
      fputs(": _narrowcast_argument'\n    ;;\n", out);
    }
  }
  fputs("  esac\n}\n\n_narrowcast \"$@\"\n", out);
}
