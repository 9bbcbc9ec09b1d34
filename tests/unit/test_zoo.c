// zoo, survey, result, tree: what a batch rests on. That folders are called safely, that shards are
// a partition, that a key changes with all that a result depends on and with nothing else, and that
// a result is read back as it was written.
// not under valgrind: it lets a file be mapped that no memory can hold
#define _GNU_SOURCE  // mkdtemp
#include "memory.h"
#include "result.h"
#include "tree.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
// cmocka.h needs those above.
#include <cmocka.h>

struct place {
  char folder[64];
  struct arena arena;
  struct diag diag;
};

static int set_up(void **state) {
  struct place *p = calloc(1, sizeof *p);
  assert_non_null(p);
  snprintf(p->folder, sizeof p->folder, "/tmp/narrowcast-zoo-XXXXXX");
  assert_non_null(mkdtemp(p->folder));
  *state = p;
  return 0;
}

static int tear_down(void **state) {
  struct place *p = *state;
  tree_remove(p->folder);
  int gone = access(p->folder, F_OK) != 0 ? 0 : -1;
  arena_free(&p->arena);
  free(p);
  return gone;
}

static const char *below(struct place *p, const char *name) {
  return arena_printf(&p->arena, "%s/%s", p->folder, name);
}

static void write_text(const char *path, const char *text) {
  FILE *out = fopen(path, "wb");
  assert_non_null(out);
  fputs(text, out);
  assert_int_equal(fclose(out), 0);
}

static void copy_text(const char *from, const char *to) {
  FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
  assert_non_null(in);
  assert_non_null(out);
  for (int c; (c = getc(in)) != EOF;)
    putc(c, out);
  fclose(in);
  assert_int_equal(fclose(out), 0);
}

// ---- names ----

static void folders_of_results_are_plain_names(void **state) {
  struct place *p = *state;
  static const char *const names[] = {"a/model.onnx",
                                      "a\nb/\"<x>.onnx",
                                      "../../etc/passwd",
                                      "/absolute.onnx",
                                      "-rf.onnx",
                                      ".onnx",
                                      "..",
                                      ".hidden/model.onnx",
                                      "\xff\xfe.onnx",
                                      "a/b.onnx",
                                      "a.b.onnx",
                                      "a_b.onnx"};
  enum { COUNT = sizeof names / sizeof names[0] };
  const char *folders[COUNT];
  for (size_t i = 0; i < COUNT; i++) {
    folders[i] = zoo_folder_of(names[i], &p->arena);
    assert_int_equal(strspn(folders[i], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                        "0123456789-._"),
                     strlen(folders[i]));
    assert_true(folders[i][0] != '.' && folders[i][0] != '-');
    for (size_t k = 0; k < i; k++)
      assert_string_not_equal(folders[i], folders[k]);
  }
  char *long_name = arena_alloc(&p->arena, 5000);
  memset(long_name, 'x', 4999);
  assert_true(strlen(zoo_folder_of(long_name, &p->arena)) < 100);
}

static void every_model_is_in_one_shard(void **state) {
  struct place *p = *state;
  size_t in_first = 0;
  for (int k = 0; k < 1000; k++) {
    const char *name = arena_printf(&p->arena, "%d/model.onnx", k);
    int shards = 0;
    for (int index = 1; index <= 4; index++)
      shards += zoo_in_shard(name, index, 4);
    assert_int_equal(shards, 1);
    assert_true(zoo_in_shard(name, 1, 1));
    in_first += zoo_in_shard(name, 1, 4);
  }
  assert_in_range(in_first, 150, 350);
}

// ---- keys ----

#define FAKE_HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

struct keys {
  struct zoo zoo;
  struct survey_settings settings;
  const char *engine;
};

// A zoo of one model with one sample, both copied to the place.
static void one_model(struct place *p, struct keys *k) {
  static const char *const arguments[] = {"--threads", "1"};
  copy_text(SOURCE_DIR "/models/tiny/external.onnx", below(p, "external.onnx"));
  copy_text(SOURCE_DIR "/models/tiny/external.data", below(p, "external.data"));
  mkdir(below(p, "samples"), 0777);
  write_text(below(p, "samples/0.npz"), "not read by the survey");
  *k = (struct keys){
      .zoo = {.arena = &p->arena},
      .settings = {.policy = "fp16",
                   .arguments = arguments,
                   .n_arguments = 2,
                   .largest_file = UINT64_MAX,
                   .jobs = 1},
      .engine = "1.30.0",
  };
  zoo_add(&k->zoo, "external.onnx", below(p, "external.onnx"))->samples = below(p, "samples");
}

