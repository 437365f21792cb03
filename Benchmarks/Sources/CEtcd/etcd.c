#ifdef ETCD
#include "etcd.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct etcd {
    CURL *handle;
    struct curl_slist *headers;
    char endpoint[256];
    char *answer, *request;
    size_t length, room;
};

enum { REQUEST = 1 << 16 };

static size_t receive(char *bytes, size_t size, size_t count, void *context) {
    etcd *e = context;
    size_t more = size * count;
    if (e->length + more + 1 > e->room) {
        e->room = 2 * (e->length + more + 1);
        e->answer = realloc(e->answer, e->room);
    }
    memcpy(e->answer + e->length, bytes, more);
    e->length += more;
    e->answer[e->length] = 0;
    return more;
}

etcd *etcd_open(const char *endpoint) {
    etcd *e = calloc(1, sizeof *e);
    snprintf(e->endpoint, sizeof e->endpoint, "%s", endpoint);
    e->request = malloc(REQUEST);
    e->handle = curl_easy_init();
    e->headers = curl_slist_append(curl_slist_append(NULL, "Content-Type: application/json"), "Expect:");
    curl_easy_setopt(e->handle, CURLOPT_HTTPHEADER, e->headers);
    curl_easy_setopt(e->handle, CURLOPT_PROXY, "");
    curl_easy_setopt(e->handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e->handle, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(e->handle, CURLOPT_WRITEFUNCTION, receive);
    curl_easy_setopt(e->handle, CURLOPT_WRITEDATA, e);
    return e;
}

void etcd_close(etcd *e) {
    curl_easy_cleanup(e->handle);
    curl_slist_free_all(e->headers);
    free(e->answer);
    free(e->request);
    free(e);
}

static int post(etcd *e, const char *path, size_t length) {
    char url[512];
    long status = 0;
    snprintf(url, sizeof url, "%s%s", e->endpoint, path);
    e->length = 0;
    curl_easy_setopt(e->handle, CURLOPT_URL, url);
    curl_easy_setopt(e->handle, CURLOPT_POSTFIELDSIZE, (long)length);
    curl_easy_setopt(e->handle, CURLOPT_POSTFIELDS, e->request);
    if (curl_easy_perform(e->handle) != CURLE_OK) return -1;
    curl_easy_getinfo(e->handle, CURLINFO_RESPONSE_CODE, &status);
    return status == 200 ? 0 : -1;
}

// MARK: Base64

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static char *encode(char *out, const void *bytes, size_t length) {
    const uint8_t *in = bytes;
    for (size_t i = 0; i < length; i += 3) {
        uint32_t v = in[i] << 16 | (i + 1 < length ? in[i + 1] << 8 : 0) | (i + 2 < length ? in[i + 2] : 0);
        *out++ = digits[v >> 18];
        *out++ = digits[v >> 12 & 63];
        *out++ = i + 1 < length ? digits[v >> 6 & 63] : '=';
        *out++ = i + 2 < length ? digits[v & 63] : '=';
    }
    *out = 0;
    return out;
}

static long decode(uint8_t *out, size_t room, const char *text) {
    static const uint8_t zero = 'A';
    static uint8_t values[256];
    if (!values[zero + 1]) for (int i = 0; i < 64; i++) values[(uint8_t)digits[i]] = i;
    size_t length = strcspn(text, "\"="), count = 0;
    uint32_t bits = 0;
    for (size_t i = 0; i < length; i++) {
        bits = bits << 6 | values[(uint8_t)text[i]];
        if (i % 4 == 0) continue;
        if (count == room) return -1;
        out[count++] = bits >> (6 - 2 * (i % 4));
    }
    return count;
}

// MARK: Requests

static char *add(char *at, const char *text) {
    size_t length = strlen(text);
    memcpy(at, text, length + 1);
    return at + length;
}

static char *add_key(char *at, const char *name, const char *key) {
    at = add(add(add(at, "\""), name), "\":\"");
    return add(encode(at, key, strlen(key)), "\"");
}

static uint64_t number(const char *at, const char *field) {
    at = at ? strstr(at, field) : NULL;
    return at ? strtoull(at + strlen(field), NULL, 10) : 0;
}

static long found(etcd *e, uint8_t *out, size_t room, uint64_t *revision) {
    const char *value = strstr(e->answer, "\"value\":\"");
    if (!value) return -1;
    if (revision) *revision = number(e->answer, "\"mod_revision\":\"");
    return decode(out, room, value + 9);
}

long etcd_read(etcd *e, const char *key, uint8_t *out, size_t room, uint64_t *revision) {
    char *end = add(add_key(add(e->request, "{"), "key", key), "}");
    if (post(e, "/v3/kv/range", end - e->request)) return -1;
    return found(e, out, room, revision);
}

long etcd_read_beside(etcd *e, const char *key, const char *other, uint8_t *out, size_t room, uint64_t *revision) {
    char *end = add(e->request, "{\"success\":[{\"request_range\":{");
    end = add(add_key(end, "key", key), "}},{\"request_range\":{");
    end = add(add_key(end, "key", other), ",\"keys_only\":true}}]}");
    if (post(e, "/v3/kv/txn", end - e->request)) return -1;
    return found(e, out, room, revision);
}

static char *add_compare(char *at, const char *key, uint64_t revision) {
    at = add_key(add(at, "{\"target\":\"MOD\","), "key", key);
    return at + sprintf(at, ",\"mod_revision\":\"%llu\"}", (unsigned long long)revision);
}

static char *add_put(char *at, const char *key, const uint8_t *value, size_t length) {
    at = add_key(add(at, "{\"request_put\":{"), "key", key);
    return add(encode(add(at, ",\"value\":\""), value, length), "\"}}");
}

int etcd_replace(etcd *e, const char *key, uint64_t revision, const char *other, uint64_t other_revision, const uint8_t *value, size_t length) {
    return etcd_replace_once(e, key, revision, other, other_revision, value, length, NULL, NULL);
}

int etcd_replace_once(etcd *e, const char *key, uint64_t revision, const char *other, uint64_t other_revision, const uint8_t *value, size_t length, const char *mark, uint64_t *mark_revision) {
    if (2 * length + 4096 > REQUEST) return -1;
    char *end = add_compare(add(e->request, "{\"compare\":["), key, revision);
    end = add_compare(add(end, ","), other, other_revision);
    if (mark) end = add_compare(add(end, ","), mark, *mark_revision);
    end = add_put(add(end, "],\"success\":["), key, value, length);
    if (mark) end = add_put(add(end, ","), mark, value, 16);
    end = add(end, "]}");
    if (post(e, "/v3/kv/txn", end - e->request) || !strstr(e->answer, "\"succeeded\":true")) return -1;
    if (mark) *mark_revision = number(e->answer, "\"revision\":\"");
    return 0;
}

long etcd_list(etcd *e, const char *prefix) {
    char last[512];
    snprintf(last, sizeof last, "%s", prefix);
    last[strlen(last) - 1]++;
    char *end = add_key(add(e->request, "{"), "key", prefix);
    end = add(add_key(add(end, ","), "range_end", last), "}");
    if (post(e, "/v3/kv/range", end - e->request)) return -1;
    long bytes = 0;
    uint8_t *value = malloc(e->length);
    for (const char *at = e->answer; (at = strstr(at, "\"value\":\"")); at += 9) bytes += decode(value, e->length, at + 9);
    free(value);
    return bytes;
}

// MARK: Metrics

long etcd_answered(etcd *e) {
    char url[512];
    snprintf(url, sizeof url, "%s/metrics", e->endpoint);
    e->length = 0;
    curl_easy_setopt(e->handle, CURLOPT_URL, url);
    curl_easy_setopt(e->handle, CURLOPT_HTTPGET, 1L);
    CURLcode result = curl_easy_perform(e->handle);
    curl_easy_setopt(e->handle, CURLOPT_POST, 1L);
    if (result != CURLE_OK) return -1;
    long sum = 0;
    const char *name = "\ngrpc_server_handled_total{";
    for (const char *at = e->answer; (at = strstr(at, name)); at++) {
        const char *value = strstr(at, "} ");
        if (value) sum += strtod(value + 2, NULL);
    }
    return sum;
}
#else
// Without the trait Etcd there is no libcurl.
typedef int etcd_is_not_built;
#endif
