// The bare requests to etcd's JSON gateway on libcurl, over one connection: the floor that LockboxEtcd is measured against. It
// neither seals nor checks anything, asks one member, and does not repeat a request.
#ifndef ETCD_H
#define ETCD_H

#include <stddef.h>
#include <stdint.h>

typedef struct etcd etcd;

// One for each thread.
etcd *etcd_open(const char *endpoint);
void etcd_close(etcd *e);

// Keys are text without quotes. The value's bytes go to `out`, and the revision to `revision`, unless that is NULL. Returns their
// number, or -1.
long etcd_read(etcd *e, const char *key, uint8_t *out, size_t room, uint64_t *revision);

// The same, and in one transaction the revision of another key, without its value.
long etcd_read_beside(etcd *e, const char *key, const char *other, uint8_t *out, size_t room, uint64_t *revision);

// Puts a value, if both keys are at these revisions still: a transaction. 0, or -1.
int etcd_replace(etcd *e, const char *key, uint64_t revision, const char *other, uint64_t other_revision, const uint8_t *value, size_t length);

// The same, and in one transaction puts 16 bytes to a mark, if that is at its revision still, too. `mark_revision` receives the
// next one. So a transaction that arrives late, or twice, has no effect.
int etcd_replace_once(etcd *e, const char *key, uint64_t revision, const char *other, uint64_t other_revision, const uint8_t *value, size_t length, const char *mark, uint64_t *mark_revision);

// Reads all that begins with a prefix, which ends in a slash, in one request. Returns the number of its bytes, or -1.
long etcd_list(etcd *e, const char *prefix);

// How many requests a member has answered since it was started, by its own count, or -1.
long etcd_answered(etcd *e);

#endif