static const char *key_of(struct place *p, struct keys *k) {
  struct surveyed found = {0};
  bool wanted = true;
  assert_int_equal(survey_zoo(&k->zoo, &wanted, &k->settings, k->engine, &found, &p->diag),
                   STATUS_OK);
  assert_int_equal(strlen(found.key), 64);
  return arena_strdup(&p->arena, found.key);
}

static void the_key_is_of_contents_and_not_of_places(void **state) {
  struct place *p = *state;
  struct keys k;
  one_model(p, &k);
  const char *first = key_of(p, &k);
  assert_string_equal(key_of(p, &k), first);
  mkdir(below(p, "elsewhere"), 0777);
  copy_text(below(p, "external.onnx"), below(p, "elsewhere/m.onnx"));
  copy_text(below(p, "external.data"), below(p, "elsewhere/external.data"));
  k.zoo.models[0].path = below(p, "elsewhere/m.onnx");
  assert_string_equal(key_of(p, &k), first);
  // A shipped policy and its text in a file are the same.
  copy_text(SOURCE_DIR "/rules/fp16.json", below(p, "policy.json"));
  k.settings.policy = below(p, "policy.json");
  assert_string_equal(key_of(p, &k), first);
}

static void the_key_changes_with_all_that_a_result_depends_on(void **state) {
  struct place *p = *state;
  struct keys k;
  one_model(p, &k);
  enum { CHANGES = 8 };
  const char *keys[CHANGES + 1] = {key_of(p, &k)};
  static const char *const more[] = {"--threads", "1", "--io", "narrow"};
  static const char *const own[] = {"--keep", "*"};
  for (int change = 1; change <= CHANGES; change++) {
    struct zoo_model *m = &k.zoo.models[0];
    switch (change) {
    case 1: k.engine = "1.31.0"; break;
    case 2: k.settings.policy = "bf16"; break;
    case 3:
      k.settings.arguments = more;
      k.settings.n_arguments = 4;
      break;
    case 4:
      m->arguments = (const char **)(uintptr_t)own;
      m->n_arguments = 2;
      break;
    case 5: write_text(below(p, "external.data"), "other weights"); break;
    case 6: write_text(below(p, "samples/0.npz"), "other samples"); break;
    case 7: write_text(below(p, "samples/1.npz"), "one more"); break;
    default: write_text(below(p, "external.onnx"), "no model any more"); break;
    }
    keys[change] = key_of(p, &k);
    for (int earlier = 0; earlier < change; earlier++)
      assert_string_not_equal(keys[change], keys[earlier]);
  }
}

// A file that is cut short while it is mapped ends the surveyor by a signal.
static void the_survey_goes_on_behind_a_model_that_ends_it(void **state) {
  struct place *p = *state;
  struct keys k;
  one_model(p, &k);
  struct zoo zoo = {.arena = &p->arena};
  for (int i = 0; i < 4; i++)
    zoo_add(&zoo, arena_printf(&p->arena, "%d", i), below(p, "external.onnx"));
  const char *huge = below(p, "huge.npz");
  write_text(huge, "");
  assert_int_equal(truncate(huge, 8LL << 30), 0);  // seconds to hash, and nothing on disk
  zoo.models[1].samples = huge;
  int opened = inotify_init1(IN_CLOEXEC);
  assert_true(inotify_add_watch(opened, huge, IN_OPEN) >= 0);
  pid_t cutter = fork();
  if (cutter == 0) {
    struct inotify_event event;
    bool seen = read(opened, &event, sizeof event) > 0;
    usleep(100000);  // it is mapped now, and being read
    _exit(!seen || truncate(huge, 0) != 0);
  }
  close(opened);
  struct surveyed found[4] = {{.bytes = 0}};
  bool wanted[4] = {true, true, true, true};
  assert_int_equal(survey_zoo(&zoo, wanted, &k.settings, k.engine, found, &p->diag), STATUS_OK);
  int end;
  assert_int_equal(waitpid(cutter, &end, 0), cutter);
  assert_int_equal(end, 0);
  for (int i = 0; i < 4; i++)
    assert_int_equal(strlen(found[i].key), i == 1 ? 0 : 64);
}

