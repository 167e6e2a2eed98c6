/* Answers requests as a broker does that has nothing to do: server PORT KEY:FILE... KEY/NN:FILE...

   A request with API key KEY gets the frame in FILE, with its correlation ID; with KEY/NN only one whose client ID
   begins with these two digits. A request with another key ends the connection. One thread, epoll. */
#include "wire.h"

#define LOADS 101     /* 00 to 99, and one for client IDs without digits */
#define SEEN (HEAD + 4) /* of a request: its head, the length of its client ID, and two bytes of that */

struct connection {
    int fd, alive, writing;
    char head[SEEN];
    size_t have;  /* bytes of the head */
    uint64_t skip; /* bytes behind it that are still to come */
    uint32_t *due; /* correlation IDs that wait for their answers, with the key: a ring */
    struct frame **answers;
    unsigned first, count, room;
    struct outgoing out;
};

static struct frame answers[128][LOADS];
static char buffer[CHUNK];

static void expect(struct connection *c, struct frame *answer, uint32_t correlation_id) {
    if (c->count == c->room) {
        unsigned room = c->room ? 2 * c->room : 16;
        uint32_t *due = malloc(room * sizeof *due);
        struct frame **answers = malloc(room * sizeof *answers);
        for (unsigned i = 0; i < c->count; i++) {
            due[i] = c->due[(c->first + i) % c->room];
            answers[i] = c->answers[(c->first + i) % c->room];
        }
        free(c->due), free(c->answers);
        c->due = due, c->answers = answers, c->first = 0, c->room = room;
    }
    unsigned at = (c->first + c->count++) % c->room;
    c->due[at] = correlation_id, c->answers[at] = answer;
}

/* Return the answer to a request, 0 if there is none. */
static struct frame *answer_to(const char *head, size_t size) {
    uint16_t key;
    memcpy(&key, head + 4, 2), key = ntohs(key);
    if (key >= 128) return 0;
    const char *name = head + HEAD + 2;
    int digits = size == SEEN && name[0] >= '0' && name[0] <= '9' && name[1] >= '0' && name[1] <= '9';
    struct frame *answer = &answers[key][digits ? 10 * (name[0] - '0') + name[1] - '0' : LOADS - 1];
    if (!answer->bytes) answer = &answers[key][LOADS - 1];
    return answer->bytes ? answer : 0;
}

static uint64_t whole_size(const char *head) {
    uint32_t length;
    memcpy(&length, head, 4);
    return 4 + (uint64_t)ntohl(length);
}

static int take(struct connection *c, const char *data, size_t size) {
    while (size) {
        if (c->skip) {
            size_t step = size < c->skip ? size : c->skip;
            data += step, size -= step, c->skip -= step;
        } else {
            size_t wanted = HEAD;
            if (c->have >= HEAD) wanted = whole_size(c->head) < SEEN ? whole_size(c->head) : SEEN;
            size_t step = wanted - c->have < size ? wanted - c->have : size;
            memcpy(c->head + c->have, data, step);
            c->have += step, data += step, size -= step;
            if (c->have < HEAD) return 1;
            uint64_t whole = whole_size(c->head);
            if (whole < HEAD) return 0;
            if (c->have < (whole < SEEN ? whole : SEEN)) continue;
            uint32_t correlation_id;
            memcpy(&correlation_id, c->head + 8, 4);
            struct frame *answer = answer_to(c->head, c->have);
            if (!answer) return 0;
            c->skip = whole - c->have, c->have = 0;
            expect(c, answer, ntohl(correlation_id));
        }
    }
    return 1;
}

/* Answer what was asked in full, as long as the socket takes it. */
static int answer(struct connection *c) {
    for (;;) {
        if (c->writing) {
            int done = flush(c->fd, &c->out);
            if (done <= 0) return done == 0;
            c->writing = 0;
        }
        if (!c->count || (c->count == 1 && c->skip)) return 1;
        begin(&c->out, c->answers[c->first], c->due[c->first]);
        c->first = (c->first + 1) % c->room, c->count--, c->writing = 1;
    }
}

int main(int count, char **arguments) {
    end_with_parent();
    for (int i = 2; i < count; i++) {
        char *file = strchr(arguments[i], ':'), *load = strchr(arguments[i], '/');
        if (!file) continue;
        answers[atoi(arguments[i])][load && load < file ? atoi(load + 1) : LOADS - 1] = read_frame(file + 1, 4);
    }
    struct sockaddr_in address = loopback(atoi(arguments[1]));
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (void *)&address, sizeof address) || listen(listener, 4096)) die("listen");
    int poll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN}, events[256];
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int ready = epoll_wait(poll, events, 256, -1);
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            if (!c) {
                int fd = accept(listener, 0, 0);
                if (fd < 0) continue;
                set_up(fd);
                c = calloc(1, sizeof *c);
                c->fd = fd;
                event = (struct epoll_event){.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c};
                epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event);
                continue;
            }
            int alive = 1;
            for (;;) {
                ssize_t got = recv(c->fd, buffer, sizeof buffer, 0);
                if (got < 0 && errno == EAGAIN) break;
                alive = got > 0 && take(c, buffer, got) && answer(c);
                if (!alive) break;
            }
            if (alive) alive = answer(c);
            if (!alive) {
                close(c->fd);
                free(c->due), free(c->answers), free(c);
            }
        }
    }
}
