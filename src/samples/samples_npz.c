// Reads NumPy's .npz archives: zip files whose entries are .npy arrays, stored or deflated. The
// archive is hostile: an entry's claimed size must follow from its array's header, and must be one
// that its compressed bytes can give, before memory is taken for it.
#include "samples_format.h"

#include <string.h>
#include <sys/stat.h>
#include <zip.h>

enum { MAX_ENTRIES = 100000, DEFLATE_RATIO = 1032 };  // deflate cannot expand by more
static const uint64_t max_entry = (uint64_t)2 << 30;  // bytes
static const char suffix[] = ".npy";

struct archive {
  zip_t *zip;
  uint64_t left;  // bytes of the file that no entry has claimed yet
};

// Reads exactly `size` bytes.
static enum status read_exactly(zip_file_t *entry, void *to, uint64_t size, struct diag *d) {
  for (uint64_t done = 0; done < size;) {
    zip_int64_t got = zip_fread(entry, (char *)to + done, size - done);
    if (got <= 0)
      return diag_fail(d, STATUS_DATA, "the archive's entry cannot be read: %s",
                       got < 0 ? zip_file_strerror(entry) : "it ends early");
    done += (uint64_t)got;
  }
  return STATUS_OK;
}

// At the end libzip compares the checksum.
static enum status read_end(zip_file_t *entry, struct diag *d) {
  char byte;
  zip_int64_t got = zip_fread(entry, &byte, 1);
  if (got == 0)
    return STATUS_OK;
  return diag_fail(d, STATUS_DATA, "the archive's entry cannot be read: %s",
                   got < 0 ? zip_file_strerror(entry) : "it is longer than its directory says");
}

// Entries that share compressed bytes would let a small file ask for much memory.
static enum status claim_bytes(struct archive *archive, const zip_stat_t *stat, struct diag *d) {
  if (stat->comp_size > archive->left)
    return diag_fail(d, STATUS_DATA, "the archive's entries are longer than the archive");
  archive->left -= stat->comp_size;
  return STATUS_OK;
}

static enum status check_size(const zip_stat_t *stat, struct diag *d) {
  if (stat->size > max_entry)
    return diag_fail(d, STATUS_DATA, "the archive's entry claims %llu bytes; at most %llu are read",
                     (unsigned long long)stat->size, (unsigned long long)max_entry);
  if (stat->comp_method != ZIP_CM_STORE && stat->comp_method != ZIP_CM_DEFLATE)
    return diag_fail(d, STATUS_DATA, "the archive's entry is neither stored nor deflated");
  uint64_t ratio = stat->comp_method == ZIP_CM_STORE ? 1 : DEFLATE_RATIO;
  if (stat->size / ratio > stat->comp_size)
    return diag_fail(d, STATUS_DATA,
                     "the archive's entry claims %llu bytes, more than its %llu compressed bytes "
                     "can give",
                     (unsigned long long)stat->size, (unsigned long long)stat->comp_size);
  if (stat->size < NPY_PREFIX)
    return diag_fail(d, STATUS_DATA, "the archive's entry is too short to be a .npy array");
  return STATUS_OK;
}

static enum status read_array(struct array_list *list, const char *name, zip_file_t *entry,
                              const zip_stat_t *stat, struct diag *d) {
  uint8_t prefix[NPY_PREFIX];
  size_t length = 0;
  struct npy_header h;
  TRY(read_exactly(entry, prefix, NPY_PREFIX, d));
  TRY(npy_header_length(prefix, &length, d));
  if (length > stat->size)
    return diag_fail(d, STATUS_DATA, "the array ends inside its .npy header");
  uint8_t *header = arena_alloc(list->arena, length);
  memcpy(header, prefix, NPY_PREFIX);
  TRY(read_exactly(entry, header + NPY_PREFIX, length - NPY_PREFIX, d));
  TRY(npy_header_parse(&h, header, length, d));
  if (h.bytes != stat->size - length)
    return diag_fail(d, STATUS_DATA, "the header says %llu bytes of data and the entry holds %llu",
                     (unsigned long long)h.bytes, (unsigned long long)(stat->size - length));
  struct array *array = npy_add(list, name, &h);
  if (list->headers_only)
    return STATUS_OK;
  uint8_t *data = arena_alloc(list->arena, (size_t)h.bytes);
  TRY(read_exactly(entry, data, h.bytes, d));
  TRY(read_end(entry, d));
  return npy_fill(list, array, &h, data, d);
}

