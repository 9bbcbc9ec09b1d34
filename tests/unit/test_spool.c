// spool: memory that goes to a file.
#include "file.h"
#include "spool.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// cmocka.h needs those above.
#include <cmocka.h>

static char folder[64];
static struct diag d;

static int make_folder(void **state) {
  (void)state;
  strcpy(folder, "/tmp/narrowcast-test-XXXXXX");
  diag_clear(&d);
  return mkdtemp(folder) ? 0 : -1;
}

static int files(void) {
  int count = 0;
  DIR *dir = opendir(folder);
  assert_non_null(dir);
  for (const struct dirent *entry; (entry = readdir(dir));)
    count += entry->d_name[0] != '.' || strlen(entry->d_name) > 2;
  closedir(dir);
  return count;
}

static int remove_folder(void **state) {
  (void)state;
  return rmdir(folder);  // fails if something was left there
}

static uint8_t *take(struct spool *s, size_t size) {
  void *place;
  assert_int_equal(spool_alloc(s, size, &place, &d), STATUS_OK);
  assert_int_equal((uintptr_t)place % 64, 0);
  return place;
}

static void spool_keeps_the_first_part_in_memory(void **state) {
  (void)state;
  struct spool *s = spool_new(folder, 1000);
  const char *path;
  uint64_t offset;
  uint8_t *small = take(s, 900);
  assert_int_equal(files(), 0);
  assert_false(spool_find(s, small, &path, &offset));
  uint8_t *next = take(s, 900);
  assert_int_equal(files(), 1);
  assert_true(spool_find(s, next, &path, &offset));
  assert_int_equal(offset, 0);
  spool_free(s);
  assert_int_equal(files(), 0);
}

static void spool_keeps_what_is_forgotten(void **state) {
  (void)state;
  enum { LARGE = 70 * 1024 * 1024 };
  struct spool *s = spool_new(folder, 0);
  uint8_t *x = take(s, LARGE), *y = take(s, 3);
  assert_int_equal(x[LARGE - 1] | y[2], 0);
  x[0] = 1, x[LARGE - 1] = 2, y[2] = 3;
  spool_forget(s);
  assert_int_equal(x[0], 1);
  assert_int_equal(x[LARGE - 1], 2);
  assert_int_equal(y[2], 3);
  spool_free(s);
}

static void spool_is_a_file_that_others_can_read_by_its_name(void **state) {
  (void)state;
  struct spool *s = spool_new(folder, 0);
  const char *path;
  uint64_t offset;
  take(s, 100);
  uint8_t *x = take(s, 5);
  memcpy(x, "hello", 5);
  assert_true(spool_find(s, x + 1, &path, &offset));
  const uint8_t *bytes;
  size_t size;
  assert_int_equal(file_map(path, &bytes, &size, &d), STATUS_OK);
  assert_memory_equal(bytes + offset, "ello", 4);
  file_unmap(bytes, size);
  spool_free(s);
}

static void spool_without_a_folder_is_an_error(void **state) {
  (void)state;
  struct spool *s = spool_new("/nowhere", 0);
  void *place;
  assert_int_equal(spool_alloc(s, 1, &place, &d), STATUS_IO);
  assert_non_null(strstr(d.file, "/nowhere"));
  spool_free(s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(spool_keeps_the_first_part_in_memory),
      TEST(spool_keeps_what_is_forgotten),
      TEST(spool_is_a_file_that_others_can_read_by_its_name),
      TEST(spool_without_a_folder_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
