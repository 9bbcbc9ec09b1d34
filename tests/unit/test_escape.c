// Escapes: what is shown of hostile text, and that it means nothing where it is shown.
#include "escape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void markdown_code(const char *text, FILE *out) {
  escape_markdown_code(text, 8, out);
}

typedef void escape(const char *text, FILE *out);

static void check(escape *function, const char *text, const char *wanted) {
  char *got = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&got, &length);
  assert_non_null(out);
  function(text, out);
  fclose(out);
  assert_string_equal(got, wanted);
  free(got);
}

static escape *const all[] = {escape_terminal, escape_html, escape_markdown};

static void what_is_harmless_is_shown_as_it_is(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    check(all[i], "/encoder/layer.0 Größe ∑ 😀", "/encoder/layer.0 Größe ∑ 😀");
}

static void control_characters_are_shown_as_question_marks(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    check(all[i], "a\x1b(2J\tb\nc\r\x7f\xc2\x9b", "a?(2J?b?c???");
}

static void bytes_that_are_no_utf8_are_shown_as_question_marks(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    check(all[i], "bad\xff\x62yte", "bad?byte");
    check(all[i], "cut \xe2\x88", "cut ??");
    check(all[i], "long \xc0\xaf", "long ??");
    check(all[i], "half \xed\xa0\x80", "half ???");
  }
}

static void what_turns_text_around_is_shown_as_question_marks(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    check(all[i], "a\u202eb\u2066c\u200fd", "a?b?c?d");
}

static void a_printed_line_is_ended_by_its_format_alone(void **state) {
  (void)state;
  char *got = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&got, &length);
  assert_non_null(out);
  escape_printf(out, "%s: %d%% of %zu, %lu and %ld\n%.3g%8.1f\n", "a\nb\x1b", -5, (size_t)7,
                1ul << 40, -(1l << 40), 0.12345, 2.0);
  fclose(out);
  assert_string_equal(got, "a?b?: -5% of 7, 1099511627776 and -1099511627776\n0.123     2.0\n");
  free(got);
}

static void html_has_no_tags_entities_and_ends_of_attributes(void **state) {
  (void)state;
  check(escape_html, "<a href=\"x\">&amp;'", "&#60;a href=&#34;x&#34;&#62;&#38;amp;&#39;");
}

static void markdown_has_no_markup_links_mentions_and_cells(void **state) {
  (void)state;
  check(escape_markdown, "a|b *c* _d_ `e` <f> ![g](h)",
        "a\\|b \\*c\\* \\_d\\_ \\`e\\` \\<f\\> \\!\\[g\\](h)");
  check(escape_markdown, "@x #1", "\\@\u2060x \\#\u20601");
  check(escape_markdown, "http://x", "http\\://x");
}

static void markdown_code_ends_with_its_own_fence_only(void **state) {
  (void)state;
  check(markdown_code, "a|b", "`a\\|b`");
  check(markdown_code, "a`b", "`` a`b ``");
  check(markdown_code, "``", "``` `` ```");
  check(markdown_code, "", "(no name)");
  check(markdown_code, "``````````", "(a name of backticks)");
}

static void markdown_code_is_cut_by_characters(void **state) {
  (void)state;
  check(markdown_code, "12345678", "`12345678`");
  check(markdown_code, "1234567ß9", "`1234567ß...`");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_harmless_is_shown_as_it_is),
      cmocka_unit_test(control_characters_are_shown_as_question_marks),
      cmocka_unit_test(bytes_that_are_no_utf8_are_shown_as_question_marks),
      cmocka_unit_test(what_turns_text_around_is_shown_as_question_marks),
      cmocka_unit_test(a_printed_line_is_ended_by_its_format_alone),
      cmocka_unit_test(html_has_no_tags_entities_and_ends_of_attributes),
      cmocka_unit_test(markdown_has_no_markup_links_mentions_and_cells),
      cmocka_unit_test(markdown_code_ends_with_its_own_fence_only),
      cmocka_unit_test(markdown_code_is_cut_by_characters),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
