// Options: one table for the parser and for the help. Every option has one letter, by which the
// table of commands says which it takes.
#include "cmd.h"
#include "file.h"
#include "json.h"
#include "raise_opset.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum { OPTION_COUNT = 64 };

const struct option_text options[] = {
    {'p', "policy", "POLICY|FILE",
     "the policy that decides (default fp16); `policy list` names them"},
    {'d', "data", "DIR", "samples, two folders deep: .npz, .safetensors, .npy, or folders of .pb"},
    {'r', "random", "SEED", "made-up samples from a seed, where there is no data"},
    {'n', "samples", "N", "how many made-up samples (default 8)"},
    {'t', "trace", "FILE", "take statistics from this trace file"},
    {'c', "checkpoints", "FILE...",
     "a training's weights at different times, .onnx or .safetensors"},
    {'b', "feedback", "W=NEW",
     "MODEL is a training step: its output NEW is the next W; repeatable"},
    {'s', "steps", "N", "steps of the training, over the samples again and again"},
    {'P', "plan", "FILE", "the plan of MODEL"},
    {'V', "verdict", "FILE", "what was measured, from this verdict file"},
    {'y', "why-not", "FORMAT", "rank what keeps nodes out of this format"},
    {'F', "for", "tensorrt|onnxruntime", "the tool to write for"},
    {'o', "output", "FILE", "where the result goes"},
    {'A', "out", "DIR", "the folder for all results; the same one to go on"},
    {'e', "external-data", "auto|always|never",
     "weights in a file of their own: as in MODEL, all, or none"},
    {'C', "check", NULL, "check the plan against the model and write nothing"},
    {'S', "save-plan", "FILE", "write the plan as well"},
    {'T', "save-trace", "FILE", "write the trace as well"},
    {'v', "save-verdict", "FILE", "write the verdict as well"},
    {'R', "report", "FILE", "write a report as well, HTML, or Markdown if it ends with .md"},
    {'W', "format", "html|md", "a page to open in a browser, or Markdown (default html)"},
    {'f', "format", "FORMAT", "use fp16, bf16 or fp32 instead of the policy's formats"},
    {'u', "raise-opset", "N", "raise the model's opset to N (13 to 26), for formats that it lacks"},
    {'k', "keep", "GLOB", "leave matching nodes as they are (by node or tensor name); repeatable"},
    {'w', "narrow", "GLOB", "narrow matching nodes where their values allow it; repeatable"},
    {'D', "overrides", "FILE", "a person's decisions: formats by node or tensor name, with notes"},
    {'i', "io", "keep|narrow", "keep the types of the model's inputs and outputs, or narrow them"},
    {'a', "save-anyway", NULL, "write the model even if a claim does not hold"},
    {'N', "jobs", "N", "conversions at once (default: as many as there are cores)"},
    {'H', "shard", "I/N", "only part I of N of the models, I from 1"},
    {OPTION_ENGINE, "ort", "PATH", "the ONNX Runtime library to use (or NARROWCAST_ORT)"},
    {'j', "threads", "N", "threads of ONNX Runtime (default: all cores)"},
    {'B', "threads", "N", "threads of ONNX Runtime for each conversion (default 1)"},
    {'x', "timeout", "SECONDS", "give up after so many seconds (default: never)"},
    {'m', "memory-limit", "MIB", "end the run if it takes more memory, mapped files not counted"},
    {'L', "model-limit", "NAME=N",
     "a limit of models: messages, fields, string_bytes, depth; repeatable"},
    {OPTION_IN_PROCESS, "in-process", NULL,
     "run ONNX Runtime in this process, for debuggers: a crash ends all"},
    {'J', "json", NULL, "print the result as JSON"},
    {'q', "quiet", NULL, "no progress bar, no warnings"},
    {'h', "help", NULL, "this help"},
    {0},
};
_Static_assert(sizeof options / sizeof options[0] <= OPTION_COUNT, "room for the end mark");

bool option_is_taken(const struct command *command, char letter) {
  return letter == 'h' || strchr(command->options, letter);
}