// A made-up hash shows whether a file was read.
static void what_is_known_is_not_read_again(void **state) {
  struct place *p = *state;
  struct keys k;
  one_model(p, &k);
  const char *plain = key_of(p, &k);
  static const char *const files[] = {"external.onnx", "external.data", "samples/0.npz"};
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    struct known known = {.arena = &p->arena}, met = {.arena = &p->arena};
    struct known_file file;
    struct stat s;
    assert_int_equal(stat(below(p, files[i]), &s), 0);
    const struct timespec later = {.tv_sec = s.st_ctim.tv_sec + 10};
    assert_true(known_file_of(&file, &s, &s, &later, FAKE_HASH));
    known_add(&known, &file);
    k.settings.known = &known;
    k.settings.met = &met;
    assert_string_not_equal(key_of(p, &k), plain);
    assert_int_equal(met.count, 1);  // the others are too new to be known
    assert_string_equal(met.files[0].sha256, FAKE_HASH);
    usleep(20000);  // longer than the tick of the clock of files
    assert_int_equal(chmod(below(p, files[i]), 0600), 0);  // which the time of change tells
    assert_string_equal(key_of(p, &k), plain);
    k.settings.known = NULL;
  }
}

static void a_file_is_known_while_nothing_of_its_stamp_has_changed(void **state) {
  struct place *p = *state;
  struct stat s = {.st_dev = 1, .st_ino = 2, .st_size = 3};
  s.st_mtim = (struct timespec){100, 5};
  s.st_ctim = (struct timespec){100, 6};
  struct known known = {.arena = &p->arena};
  struct known_file file;
  const struct timespec soon = {102, 6}, later = {102, 7};
  assert_false(known_file_of(&file, &s, &s, &soon, FAKE_HASH));
  assert_true(known_file_of(&file, &s, &s, &later, FAKE_HASH));
  known_add(&known, &file);
  file.inode = 1;
  known_add(&known, &file);
  assert_int_equal(known_write(&known, below(p, "known"), &p->diag), STATUS_OK);
  struct known back = {.arena = &p->arena};
  known_read(&back, below(p, "known"));
  assert_int_equal(back.count, 2);
  assert_non_null(known_find(&back, &s));
  struct stat changed[] = {s, s, s, s, s};
  changed[0].st_dev++;
  changed[1].st_ino++;
  changed[2].st_size++;
  changed[3].st_mtim.tv_nsec++;
  changed[4].st_ctim.tv_nsec++;
  for (size_t i = 0; i < sizeof changed / sizeof changed[0]; i++) {
    assert_null(known_find(&back, &changed[i]));
    assert_false(known_file_of(&file, &s, &changed[i], &later, FAKE_HASH));
  }
}

static void damaged_notes_of_files_count_as_none(void **state) {
  struct place *p = *state;
  static const char *const texts[] = {
      "",
      "something else\n",
      "narrowcast hashes 1\n" FAKE_HASH " 1 2 3 4\n",
      "narrowcast hashes 1\n" FAKE_HASH " 1 2 3 4 5",
      "narrowcast hashes 1\n" FAKE_HASH " 1 2 3 4 5\nabc 1 3 3 4 5\n",
      "narrowcast hashes 1\n" FAKE_HASH "0 1 2 3 4 5\n",
  };
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    struct known known = {.arena = &p->arena};
    write_text(below(p, "known"), texts[i]);
    known_read(&known, below(p, "known"));
    assert_int_equal(known.count, 0);
  }
}

static void the_survey_is_the_same_for_any_number_of_jobs(void **state) {
  struct place *p = *state;
  struct keys k;
  one_model(p, &k);
  enum { COUNT = 20 };
  struct zoo zoo = {.arena = &p->arena};
  bool wanted[COUNT];
  for (int i = 0; i < COUNT; i++) {
    const char *path = below(p, arena_printf(&p->arena, "%d.onnx", i));
    write_text(path, path);
    zoo_add(&zoo, path, path);
    wanted[i] = i % 7 != 3;
  }
  struct surveyed one[COUNT] = {{.bytes = 0}}, three[COUNT] = {{.bytes = 0}};
  assert_int_equal(survey_zoo(&zoo, wanted, &k.settings, "", one, &p->diag), STATUS_OK);
  k.settings.jobs = 3;
  assert_int_equal(survey_zoo(&zoo, wanted, &k.settings, "", three, &p->diag), STATUS_OK);
  for (int i = 0; i < COUNT; i++) {
    assert_string_equal(one[i].key, three[i].key);
    assert_int_equal(one[i].key[0] != '\0', wanted[i]);
  }
}

