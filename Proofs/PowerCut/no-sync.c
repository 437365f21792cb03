// For the controls: fsync that does nothing, as if the library forgot it. LOCKBOX_NO_SYNC says for what:
// "files", "folders", or "all".

#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int is_forgotten(int descriptor) {
    const char *what = getenv("LOCKBOX_NO_SYNC");
    struct stat status;
    if (what == NULL || fstat(descriptor, &status) < 0) return 0;
    return strcmp(what, "all") == 0 || strcmp(what, S_ISDIR(status.st_mode) ? "folders" : "files") == 0;
}

int fsync(int descriptor) { return is_forgotten(descriptor) ? 0 : (int)syscall(SYS_fsync, descriptor); }

int fdatasync(int descriptor) { return is_forgotten(descriptor) ? 0 : (int)syscall(SYS_fdatasync, descriptor); }