static enum status parse_number(const char *text, const char *option, unsigned long long min,
                                unsigned long long max, unsigned long long *out, struct diag *d) {
  char *end;
  errno = 0;
  *out = strtoull(text, &end, 10);
  if (errno || end == text || *end || text[0] == '-' || *out < min || *out > max)
    return diag_fail(d, STATUS_USAGE, "--%s takes a whole number from %llu to %llu, not \"%s\"",
                     option, min, max, text);
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
  TRY(parse_number(text + length + 1, text, 1, MODEL_LIMIT_MOST, &number, d));
  return model_limit_set(l, arena_printf(a, "%.*s", (int)length, text), number, d);
}

static void append(const char ***list, size_t *n, const char *text, struct arena *a) {
  size_t capacity = *n;
  *list = arena_grow(a, *list, &capacity, *n + 1, sizeof **list);
  (*list)[(*n)++] = text;
}

static void add_override(struct settings *s, const char *kind, const char *glob, struct arena *a) {
  append(&s->overrides, &s->n_overrides, kind, a);
  append(&s->overrides, &s->n_overrides, glob, a);
}

// The long name, however it was written.
static const char *option_name(char letter) {
  for (int i = 0; options[i].name; i++)
    if (options[i].letter == letter)
      return options[i].name;
  return "";
}

static enum status apply(struct settings *s, char letter, const char *argument, struct arena *a,
                         struct diag *d) {
  unsigned long long number = 0;
  if (argument && !argument[0])
    return diag_fail(d, STATUS_USAGE, "--%s: the value is empty", option_name(letter));
  switch (letter) {
  case 'p': s->policy = argument; break;
  case 'd': s->data = argument; break;
  case 'r':
    TRY(parse_number(argument, "random", 0, UINT64_MAX, &number, d));
    s->has_random = true;
    s->random = number;
    break;
  case 'n':
    TRY(parse_number(argument, "samples", 1, 1000000, &number, d));
    s->random_samples = (size_t)number;
    break;
  case 'c': append(&s->checkpoints, &s->n_checkpoints, argument, a); break;
  case 'b': append(&s->feedback, &s->n_feedback, argument, a); break;
  case 's':
    TRY(parse_number(argument, "steps", 1, 1000000, &number, d));
    s->steps = (size_t)number;
    break;
  case 't': s->trace = argument; break;
  case 'P': s->plan = argument; break;
  case 'A':
  case 'o': s->output = argument; break;
  case 'e': return parse_external_data(argument, &s->external_data, d);
  case 'S': s->save_plan = argument; break;
  case 'T': s->save_trace = argument; break;
  case 'v': s->save_verdict = argument; break;
  case 'R': s->report = argument; break;
  case 'W': s->report_form = argument; break;
  case 'f': s->format = argument; break;
  case 'k': add_override(s, "keep", argument, a); break;
  case 'w': add_override(s, "narrow", argument, a); break;
  case 'D': s->by_hand = argument; break;
  case 'C': s->check = true; break;
  case 'V': s->verdict = argument; break;
  case 'y': s->why_not = argument; break;
  case 'F': s->tool = argument; break;
  case 'i': s->io = argument; break;
  case 'u':
    TRY(parse_number(argument, "raise-opset", RAISE_OPSET_LEAST, RAISE_OPSET_MOST, &number, d));
    s->raise_opset = (int)number;
    break;
  case 'a': s->save_anyway = true; break;
  case 'O': s->ort = argument; break;
  case 'B':
  case 'j':
    TRY(parse_number(argument, "threads", 0, 1024, &number, d));
    s->threads = (int)number;
    break;
  case 'x':
    TRY(parse_number(argument, "timeout", 1, 1000000000, &number, d));
    s->timeout = (int)number;
    break;
  case 'm':
    TRY(parse_number(argument, "memory-limit", 1, SIZE_MAX >> 20, &number, d));
    s->memory_limit = (size_t)number << 20;
    break;
  case 'L':
    TRY(parse_model_limit(argument, &s->model_limits, a, d));
    append(&s->limits_given, &s->n_limits_given, argument, a);
    break;
  case OPTION_IN_PROCESS: s->in_process = true; break;
  case 'N':
    TRY(parse_number(argument, "jobs", 1, 256, &number, d));
    s->jobs = (int)number;
    break;
  case 'H': TRY(parse_shard(argument, s, d)); break;
  case 'J': s->json = true; break;
  case 'q': s->quiet = true; break;
  default: break;
  }
  return STATUS_OK;
}

