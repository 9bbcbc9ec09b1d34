// What is generated from the tables of commands and options: manual pages and shell completions, so
// that neither can disagree with `--help`.
#ifndef DOCS_H
#define DOCS_H

#include "cmd.h"

// The page of a command, or with NULL that of the program. `part` is the hand-written text in
// man(7) macros, or NULL: up to its first .SH it goes on with the description, the rest are
// sections. `engine` is what the commands have that run ONNX Runtime.
void manual_write(const struct command *command, const char *part, const char *engine, FILE *out);

// The page of the library, from the text of its header and that of an example.
void library_manual_write(const char *header, const char *example, FILE *out);

void completion_write_bash(FILE *out);
void completion_write_zsh(FILE *out);

#endif
