// SQLCipher's durable write of one value: WAL, synchronous=FULL. Loaded when it is used, so that nothing else needs it.
#include "include/sqlcipher.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;

static struct {
    int (*open)(const char *, sqlite3 **);
    int (*busy)(sqlite3 *, int);
    int (*exec)(sqlite3 *, const char *, void *, void *, char **);
    int (*prepare)(sqlite3 *, const char *, int, sqlite3_stmt **, const char **);
    int (*text)(sqlite3_stmt *, int, const char *, int, void *);
    int (*blob)(sqlite3_stmt *, int, const void *, int, void *);
    int (*step)(sqlite3_stmt *);
    int (*reset)(sqlite3_stmt *);
} sql;

struct cipher { sqlite3 *database; sqlite3_stmt *write; };

static int load(void) {
    void *library = dlopen("libsqlcipher.so.0", RTLD_NOW);
    if (!library) return 0;
    *(void **)&sql.open = dlsym(library, "sqlite3_open");
    *(void **)&sql.busy = dlsym(library, "sqlite3_busy_timeout");
    *(void **)&sql.exec = dlsym(library, "sqlite3_exec");
    *(void **)&sql.prepare = dlsym(library, "sqlite3_prepare_v2");
    *(void **)&sql.text = dlsym(library, "sqlite3_bind_text");
    *(void **)&sql.blob = dlsym(library, "sqlite3_bind_blob");
    *(void **)&sql.step = dlsym(library, "sqlite3_step");
    *(void **)&sql.reset = dlsym(library, "sqlite3_reset");
    return 1;
}

cipher *cipher_open(const char *path) {
    cipher *c = calloc(1, sizeof *c);
    const char *set_up = "PRAGMA key = \"x'2DD29CA851E7B56E4697B0E1F08507293D761A05CE4D1B628663F411A8086D99'\";"
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
        "CREATE TABLE IF NOT EXISTS items (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;";
    if (load() && sql.open(path, &c->database) == 0 && sql.busy(c->database, 60000) == 0
        && sql.exec(c->database, set_up, NULL, NULL, NULL) == 0
        && sql.prepare(c->database, "INSERT OR REPLACE INTO items VALUES (?, ?)", -1, &c->write, NULL) == 0)
        return c;
    free(c);
    return NULL;
}

int cipher_write(cipher *c, const char *key, const void *value, int length) {
    if (sql.text(c->write, 1, key, -1, NULL) || sql.blob(c->write, 2, value, length, NULL)) return -1;
    int done = sql.step(c->write) == 101;
    return sql.reset(c->write) == 0 && done ? 0 : -1;
}
