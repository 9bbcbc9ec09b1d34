// Options: one table for the parser and for the help; the table of commands says which each takes.
#include "cmd.h"
#include "file.h"
#include "json.h"
#include "nearest.h"
#include "raise_opset.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

const struct option_text options[OPTION_COUNT + 1] = {
    [OPTION_POLICY] = {0, "policy", "POLICY|FILE",
                       "the policy that decides (default fp16); `policy list` names them"},
    [OPTION_DATA] = {0, "data", "DIR",
                     "samples, two folders deep: .npz, .safetensors, .npy, or folders of .pb"},
    [OPTION_RANDOM] = {0, "random", "SEED", "made-up samples from a seed, where there is no data"},
    [OPTION_SAMPLES] = {0, "samples", "N", "how many made-up samples (default 8)"},
    [OPTION_TRACE] = {0, "trace", "FILE", "take statistics from this trace file"},
    [OPTION_CHECKPOINTS] = {0, "checkpoints", "FILE...",
                            "a training's weights at different times, .onnx or .safetensors"},
    [OPTION_FEEDBACK] = {0, "feedback", "W=NEW",
                         "MODEL is a training step: its output NEW is the next W; repeatable"},
    [OPTION_STEPS] = {0, "steps", "N", "steps of the training, over the samples again and again"},
    [OPTION_PLAN] = {0, "plan", "FILE", "the plan of MODEL"},
    [OPTION_VERDICT] = {0, "verdict", "FILE", "what was measured, from this verdict file"},
    [OPTION_WHY_NOT] = {0, "why-not", "FORMAT", "rank what keeps nodes out of this format"},
    [OPTION_TOOL] = {0, "for", "tensorrt|onnxruntime", "the tool to write for"},
    [OPTION_OUTPUT] = {'o', "output", "FILE", "where the result goes"},
    [OPTION_OUT] = {0, "out", "DIR", "the folder for all results; the same one to go on"},
    [OPTION_EXTERNAL_DATA] = {0, "external-data", "auto|always|never",
                              "weights in a file of their own: as in MODEL, all, or none"},
    [OPTION_CHECK] = {0, "check", NULL, "check the plan against the model and write nothing"},
    [OPTION_SAVE_PLAN] = {0, "save-plan", "FILE", "write the plan as well"},
    [OPTION_SAVE_TRACE] = {0, "save-trace", "FILE", "write the trace as well"},
    [OPTION_SAVE_VERDICT] = {0, "save-verdict", "FILE", "write the verdict as well"},
    [OPTION_REPORT] = {0, "report", "FILE",
                       "write a report as well, HTML, or Markdown if it ends with .md"},
    [OPTION_REPORT_FORM] = {0, "format", "html|md",
                            "a page, or Markdown (default: md if -o ends with .md, else html)"},
    [OPTION_FORMAT] = {0, "format", "FORMAT",
                       "use fp16, bf16 or fp32 instead of the policy's formats; its claims stay"},
    [OPTION_RAISE_OPSET] = {0, "raise-opset", "N",
                            "raise the model's opset to N (13 to 26), for formats that it lacks"},
    [OPTION_KEEP] = {0, "keep", "GLOB",
                     "leave matching nodes as they are (by node or tensor name); repeatable"},
    [OPTION_NARROW] = {0, "narrow", "GLOB",
                       "narrow matching nodes where their values allow it; repeatable"},
    [OPTION_OVERRIDES] = {0, "overrides", "FILE",
                          "a person's decisions: formats by node or tensor name, with notes"},
    [OPTION_IO] = {0, "io", "keep|narrow",
                   "keep the types of the model's inputs and outputs, or narrow them"},
    [OPTION_SAVE_ANYWAY] = {0, "save-anyway", NULL,
                            "write the model even if a claim does not hold"},
    [OPTION_JOBS] = {0, "jobs", "N", "conversions at once (default: as many as there are cores)"},
    [OPTION_SHARD] = {0, "shard", "I/N", "only part I of N of the models, I from 1"},
    [OPTION_ENGINE] = {0, "ort", "PATH", "the ONNX Runtime library to use (or NARROWCAST_ORT)"},
    [OPTION_THREADS] = {0, "threads", "N", "threads of ONNX Runtime (default: all cores)"},
    [OPTION_BATCH_THREADS] = {0, "threads", "N",
                              "threads of ONNX Runtime for each conversion (default 1)"},
    [OPTION_TIMEOUT] = {0, "timeout", "SECONDS", "give up after so many seconds (default: never)"},
    [OPTION_MEMORY_LIMIT] = {0, "memory-limit", "MIB",
                             "end the run if it takes more memory, mapped files not counted"},
    [OPTION_MODEL_LIMIT] = {0, "model-limit", "NAME=N",
                            "a limit of models: messages, fields, string_bytes, depth; repeatable"},
    [OPTION_IN_PROCESS] = {0, "in-process", NULL,
                           "run ONNX Runtime in this process, for debuggers: a crash ends all"},
    [OPTION_JSON] = {0, "json", NULL, "print the result as JSON"},
    [OPTION_QUIET] = {'q', "quiet", NULL, "no progress bar, no warnings"},
    [OPTION_HELP] = {'h', "help", NULL, "this help"},
};

