// The commands of the program and their options: one table each, from which the parser, the help
// and the README's tables come.
#ifndef CMD_H
#define CMD_H

#include "run.h"

// A command does its stages on a run that is begun already, and prints its result to standard
// output.
typedef enum status command_run(struct run *r);

// Options, in the order of the help. Where two commands mean something else by one name, these are
// two options.
enum option_id {
  OPTION_POLICY,
  OPTION_DATA,
  OPTION_RANDOM,
  OPTION_SAMPLES,
  OPTION_TRACE,
  OPTION_CHECKPOINTS,
  OPTION_FEEDBACK,
  OPTION_STEPS,
  OPTION_PLAN,
  OPTION_VERDICT,
  OPTION_WHY_NOT,
  OPTION_TOOL,
  OPTION_OUTPUT,
  OPTION_OUT,
  OPTION_EXTERNAL_DATA,
  OPTION_CHECK,
  OPTION_SAVE_PLAN,
  OPTION_SAVE_TRACE,
  OPTION_SAVE_VERDICT,
  OPTION_REPORT,
  OPTION_REPORT_FORM,
  OPTION_FORMAT,
  OPTION_RAISE_OPSET,
  OPTION_KEEP,
  OPTION_NARROW,
  OPTION_OVERRIDES,
  OPTION_IO,
  OPTION_SAVE_ANYWAY,
  OPTION_JOBS,
  OPTION_SHARD,
  OPTION_ENGINE,
  OPTION_THREADS,
  OPTION_BATCH_THREADS,
  OPTION_TIMEOUT,
  OPTION_MEMORY_LIMIT,
  OPTION_MODEL_LIMIT,
  OPTION_IN_PROCESS,
  OPTION_JSON,
  OPTION_QUIET,
  OPTION_HELP,
  OPTION_COUNT
};
_Static_assert(OPTION_COUNT <= 64, "a command's options are the bits of a number");

struct command {
  const char *name;
  const char *arguments;  // "MODEL"
  const char *needed;     // options without which it does nothing: "--plan FILE"; or NULL
  int least, most;        // how many it takes
  const char *summary;    // one line
  const char *details;    // paragraphs for --help
  uint64_t options;       // that it takes, besides --help: bit 1 << OPTION_...
  uint64_t required;      // of these: those that `needed` tells of
  bool writes_text;       // the file of -o, which then may be "-", standard output
  const char *output;     // where that goes without -o; NULL: nowhere, or it has no -o
  command_run *run;
};
enum { COMMANDS_MOST = 40 };             // with the end mark
extern const struct command commands[];  // ends with a NULL name

struct option_text {
  char letter;           // after a '-'; 0: it has none
  const char *name;      // after "--"
  const char *argument;  // NULL: a flag
  const char *help;
};
extern const char *const external_data_names[];             // by enum external_data; ends with NULL
extern const struct option_text options[OPTION_COUNT + 1];  // by id; ends with a NULL name

bool option_is_taken(const struct command *command, enum option_id id);

#define PROGRAM_SUMMARY                                                                            \
  "converts an ONNX model to fp16, bf16, fp8 or fp4, and says what the result may claim"

// Parses the arguments after the command's name. STATUS_USAGE names the option and what is near it.
// Sets *help if --help was given (nothing else counts then). Lists are allocated in the arena.
enum status options_parse(struct settings *s, const struct command *command, int argc, char **argv,
                          bool *help, struct arena *a, struct diag *d);

// What the option does in this command.
enum { OPTION_HELP_TEXT = 160 };
const char *option_help(const struct command *command, const struct option_text *option,
                        char text[OPTION_HELP_TEXT]);

// Help on the program, and on one command.
void print_help(FILE *out);
void print_command_help(const struct command *command, FILE *out);

command_run command_inspect, command_trace, command_plan, command_rewrite, command_verify,
    command_convert, command_batch, command_policy, command_formats, command_explain, command_diff,
    command_emit, command_report;

#endif
