// libcurl. Swift cannot call functions with variable arguments, which set and get most of its options.
#pragma once
#include <curl/curl.h>
#include <fcntl.h>
#include <sys/socket.h>

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
static inline CURLcode curl_set_header_receiver(CURL *handle, curl_receiver receiver) {
    return curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, receiver);
}
// libcurl opens sockets that programs inherit which this one runs.
static inline curl_socket_t curl_open_private_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address) {
#ifdef SOCK_CLOEXEC
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
#else
    curl_socket_t result = socket(address->family, address->socktype, address->protocol);
    if (result != CURL_SOCKET_BAD) (void)fcntl(result, F_SETFD, FD_CLOEXEC);
    return result;
#endif
}
static inline CURLcode curl_set_private_sockets(CURL *handle) {
    return curl_easy_setopt(handle, CURLOPT_OPENSOCKETFUNCTION, curl_open_private_socket);
}

// After a time limit, the thread that looks up a name is left to itself. libcurl would wait for it. Before 7.87 it always does.
static inline void curl_set_no_wait_for_names(CURL *handle) {
#if LIBCURL_VERSION_NUM >= 0x075700
    (void)curl_easy_setopt(handle, CURLOPT_QUICK_EXIT, 1L);
#endif
}

static inline CURLcode curl_get_number(CURL *handle, CURLINFO info, long *value) {
    return curl_easy_getinfo(handle, info, value);
}