bool option_is_taken(const struct command *command, enum option_id id) {
  return id == OPTION_HELP || (command->options >> id & 1);
}

// `name` is what takes the number, for messages.
static enum status parse_number(const char *text, const char *name, unsigned long long min,
                                unsigned long long max, unsigned long long *out, struct diag *d) {
  char *end;
  errno = 0;
  *out = strtoull(text, &end, 10);
  if (errno || end == text || *end || text[0] == '-' || *out < min || *out > max)
    return diag_fail(d, STATUS_USAGE, "--%s takes a whole number from %llu to %llu, not \"%s\"",
                     name, min, max, text);
  return STATUS_OK;
}

static enum status parse_shard(const char *text, struct settings *s, struct diag *d) {
  char rest;
  if (text[0] < '0' || text[0] > '9' ||
      sscanf(text, "%d/%d%c", &s->shard, &s->shards, &rest) != 2 || s->shard < 1 ||
      s->shards < s->shard)
    return diag_fail(d, STATUS_USAGE, "--shard takes I/N, I from 1 to N, not \"%s\"", text);
  return STATUS_OK;
}

const char *const external_data_names[] = {
    [EXTERNAL_AUTO] = "auto", [EXTERNAL_ALWAYS] = "always", [EXTERNAL_NEVER] = "never", NULL};

static enum status parse_external_data(const char *text, enum external_data *out, struct diag *d) {
  for (int i = 0; external_data_names[i]; i++)
    if (strcmp(text, external_data_names[i]) == 0) {
      *out = (enum external_data)i;
      return STATUS_OK;
    }
  return diag_fail(d, STATUS_USAGE, "--external-data takes auto, always or never, not \"%s\"",
                   text);
}

static enum status parse_model_limit(const char *text, struct model_limits *l, struct arena *a,
                                     struct diag *d) {
  size_t length = strcspn(text, "=");
  unsigned long long number;
  if (!text[length])
    return diag_fail(d, STATUS_USAGE, "--model-limit takes NAME=N, not \"%s\"", text);
  const char *name = arena_printf(a, "%.*s", (int)length, text);
  TRY(parse_number(text + length + 1, arena_printf(a, "model-limit %s", name), 1,
                   model_limit_largest(name), &number, d));
  return model_limit_set(l, name, number, d);
}

static void append(const char ***list, size_t *n, const char *text, struct arena *a) {
  size_t capacity = *n;
  *list = arena_grow(a, *list, &capacity, *n + 1, sizeof **list);
  (*list)[(*n)++] = text;
}

static void adjust(struct settings *s, enum node_class class, const char *glob, struct arena *a) {
  size_t capacity = s->n_adjustments;
  s->adjustments =
      arena_grow(a, s->adjustments, &capacity, s->n_adjustments + 1, sizeof *s->adjustments);
  s->adjustments[s->n_adjustments++] = (struct glob_class){class, glob};
}

