// file: files in the making, what is left of them when a run ends early, and what the next one does
// about it. RLIMIT_FSIZE stands for a disk that is full.
#define _GNU_SOURCE  // flock, mkdtemp
#include "file.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
// cmocka.h needs those above.
#include <cmocka.h>

struct place {
  char folder[64], path[128];
};

static int set_up(void **state) {
  struct place *p = calloc(1, sizeof *p);
  assert_non_null(p);
  snprintf(p->folder, sizeof p->folder, "/tmp/narrowcast-file-XXXXXX");
  assert_non_null(mkdtemp(p->folder));
  snprintf(p->path, sizeof p->path, "%s/out", p->folder);
  *state = p;
  return 0;
}

// What is in the folder; "out" among it is removed last.
static int count_files(const struct place *p) {
  DIR *dir = opendir(p->folder);
  assert_non_null(dir);
  int count = 0;
  for (const struct dirent *entry; (entry = readdir(dir));)
    count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
  closedir(dir);
  return count;
}

static int tear_down(void **state) {
  struct place *p = *state;
  DIR *dir = opendir(p->folder);
  for (const struct dirent *entry; dir && (entry = readdir(dir));)
    if (entry->d_name[0] != '.')
      unlinkat(dirfd(dir), entry->d_name, 0);
  if (dir)
    closedir(dir);
  int status = rmdir(p->folder);
  free(p);
  return status;
}

static void begin(struct file_writer *w, const char *path) {
  struct diag d = {0};
  if (file_begin(w, path, &d) != STATUS_OK)
    fail_msg("%s", d.message);
}

static void write_whole(const char *path, const char *text) {
  struct file_writer w;
  struct diag d = {0};
  begin(&w, path);
  fputs(text, w.out);
  assert_int_equal(file_commit(&w, &d), STATUS_OK);
}

static void holds(const char *path, const char *wanted) {
  char text[64] = "";
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  size_t size = fread(text, 1, sizeof text - 1, f);
  fclose(f);
  text[size] = '\0';
  assert_string_equal(text, wanted);
}

static void file_in_the_making_is_not_to_be_seen_where_the_disk_can(void **state) {
  struct place *p = *state;
  struct file_writer w;
  begin(&w, p->path);
  fputs("new", w.out);
  int fd = open(p->folder, O_TMPFILE | O_WRONLY, 0600);  // can it?
  assert_int_equal(count_files(p), fd < 0);
  if (fd >= 0)
    close(fd);
  file_abandon(&w);
  assert_int_equal(count_files(p), 0);
}

static void file_is_the_old_one_until_it_is_the_new_one(void **state) {
  struct place *p = *state;
  write_whole(p->path, "old");
  assert_int_equal(chmod(p->path, 0640), 0);
  struct file_writer w;
  struct diag d = {0};
  begin(&w, p->path);
  fputs("new", w.out);
  fflush(w.out);
  holds(p->path, "old");
  assert_int_equal(file_commit(&w, &d), STATUS_OK);
  holds(p->path, "new");
  struct stat s;
  assert_int_equal(stat(p->path, &s), 0);
  assert_int_equal(s.st_mode & 0777, 0640);
  assert_int_equal(count_files(p), 1);
}

static void removing_what_is_pending_spares_what_is_committed(void **state) {
  struct place *p = *state;
  struct file_writer w;
  write_whole(p->path, "text");
  char other[160];
  snprintf(other, sizeof other, "%s.other", p->path);
  begin(&w, other);
  file_remove_pending();  // as a signal's handler does
  holds(p->path, "text");
  file_abandon(&w);
  assert_int_equal(count_files(p), 1);
}

// What kill -9 leaves where a file in the making has a name: no process holds it any more.
static void file_of_a_dead_process_is_removed_by_the_next(void **state) {
  struct place *p = *state;
  enum { N = 5 };
  static const char *const names[N] = {".narrowcast-123-0.tmp",  // goes
                                       ".narrowcast-123-1.tmp",  // is held by somebody
                                       ".narrowcast-me-1.tmp",   // not of our form, as those below
                                       "out.123.tmp", ".narrowcast-123-0.tmp.old"};
  char path[N][160];
  int fd[N];
  for (int i = 0; i < N; i++) {
    snprintf(path[i], sizeof path[i], "%s/%s", p->folder, names[i]);
    fd[i] = open(path[i], O_WRONLY | O_CREAT, 0600);
    assert_true(fd[i] >= 0);
  }
  assert_int_equal(flock(fd[1], LOCK_EX), 0);
  write_whole(p->path, "new");
  assert_int_equal(access(path[0], F_OK), -1);
  for (int i = 1; i < N; i++) {
    assert_int_equal(access(path[i], F_OK), 0);
    unlink(path[i]);
  }
  for (int i = 0; i < N; i++)
    close(fd[i]);
}

// The largest size is 4096 bytes, more than the library's buffer or less: noticed at once or late.
static void disk_that_is_full_leaves_the_old_file(void **state) {
  struct place *p = *state;
  write_whole(p->path, "old");
  struct rlimit old, small;
  signal(SIGXFSZ, SIG_IGN);
  for (size_t size = 4097; size <= 1 << 20; size *= 16) {
    struct file_writer w;
    struct diag d = {0};
    begin(&w, p->path);
    getrlimit(RLIMIT_FSIZE, &old);
    small = (struct rlimit){4096, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    for (size_t i = 0; i < size; i++)
      putc('x', w.out);
    enum status status = file_commit(&w, &d);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(status, STATUS_IO);
    assert_string_equal(d.file, p->path);
    assert_string_equal(d.message, "cannot be written: File too large");
    holds(p->path, "old");
    assert_int_equal(count_files(p), 1);
  }
}

static void change_is_seen_and_replacement_is_none(void **state) {
  struct place *p = *state;
  write_whole(p->path, "old");
  struct file_stamp stamp = file_stamp(p->path);
  assert_false(file_changed(p->path, &stamp));
  write_whole(p->path, "another");
  assert_false(file_changed(p->path, &stamp));  // who has the old one mapped sees no change
  stamp = file_stamp(p->path);
  FILE *f = fopen(p->path, "ab");
  assert_non_null(f);
  fputs("!", f);
  fclose(f);
  assert_true(file_changed(p->path, &stamp));
  unlink(p->path);
  assert_false(file_changed(p->path, &stamp));
}

static void hash_of_pieces_is_that_of_the_whole(void **state) {
  (void)state;
  char whole[65], pieces[65];
  sha256_hex("abcdef", 6, whole);
  struct hash *h = hash_begin();
  hash_add(h, "ab", 2);
  hash_add(h, "", 0);
  hash_add(h, "cdef", 4);
  hash_end(h, pieces);
  assert_string_equal(pieces, whole);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(file_in_the_making_is_not_to_be_seen_where_the_disk_can),
      TEST(file_is_the_old_one_until_it_is_the_new_one),
      TEST(removing_what_is_pending_spares_what_is_committed),
      TEST(file_of_a_dead_process_is_removed_by_the_next),
      TEST(disk_that_is_full_leaves_the_old_file),
      TEST(change_is_seen_and_replacement_is_none),
      TEST(hash_of_pieces_is_that_of_the_whole),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
