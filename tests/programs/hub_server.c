/* A Hub that misbehaves, for tests/cli/pull.sh.
 *
 *     hub_server ROOT PORTS LOG RULES
 *
 * Serves the files under ROOT over HTTP/1.1 on two addresses, 127.0.0.1 (the Hub) and 127.0.0.2 (another
 * host), each with a port of its own; both ports are written to PORTS. Every request is a line of LOG:
 *
 *     HOST METHOD PATH range=FIRST auth=TOKEN status=STATUS sent=BYTES
 *
 * RULES is read anew for every request. A line is COUNT PATH ACTION [ARGUMENT]; COUNT is how often it acts
 * ('*': always), PATH how the path of the request begins. The first line that fits and is not used up acts:
 *
 *     status CODE [HEADERS]   answers so; HEADERS are separated by '|'
 *     redirect URL            302
 *     cut BYTES               promises everything, sends so much of the body, hangs up
 *     stall BYTES             the same, but stays silent instead of hanging up
 *     hang                    never answers
 *     whole                   ignores Range
 *     elsewhere               answers a Range with another part
 *     short BYTES             sends a body of this length as if it were all
 *     long                    sends a few bytes more than the file has
 *     corrupt                 changes the first byte
 *     endless                 a body without an end
 *     slow MILLISECONDS       waits after every 64 KiB
 *
 * It ends when its parent does. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 16384, RULES = 65536, LINES = 64, BLOCK = 65536 };

typedef struct {
    char method[16], path[2048], token[256];
    long long range; /* -1: none */
} request;

typedef struct {
    char action[32], argument[2048];
} rule;

static const char *root, *log_path, *rules_path;

static void die(const char *what) {
    perror(what);
    exit(1);
}

/* ---- Requests ---- */

static int read_head(int client, char *head) {
    size_t used = 0;
    while (used + 1 < HEAD) {
        ssize_t got = read(client, head + used, HEAD - 1 - used);
        if (got <= 0) return 0;
        used += (size_t)got;
        head[used] = '\0';
        if (strstr(head, "\r\n\r\n")) return 1;
    }
    return 0;
}

static int parse(char *head, request *r) {
    *r = (request){.range = -1};
    if (sscanf(head, "%15s %2047s", r->method, r->path) != 2) return 0;
    for (char *line = strstr(head, "\r\n"); line; line = strstr(line, "\r\n")) {
        line += 2;
        if (!strncasecmp(line, "Range: bytes=", 13)) r->range = atoll(line + 13);
        if (!strncasecmp(line, "Authorization: Bearer ", 22)) sscanf(line + 22, "%255s", r->token);
    }
    return 1;
}

/* ---- Rules ---- */

/* The rule for a request, or an empty one. Counts what is used up, from the start when the rules change. */
static rule find_rule(const request *r) {
    static char known[RULES];
    static int used[LINES];
    char text[RULES];
    size_t size = 0;
    FILE *file = fopen(rules_path, "r");
    rule found = {0};
    if (file) size = fread(text, 1, sizeof text - 1, file);
    if (file) fclose(file);
    text[size] = '\0';
    if (strcmp(text, known)) memset(used, 0, sizeof used), strcpy(known, text);
    char *line = text;
    for (int i = 0; *line && i < LINES; i++) {
        char count[16], path[1024];
        char *end = strchr(line, '\n');
        if (end) *end = '\0';
        found = (rule){0};
        int fields = sscanf(line, "%15s %1023s %31s %2047[^\n]", count, path, found.action, found.argument);
        if (fields >= 3 && !strncmp(r->path, path, strlen(path)) &&
            (count[0] == '*' || used[i] < atoi(count)))
            return used[i]++, found;
        if (!end) break;
        line = end + 1;
    }
    return (rule){0};
}

/* ---- The log: a request's line is there before the client has the whole answer, and none when it left before ---- */

static struct {
    int host, noted;
    const request *request;
} current; /* of this process, which answers one request */

