// Manual pages in man(7) macros: see docs.h. Sections stand in the order of man-pages(7).
#include "docs.h"

#include <ctype.h>
#include <string.h>

// Text of the tables, escaped for roff; what stands between backquotes is bold, a line break is a
// space.
static void print_text(const char *text, FILE *out) {
  bool bold = false;
  if (*text == '.' || *text == '\'')
    fputs("\\&", out);
  for (; *text; text++) {
    if (*text == '\\')
      fputs("\\e", out);
    else if (*text == '-')
      fputs("\\-", out);
    else if (*text == '`')
      fputs((bold = !bold) ? "\\fB" : "\\fP", out);
    else
      putc(*text == '\n' ? ' ' : *text, out);
  }
}

static void print_line(const char *before, const char *text, FILE *out) {
  fputs(before, out);
  print_text(text, out);
  putc('\n', out);
}

// "MODEL [NAME]": words in capitals are what the reader replaces.
static void print_arguments(const char *text, FILE *out) {
  bool italic = false;
  for (; *text; text++) {
    bool capital = isupper((unsigned char)*text);
    if (capital != italic)
      fputs(capital ? "\\fI" : "\\fP", out);
    italic = capital;
    fputs(*text == '-' ? "\\-" : (const char[]){*text, '\0'}, out);
  }
  if (italic)
    fputs("\\fP", out);
}

static void print_option(const struct command *command, const struct option_text *option,
                         FILE *out) {
  fputs(".TP\n", out);
  if (option->letter)
    fprintf(out, "\\fB\\-%c\\fP, ", option->letter);
  fputs("\\fB\\-\\-", out);
  print_text(option->name, out);
  fputs("\\fP", out);
  if (option->argument) {
    putc(' ', out);
    print_arguments(option->argument, out);
  }
  putc('\n', out);
  char help[OPTION_HELP_TEXT];
  print_line("", option_help(command, option, help), out);
}

static void print_statuses(const struct command *command, FILE *out) {
  fputs(".SH EXIT STATUS\n", out);
  if (command) {
    fputs("0 if done, and every claim holds; the other codes are listed in\n.BR narrowcast (1).\n",
          out);
    return;
  }
#define PRINT_STATUS(name, code, text) fprintf(out, ".TP\n.B %d\n%s\n", code, text);
  STATUS_LIST(PRINT_STATUS)
#undef PRINT_STATUS
}

// The part of `text` from its first section on; the end of it if there is none.
static const char *first_section(const char *text) {
  const char *line = strncmp(text, ".SH", 3) == 0 ? text : strstr(text, "\n.SH");
  return !line ? text + strlen(text) : *line == '\n' ? line + 1 : line;
}

// What a plan, and all that is made from it, calls the reasons for which something stays wide.
static void print_reasons(FILE *out) {
  fputs(".SH REASONS\nWhy a node or tensor stays in a wider format, as \"reason\" in the plan says "
        "it:\n",
        out);
  for (int k = REASON_NONE + 1; k < REASON_COUNT; k++) {
    fputs(".TP\n.B ", out);
    print_line("", reason_name((enum reason)k), out);
    print_line("", reason_text((enum reason)k), out);
  }
}

static void print_see_also(const struct command *command, FILE *out) {
  fputs(".SH SEE ALSO\n", out);
  if (command)
    fputs(".BR narrowcast (1)\n", out);
  for (const struct command *c = commands; !command && c->name; c++)
    fprintf(out, ".BR \\%%narrowcast\\-%s (1)%s\n", c->name, c[1].name ? "," : "");
}

static void print_command_synopsis(const struct command *command, FILE *out) {
  fprintf(out, ".SH NAME\nnarrowcast\\-%s \\- ", command->name);
  print_line("", command->summary, out);
  fprintf(out, ".SH SYNOPSIS\n\\fBnarrowcast %s\\fP ", command->name);
  print_arguments(command->arguments, out);
  if (command->needed) {
    putc(' ', out);
    print_arguments(command->needed, out);
  }
  fputs(command->arguments[0] ? " [options]\n" : "[options]\n", out);
}

static void print_commands(FILE *out) {
  fputs(".SH COMMANDS\nEach has a page of its own, narrowcast\\-COMMAND(1), and "
        "\\fB\\-\\-help\\fP.\n",
        out);
  for (const struct command *c = commands; c->name; c++) {
    fprintf(out, ".TP\n\\fB%s\\fP ", c->name);
    print_arguments(c->arguments, out);
    putc('\n', out);
    print_line("", c->summary, out);
  }
  fputs(".SH OPTIONS\n.TP\n\\fB\\-h\\fP, \\fB\\-\\-help\\fP\nthe commands and exit codes\n"
        ".TP\n\\fB\\-\\-version\\fP\nthe version\n",
        out);
}

static void print_options(const struct command *command, FILE *out) {
  fputs(".SH OPTIONS\n", out);
  for (const struct option_text *o = options; o->name; o++)
    if (option_is_taken(command, (enum option_id)(o - options)))
      print_option(command, o, out);
}

void manual_write(const struct command *command, const char *part, const char *engine, FILE *out) {
  part = part ? part : "";
  const char *sections = first_section(part);
  fprintf(out, ".TH NARROWCAST%s", command ? "\\-" : "");
  for (const char *c = command ? command->name : ""; *c; c++)
    putc(toupper((unsigned char)*c), out);
  fputs(" 1 \"\" \"narrowcast " NARROWCAST_VERSION "\" \"User Commands\"\n.nh\n", out);
  if (command)
    print_command_synopsis(command, out);
  else
    fputs(".SH NAME\nnarrowcast \\- " PROGRAM_SUMMARY "\n.SH SYNOPSIS\n\\fBnarrowcast\\fP "
          "\\fICOMMAND\\fP [arguments] [options]\n",
          out);
  fputs(".SH DESCRIPTION\n", out);
  if (command)
    print_line("", command->details, out);
  fwrite(part, 1, (size_t)(sections - part), out);
  if (command)
    print_options(command, out);
  else
    print_commands(out);
  print_statuses(command, out);
  if (command && command->run == command_plan)
    print_reasons(out);
  if (engine && (!command || option_is_taken(command, OPTION_ENGINE)))
    fputs(engine, out);
  fputs(sections, out);
  print_see_also(command, out);
}
