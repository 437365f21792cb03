// libcurl. Swift cannot call functions with variable arguments, which set and get most of its options.
#pragma once
#include <curl/curl.h>

typedef size_t (*curl_receiver)(char *bytes, size_t size, size_t count, void *context);

static inline CURLcode curl_set_number(CURL *handle, CURLoption option, long value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode curl_set_text(CURL *handle, CURLoption option, const char *value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode curl_set_pointer(CURL *handle, CURLoption option, const void *value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode curl_set_receiver(CURL *handle, curl_receiver receiver) {
    return curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, receiver);
}
static inline CURLcode curl_get_number(CURL *handle, CURLINFO info, long *value) {
    return curl_easy_getinfo(handle, info, value);
}