static void note(int status, uint64_t sent) {
    char line[4096];
    const request *r = current.request;
    if (current.noted) return;
    current.noted = 1;
    int size = snprintf(line, sizeof line, "%d %s %s range=%lld auth=%s status=%d sent=%" PRIu64 "\n",
                        current.host, r->method, r->path, r->range, r->token, status, sent);
    int file = open(log_path, O_WRONLY | O_APPEND | O_CREAT, 0666);
    if (file < 0) return; /* the test is over */
    if (write(file, line, (size_t)size) < 0) die(log_path);
    close(file);
}

/* ---- Answers ---- */

static void send_all(int client, const char *bytes, size_t size, uint64_t *sent) {
    while (size) {
        ssize_t written = write(client, bytes, size);
        if (written <= 0) return;
        bytes += written, size -= (size_t)written;
        if (sent) *sent += (uint64_t)written;
    }
}

/* Sends the headers; extra ends each of its lines with \r\n. */
static void send_head(int client, int status, long long length, const char *extra) {
    char head[4096], known[64] = "";
    if (!length) note(status, 0);
    if (length >= 0) snprintf(known, sizeof known, "Content-Length: %lld\r\n", length);
    int size =
        snprintf(head, sizeof head, "HTTP/1.1 %d X\r\n%s%sConnection: close\r\n\r\n", status, known, extra);
    send_all(client, head, (size_t)size, NULL);
}

/* Until the client goes away. */
static void stay_silent(int client) {
    char ignored[256];
    while (read(client, ignored, sizeof ignored) > 0) {
    }
}

static void send_body(int client, int file, const rule *a, int status, long long first, long long limit,
                      uint64_t *sent) {
    static char block[BLOCK];
    int delay = !strcmp(a->action, "slow") ? atoi(a->argument) : 0;
    for (long long at = first; at < limit;) {
        size_t want = limit - at < BLOCK ? (size_t)(limit - at) : BLOCK;
        ssize_t got = pread(file, block, want, at);
        if (got <= 0) return;
        if (at == 0 && !strcmp(a->action, "corrupt")) block[0] ^= 1;
        uint64_t whole = *sent + (uint64_t)got;
        at += got;
        if (at >= limit) note(status, whole);
        send_all(client, block, (size_t)got, sent);
        if (*sent != whole) { /* the client has gone: a line now would surprise the next test */
            current.noted = 1;
            return;
        }
        struct timespec pause = {.tv_nsec = delay * 1000000L};
        if (delay) nanosleep(&pause, NULL);
    }
}

static void decode(const char *path, char *out, size_t size) {
    size_t used = (size_t)snprintf(out, size, "%s", root);
    for (; *path && *path != '?' && used + 1 < size; path++) {
        unsigned byte;
        if (*path == '%' && sscanf(path + 1, "%2x", &byte) == 1)
            out[used++] = (char)byte, path += 2;
        else
            out[used++] = *path;
    }
    out[used] = '\0';
}

/* Sends a file as far as the rule lets it. Returns the status. */
static int send_file(int client, const request *r, const rule *a, uint64_t *sent) {
    char path[4096], extra[256] = "";
    struct stat info;
    decode(r->path, path, sizeof path);
    int file = strstr(path, "/../") ? -1 : open(path, O_RDONLY);
    if (file < 0 || fstat(file, &info) || !S_ISREG(info.st_mode)) {
        send_head(client, 404, 0, "X-Error-Code: RepoNotFound\r\n");
        return 404;
    }
    long long size = info.st_size, first = r->range > 0 && strcmp(a->action, "whole") ? r->range : 0,
              end = size, promised;
    int status = first ? 206 : 200;
    if (first > size) {
        send_head(client, 416, 0, "");
        return 416;
    }
    if (first && !strcmp(a->action, "elsewhere")) first /= 2;
    if (!strcmp(a->action, "short")) end = size = atoll(a->argument);
    promised = size - first + (!strcmp(a->action, "long") ? 5 : 0);
    if (!strcmp(a->action, "cut") || !strcmp(a->action, "stall")) end = first + atoll(a->argument);
    if (status == 206)
        snprintf(extra, sizeof extra, "Content-Range: bytes %lld-%lld/%lld\r\n", first, size - 1, size);
    send_head(client, status, promised, extra);
    send_body(client, file, a, status, first, end < size ? end : size, sent);
    if (!strcmp(a->action, "long")) send_all(client, "extra", 5, sent);
    if (!strcmp(a->action, "stall")) stay_silent(client);
    return status;
}

