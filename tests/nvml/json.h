/* A small JSON reader: text in, a tree out. What is absent or null reads as the caller's fallback. */
#ifndef NFD_TEST_JSON_H
#define NFD_TEST_JSON_H

#include <stddef.h>
#include <stdint.h>

enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_TEXT, JSON_LIST, JSON_OBJECT };

typedef struct json {
    enum json_kind kind;
    char *key;          /* inside an object */
    char *text;         /* of a text; of a number or bool as it is written */
    struct json *first; /* of a list or an object */
    struct json *next;  /* beside this one */
} json;

/* Parse a whole document. NULL if it is not JSON. A tree is never freed: handles point into it. */
json *json_parse(const char *text);

/* The value of a key; NULL if there is none, if it is null, or if `object` is not an object (or NULL). */
const json *json_get(const json *object, const char *key);

/* The readers below take the value of `key` in `object`, or `fallback`. */
const char *json_text(const json *object, const char *key, const char *fallback);
uint64_t json_number(const json *object, const char *key, uint64_t fallback);
uint64_t json_hex(const json *object, const char *key, uint64_t fallback); /* "0x10DE", or a plain number */

/* A value as a number: negative ones wrap, as C has it. */
uint64_t json_as_number(const json *value, uint64_t fallback);
double json_as_seconds(const json *value);

/* First member of a list or an object (NULL is an empty one), and how many there are. */
const json *json_first(const json *value);
size_t json_count(const json *value);

#endif
