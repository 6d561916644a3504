#include "json.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH 64

struct reader {
    const char *at;
    unsigned depth;
};

static json *read_value(struct reader *reader);

static void skip_space(struct reader *reader)
{
    reader->at += strspn(reader->at, " \t\r\n");
}

static bool accept(struct reader *reader, char expected)
{
    skip_space(reader);
    if (*reader->at != expected)
        return false;
    reader->at++;
    return true;
}

static json *new_value(enum json_kind kind, const char *text, size_t length)
{
    json *value = calloc(1, sizeof *value);
    if (value != NULL) {
        value->kind = kind;
        value->text = text == NULL ? NULL : strndup(text, length);
    }
    return value;
}

/* Four hexadecimal digits after \u; -1 if they are none. */
static long read_unit(struct reader *reader)
{
    char digits[5] = "";
    strncpy(digits, reader->at, 4);
    if (strspn(digits, "0123456789abcdefABCDEF") != 4)
        return -1;
    reader->at += 4;
    return strtol(digits, NULL, 16);
}

static char *put_utf8(char *out, long code)
{
    if (code < 0x80) {
        *out++ = (char)code;
        return out;
    }
    if (code < 0x800) {
        *out++ = (char)(0xC0 | code >> 6);
    } else {
        if (code < 0x10000) {
            *out++ = (char)(0xE0 | code >> 12);
        } else {
            *out++ = (char)(0xF0 | code >> 18);
            *out++ = (char)(0x80 | (code >> 12 & 0x3F));
        }
        *out++ = (char)(0x80 | (code >> 6 & 0x3F));
    }
    *out++ = (char)(0x80 | (code & 0x3F));
    return out;
}

/* The character of a \u escape; two of them where it takes a surrogate pair. */
static char *read_unicode(struct reader *reader, char *out)
{
    long code = read_unit(reader);
    if (code >= 0xD800 && code < 0xDC00 && strncmp(reader->at, "\\u", 2) == 0) {
        reader->at += 2;
        long low = read_unit(reader);
        if (low < 0xDC00 || low > 0xDFFF)
            return NULL;
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    return code < 0 ? NULL : put_utf8(out, code);
}

static char *read_escape(struct reader *reader, char *out)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    char letter = *reader->at++;
    if (letter == 'u')
        return read_unicode(reader, out);
    const char *found = letter == '\0' ? NULL : strchr(letters, letter);
    if (found == NULL)
        return NULL;
    *out = meanings[found - letters];
    return out + 1;
}

/* A text between quotation marks; NULL if malformed. No escape is shorter than what it stands for. */
static char *read_text(struct reader *reader)
{
    if (!accept(reader, '"'))
        return NULL;
    char *text = malloc(strlen(reader->at) + 1), *out = text;
    while (out != NULL && *reader->at != '"' && *reader->at != '\0') {
        if (*reader->at == '\\') {
            reader->at++;
            out = read_escape(reader, out);
        } else {
            *out++ = *reader->at++;
        }
    }
    if (out == NULL || *reader->at != '"') {
        free(text);
        return NULL;
    }
    reader->at++;
    *out = '\0';
    return text;
}

/* Members of a list or an object, the opening bracket being read. */
static json *read_members(struct reader *reader, enum json_kind kind, char closing)
{
    json *whole = new_value(kind, NULL, 0), **tail = &whole->first;
    if (accept(reader, closing))
        return whole;
    do {
        char *key = NULL;
        if (kind == JSON_OBJECT && ((key = read_text(reader)) == NULL || !accept(reader, ':')))
            return NULL;
        json *member = read_value(reader);
        if (member == NULL)
            return NULL;
        member->key = key;
        *tail = member;
        tail = &member->next;
    } while (accept(reader, ','));
    return accept(reader, closing) ? whole : NULL;
}

static json *read_word(struct reader *reader)
{
    size_t length = strspn(reader->at, "+-.0123456789abcdefghijklmnopqrstuvwxyzE");
    const char *word = reader->at;
    reader->at += length;
    if (length == 4 && strncmp(word, "null", 4) == 0)
        return new_value(JSON_NULL, NULL, 0);
    if ((length == 4 && strncmp(word, "true", 4) == 0) || (length == 5 && strncmp(word, "false", 5) == 0))
        return new_value(JSON_BOOL, word, length);
    char *end;
    strtod(word, &end);
    return length > 0 && end == word + length ? new_value(JSON_NUMBER, word, length) : NULL;
}

static json *read_value(struct reader *reader)
{
    json *value = NULL;
    if (++reader->depth > DEPTH)
        return NULL;
    if (accept(reader, '{')) {
        value = read_members(reader, JSON_OBJECT, '}');
    } else if (accept(reader, '[')) {
        value = read_members(reader, JSON_LIST, ']');
    } else if (*reader->at == '"') {
        char *text = read_text(reader);
        value = text == NULL ? NULL : new_value(JSON_TEXT, NULL, 0);
        if (value != NULL)
            value->text = text;
    } else {
        value = read_word(reader);
    }
    reader->depth--;
    return value;
}

json *json_parse(const char *text)
{
    struct reader reader = {.at = text};
    json *value = read_value(&reader);
    skip_space(&reader);
    return *reader.at == '\0' ? value : NULL;
}

const json *json_get(const json *object, const char *key)
{
    if (object == NULL || object->kind != JSON_OBJECT)
        return NULL;
    for (const json *member = object->first; member != NULL; member = member->next)
        if (strcmp(member->key, key) == 0)
            return member->kind == JSON_NULL ? NULL : member;
    return NULL;
}

const char *json_text(const json *object, const char *key, const char *fallback)
{
    const json *value = json_get(object, key);
    return value == NULL || value->text == NULL ? fallback : value->text;
}

uint64_t json_as_number(const json *value, uint64_t fallback)
{
    if (value == NULL || value->text == NULL)
        return fallback;
    if (strpbrk(value->text, ".eE") != NULL)
        return (uint64_t)strtod(value->text, NULL);
    return value->kind == JSON_BOOL ? value->text[0] == 't' : strtoull(value->text, NULL, 10);
}

uint64_t json_number(const json *object, const char *key, uint64_t fallback)
{
    return json_as_number(json_get(object, key), fallback);
}

uint64_t json_hex(const json *object, const char *key, uint64_t fallback)
{
    const json *value = json_get(object, key);
    if (value != NULL && value->kind == JSON_TEXT)
        return strtoull(value->text, NULL, 16);
    return json_as_number(value, fallback);
}

double json_as_seconds(const json *value)
{
    return value == NULL || value->text == NULL ? 0 : strtod(value->text, NULL);
}

const json *json_first(const json *value)
{
    return value == NULL ? NULL : value->first;
}

size_t json_count(const json *value)
{
    size_t count = 0;
    for (const json *member = json_first(value); member != NULL; member = member->next)
        count++;
    return count;
}