// A file with holes takes no disk, but would take hours to read.
static void a_file_that_no_memory_can_hold_is_not_read(void **state) {
  struct place *p = *state;
  struct keys k;
  one_model(p, &k);
  k.settings.largest_file = 1 << 20;
  const char *before = key_of(p, &k);
  assert_int_equal(truncate(below(p, "samples/0.npz"), 8LL << 40), 0);
  const char *after = key_of(p, &k);
  assert_string_not_equal(before, after);
  assert_int_equal(truncate(below(p, "samples/0.npz"), (8LL << 40) + 1), 0);
  assert_string_not_equal(key_of(p, &k), after);
}

// ---- results ----

static void a_result_is_read_as_it_was_written(void **state) {
  struct place *p = *state;
  struct wide wide[] = {{"overflow", 3}, {"class", 2}};
  struct result r = {
      .name = "a\nb \"c\" \xff.onnx",
      .folder = "x",
      .key = "0123",
      .outcome = OUTCOME_REFUSED,
      .status = STATUS_CLAIM,
      .limits = {60, 1000},
      .reason = "relative_l2 of y is inf",
      .policy = "fp16",
      .statistics = "data",
      .float_nodes = 7,
      .narrow_nodes = 5,
      .casts = 2,
      .drawbacks = "time traffic",
      .claims = 3,
      .claims_held = 2,
      .bytes_before = 5e12,
      .has_error = true,
      .worst_error = INFINITY,
      .wide = wide,
      .n_wide = 2,
      .seconds = 1.25,
      .peak_bytes = 4e9,
      .expected_bytes = 3e9,
  };
  mkdir(below(p, "model"), 0777);
  write_text(below(p, "model/w \"\xff\".bin"), "12345");
  write_text(below(p, RESULT_PLAN), "");
  r.files = tree_files(p->folder, &r.n_files, &p->arena);
  assert_int_equal(result_write(&r, p->folder, &p->diag), STATUS_OK);
  struct result back;
  assert_true(result_read(&back, r.name, p->folder, &p->arena));
  assert_string_equal(back.name, r.name);
  assert_string_equal(back.key, r.key);
  assert_string_equal(back.reason, r.reason);
  assert_int_equal(back.outcome, r.outcome);
  assert_int_equal(back.status, r.status);
  assert_int_equal(back.limits.timeout, 60);
  assert_int_equal(back.limits.memory_mib, 1000);
  assert_true(back.has_error && isinf(back.worst_error));
  assert_true(back.bytes_before == 5e12 && back.seconds == 1.25 && back.peak_bytes == 4e9 &&
              back.expected_bytes == 3e9);
  assert_int_equal(back.narrow_nodes, 5);
  assert_string_equal(back.drawbacks, "time traffic");
  assert_int_equal(back.claims_held, 2);
  assert_int_equal(back.n_wide, 2);
  assert_string_equal(back.wide[1].reason, "class");
  assert_int_equal(back.wide[1].nodes, 2);
  assert_int_equal(back.n_files, 2);
  assert_string_equal(back.files[0].name, "model/w \"\xff\".bin");
  assert_int_equal(back.files[0].bytes, 5);
  assert_string_equal(back.files[1].name, RESULT_PLAN);
  assert_false(result_read(&back, "another.onnx", p->folder, &p->arena));
}

static void a_damaged_result_counts_as_none(void **state) {
  struct place *p = *state;
  struct result r = {.name = "m", .folder = "x", .key = "k"}, back;
  assert_int_equal(result_write(&r, p->folder, &p->diag), STATUS_OK);
  assert_true(result_read(&back, "m", p->folder, &p->arena));
  const char *path = below(p, RESULT_RESULT);
  struct stat s;
  assert_int_equal(stat(path, &s), 0);
  for (off_t size = s.st_size - 2; size >= 0; size--) {
    assert_int_equal(truncate(path, size), 0);
    assert_false(result_read(&back, "m", p->folder, &p->arena));
  }
}

static void a_result_stands_only_while_its_files_do(void **state) {
  struct place *p = *state;
  struct result r = {.name = "m", .folder = "x", .key = "k"}, back;
  const char *model = below(p, RESULT_MODEL);
  mkdir(below(p, RESULT_FOLDER), 0777);
  write_text(model, "12345");
  r.files = tree_files(p->folder, &r.n_files, &p->arena);
  assert_int_equal(result_write(&r, p->folder, &p->diag), STATUS_OK);
  assert_true(result_read(&back, "m", p->folder, &p->arena));
  write_text(below(p, "a file of somebody else"), "");
  assert_true(result_read(&back, "m", p->folder, &p->arena));
  for (int size = 4; size <= 6; size++) {
    assert_int_equal(truncate(model, size), 0);
    assert_int_equal(result_read(&back, "m", p->folder, &p->arena), size == 5);
  }
  assert_int_equal(unlink(model), 0);
  assert_false(result_read(&back, "m", p->folder, &p->arena));
  mkdir(model, 0777);
  assert_false(result_read(&back, "m", p->folder, &p->arena));
}

