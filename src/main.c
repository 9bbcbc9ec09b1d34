// narrowcast: the command line. Finds the command, parses its options, runs it, prints what went
// wrong and turns the status into the exit code. Everything else is in cmd_*.c (one command each)
// and in the library (stages in run.c).
#include "cmd.h"
#include "file.h"
#include "json.h"
#include "supervise.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { BATCH_ARGUMENTS = 1000000 };

const struct command commands[] = {
    {"convert", "MODEL", 1, 1, "traces, plans, rewrites, verifies and saves, in one go",
     "Without --data the inputs are made up, and the summary says so. The model is written only "
     "if\n"
     "every claim of the policy holds; exit code 1 says that one does not.",
     "pdrntoSTvRfukwDiaOjxmIJq", command_convert},
    {"inspect", "MODEL", 1, 1, "tells what is in a model", "Needs neither data nor ONNX Runtime.",
     "J", command_inspect},
    {"trace", "MODEL", 1, 1, "runs the model over samples and writes per-tensor statistics",
     "Held-out samples (see the policy) are left for verify. Updates of a training's weights are\n"
     "measured with --checkpoints FILE FILE ..., which stands behind MODEL (samples are then run\n"
     "only if --data or --random says so), or with --feedback, where MODEL is a training step.",
     "pudrncbsoOjxmIJq", command_trace},
    {"plan", "MODEL", 1, 1, "decides a format for every tensor and writes the plan",
     "With --trace, statistics come from a trace file, else there are none: then only constants\n"
     "are known, and every other tensor counts as not seen and stays fp32.",
     "ptofukwDiJq", command_plan},
    {"rewrite", "MODEL", 1, 1, "applies a plan, also one edited by hand",
     "Needs neither data nor ONNX Runtime. The result is not verified. Every edit that cannot be\n"
     "applied is named with its reason; --check stops there and writes nothing.",
     "PoCJq", command_rewrite},
    {"verify", "MODEL", 1, 1,
     "runs the narrow model emulated beside the fp32 one and judges the claims",
     "MODEL is the source; the plan says what the narrow one is. If the samples are as many as "
     "the\n"
     "plan was made from, the held-out ones are used, else all of them. With -o the verdict is\n"
     "written to a file too, with the error of every tensor.",
     "PdrnoOjxmIJq", command_verify},
    {"report", "PLAN", 1, 1, "writes a page on which a plan can be reviewed",
     "Needs neither model nor data nor ONNX Runtime. With --trace and --verdict it shows what was\n"
     "measured, too; they must be of this plan. The page is one file and asks for no network.",
     "tVWoq", command_report},
    {"explain", "PLAN [NAME]", 1, 2, "tells why a plan decides as it does",
     "NAME is a node, a tensor or a glob: prints rule, numbers beside thresholds, neighbours, "
     "modelled\n"
     "time, and what would have to change. --why-not FORMAT ranks what keeps nodes out of a "
     "format.\n"
     "Needs the plan file alone; --trace and --verdict add what they measured.",
     "ytVq", command_explain},
    {"diff", "PLAN PLAN", 2, 2, "compares what two plans decide",
     "Nodes and tensors whose format or scale differs, with the reasons, and the totals. Exit code "
     "0:\n"
     "the same decisions, 1: they differ.",
     "Jq", command_diff},
    {"emit", "PLAN", 1, 1, "writes a plan in another tool's form",
     "--for tensorrt: arguments of trtexec for the source model, one a line, as\n"
     "`xargs -d '\\n' -a FILE trtexec --onnx=MODEL` takes them. --for onnxruntime: the ranges of\n"
     "--trace as calibration.json of its quantization tools.",
     "Ftoq", command_emit},
    {"batch", "DIR|LIST | merge OUT...", 1, BATCH_ARGUMENTS,
     "converts every model of a folder or list, in parallel",
     "Each model is converted by a process of its own, with its own folder in --out. The same\n"
     "command goes on where it was stopped. LIST is JSON Lines: {\"model\": PATH, \"samples\": "
     "PATH,\n"
     "...}. merge joins what several shards made.",
     "pofkwirnNHOjxmJq", command_batch},
    {"policy", "check FILE | show NAME | list", 1, 2, "checks or shows a policy",
     "check FILE reads a policy file and names what is wrong with it; show NAME prints a shipped\n"
     "policy, to be copied and changed; list names the shipped ones.",
     "", command_policy},
    {"formats", "", 0, 0, "prints the table of number formats", "As the rule uses them.", "J",
     command_formats},
    {0},
};

