#include "cli/run_folder.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

zest_status zest_run_folder_find(const char *path, char **journal, char **start, zest_error *error) {
    struct stat info;
    *journal = *start = NULL;
    if (stat(path, &info)) return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be opened", path);
    char *folder = strdup(path);
    if (folder && !S_ISDIR(info.st_mode)) {
        char *slash = strrchr(folder, '/');
        if (slash)
            *slash = '\0';
        else
            strcpy(folder, "."); /* path is not empty: stat found it */
        *journal = strdup(path);
    } else if (folder) {
        *journal = zest_file_join(folder, "journal");
    }
    if (folder) *start = zest_file_join(folder, "start");
    free(folder);
    if (*journal && *start) {
        if (access(*start, R_OK)) free(*start), *start = NULL;
        return ZEST_OK;
    }
    free(*journal);
    free(*start);
    return zest_error_memory(error, path, strlen(path));
}
