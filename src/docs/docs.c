// Writes the manual pages and completions of the program, when it is built:
//
//   narrowcast-docs OUT SOURCE
//
// makes OUT/narrowcast.1, OUT/narrowcast-<command>.1, OUT/narrowcast.bash and OUT/_narrowcast, and
// OUT/narrowcast.3 from the library's header. What no table knows (examples, files) is in
// SOURCE/docs/man: narrowcast.man and <command>.man, which a command may have or not, and
// engine.man. Not installed.
#include "docs.h"

#include "arena.h"
#include "file.h"

#include <stdlib.h>
#include <unistd.h>

struct docs {
  const char *out, *source;
  const char *engine;
  struct arena arena;
  struct diag diag;
};

static enum status read_text(struct docs *docs, const char *name, const char **text) {
  const uint8_t *bytes;
  size_t size;
  TRY(file_map(arena_printf(&docs->arena, "%s/%s", docs->source, name), &bytes, &size,
               &docs->diag));
  *text = arena_printf(&docs->arena, "%.*s", (int)size, (const char *)bytes);
  file_unmap(bytes, size);
  return STATUS_OK;
}

// The text of docs/man/<name>.man; NULL if there is no such file.
static enum status read_part(struct docs *docs, const char *name, const char **text) {
  const char *part = arena_printf(&docs->arena, "docs/man/%s.man", name);
  *text = NULL;
  if (access(arena_printf(&docs->arena, "%s/%s", docs->source, part), F_OK) != 0)
    return STATUS_OK;
  return read_text(docs, part, text);
}

static enum status write_page(struct docs *docs, const struct command *command) {
  struct file_writer w;
  const char *part;
  const char *path = arena_printf(&docs->arena, "%s/narrowcast%s%s.1", docs->out,
                                  command ? "-" : "", command ? command->name : "");
  TRY(read_part(docs, command ? command->name : "narrowcast", &part));
  TRY(file_begin(&w, path, &docs->diag));
  manual_write(command, part, docs->engine, w.out);
  return file_commit(&w, &docs->diag);
}

static enum status write_library_page(struct docs *docs) {
  struct file_writer w;
  const char *header, *example;
  TRY(read_text(docs, "include/narrowcast.h", &header));
  TRY(read_text(docs, "examples/convert.c", &example));
  TRY(file_begin(&w, arena_printf(&docs->arena, "%s/narrowcast.3", docs->out), &docs->diag));
  library_manual_write(header, example, w.out);
  return file_commit(&w, &docs->diag);
}

static enum status write_completion(struct docs *docs, const char *name, void (*write)(FILE *)) {
  struct file_writer w;
  TRY(file_begin(&w, arena_printf(&docs->arena, "%s/%s", docs->out, name), &docs->diag));
  write(w.out);
  return file_commit(&w, &docs->diag);
}

static enum status write_all(struct docs *docs) {
  TRY(read_part(docs, "engine", &docs->engine));
  TRY(write_page(docs, NULL));
  for (const struct command *c = commands; c->name; c++)
    TRY(write_page(docs, c));
  TRY(write_library_page(docs));
  TRY(write_completion(docs, "narrowcast.bash", completion_write_bash));
  return write_completion(docs, "_narrowcast", completion_write_zsh);
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: narrowcast-docs OUT SOURCE\n");
    return STATUS_USAGE;
  }
  struct docs docs = {.out = argv[1], .source = argv[2]};
  enum status status = write_all(&docs);
  if (status != STATUS_OK)
    diag_print(&docs.diag, stderr);
  arena_free(&docs.arena);
  return (int)status;
}