static void results_stand_while_their_key_does(void **state) {
  (void)state;
  struct surveyed same = {.key = "k"}, other = {.key = "l"}, unknown = {.key = ""};
  struct limits none = {0, 0}, some = {10, 0};
  struct result r = {.key = "k", .outcome = OUTCOME_REFUSED};
  assert_true(result_is_current(&r, &same, &none));
  assert_true(result_is_current(&r, &same, &some));
  assert_false(result_is_current(&r, &other, &none));
  assert_false(result_is_current(&r, &unknown, &none));
  // What failed might do better under other limits, and what the machine did to it may pass.
  r.outcome = OUTCOME_FAILED;
  assert_true(result_is_current(&r, &same, &none));
  assert_false(result_is_current(&r, &same, &some));
  r.transient = true;
  assert_false(result_is_current(&r, &same, &none));
}

static void a_folder_is_cleaned_but_for_its_lock(void **state) {
  struct place *p = *state;
  assert_int_equal(result_clean(p->folder, &p->arena, &p->diag), STATUS_OK);
  mkdir(below(p, "model/deep"), 0777);
  static const char *const names[] = {"model/deep/w.bin", "model/model.onnx", "plan.json",
                                      ".x.tmp",           RESULT_RESULT,      RESULT_LOCK};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    write_text(below(p, names[i]), "12345");
  assert_int_equal(tree_bytes(below(p, "model")), 10);
  assert_int_equal(symlink("/etc", below(p, "model/link")), 0);
  assert_int_equal(tree_bytes(below(p, "model")), 10);
  assert_int_equal(result_clean(p->folder, &p->arena, &p->diag), STATUS_OK);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    assert_int_equal(access(below(p, names[i]), F_OK) == 0, strcmp(names[i], RESULT_LOCK) == 0);
  assert_int_equal(tree_bytes(below(p, "model")), 0);
  assert_int_equal(access("/etc/passwd", F_OK), 0);
}

// ---- memory ----

static void available_memory_is_that_of_the_machine_at_most(void **state) {
  (void)state;
  uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGE_SIZE);
  uint64_t available = memory_available();
  assert_in_range(available, 1, all);
}

static struct memory_need need(uint64_t weights, uint64_t sample) {
  struct surveyed s = {.readable = true, .bytes = weights, .largest_sample = sample};
  return memory_needed(&s);
}

static void needed_memory_grows_less_where_weights_lie_in_files(void **state) {
  (void)state;
  const uint64_t most = 32 << 20;
  double first = need(most, 0).least - need(0, 0).least;
  double next = need(2 * most, 0).least - need(most, 0).least;
  assert_true(first > 4 * next && next > (double)most);
  struct surveyed unreadable = {.bytes = 1000 * most};
  assert_true(memory_needed(&unreadable).least == need(0, 0).least);
}

static void what_a_sample_may_become_is_expected_and_not_certain(void **state) {
  (void)state;
  const uint64_t sample = 10000000;
  double least = need(0, sample).least - need(0, 0).least;
  assert_true(least == (double)sample);
  assert_true(need(0, sample).expected - need(0, 0).expected > 10 * least);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(folders_of_results_are_plain_names),
      TEST(every_model_is_in_one_shard),
      TEST(the_key_is_of_contents_and_not_of_places),
      TEST(the_key_changes_with_all_that_a_result_depends_on),
      TEST(the_survey_goes_on_behind_a_model_that_ends_it),
      TEST(a_file_that_no_memory_can_hold_is_not_read),
      TEST(what_is_known_is_not_read_again),
      TEST(a_file_is_known_while_nothing_of_its_stamp_has_changed),
      TEST(damaged_notes_of_files_count_as_none),
      TEST(the_survey_is_the_same_for_any_number_of_jobs),
      TEST(a_result_is_read_as_it_was_written),
      TEST(a_damaged_result_counts_as_none),
      TEST(a_result_stands_only_while_its_files_do),
      TEST(results_stand_while_their_key_does),
      TEST(a_folder_is_cleaned_but_for_its_lock),
      TEST(needed_memory_grows_less_where_weights_lie_in_files),
      TEST(what_a_sample_may_become_is_expected_and_not_certain),
      TEST(available_memory_is_that_of_the_machine_at_most),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