static enum status apply(struct settings *s, enum option_id id, const char *argument,
                         struct arena *a, struct diag *d) {
  const char *name = options[id].name;
  unsigned long long number = 0;
  if (argument && !argument[0])
    return diag_fail(d, STATUS_USAGE, "--%s: the value is empty", name);
  switch (id) {
  case OPTION_POLICY: s->policy = argument; break;
  case OPTION_DATA: s->data = argument; break;
  case OPTION_RANDOM:
    TRY(parse_number(argument, name, 0, UINT64_MAX, &number, d));
    s->has_random = true;
    s->random = number;
    break;
  case OPTION_SAMPLES:
    TRY(parse_number(argument, name, 1, 1000000, &number, d));
    s->random_samples = (size_t)number;
    break;
  case OPTION_CHECKPOINTS: append(&s->checkpoints, &s->n_checkpoints, argument, a); break;
  case OPTION_FEEDBACK: append(&s->feedback, &s->n_feedback, argument, a); break;
  case OPTION_STEPS:
    TRY(parse_number(argument, name, 1, 1000000, &number, d));
    s->steps = (size_t)number;
    break;
  case OPTION_TRACE: s->trace = argument; break;
  case OPTION_PLAN: s->plan = argument; break;
  case OPTION_OUT:
  case OPTION_OUTPUT: s->output = argument; break;
  case OPTION_EXTERNAL_DATA: return parse_external_data(argument, &s->external_data, d);
  case OPTION_SAVE_PLAN: s->save_plan = argument; break;
  case OPTION_SAVE_TRACE: s->save_trace = argument; break;
  case OPTION_SAVE_VERDICT: s->save_verdict = argument; break;
  case OPTION_REPORT: s->report = argument; break;
  case OPTION_REPORT_FORM: s->report_form = argument; break;
  case OPTION_FORMAT: s->format = argument; break;
  case OPTION_KEEP: adjust(s, CLASS_KEEP, argument, a); break;
  case OPTION_NARROW: adjust(s, CLASS_NARROW, argument, a); break;
  case OPTION_OVERRIDES: s->overrides = argument; break;
  case OPTION_CHECK: s->check = true; break;
  case OPTION_VERDICT: s->verdict = argument; break;
  case OPTION_WHY_NOT: s->why_not = argument; break;
  case OPTION_TOOL: s->tool = argument; break;
  case OPTION_IO: s->io = argument; break;
  case OPTION_RAISE_OPSET:
    TRY(parse_number(argument, name, RAISE_OPSET_LEAST, RAISE_OPSET_MOST, &number, d));
    s->raise_opset = (int)number;
    break;
  case OPTION_SAVE_ANYWAY: s->save_anyway = true; break;
  case OPTION_ENGINE: s->ort = argument; break;
  case OPTION_BATCH_THREADS:
  case OPTION_THREADS:
    TRY(parse_number(argument, name, 0, 1024, &number, d));
    s->threads = (int)number;
    break;
  case OPTION_TIMEOUT:
    TRY(parse_number(argument, name, 1, 1000000000, &number, d));
    s->timeout = (int)number;
    break;
  case OPTION_MEMORY_LIMIT:
    TRY(parse_number(argument, name, 1, SIZE_MAX >> 20, &number, d));
    s->memory_limit = (size_t)number << 20;
    break;
  case OPTION_MODEL_LIMIT:
    TRY(parse_model_limit(argument, &s->model_limits, a, d));
    append(&s->limits_given, &s->n_limits_given, argument, a);
    break;
  case OPTION_IN_PROCESS: s->in_process = true; break;
  case OPTION_JOBS:
    TRY(parse_number(argument, name, 1, 256, &number, d));
    s->jobs = (int)number;
    break;
  case OPTION_SHARD: TRY(parse_shard(argument, s, d)); break;
  case OPTION_JSON: s->json = true; break;
  case OPTION_QUIET: s->quiet = true; break;
  case OPTION_HELP:
  case OPTION_COUNT: break;
  }
  return STATUS_OK;
}

static enum status unknown_option(const char *given, const struct command *command, struct arena *a,
                                  struct diag *d) {
  const char *names[OPTION_COUNT + 1] = {0};
  int count = 0;
  for (int i = 0; i < OPTION_COUNT; i++)
    if (option_is_taken(command, (enum option_id)i))
      names[count++] = options[i].name;
  const char *word = given + strspn(given, "-");
  word = arena_printf(a, "%.*s", (int)strcspn(word, "="), word);
  const char *near = nearest_name(word, names);
  if (near)
    diag_hint(d, "Did you mean --%s? `narrowcast %s --help` lists the options.", near,
              command->name);
  else
    diag_hint(d, "`narrowcast %s --help` lists the options.", command->name);
  return diag_fail(d, STATUS_USAGE, "%s has no option %s", command->name, given);
}

enum { FIRST_LONG = 256 };  // what getopt_long returns for the first option: above all letters

// What getopt_long is told of a command's options.
struct getopt_table {
  char letters[2 * OPTION_COUNT + 2];  // after the ':' that asks for ':' where a value is missing
  struct option longs[OPTION_COUNT + 1];
};