static int send_status(int client, const rule *a) {
    char code[16] = "500", headers[2000] = "", extra[2100] = "";
    sscanf(a->argument, "%15s %1999[^\n]", code, headers);
    for (char *part = strtok(headers, "|"); part; part = strtok(NULL, "|")) {
        strcat(extra, part);
        strcat(extra, "\r\n");
    }
    send_head(client, atoi(code), 0, extra);
    return atoi(code);
}

static int answer(int client, const request *r, const rule *a, uint64_t *sent) {
    static const char zeros[BLOCK] = "{";
    char extra[2100];
    if (!strcmp(a->action, "status")) return send_status(client, a);
    if (!strcmp(a->action, "redirect")) {
        snprintf(extra, sizeof extra, "Location: %s\r\n", a->argument);
        send_head(client, 302, 0, extra);
        return 302;
    }
    if (!strcmp(a->action, "hang")) return stay_silent(client), 0;
    if (!strcmp(a->action, "endless")) {
        send_head(client, 200, -1, "");
        for (uint64_t before = 1; *sent != before;) before = *sent, send_all(client, zeros, BLOCK, sent);
        return 200;
    }
    return send_file(client, r, a, sent);
}

/* ---- The server ---- */

static int listen_on(const char *address, int *port) {
    struct sockaddr_in name = {.sin_family = AF_INET};
    socklen_t size = sizeof name;
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    inet_pton(AF_INET, address, &name.sin_addr);
    if (server < 0 || bind(server, (struct sockaddr *)&name, size) || listen(server, 64) ||
        getsockname(server, (struct sockaddr *)&name, &size))
        die(address);
    *port = ntohs(name.sin_port);
    return server;
}

static void serve(int host, int client) {
    static char head[HEAD];
    request r;
    uint64_t sent = 0;
    struct timeval patience = {.tv_sec = 2};
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (!read_head(client, head) || !parse(head, &r)) return;
    rule a = find_rule(&r);
    if (fork()) return; /* the answer may take long */
    patience.tv_sec = 0;
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    current.host = host, current.request = &r;
    int status = answer(client, &r, &a, &sent);
    note(status, sent);
    _exit(0);
}

int main(int count, char **words) {
    int ports[2];
    char fresh[4096];
    if (count != 5) return fprintf(stderr, "hub_server ROOT PORTS LOG RULES\n"), 2;
    root = words[1], log_path = words[3], rules_path = words[4];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    struct pollfd servers[2] = {{.fd = listen_on("127.0.0.1", &ports[0]), .events = POLLIN},
                                {.fd = listen_on("127.0.0.2", &ports[1]), .events = POLLIN}};
    snprintf(fresh, sizeof fresh, "%s.new", words[2]);
    FILE *file = fopen(fresh, "w");
    if (!file || fprintf(file, "%d %d\n", ports[0], ports[1]) < 0 || fclose(file) || rename(fresh, words[2]))
        die(words[2]);
    for (;;) {
        if (poll(servers, 2, -1) < 0) continue;
        for (int i = 0; i < 2; i++) {
            int client = servers[i].revents & POLLIN ? accept(servers[i].fd, NULL, NULL) : -1;
            if (client < 0) continue;
            serve(i + 1, client);
            close(client);
        }
    }
}
