// narrowcast: the command line. Finds the command, parses its options, runs it, prints what went
// wrong and turns the status into the exit code. Everything else is in cmd_*.c (one command each)
// and in the library (stages in run.c).
#include "cmd.h"
#include "escape.h"
#include "file.h"
#include "json.h"
#include "nearest.h"
#include "supervise.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static const struct command *find_command(const char *name) {
  for (const struct command *c = commands; c->name; c++)
    if (strcmp(c->name, name) == 0)
      return c;
  return NULL;
}

static enum status unknown_command(const char *name, struct diag *d) {
  const char *names[COMMANDS_MOST] = {0};
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
    escape_printf(stderr, "narrowcast: warning: %s\n", text);
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

// What may crash runs in a process of its own, unless asked otherwise.
static bool is_supervised(const struct command *command, const struct settings *settings) {
  return option_is_taken(command, OPTION_IN_PROCESS) && !settings->in_process;
}

static enum status print_end(enum status status, struct diag *d) {
  if (fflush(stdout) != 0 || ferror(stdout)) {
    enum status failed = diag_fail(d, STATUS_IO, "standard output cannot be written");
    status = status == STATUS_OK ? failed : status;
  }
  if (d->status != STATUS_OK)
    print_error(d);
  return status;
}

static enum status run_command(int argc, char **argv, struct diag *d) {
  const struct command *command = find_command(argv[1]);
  if (!command)
    return print_end(unknown_command(argv[1], d), d);
  struct settings settings = {0};
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
  ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
  (void)ignored;
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
