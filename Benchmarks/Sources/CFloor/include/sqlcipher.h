#ifndef LOCKBOX_SQLCIPHER_H
#define LOCKBOX_SQLCIPHER_H

typedef struct cipher cipher;

// Opens or creates a database. NULL if libsqlcipher.so.0 (Debian: libsqlcipher0) is not there. One for each thread.
cipher *cipher_open(const char *path);

// 0, or -1.
int cipher_write(cipher *c, const char *key, const void *value, int length);

#endif