static const struct command *find_command(const char *name) {
  for (const struct command *c = commands; c->name; c++)
    if (strcmp(c->name, name) == 0)
      return c;
  return NULL;
}

static enum status unknown_command(const char *name, struct diag *d) {
  const char *names[sizeof commands / sizeof commands[0]] = {0};
  for (int i = 0; commands[i].name; i++)
    names[i] = commands[i].name;
  const char *near = nearest_name(name, names);
  if (near)
    diag_hint(d, "Did you mean `%s`?", near);
  else
    diag_hint(d, "`narrowcast --help` lists the commands.");
  return diag_fail(d, STATUS_USAGE, "there is no command \"%s\"", name);
}

static void print_warning(void *context, const char *text) {
  const struct settings *settings = context;
  if (!settings->quiet)
    fprintf(stderr, "narrowcast: warning: %s\n", text);
}

// With --json an error is on standard output too, for programs.
static void print_error_json(const struct diag *d, const struct recorder *note) {
  struct json_writer w = {.out = stdout, .inline_depth = JSON_DEPTH};
  json_object(&w, NULL);
  json_object(&w, "error");
  json_integer(&w, "code", d->status);
  json_string(&w, "meaning", status_text(d->status));
  json_string(&w, "file", d->file);
  json_string(&w, "node", d->node);
  json_string(&w, "tensor", d->tensor);
  json_string(&w, "message", d->message);
  json_string(&w, "hint", d->hint);
  json_integer(&w, "signal", note ? note->signal : 0);
  json_bool(&w, "timed_out", note && note->timed_out);
  json_end_object(&w);
  json_end_object(&w);
}

static void print_error(const struct diag *error) {
  diag_print(error, stderr);
}

// What may crash runs in a process of its own.
static bool is_supervised(const struct command *command, const struct settings *settings) {
  return strchr(command->options, OPTION_IN_PROCESS) && !settings->in_process;
}

static enum status print_end(enum status status, struct diag *d) {
  if (fflush(stdout) != 0 || ferror(stdout)) {
    enum status failed = diag_fail(d, STATUS_IO, "standard output cannot be written");
    status = status == STATUS_OK ? failed : status;
  }
  if (d->status != STATUS_OK)
    diag_print(d, stderr);
  return status;
}

static enum status run_command(int argc, char **argv, struct diag *d) {
  const struct command *command = find_command(argv[1]);
  if (!command)
    return print_end(unknown_command(argv[1], d), d);
  struct settings settings = {.command = command->name};
  struct run run;
  run_begin(&run, &settings, d);
  d->warn = print_warning;
  d->warn_context = &settings;
  d->report = print_error;
  bool help = false;
  enum status status = options_parse(&settings, command, argc - 1, argv + 1, &help, &run.arena, d);
  if (status == STATUS_OK && help)
    print_command_help(command, stdout);
  else if (status == STATUS_OK)
    status = is_supervised(command, &settings) ? supervise(&run, command->run) : command->run(&run);
  if (d->status != STATUS_OK && settings.json)
    print_error_json(d, run.recorder);
  status = print_end(status, d);
  recorder_finish(run.recorder, status);
  run_close(&run);
  return status;
}

// Interrupted: leaves no temporary file, and ends as the signal asks.
static void on_interrupt(int number) {
  file_remove_pending();
  signal(number, SIG_DFL);
  raise(number);
}

// A mapped file became shorter while it was read.
static void on_bus_error(int number) {
  static const char text[] = "narrowcast: a file was cut short while it was being read\n";
  (void)number;
  file_remove_pending();
  if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
    _exit(STATUS_IO);
  _exit(STATUS_IO);
}

// What is ignored (by nohup, say) stays so.
static void on_request(int number) {
  if (signal(number, on_interrupt) == SIG_IGN)
    signal(number, SIG_IGN);
}

static void set_up_signals(void) {
  on_request(SIGINT);
  on_request(SIGTERM);
  on_request(SIGHUP);
  signal(SIGBUS, on_bus_error);
  signal(SIGXFSZ, SIG_IGN);  // the write then fails, with a reason
}

int main(int argc, char **argv) {
  set_up_signals();
  if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
      strcmp(argv[1], "help") == 0) {
    print_help(argc < 2 ? stderr : stdout);
    return argc < 2 ? STATUS_USAGE : STATUS_OK;
  }
  if (strcmp(argv[1], "--version") == 0) {
    printf("narrowcast " NARROWCAST_VERSION "\n");
    return STATUS_OK;
  }
  struct diag d = {0};
  return (int)run_command(argc, argv, &d);
}
