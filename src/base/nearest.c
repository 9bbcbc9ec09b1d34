// The nearest of some names, by edit distance. See nearest.h.
#include "nearest.h"

#include <string.h>

enum { NAME_LENGTH_MAX = 100 };  // of names that are compared; longer ones are never near

// Edit distance (insert, delete, replace) of two names, or `limit` + 1 as soon as it exceeds that.
static int edit_distance(const char *a, const char *b, int limit) {
  int row[NAME_LENGTH_MAX + 1];
  int columns = (int)strlen(b);
  for (int j = 0; j <= columns; j++)
    row[j] = j;
  for (int i = 1; a[i - 1]; i++) {
    int diagonal = row[0];
    int smallest = row[0] = i;
    for (int j = 1; j <= columns; j++) {
      int best = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      if (row[j] + 1 < best)
        best = row[j] + 1;
      if (row[j - 1] + 1 < best)
        best = row[j - 1] + 1;
      row[j] = best;
      if (best < smallest)
        smallest = best;
    }
    if (smallest > limit)
      return limit + 1;
  }
  return row[columns];
}

const char *nearest_name(const char *word, const char *const *names) {
  size_t length = strlen(word);
  const char *nearest = NULL;
  int best = NAME_LENGTH_MAX;
  for (size_t i = 0; length <= NAME_LENGTH_MAX && names[i]; i++) {
    size_t other = strlen(names[i]);
    size_t longer = other > length ? other : length;
    int limit = 1 + (int)longer / 4;  // a slip in every four letters
    if (other > NAME_LENGTH_MAX || (size_t)limit < longer - (other < length ? other : length))
      continue;
    if (limit >= best)
      limit = best - 1;
    int distance = edit_distance(word, names[i], limit);
    if (distance > limit)
      continue;
    best = distance;
    nearest = names[i];
  }
  return nearest;
}
