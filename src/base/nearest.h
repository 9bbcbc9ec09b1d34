// "Did you mean ...?": what a word was probably meant to be.
#ifndef NEAREST_H
#define NEAREST_H

// Nearest of the NULL-terminated `names` to `word` by edit distance, or NULL if none is near.
const char *nearest_name(const char *word, const char *const *names);

#endif
