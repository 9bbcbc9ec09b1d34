// The commands of the program and their options: one table each, from which the parser, the help
// and the README's tables come.
#ifndef CMD_H
#define CMD_H

#include "run.h"

// A command does its stages on a run that is begun already, and prints its result to standard
// output.
typedef enum status command_run(struct run *r);

struct command {
  const char *name;
  const char *arguments;  // "MODEL"
  const char *needed;     // options without which it does nothing: "--plan FILE"; or NULL
  int least, most;        // how many it takes
  const char *summary;    // one line
  const char *details;    // paragraphs for --help
  const char *options;    // letters of the options that it takes (see cmd_options.c)
  bool writes_text;       // the file of -o, which then may be "-", standard output
  const char *output;     // where that goes without -o; NULL: nowhere, or it has no -o
  command_run *run;
};
enum { COMMANDS_MOST = 40 };             // with the end mark
extern const struct command commands[];  // ends with a NULL name

struct option_text {
  char letter;           // unique; the one that stands after a '-' if it is in SHORT_OPTIONS
  const char *name;      // after "--"
  const char *argument;  // NULL: a flag
  const char *help;
};
extern const char *const external_data_names[];  // by enum external_data; ends with NULL
extern const struct option_text options[];       // of all commands; ends with a NULL name
#define SHORT_OPTIONS "o:hq"                     // as getopt wants them

// The arguments and needed options, with blanks in front of each: what a synopsis says between name
// and "[options]".
const char *command_usage(const struct command *command, char text[128]);

bool option_is_taken(const struct command *command, char letter);

enum {
  OPTION_IN_PROCESS = 'I',  // a command that takes it is supervised without it
  OPTION_ENGINE = 'O',      // a command that takes it runs ONNX Runtime
};

#define PROGRAM_SUMMARY                                                                            \
  "converts an ONNX model to fp16, bf16, fp8 or fp4, and says what the result may claim"

// Parses the arguments after the command's name. STATUS_USAGE names the option and what is near it.
// Sets *help if --help was given (nothing else counts then). Strings of s->overrides are allocated
// in the arena.
enum status options_parse(struct settings *s, const struct command *command, int argc, char **argv,
                          bool *help, struct arena *a, struct diag *d);

// What the option does in this command.
enum { OPTION_HELP = 160 };
const char *option_help(const struct command *command, const struct option_text *option,
                        char text[OPTION_HELP]);

// Help on the program, and on one command.
void print_help(FILE *out);
void print_command_help(const struct command *command, FILE *out);

command_run command_inspect, command_trace, command_plan, command_rewrite, command_verify,
    command_convert, command_batch, command_policy, command_formats, command_explain, command_diff,
    command_emit, command_report;

#endif