static enum status unknown_option(const char *given, const struct command *command, struct arena *a,
                                  struct diag *d) {
  const char *names[OPTION_COUNT] = {0};
  int count = 0;
  for (int i = 0; options[i].name; i++)
    if (option_is_taken(command, options[i].letter))
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

enum status options_parse(struct settings *s, const struct command *command, int argc, char **argv,
                          bool *help, struct arena *a, struct diag *d) {
  struct option longs[OPTION_COUNT] = {{0}};
  int count = 0;
  for (int i = 0; options[i].name; i++)
    if (option_is_taken(command, options[i].letter))
      longs[count++] =
          (struct option){options[i].name, options[i].argument ? required_argument : no_argument,
                          NULL, options[i].letter};
  opterr = 0;
  optind = 1;
  int letter;
  while ((letter = getopt_long(argc, argv, ":" SHORT_OPTIONS, longs, NULL)) != -1) {
    const char *given = argv[optind - 1];
    if (letter == ':')
      return diag_fail(d, STATUS_USAGE, "%s needs a value", given);
    if (letter == '?' && optopt == 0)
      return unknown_option(given, command, a, d);
    if (letter == '?' && strncmp(given, "--", 2) == 0 && strchr(given, '='))
      return diag_fail(d, STATUS_USAGE, "%s: this option takes no value", given);
    if (letter == '?' || (letter != 'h' && !strchr(command->options, letter)))
      return unknown_option(arena_printf(a, "-%c", letter == '?' ? optopt : letter), command, a, d);
    if (letter == 'h')
      *help = true;
    TRY(apply(s, (char)letter, optarg, a, d));
    while (letter == 'c' && optind < argc && argv[optind][0] != '-')  // as many as follow
      TRY(apply(s, 'c', argv[optind++], a, d));
  }
  if (*help)
    return STATUS_OK;
  int left = argc - optind;
  if (left < command->least || left > command->most) {
    char usage[128];
    diag_hint(d, "Usage: narrowcast %s%s [options]", command->name, command_usage(command, usage));
    if (command->most == 0)
      return diag_fail(d, STATUS_USAGE, "%s takes no argument", command->name);
    return diag_fail(d, STATUS_USAGE,
                     left < command->least ? "%s: %s is missing" : "%s: more than %s given",
                     command->name, command->arguments);
  }
  for (int i = optind; i < argc; i++)
    if (!argv[i][0])
      return diag_fail(d, STATUS_USAGE, "%s: an argument is empty: it should be %s", command->name,
                       command->arguments);
  s->model = left > 0 ? argv[optind] : NULL;
  s->second = left > 1 ? argv[optind + 1] : NULL;
  s->arguments = (const char *const *)&argv[optind];
  s->n_arguments = (size_t)left;
  s->to_stdout = s->output && strcmp(s->output, FILE_STDOUT) == 0 && command->writes_text;
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

const char *command_usage(const struct command *command, char text[128]) {
  snprintf(text, 128, "%s%s%s%s", command->arguments[0] ? " " : "", command->arguments,
           command->needed ? " " : "", command->needed ? command->needed : "");
  return text;
}

const char *option_help(const struct command *command, const struct option_text *option,
                        char text[OPTION_HELP]) {
  bool output = option->letter == 'o', named = output && command->output;
  snprintf(text, OPTION_HELP, "%s%s%s%s%s", option->help,
           output && command->writes_text ? ", - for stdout" : "", named ? " (default: " : "",
           named ? command->output : "", named ? ")" : "");
  return text;
}

void print_command_help(const struct command *command, FILE *out) {
  enum { LEFT = 26 };
  char usage[128];
  fprintf(out, "narrowcast %s%s [options]\n\n%s\n\n%s\n\nOptions:\n", command->name,
          command_usage(command, usage), command->summary, command->details);
  for (int i = 0; options[i].name; i++) {
    if (!option_is_taken(command, options[i].letter))
      continue;
    char left[64];
    char brief[] = {'-', options[i].letter, ',', ' ', '\0'};
    snprintf(left, sizeof left, "%s--%s%s%s",
             strchr(SHORT_OPTIONS, options[i].letter) ? brief : "    ", options[i].name,
             options[i].argument ? " " : "", options[i].argument ? options[i].argument : "");
    char help[OPTION_HELP];
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
