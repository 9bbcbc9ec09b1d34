// The manual page of the library, narrowcast(3), from its header: what is said there is said once.
// See docs.h.
//
// The header is our own and has one form: a comment at its top; headings `/* ---- Heading ---- */`;
// comments that begin in the first column, each before the declarations that it is about.
#include "docs.h"

#include <ctype.h>
#include <string.h>

struct line {
  const char *text;
  int length;  // without the line break
};

struct page {
  FILE *out;
  const char *rest;             // of the header
  struct line line;             // that was read last
  const char *comment;          // that waits for its declarations: from its text on; NULL: none
  bool in_declarations, begun;  // a section was begun
};

static bool next_line(struct page *p) {
  if (!*p->rest)
    return false;
  p->line = (struct line){p->rest, (int)strcspn(p->rest, "\n")};
  p->rest += p->line.length;
  p->rest += *p->rest == '\n';
  return true;
}

static bool begins(const struct line *l, const char *text) {
  return strncmp(l->text, text, strlen(text)) == 0 && l->length >= (int)strlen(text);
}

static bool ends_comment(const struct line *l) {
  return l->length >= 2 && strncmp(l->text + l->length - 2, "*/", 2) == 0;
}

// ---- roff ----

static void put_escaped(char c, FILE *out) {
  if (c == '\\')
    fputs("\\e", out);
  else if (c == '-')
    fputs("\\-", out);
  else
    putc(c, out);
}

static void put_verbatim(const char *text, int length, FILE *out) {
  if (length > 0 && (*text == '.' || *text == '\''))
    fputs("\\&", out);
  for (int i = 0; i < length; i++)
    put_escaped(text[i], out);
}

static bool is_name(char c) {
  return isalnum((unsigned char)c) || c == '_';
}

// A line of a comment: names of the library are bold.
static void put_prose(const char *text, int length, FILE *out) {
  if (length > 0 && (*text == '.' || *text == '\''))
    fputs("\\&", out);
  for (int i = 0; i < length; i++) {
    bool ours =
        strncmp(text + i, "narrowcast_", 11) == 0 || strncmp(text + i, "NARROWCAST_", 11) == 0;
    if (ours && (i == 0 || !is_name(text[i - 1]))) {
      fputs("\\fB\\%", out);  // not hyphenated
      for (; i < length && is_name(text[i]); i++)
        putc(text[i], out);
      fputs("\\fP", out);
      i--;
    } else {
      put_escaped(text[i], out);
    }
  }
}

// What a line of a comment says, without the stars.
static struct line comment_text(struct line l) {
  int skipped = begins(&l, "/* ") || begins(&l, " * ") ? 3 : begins(&l, " *") ? 2 : 0;
  l.text += skipped;
  l.length -= skipped;
  if (ends_comment(&l))
    l.length -= l.length > 2 ? 3 : 2;  // with the blank in front
  return l;
}

// The comment that begins at `text`; a paragraph that is set in is an example of code.
static void put_comment(const char *text, FILE *out) {
  struct page at = {.rest = text};
  bool code = false, last = false, blank = false;
  while (!last && next_line(&at)) {
    last = ends_comment(&at.line);
    struct line l = comment_text(at.line);
    bool is_code = begins(&l, "    ");
    if (l.length <= 0) {
      blank = true;
      continue;
    }
    if (code && !is_code)
      fputs(".EE\n", out);
    if (blank || code != is_code)
      fputs(".PP\n", out);
    if (is_code && !code)
      fputs(".EX\n", out);
    (is_code ? put_verbatim : put_prose)(l.text, l.length, out);
    putc('\n', out);
    code = is_code;
    blank = false;
  }
  if (code)
    fputs(".EE\n", out);
}

// ---- the header ----

// Passes over what follows in the comment that begins on the line.
static void skip_comment(struct page *p) {
  while (!ends_comment(&p->line) && next_line(p))
    ;
}

static void end_declarations(struct page *p) {
  if (p->in_declarations)
    fputs(".fi\n", p->out);
  if (p->in_declarations && p->comment) {
    fputs(".RS 4\n", p->out);
    put_comment(p->comment, p->out);
    fputs(".RE\n", p->out);
    p->comment = NULL;
  }
  p->in_declarations = false;
}

static bool is_declaration(const struct line *l) {
  static const char *const others[] = {"#if",
                                       "#el",
                                       "#en",
                                       "#include",
                                       "#define NARROWCAST_API",
                                       "extern \"C\"",
                                       "#define NARROWCAST_H"};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    if (begins(l, others[i]))
      return begins(l, "#define NARROWCAST_ABI");
  return l->length > 0 && !(l->length == 1 && l->text[0] == '}');
}

static void put_declaration(struct page *p) {
  static const char macro[] = "NARROWCAST_API ";
  const int width = (int)sizeof macro - 1;
  struct line l = p->line;
  if (!p->in_declarations)
    fputs(".PP\n.nf\n", p->out);
  p->in_declarations = true;
  int blanks = (int)strspn(l.text, " ");
  int skipped = begins(&l, macro) || (blanks >= width && blanks < l.length) ? width : 0;
  fputs("\\fB", p->out);
  for (int i = skipped; i < l.length; i++)
    put_escaped(l.text[i], p->out);
  fputs("\\fP\n", p->out);
}

static void put_heading(struct page *p) {
  const char *name = p->line.text + strlen("/* ---- ");
  fputs(".SH ", p->out);
  for (; strncmp(name, " ----", 5) != 0; name++)
    putc(toupper((unsigned char)*name), p->out);
  putc('\n', p->out);
}

static void put_section_lines(struct page *p) {
  while (next_line(p)) {
    if (begins(&p->line, "/* ----")) {
      end_declarations(p);
      put_heading(p);
    } else if (begins(&p->line, "/*")) {
      end_declarations(p);
      p->comment = p->line.text;
      skip_comment(p);
    } else if (is_declaration(&p->line)) {
      put_declaration(p);
    } else if (p->line.length == 0) {
      end_declarations(p);
    }
  }
  end_declarations(p);
}

static void put_example(const char *example, FILE *out) {
  struct page at = {.rest = example};
  fputs(".SH EXAMPLES\n.EX\n", out);
  while (next_line(&at)) {
    put_verbatim(at.line.text, at.line.length, out);
    putc('\n', out);
  }
  fputs(".EE\n", out);
}

void library_manual_write(const char *header, const char *example, FILE *out) {
  struct page p = {.out = out, .rest = header};
  static const char title[] = "/* narrowcast: c";
  fputs(".TH NARROWCAST 3 \"\" \"narrowcast " NARROWCAST_VERSION "\" \"Library Functions\"\n.nh\n"
        ".SH NAME\nlibnarrowcast \\- " PROGRAM_SUMMARY "\n"
        ".SH SYNOPSIS\n.B #include <narrowcast.h>\n.PP\n"
        "cc program.c $(pkg\\-config \\-\\-cflags \\-\\-libs narrowcast)\n.SH DESCRIPTION\nC",
        out);
  next_line(&p);
  put_comment(p.line.text + strlen(title), out);
  skip_comment(&p);
  fputs(".SH THE HANDLE\n", out);
  put_section_lines(&p);
  put_example(example, out);
  fputs(".SH SEE ALSO\n.BR narrowcast (1),\n.BR narrowcast\\-convert (1)\n", out);
}
