/* Exit status 0 when standard input is one JSON object. */
#include <jansson.h>

int main(void) {
    json_t *value = json_loadf(stdin, JSON_REJECT_DUPLICATES, NULL);
    int good = json_is_object(value);
    json_decref(value);
    return !good;
}