static bool is_folder(const char *name) {
  size_t length = strlen(name);
  return length > 0 && name[length - 1] == '/';
}

// The name of the array that the entry holds, as the directory has it.
static char *array_name(const char *name, struct arena *a) {
  return arena_printf(a, "%.*s", (int)(strlen(name) - strlen(suffix)), name);
}

// What the directory says of an entry, which costs nothing to look at.
static enum status check_entry(struct array_list *list, struct archive *archive, zip_uint64_t index,
                               struct diag *d) {
  const char *name = zip_get_name(archive->zip, index, ZIP_FL_ENC_GUESS);
  zip_stat_t stat;
  if (!name || zip_stat_index(archive->zip, index, 0, &stat) != 0)
    return diag_fail(d, STATUS_DATA, "the archive's directory is damaged: %s",
                     zip_strerror(archive->zip));
  size_t length = strlen(name), ending = strlen(suffix);
  if (is_folder(name))
    return STATUS_OK;
  diag_at(d, NULL, NULL, name);
  if (length <= ending || strcmp(name + length - ending, suffix) != 0)
    return diag_fail(d, STATUS_DATA, "the archive holds an entry that is no .npy array");
  diag_at(d, NULL, NULL, array_name(name, list->arena));
  TRY(check_size(&stat, d));
  return claim_bytes(archive, &stat, d);
}

static enum status read_entry(struct array_list *list, struct archive *archive, zip_uint64_t index,
                              struct diag *d) {
  const char *name = zip_get_name(archive->zip, index, ZIP_FL_ENC_GUESS);
  zip_stat_t stat;
  if (is_folder(name))
    return STATUS_OK;
  char *array = array_name(name, list->arena);
  diag_at(d, NULL, NULL, array);
  zip_file_t *entry = zip_stat_index(archive->zip, index, 0, &stat) == 0
                          ? zip_fopen_index(archive->zip, index, 0)
                          : NULL;
  if (!entry)
    return diag_fail(d, STATUS_DATA, "the archive's entry cannot be opened: %s",
                     zip_strerror(archive->zip));
  enum status status = read_array(list, array, entry, &stat, d);
  zip_fclose(entry);
  return status;
}

static enum status open_archive(struct archive *archive, const char *path, struct diag *d) {
  int code = ZIP_ER_OPEN;
  struct stat file;
  archive->zip = stat(path, &file) == 0 ? zip_open(path, ZIP_RDONLY, &code) : NULL;
  if (archive->zip) {
    archive->left = (uint64_t)file.st_size;
    return STATUS_OK;
  }
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  enum status status = code == ZIP_ER_OPEN ? STATUS_IO : STATUS_DATA;
  diag_fail(d, status, "cannot be read as an .npz archive: %s", zip_error_strerror(&error));
  zip_error_fini(&error);
  return status;
}

enum status samples_read_npz(struct array_list *list, const char *path, struct diag *d) {
  struct archive archive;
  diag_at(d, path, NULL, "");
  TRY(open_archive(&archive, path, d));
  zip_int64_t entries = zip_get_num_entries(archive.zip, 0);
  enum status status = STATUS_OK;
  if (entries > MAX_ENTRIES)
    status = diag_fail(d, STATUS_DATA, "the archive has %lld entries", (long long)entries);
  // All of them before any is unpacked, so that a bad one costs no memory.
  for (zip_int64_t i = 0; i < entries && status == STATUS_OK; i++)
    status = check_entry(list, &archive, (zip_uint64_t)i, d);
  for (zip_int64_t i = 0; i < entries && status == STATUS_OK; i++)
    status = read_entry(list, &archive, (zip_uint64_t)i, d);
  zip_discard(archive.zip);
  if (status == STATUS_OK)
    diag_at(d, "", NULL, "");
  return status;
}