static void make_getopt_table(struct getopt_table *t, const struct command *command) {
  char *letter = t->letters;
  struct option *o = t->longs;
  *t = (struct getopt_table){0};
  *letter++ = ':';
  for (int i = 0; i < OPTION_COUNT; i++) {
    if (!option_is_taken(command, (enum option_id)i))
      continue;
    int argument = options[i].argument ? required_argument : no_argument;
    *o++ = (struct option){options[i].name, argument, NULL, FIRST_LONG + i};
    if (!options[i].letter)
      continue;
    *letter++ = options[i].letter;
    if (options[i].argument)
      *letter++ = ':';
  }
}

static enum option_id option_of(int returned) {
  int id = returned - FIRST_LONG;
  for (int i = 0; i < OPTION_COUNT && returned < FIRST_LONG; i++)
    if (options[i].letter == returned)
      id = i;
  return (enum option_id)id;
}

static enum status refuse_option(int returned, const char *given, const struct command *command,
                                 struct arena *a, struct diag *d) {
  if (returned == ':')
    return diag_fail(d, STATUS_USAGE, "%s needs a value", given);
  if (optopt == 0)
    return unknown_option(given, command, a, d);
  if (strncmp(given, "--", 2) == 0 && strchr(given, '='))
    return diag_fail(d, STATUS_USAGE, "%s: this option takes no value", given);
  return unknown_option(arena_printf(a, "-%c", optopt), command, a, d);
}

// *given: bit 1 << OPTION_... of each that was.
static enum status take_options(struct settings *s, const struct command *command, int argc,
                                char **argv, uint64_t *given, struct arena *a, struct diag *d) {
  struct getopt_table table;
  make_getopt_table(&table, command);
  opterr = 0;
  optind = 1;
  int returned;
  while ((returned = getopt_long(argc, argv, table.letters, table.longs, NULL)) != -1) {
    if (returned == ':' || returned == '?')
      return refuse_option(returned, argv[optind - 1], command, a, d);
    enum option_id id = option_of(returned);
    *given |= UINT64_C(1) << id;
    TRY(apply(s, id, optarg, a, d));
    while (id == OPTION_CHECKPOINTS && optind < argc && argv[optind][0] != '-')  // all that follow
      TRY(apply(s, id, argv[optind++], a, d));
  }
  return STATUS_OK;
}

// The arguments and needed options, with blanks in front of each: what a synopsis says between name
// and "[options]".
static const char *command_usage(const struct command *command, char text[128]) {
  snprintf(text, 128, "%s%s%s%s", command->arguments[0] ? " " : "", command->arguments,
           command->needed ? " " : "", command->needed ? command->needed : "");
  return text;
}

static enum status take_arguments(struct settings *s, const struct command *command, int count,
                                  char **arguments, struct diag *d) {
  if (count < command->least || count > command->most) {
    char usage[128];
    diag_hint(d, "Usage: narrowcast %s%s [options]", command->name, command_usage(command, usage));
    if (command->most == 0)
      return diag_fail(d, STATUS_USAGE, "%s takes no argument", command->name);
    return diag_fail(d, STATUS_USAGE,
                     count < command->least ? "%s: %s is missing" : "%s: more than %s given",
                     command->name, command->arguments);
  }
  for (int i = 0; i < count; i++)
    if (!arguments[i][0])
      return diag_fail(d, STATUS_USAGE, "%s: an argument is empty: it should be %s", command->name,
                       command->arguments);
  s->model = count > 0 ? arguments[0] : NULL;
  s->second = count > 1 ? arguments[1] : NULL;
  s->arguments = (const char *const *)arguments;
  s->n_arguments = (size_t)count;
  return STATUS_OK;
}

// Names each option that is missing, as its help does.
static enum status check_required(const struct command *command, uint64_t given, struct arena *a,
                                  struct diag *d) {
  const char *missing = NULL;
  for (int i = 0; i < OPTION_COUNT; i++) {
    if (!(command->required & ~given & UINT64_C(1) << i))
      continue;
    const struct option_text *o = &options[i];
    const char *one = o->letter ? arena_printf(a, "-%c %s", o->letter, o->argument)
                                : arena_printf(a, "--%s %s", o->name, o->argument);
    missing = missing ? arena_printf(a, "%s and %s", missing, one) : one;
  }
  if (!missing)
    return STATUS_OK;
  char usage[128];
  diag_hint(d, "%sUsage: narrowcast %s%s [options]",
            command->required & ~given & UINT64_C(1) << OPTION_PLAN
                ? "`narrowcast plan MODEL` makes one. "
                : "",
            command->name, command_usage(command, usage));
  return diag_fail(d, STATUS_USAGE, "%s needs %s", command->name, missing);
}

