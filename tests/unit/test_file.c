// file: temporary files in the making and what an interrupt leaves of them.
#include "file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// cmocka.h needs those above.
#include <cmocka.h>

static void removing_what_is_pending_spares_what_is_committed(void **state) {
  (void)state;
  char folder[] = "/tmp/narrowcast-file-XXXXXX", path[2][64];
  assert_non_null(mkdtemp(folder));
  struct file_writer w[2];
  struct diag d = {0};
  for (int i = 0; i < 2; i++) {
    snprintf(path[i], sizeof path[i], "%s/%d", folder, i);
    assert_int_equal(file_begin(&w[i], path[i], &d), STATUS_OK);
    fputs("text", w[i].out);
    assert_int_equal(access(w[i].temporary, F_OK), 0);
  }
  assert_int_equal(file_commit(&w[0], &d), STATUS_OK);
  file_remove_pending();  // as a signal's handler does
  assert_int_equal(access(path[0], F_OK), 0);
  assert_int_not_equal(access(w[1].temporary, F_OK), 0);
  assert_int_not_equal(access(path[1], F_OK), 0);
  file_abandon(&w[1]);
  unlink(path[0]);
  assert_int_equal(rmdir(folder), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(removing_what_is_pending_spares_what_is_committed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