// Options that exclude or need each other.
static enum status check_together(const struct settings *s, struct diag *d) {
  if (s->to_stdout && s->json)
    return diag_fail(d, STATUS_USAGE,
                     "-o - and --json exclude each other: both want standard output");
  if (s->data && (s->has_random || s->random_samples))
    return diag_fail(d, STATUS_USAGE,
                     "--data and --%s exclude each other: samples are real or made up",
                     s->has_random ? "random" : "samples");
  if (s->n_checkpoints && s->n_feedback)
    return diag_fail(d, STATUS_USAGE,
                     "--checkpoints and --feedback exclude each other: weights have one history");
  if (s->in_process && (s->timeout || s->memory_limit))
    return diag_fail(d, STATUS_USAGE,
                     "--in-process and --%s exclude each other: a limit needs a process of its own",
                     s->timeout ? "timeout" : "memory-limit");
  if (s->steps && !s->n_feedback)
    return diag_fail(d, STATUS_USAGE, "--steps needs --feedback, which makes steps of a training");
  return STATUS_OK;
}

enum status options_parse(struct settings *s, const struct command *command, int argc, char **argv,
                          bool *help, struct arena *a, struct diag *d) {
  uint64_t given = 0;
  TRY(take_options(s, command, argc, argv, &given, a, d));
  *help = given >> OPTION_HELP & 1;
  if (*help)
    return STATUS_OK;
  TRY(take_arguments(s, command, argc - optind, argv + optind, d));
  TRY(check_required(command, given, a, d));
  s->writes_text = command->writes_text;
  if (s->output && strcmp(s->output, "/dev/stdout") == 0 && s->writes_text)
    s->output = FILE_STDOUT;
  s->to_stdout = s->output && strcmp(s->output, FILE_STDOUT) == 0 && s->writes_text;
  return check_together(s, d);
}

const char *option_help(const struct command *command, const struct option_text *option,
                        char text[OPTION_HELP_TEXT]) {
  bool output = option == &options[OPTION_OUTPUT], named = output && command->output;
  snprintf(text, OPTION_HELP_TEXT, "%s%s%s%s%s", option->help,
           output && command->writes_text ? ", - for stdout" : "", named ? " (default: " : "",
           named ? command->output : "", named ? ")" : "");
  return text;
}

void print_command_help(const struct command *command, FILE *out) {
  enum { LEFT = 26 };
  char usage[128];
  fprintf(out, "narrowcast %s%s [options]\n\n%s\n\n%s\n\nOptions:\n", command->name,
          command_usage(command, usage), command->summary, command->details);
  for (int i = 0; i < OPTION_COUNT; i++) {
    if (!option_is_taken(command, (enum option_id)i))
      continue;
    char left[64];
    char brief[] = {'-', options[i].letter, ',', ' ', '\0'};
    snprintf(left, sizeof left, "%s--%s%s%s", options[i].letter ? brief : "    ", options[i].name,
             options[i].argument ? " " : "", options[i].argument ? options[i].argument : "");
    char help[OPTION_HELP_TEXT];
    // What does not fit beside its help stands above it.
    fprintf(out, strlen(left) > LEFT ? "  %s\n  %-*s %s\n" : "  %s%-*s %s\n", left,
            strlen(left) > LEFT ? LEFT : LEFT - (int)strlen(left), "",
            option_help(command, &options[i], help));
  }
}

void print_help(FILE *out) {
  fprintf(out, "narrowcast " NARROWCAST_VERSION ": " PROGRAM_SUMMARY "\n\n"
               "Usage: narrowcast COMMAND [arguments] [options]\n\nCommands:\n");
  for (const struct command *c = commands; c->name; c++)
    fprintf(out, "  %-9s %s\n", c->name, c->summary);
  fprintf(out, "\n`narrowcast COMMAND --help` tells more. First use: narrowcast convert "
               "model.onnx\n\nExit codes:\n");
#define PRINT_STATUS(name, code, text) fprintf(out, "  %d  %s\n", code, text);
  STATUS_LIST(PRINT_STATUS)
#undef PRINT_STATUS
}
